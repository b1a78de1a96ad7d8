"""Keep hub, data sets and telemetry off the network in this process tree.

Called when `pipeline.base` is imported, since the libraries read these variables
once, at their own import; child processes inherit them. A variable that the user
has set stays as it is.
"""

from __future__ import annotations

import logging
import os

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def go_offline() -> None:
    """Set the variables, and silence a warning that an optional kernel was not fetched."""
    for name, value in OFFLINE.items():
        os.environ.setdefault(name, value)
    logging.getLogger("bitsandbytes").setLevel(logging.ERROR)

"""The product's worker, started from an adapter that others start from too.

Started by the supervisor in the place of `pipeline.learning.worker`, with the same arguments, for
the loss check of `bench.train_ours`. Reads the adapter of the folder that the variable
FIRST_ADAPTER names; reads and writes what the worker does.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest import mock

from pipeline.learning import worker
from pipeline.learning.model import build, read_adapter

VARIABLE = "FIRST_ADAPTER"


def build_from_first(*given: Any, **named: Any) -> Any:
    """`model.build`, then the masters of the common first adapter."""
    adapted = build(*given, **named)
    read_adapter(Path(os.environ[VARIABLE]), adapted)
    return adapted


def main() -> int:
    """The worker's own command line; its exit code."""
    with mock.patch.object(worker, "build", build_from_first):
        return worker.main()


if __name__ == "__main__":
    raise SystemExit(main())

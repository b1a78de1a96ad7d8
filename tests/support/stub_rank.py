"""A rank without a model, to test what the supervisor makes of signs of life.

    python -m tests.support.stub_rank runs/<key> --stop-at UNIX --reserve SECONDS

STUB: what it does. `hangs` says that a step begins and then sleeps in C code for good;
`waits` has rank 0 say that it saves, rank 1 that a step begins, and both wait for the
file `release` in the run's folder.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

from pipeline.learning.pulse import SAVING_SECONDS, Pulse, dumping_on_request, stacks_file
from pipeline.learning.signals import StopRequest

LIMIT_SECONDS = 0.6


def main() -> int:
    """Do what STUB says."""
    StopRequest()  # as the worker does: from here on a request to end only sets a flag
    run, rank = Path(sys.argv[1]), int(os.environ.get("RANK", "0"))
    with dumping_on_request(stacks_file(run, rank)):
        say = Pulse()
        if os.environ["STUB"] == "hangs":
            say("step 3", LIMIT_SECONDS)
            (run / "hangs").touch()
            ends = time.monotonic() + 600  # by itself, should the test be killed
            while time.monotonic() < ends:  # a signal ends one sleep, and must not end the hang
                ctypes.PyDLL(None).sleep(600)
        say(*(("saving step 2", SAVING_SECONDS) if rank == 0 else ("step 3", LIMIT_SECONDS)))
        while not (run / "release").exists():
            time.sleep(0.02)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

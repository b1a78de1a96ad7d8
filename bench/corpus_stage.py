"""One corpus stage as it is, with the time of each of its steps noted.

    python -m bench.corpus_stage NAME      (in a folder with params.yaml; run by bench.corpus)

Writes steps-NAME.json: seconds of the stage, of every pass over its shards (spread over workers)
and of the reductions named in `SERIAL` (in the stage's own process), the processor time that was
spent before, on starting Python and importing, and the peak of the process's own memory.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.corpus_process import peak_bytes
from pipeline.base.artifacts import write_json
from pipeline.base.stage import run_stage
from pipeline.corpus.copies import index
from pipeline.corpus.execution import executor

SERIAL = {"near copies": (index, "cluster"), "reduce": (index, "reduce_entries")}
"""Step → module and function; near copies are a part of reduce."""


def timed(steps: dict[str, float], module: Any, function: str, name: str | None = None) -> None:
    """Let a function of a module add its time to `steps`, under its first argument by default."""
    original: Callable[..., Any] = getattr(module, function)

    def measured(*arguments: Any, **options: Any) -> Any:
        start = time.perf_counter()
        try:
            return original(*arguments, **options)
        finally:
            step = name or str(arguments[0])
            steps[step] = steps.get(step, 0.0) + time.perf_counter() - start

    setattr(module, function, measured)


def main() -> int:
    """Run the stage and write down its steps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name")
    name = parser.parse_args().name
    spread: dict[str, float] = {}
    serial: dict[str, float] = {}
    timed(spread, executor, "run_shards")
    for step, (module, function) in SERIAL.items():
        timed(serial, module, function, step)
    stage = importlib.import_module(f"pipeline.{name}")
    start, before = time.perf_counter(), time.process_time()
    code = run_stage(name, stage.main)
    seconds = time.perf_counter() - start
    peak = peak_bytes(os.getpid())
    noted = {"seconds": seconds, "start_seconds": before, "peak_bytes": peak}
    if "reduce" in serial:
        serial["reduce"] -= serial["near copies"]
    serial["read, merge, write"] = seconds - sum(spread.values()) - sum(serial.values())
    write_json(Path(f"steps-{name}.json"), noted | {"spread": spread, "serial": serial})
    return code


if __name__ == "__main__":
    raise SystemExit(main())

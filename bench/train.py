"""LoRA training on Qwen3-14B's shapes: the peers and ours in turn, on one CUDA device.

    python -m bench.train OUT [--shapes 16384x1 8x2048 8192x1] [--ways plain liger unsloth ...]
                              [--steps 6] [--time-limit-s 900] [--layers N] [--tiny]

Makes the base once (random weights, 28 GB, OUT/base), measures the ceiling, and runs every way in
processes of its own: first the loss check on a small real text, then the shapes. Every step is
one packed sequence with loss on every token; LoRA of rank 64 on all seven linear layers, AdamW on
fp32 adapters. Prints the tables and writes OUT/table.md and OUT/table.json.

Each finished result is kept in OUT/results, so that a repeated run does only what is missing; what
failed is tried again, and `--table` only prints what is there. A way whose packages are missing is
listed as "not installed", one that fails with its error. `--tiny` takes tiny widths and works on a
CPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from bench.train_sizes import claim, models_of, read_models
from bench.train_tables import (
    WAYS,
    derived,
    loss_table,
    planned_lines,
    speed_table,
    work_a_token,
)
from bench.train_tasks import (
    CHECK,
    ROOT,
    WARM_UPS,
    lengths_of,
    read_machine,
    read_result,
    result_file,
    write_result,
)
from pipeline.base.artifacts import write_json, write_text
from pipeline.base.errors import UserError

SHAPES = ["16384x1", "8x2048", "8192x1"]
DEFAULT_WAYS = [way for way in WAYS if way not in ("ours-int8", "ours-small-card")]
ERROR_LINE = re.compile(r"^[A-Za-z_][\w.]*(Error|Exception|Interrupt|Stopped)\b.*|^train: .*: .*")
ENDING_SECONDS = 20.0
BASE_SECONDS = 600.0
OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "UNSLOTH_DISABLE_STATISTICS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "PYTHONUNBUFFERED": "1",
}


def missing_packages(way: str) -> list[str]:
    """Packages of a way that cannot be found."""
    return [name for name in WAYS[way].needs if importlib.util.find_spec(name) is None]


def run_child(arguments: list[str], out: Path, log: Path, seconds: float) -> int | None:
    """Run `python -m ARGUMENTS` in OUT; its exit code, or None when its time was up.

    The child leads a process group of its own, which is ended as a whole: its workers hold the
    device.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, **OFFLINE, "PYTHONPATH": paths}
    with log.open("wb") as stream:
        child = subprocess.Popen(
            [sys.executable, "-m", *arguments],
            cwd=out, env=environment, stdout=stream, stderr=subprocess.STDOUT, process_group=0,
        )  # fmt: skip
        try:
            return child.wait(timeout=max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """End what is left of a child's group, politely first."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
            child.wait(timeout=ENDING_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def error_line(log: Path) -> str:
    """The line of a log that says why it ended: its last errors, else its last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    lines = [line for line in lines if line]
    errors = [line for line in lines if ERROR_LINE.match(line)]
    return " · ".join(errors[-2:] or lines[-1:] or ["no output"])[:400]


def run_way(out: Path, way: str, tasks: list[str], steps: int, rank: int, limit: float) -> None:
    """All tasks of a way that have no result yet; a failed task is noted and passed over."""
    absent = missing_packages(way)
    left = [task for task in tasks if read_result(out, way, task) is None]
    if absent:
        for task in left:
            write_result(out, way, task, {"error": f"not installed: {', '.join(absent)}"})
        return
    ends = time.monotonic() + limit
    while left:
        # The check has a base and, for ours, a process of its own.
        group = left[:1] if left[0] == CHECK else left
        arguments = [WAYS[way].module, str(out), way, *group]
        arguments += ["--steps", str(steps), "--rank", str(rank)]
        log = out / "logs" / f"{way}.{group[0]}.log"
        code = run_child(arguments, out, log, ends - time.monotonic())
        undone = [task for task in group if read_result(out, way, task) is None]
        if undone and code is not None:
            failed = f"{error_line(log)} (exit {code})"
            write_result(out, way, undone[0], {"error": failed})
        for task in group:
            print(f"{way} {task}: {said(read_result(out, way, task))}", flush=True)
        left = [task for task in left if read_result(out, way, task) is None]
        if code is None:
            for task in left:
                why = f"stopped: --time-limit-s {limit:g} was used up"
                write_result(out, way, task, {"error": why})
            return


def said(result: dict[str, Any] | None) -> str:
    """One line for the terminal."""
    if result is None:
        return "to be done"
    if "error" in result:
        return str(result["error"])
    if "losses" in result and "leak" in result:
        return "losses " + ", ".join(f"{one:.4f}" for one in result["losses"])
    return f"{result['step_seconds']} s, {result['peak_gib']} GiB"


def forget_failures(out: Path, ways: list[str], tasks: list[str]) -> None:
    """Let a repeated run try again what failed."""
    for way in ways:
        for task in tasks:
            if "error" in (read_result(out, way, task) or {}):
                result_file(out, way, task).unlink()


def write_tables(out: Path, ways: list[str], shapes: list[str]) -> str:
    """Write table.json and table.md; the text of the latter."""
    machine = read_machine(out)
    models = read_models(out)
    tasks = [CHECK, *shapes]
    found = {(way, task): read_result(out, way, task) for way in ways for task in tasks}
    results = {key: result for key, result in found.items() if result is not None}
    ceiling = float(machine["ceiling_tflops"])
    figures = {
        key: derived(result, models, ceiling)
        for key, result in results.items()
        if "step_seconds" in result
    }
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    lines = [f"{machine['device']}, {versions}; {models.base.layers} layers, rank {models.rank}."]
    lines.append(f"Ceiling: {ceiling:,.4g} TFLOP/s ({machine['ceiling_of']}). GFLOP a token:")
    for shape in shapes:
        parts = work_a_token(models.base, lengths_of(shape), models.rank)
        each = ", ".join(f"{name} {flops / 1e9:.4g}" for name, flops in parts.items())
        lines.append(f"- {shape}: {sum(parts.values()) / 1e9:.4g} ({each})")
    lines += ["", *speed_table(shapes, ways, results, figures)]
    lines += ["", *planned_lines(results)]
    lines += ["", *loss_table(ways, results), ""]
    write_text(out / "table.md", "\n".join(lines))
    rows = [{"way": way, "shape": shape, **row} for (way, shape), row in figures.items()]
    whole = {"machine": machine, "models": asdict(models), "speed": rows}
    write_json(out / "table.json", {**whole, "results": list(results.values())})
    return "\n".join(lines)


def prepare(out: Path, text: Path) -> None:
    """The base, the text and the ceiling, in a process of its own.

    Raises:
        SystemExit: it failed; its last line is printed.
    """
    log = out / "logs/base.log"
    if run_child(["bench.train_base", str(out), str(text)], out, log, BASE_SECONDS) != 0:
        raise SystemExit(f"the base could not be made: {error_line(log)}")


def arguments_of(words: list[str] | None) -> argparse.Namespace:
    """The command line, checked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--shapes", nargs="*", default=SHAPES)
    parser.add_argument("--ways", nargs="+", default=DEFAULT_WAYS, choices=list(WAYS))
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rank", type=int, default=64)
    parser.add_argument("--layers", type=int, help="decoder layers, 40 by default")
    parser.add_argument("--check-layers", type=int, default=4, help="the same of the loss check")
    parser.add_argument("--text", type=Path, default=ROOT / "docs/recipe.md", help="to be learnt")
    parser.add_argument("--tiny", action="store_true", help="tiny widths, for a CPU")
    parser.add_argument("--no-check", action="store_true", help="leave out the loss check")
    parser.add_argument("--table", action="store_true", help="only the tables of what is there")
    parser.add_argument("--time-limit-s", type=float, default=900.0, help="of every way")
    given = parser.parse_args(words)
    for shape in given.shapes:
        lengths_of(shape)
    if given.steps <= WARM_UPS:
        raise UserError(
            f"--steps: {given.steps} leaves none to time after {WARM_UPS} warm-ups",
            f"Give at least {WARM_UPS + 1}.",
        )
    return given


def main(words: list[str] | None = None) -> None:
    """Run what is missing and print the tables."""
    given = arguments_of(words)
    out = given.out.resolve()
    if given.table:
        print(write_tables(out, given.ways, given.shapes))
        return
    claim(
        out,
        models_of(
            tiny=given.tiny,
            layers=given.layers,
            check_layers=given.check_layers,
            rank=given.rank,
        ),
    )
    tasks = [*([] if given.no_check else [CHECK]), *given.shapes]
    forget_failures(out, given.ways, tasks)
    if not all(read_result(out, way, task) for way in given.ways for task in tasks):
        prepare(out, given.text.resolve())
    for way in given.ways:
        run_way(out, way, tasks, given.steps, given.rank, given.time_limit_s)
        write_tables(out, given.ways, given.shapes)
    print(write_tables(out, given.ways, given.shapes))


def _leave(number: int, _frame: FrameType | None) -> None:
    """End by an exception, so that the child at work is ended too."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)
    try:
        main()
    except UserError as error:
        raise SystemExit(str(error)) from None

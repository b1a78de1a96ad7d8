"""What a run says of itself while it runs: figures of each step, plots, the progress line.

Used by worker.py on the main process. Writes one row a step to runs/<key>/steps.jsonl
and the same figures to plots/training.csv, which `dvc plots show` reads while the run
is under way, and to plots/live through dvclive where that is installed. docs/training.md
says how to read a row.
"""

from __future__ import annotations

import csv
import importlib
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from pipeline.base.artifacts import dump_json, write_jsonl
from pipeline.base.fingerprint import model_shape
from pipeline.base.flops import useful_flops
from pipeline.base.progress import Progress, duration
from pipeline.learning.checkpoint import TrainState, as_rows
from pipeline.learning.job import Job
from pipeline.learning.record import COLUMNS, write_steps
from pipeline.learning.step import StepResult

PLOTS = Path("plots/training.csv")
LIVE = Path("plots/live")
Row = dict[str, Any]


def peak_memory_gib(device: torch.device) -> float:
    """Most memory held so far: the allocator's on a GPU, the process's on the CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device) / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


class Live:
    """The same figures through dvclive; does nothing where it is not installed.

    Args:
        log: takes one line.
    """

    def __init__(self, folder: Path, log: Callable[[str], None]) -> None:
        self._live: Any = None
        try:
            dvclive = importlib.import_module("dvclive")
        except ImportError:
            log(f"dvclive is not installed: figures go to {PLOTS} and steps.jsonl alone")
            return
        self._live = dvclive.Live(str(folder), save_dvc_exp=False, dvcyaml=None, report=None)

    def add(self, row: Row) -> None:
        """Log the figures of one step under its number."""
        if self._live is None:
            return
        self._live.step = row["step"]
        for name, value in row.items():
            if name != "step" and value is not None:
                self._live.log_metric(name, value)
        self._live.next_step()

    def close(self) -> None:
        """Write what is outstanding."""
        if self._live is not None:
            self._live.end()


class Telemetry:
    """Rows, plots and the progress line of one attempt; for the main process alone.

    Args:
        adapter_elements: trainable elements.
        log: takes one line.
    """

    def __init__(
        self, job: Job, device: torch.device, adapter_elements: int, log: Callable[[str], None]
    ) -> None:
        self._job, self._device = job, device
        self._shape = model_shape(job.base)
        self._adapter_elements = adapter_elements
        peak = float(job.training.get("peak_tflops") or 0.0)
        self._peak_flops = peak * 1e12 * int(job.training["ranks"])
        self._progress = Progress("train", "tokens", None)
        self._live = Live(LIVE, log)

    def begin(self, step: int) -> None:
        """Forget the figures of steps after `step`, which a killed attempt left."""
        rows = [row for row in as_rows(self._job.steps_file) if row["step"] <= step]
        write_jsonl(self._job.steps_file, rows)
        write_steps(rows, PLOTS)
        for row in rows:
            self._live.add(row)

    def add(
        self, state: TrainState, result: StepResult, rate: float, seconds: float, left: float
    ) -> None:
        """Write the row of the step that led to `state`.

        Args:
            rate: learning rate of its update.
            seconds: that it took.
            left: seconds until training must end.
        """
        row = {
            "step": state.step,
            "loss": result.loss,
            "token_accuracy": result.token_accuracy,
            "learning_rate": rate,
            "grad_norm": result.grad_norm,
            "tokens": state.tokens,
            "seconds": round(state.seconds, 3),
            "tokens_per_second": round(result.tokens / seconds, 1),
            "mfu": self._utilisation(result, seconds),
            "memory_gib": round(peak_memory_gib(self._device), 3),
            "budget_left_seconds": round(left, 1),
        }
        with self._job.steps_file.open("a", encoding="utf-8") as stream:
            stream.write(dump_json(row) + "\n")
        with PLOTS.open("a", encoding="utf-8", newline="") as stream:
            csv.DictWriter(stream, COLUMNS, lineterminator="\n").writerow(row)
        self._live.add(row)

    def _utilisation(self, result: StepResult, seconds: float) -> float | None:
        """MFU of a step: useful operations over what the cards could have done, in [0, 1]."""
        if not self._peak_flops:
            return None
        flops = useful_flops(
            self._shape,
            self._adapter_elements,
            tokens=result.tokens,
            trained=result.trained_tokens,
            squared_lengths=result.squared_lengths,
        )
        return round(flops / seconds / self._peak_flops, 4)

    def show(
        self, result: StepResult, step: int, total: int, seconds: Sequence[float], stop_at: float
    ) -> None:
        """Update the progress line.

        Args:
            seconds: of the last steps.
            stop_at: epoch seconds at which training must end.
        """
        left = (total - step) * statistics.median(seconds)
        self._progress.add(
            result.tokens,
            f"step {step}/{total} · loss {result.loss:.4f} · ETA {duration(left)}"
            f" · budget left {duration(stop_at - time.time())}",
        )

    def close(self, step: int) -> None:
        """Print the last line, and let dvclive finish."""
        self._progress.close(f"step {step}")
        self._live.close()

"""The profiler on demand: `train.profile_steps` steps of an attempt, after its first ones.

Used by worker.py on the main process. Writes runs/<key>/profile/trace.json, which
chrome://tracing and ui.perfetto.dev show, and top.txt with the 20 operators that took
most time of the device.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, schedule

SKIPPED_STEPS = 2
"""First steps of an attempt, which compile and fill caches; one more warms the profiler."""
TOP_OPERATORS = 20


class StepProfiler:
    """Records steps and writes the record once; with 0 steps it does nothing.

    Args:
        steps: to record.
        folder: where trace.json and top.txt go.
        log: takes one line.
    """

    def __init__(
        self, steps: int, folder: Path, device: torch.device, log: Callable[[str], None]
    ) -> None:
        self._folder, self._log = folder, log
        self._gpu = device.type == "cuda"
        self._profile: profile | None = None
        if steps:
            activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._gpu else [])]
            self._profile = profile(
                activities=activities,
                schedule=schedule(
                    skip_first=SKIPPED_STEPS, wait=0, warmup=1, active=steps, repeat=1
                ),
                on_trace_ready=self._write,
            )
            self._profile.start()

    def step_done(self) -> None:
        """Call after every step."""
        if self._profile is not None:
            self._profile.step()

    def close(self) -> None:
        """End; what was recorded of an attempt that ends early is written."""
        if self._profile is not None:
            self._profile.stop()
            self._profile = None

    def _write(self, record: profile) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        record.export_chrome_trace(str(self._folder / "trace.json"))
        order = "self_device_time_total" if self._gpu else "self_cpu_time_total"
        table = record.key_averages().table(sort_by=order, row_limit=TOP_OPERATORS)
        (self._folder / "top.txt").write_text(table + "\n", encoding="utf-8")
        self._log(f"the profiler wrote {self._folder / 'trace.json'} and top.txt")

"""The tensors of a checkpoint: adapter masters and optimizer moments, no pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from pipeline.base.params import TrainParams
from pipeline.learning import model as adapter
from pipeline.learning.checkpoint import ADAPTER_FOLDER, OPTIMIZER_FILE

MOMENTS = ("exp_avg", "exp_avg_sq")
BYTES_PER_ELEMENT = 13
"""fp32 master and two fp32 moments, with a little for headers: what a save needs."""


class TrainingTensors:
    """What is written into a checkpoint folder and read back from it."""

    def __init__(self, model: Any, optimizer: Any, base: Path, params: TrainParams) -> None:
        self.model, self.optimizer = model, optimizer
        self.base, self.params = base, params
        self.parameters = adapter.adapter_parameters(model)

    @property
    def needed_bytes(self) -> int:
        """Disk space of one checkpoint."""
        return BYTES_PER_ELEMENT * sum(p.numel() for p in self.parameters.values())

    def write(self, folder: Path) -> None:
        """Write adapter/ and the optimizer file."""
        adapter.write_adapter(folder / ADAPTER_FOLDER, self.model, self.base, self.params)
        moments = {
            f"{name}.{part}": self.optimizer.state[parameter][part].detach().cpu().contiguous()
            for name, parameter in self.parameters.items()
            for part in MOMENTS
        }
        save_file(moments, str(folder / OPTIMIZER_FILE))

    def read(self, folder: Path, step: int) -> None:
        """Load what `write` wrote after `step` steps."""
        adapter.read_adapter(folder / ADAPTER_FOLDER, self.model)
        tensors = load_file(str(folder / OPTIMIZER_FILE))
        for name, parameter in self.parameters.items():
            moments = {part: tensors[f"{name}.{part}"].to(parameter.device) for part in MOMENTS}
            # The fused optimizer wants its step count beside the parameter, the others on the CPU.
            where = parameter.device if self.optimizer.defaults["fused"] else "cpu"
            self.optimizer.state[parameter] = {
                "step": torch.tensor(float(step), device=where),
                **moments,
            }

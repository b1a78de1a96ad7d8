"""The tensors of a checkpoint: what is published, and all that a run needs to go on.

adapter/ holds what a reader of the adapter gets: the masters, or their average where
the optimizer keeps one. optimizer.safetensors holds the rest (optimizers.py), so
that the run continues with the same bits. No pickle.
"""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file, save_file

from pipeline.base.errors import UserError
from pipeline.learning import model as adapter
from pipeline.learning.checkpoint import ADAPTER_FOLDER, OPTIMIZER_FILE
from pipeline.learning.optimizers import AdapterOptimizer

MASTER_BYTES = 4
HEADERS = 1.05
"""Room for the headers of the two files, relative to their tensors."""


class TrainingTensors:
    """What is written into a checkpoint folder and read back from it."""

    def __init__(self, adapted: adapter.Adapted, optimizer: AdapterOptimizer) -> None:
        self.adapted, self.optimizer = adapted, optimizer

    @property
    def needed_bytes(self) -> int:
        """Disk space of one checkpoint, at most."""
        elements = sum(master.numel() for master in self.adapted.masters.values())
        return int(elements * (MASTER_BYTES + self.optimizer.bytes_per_element) * HEADERS)

    def write(self, folder: Path) -> None:
        """Write adapter/ and the optimizer file."""
        with self.optimizer.averages_in_place():
            adapter.write_adapter(folder / ADAPTER_FOLDER, self.adapted)
        save_file(self.optimizer.tensors(), str(folder / OPTIMIZER_FILE))

    def read(self, folder: Path, step: int) -> None:
        """Load what `write` wrote after `step` steps.

        Raises:
            UserError: the files are those of another recipe.
        """
        adapter.read_adapter(folder / ADAPTER_FOLDER, self.adapted)
        try:
            self.optimizer.load(load_file(str(folder / OPTIMIZER_FILE)), step)
        except KeyError as error:
            raise UserError(
                f"{folder / OPTIMIZER_FILE}: tensor {error} is missing", "Delete that checkpoint."
            ) from None

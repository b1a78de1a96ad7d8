"""Sentence embeddings and cosines, the same bits for the same batch.

Reads the weights of a `SentenceModel`; writes nothing. Imports torch and transformers.
Called by neighbours.py.

Bits depend on a batch's texts and padded width, hence token_store.py fixes both. On a CPU all
is float32 on one thread. On CUDA the encoder's products may round their inputs to TF32
(10 bits of mantissa; range and sums of float32), the cosines never; docs/semantic.md has
the tolerance, tests/gpu the check.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from transformers import AutoModel  # imports what is slow before workers are forked

from pipeline.base.errors import UserError
from pipeline.corpus.overlap.sentence_model import SentenceModel

Tokens = NDArray[np.uint32]
"""Token ids of one text, special tokens included."""

UNUSED_WEIGHTS = ("pooler.", "embeddings.position_ids")
"""Parts whose absence from the weight files changes no embedding."""


def choose_device(given: str) -> str:
    """`cpu` or `cuda` for `semantic.device`.

    Raises:
        UserError: CUDA is asked for and torch sees no card.
    """
    found = torch.cuda.is_available()
    if given == "cuda" and not found:
        raise UserError("semantic.device is cuda and torch sees no card", "Set it to auto or cpu.")
    return "cuda" if found and given != "cpu" else "cpu"


def cards() -> int:
    """CUDA devices of this machine."""
    return torch.cuda.device_count()


class Encoder:
    """A loaded model that embeds one batch at a time.

    Args:
        model: what the folder says.
        device: "cpu", "cuda" or "cuda:N".

    Raises:
        UserError: transformers cannot load it, or weights are missing.
    """

    def __init__(self, model: SentenceModel, device: str) -> None:
        self.device = torch.device(device)
        self.pooling = model.pooling
        if self.device.type == "cpu":
            torch.set_num_threads(1)
        loaded = _load(model.folder)
        self._pad = int(loaded.config.pad_token_id or 0)
        self._model = loaded.to(self.device)

    @torch.inference_mode()
    def embed(self, texts: Sequence[Tokens]) -> torch.Tensor:
        """Unit vectors of a batch.

        Args:
            texts: token ids, at least one text.

        Returns:
            float32 [len(texts), dimensions] on the encoder's device.
        """
        width = max(len(text) for text in texts)
        ids = np.full((len(texts), width), self._pad, dtype=np.int64)
        mask = np.zeros((len(texts), width), dtype=np.int64)
        for row, text in enumerate(texts):
            ids[row, : len(text)] = text
            mask[row, : len(text)] = 1
        attended = torch.from_numpy(mask).to(self.device)
        with _matmul_precision("high" if self.device.type == "cuda" else "highest"):
            states = self._model(
                input_ids=torch.from_numpy(ids).to(self.device), attention_mask=attended
            ).last_hidden_state
        if self.pooling == "cls":
            pooled = states[:, 0]
        else:
            weights = attended.unsqueeze(-1).to(states.dtype)
            pooled = (states * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(pooled, dim=1)


@torch.inference_mode()
def cosines(vectors: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """float32 [n, m]: cosine of each of n unit vectors with each of m."""
    with _matmul_precision("highest"):
        return vectors @ others.T


@functools.cache
def shared_encoder(model: SentenceModel, device: str) -> Encoder:
    """The encoder of this process; on CUDA, on a card that no other worker has."""
    return Encoder(model, f"cuda:{_claim_card()}" if device == "cuda" else device)


def _load(folder: str) -> Any:
    transformers.utils.logging.set_verbosity_error()
    try:
        model, found = AutoModel.from_pretrained(
            folder,
            dtype=torch.float32,
            attn_implementation="sdpa",
            local_files_only=True,
            use_safetensors=True,
            output_loading_info=True,
        )
    except (ValueError, KeyError, OSError, ImportError) as error:
        said = (str(error).strip().splitlines() or [repr(error)])[0]
        raise UserError(
            f"{folder}: transformers {transformers.__version__} cannot load it ({said})",
            "Choose a BERT-family model that this version knows.",
        ) from None
    missing = [key for key in found["missing_keys"] if not key.startswith(UNUSED_WEIGHTS)]
    if missing:
        raise UserError(
            f"{folder}: the weight files lack {len(missing)} tensors ({sorted(missing)[0]}, …)",
            "Copy the model's folder again.",
        )
    model.requires_grad_(False)
    return model.eval()


@contextlib.contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    """Set for a block how float32 products round their inputs."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@functools.cache
def _claim_card() -> int:
    """Number of a card that no other process of this user has claimed; any, if all are taken.

    The claim is a lock that ends with the process, however that ends.
    """
    folder = Path(tempfile.gettempdir())
    count = torch.cuda.device_count()
    for card in range(count):
        path = folder / f"semantic-{os.getuid()}-cuda{card}.lock"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
        else:
            return card
    return os.getpid() % count

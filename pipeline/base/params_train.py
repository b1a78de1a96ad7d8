"""The recipe of training, typed; read through pipeline/base/params.py.

docs/recipe.md says why the defaults are what they are.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.base.params_corpus import Section


class TrainParams(Section):
    """The recipe; with base and data it decides the result (see docs/recipe.md)."""

    method: Literal["lora", "dora", "adalora", "ia3", "loha", "lokr", "oft"]
    """PEFT method, all of PEFT 0.9; rank-stabilised scaling is `rslora`."""
    rank: int = Field(ge=1)
    """Rank of each update; the contract allows 64."""
    alpha: int = Field(ge=1)
    """Scale numerator: updates are multiplied by alpha/rank (rsLoRA: alpha/√rank)."""
    rslora: bool
    """Use the rank-stabilised scale."""
    dropout: float = Field(ge=0, lt=1)
    """Dropout on the adapter's input."""
    target_modules: list[str] | Literal["all-linear"]
    """Names of adapted linear layers; `all-linear` is every one but the head."""
    rank_pattern: dict[str, int] = {}
    """Last part of a layer's name → its rank, where it is not `rank`."""
    alpha_pattern: dict[str, int] = {}
    """Last part of a layer's name → its alpha, where it is not `alpha`."""
    learning_rate: float = Field(gt=0)
    """Peak of the schedule."""
    warmup_share: float = Field(ge=0, lt=1)
    """Share of the steps in which the rate rises linearly from zero."""
    decay: Literal["linear", "cosine"]
    """Shape of the fall to zero after the warm-up."""
    steps: int | None = Field(default=None, ge=1)
    """Optimizer steps; null derives them from the clock and `epochs`."""
    epochs: float = Field(gt=0)
    """Most passes over the selected data; ignored when `steps` is given."""
    tokens_per_step: int = Field(ge=64)
    """Packed tokens of one optimizer step over all devices, padding included."""
    optimizer: Literal["adamw", "adamw-8bit", "adamw-8bit-paged", "muon", "schedule-free"] = "adamw"
    """`muon` takes the matrices and leaves the rest to AdamW; the 8-bit ones need a GPU."""
    lora_plus_ratio: float = Field(default=1.0, ge=1)
    """Learning rate of the B matrices relative to that of the A matrices (LoRA+)."""
    ema_decay: float = Field(default=0.0, ge=0, lt=1)
    """Share of the running average of the adapter that a step keeps; 0 averages nothing."""
    neftune_alpha: float = Field(default=0.0, ge=0)
    """Uniform noise on the embeddings of alpha/√(tokens · width); 0 adds none."""
    label_smoothing: float = Field(default=0.0, ge=0, lt=1)
    """Mass of the target that is spread over the whole vocabulary."""
    weight_decay: float = Field(ge=0)
    """Decoupled weight decay on the adapter."""
    clip_norm: float = Field(gt=0)
    """Gradient norm above which a step is scaled down."""
    beta1: float = Field(ge=0, lt=1)
    """AdamW first-moment decay."""
    beta2: float = Field(ge=0, lt=1)
    """AdamW second-moment decay."""
    precision: Literal["auto", "bfloat16", "float16", "float32"]
    """Compute type; `auto` follows what the device does natively."""
    base_quantization: Literal["auto", "none", "fp8", "int8", "nf4"]
    """Storage of the frozen base; `auto` quantises only when it would not fit."""
    attention: Literal["auto", "sdpa", "varlen", "flex", "cudnn"] = "auto"
    """Kernels of the packed attention; `auto` takes the fastest that is right here."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile one decoder layer for all; `auto` does on a GPU."""
    parallel: Literal["auto", "replicas", "sharded"] = "auto"
    """Several GPUs: the whole base on each, or spread over them (FSDP2); `auto` spreads what
    does not fit otherwise."""
    seed: int = Field(ge=0)
    """Adapter initialisation, data order and dropout."""
    checkpoint_every_steps: int | None = Field(default=None, ge=1)
    """Save after so many steps; null saves by time alone."""
    checkpoint_every_minutes: float = Field(gt=0, le=10)
    """Save when so many minutes passed since the last save (at most 10)."""
    hang_factor: float = Field(default=20.0, gt=1)
    """A step that takes so many times the median of the last ones counts as hung."""
    profile_steps: int = Field(default=0, ge=0)
    """Steps that the profiler records, after the warm-up ones; 0 records none."""
    keep_checkpoints: int = Field(ge=1)
    """Newest complete checkpoints that stay on disk."""

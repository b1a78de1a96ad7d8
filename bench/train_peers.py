"""One peer of bench.train: plain transformers + PEFT, the same with Liger's kernels, or Unsloth.

    python -m bench.train_peers OUT WAY TASK... --steps N --rank R

Called by `bench.train` in a process of its own, since Liger and Unsloth patch transformers.
Every peer runs as its own trainer would run it: bf16 autocast, adapters and AdamW in fp32, full
checkpointing. Packed documents are told to each in its own way: position ids without a cache
(transformers builds the block mask from them), or Unsloth's `packed_seq_lengths` beside them. A
failure ends the process; `bench.train` notes it and goes on.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

# Unsloth must be imported before transformers and PEFT, which it patches. So whatever imports
# them is imported inside the functions.
from bench.train_sizes import TARGETS, read_models
from bench.train_tasks import (
    CHECK,
    CHECK_STEPS,
    Asked,
    Recipe,
    child_arguments,
    lengths_of,
    read_machine,
    speed_data,
    speed_figures,
    write_result,
)
from pipeline.learning.data import Batch, PackedData
from pipeline.learning.schedule import Replan, learning_rate

if TYPE_CHECKING:
    import torch

Extra = Callable[[tuple[int, ...]], dict[str, Any]]
"""Document lengths → further arguments of the model."""


@dataclass
class Peer:
    """A loaded peer."""

    model: Any
    parameters: dict[str, torch.nn.Parameter]
    """Name in the adapter file → fp32 master."""
    optimizer: torch.optim.Optimizer
    extra: Extra
    device: str
    clip_norm: float

    def loss(self, batch: Batch) -> torch.Tensor:
        """Mean loss over the targets of a batch."""
        import torch

        tokens = torch.from_numpy(batch.tokens)
        labels = torch.full_like(tokens, -100)
        targets = torch.from_numpy(batch.targets)
        labels[targets] = tokens[targets]
        inputs: dict[str, Any] = {"input_ids": tokens[None], "labels": labels[None]}
        if len(batch.lengths) > 1:
            inputs["position_ids"] = torch.from_numpy(batch.positions)[None]
        inputs = {name: value.to(self.device) for name, value in inputs.items()}
        with self._autocast():
            found: torch.Tensor = self.model(**inputs, **self.extra(batch.lengths)).loss
        return found

    def step(self, batch: Batch, rate: float) -> float:
        """One update; the loss before it."""
        import torch

        loss = self.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), self.clip_norm)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return float(loss.item())

    def _autocast(self) -> contextlib.AbstractContextManager[None]:
        import torch

        if self.device == "cpu":
            return contextlib.nullcontext()
        return torch.autocast("cuda", dtype=torch.bfloat16)


def _dtype(device: str) -> torch.dtype:
    import torch

    return torch.float32 if device == "cpu" else torch.bfloat16


def load_transformers(base: Path, recipe: Recipe, device: str, liger: bool) -> Any:
    """transformers + PEFT with full checkpointing and SDPA, with or without Liger's kernels."""
    if liger:
        from liger_kernel.transformers import (  # type: ignore[import-not-found]
            apply_liger_kernel_to_qwen3,
        )

        apply_liger_kernel_to_qwen3()
    import transformers
    from peft import LoraConfig, get_peft_model

    options: dict[str, Any] = {"attn_implementation": "sdpa", "dtype": _dtype(device)}
    if device != "cpu":
        options["device_map"] = {"": device}
    model = transformers.AutoModelForCausalLM.from_pretrained(str(base), **options)
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    config = LoraConfig(
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=0.0,
        target_modules=list(TARGETS),
        bias="none",
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)


def load_unsloth(base: Path, recipe: Recipe, device: str, longest: int, four_bit: bool) -> Any:
    """Unsloth with its own checkpointing."""
    from unsloth import FastLanguageModel  # type: ignore[import-not-found]

    model, _ = FastLanguageModel.from_pretrained(
        str(base), max_seq_length=longest, dtype=_dtype(device), load_in_4bit=four_bit
    )
    model = FastLanguageModel.get_peft_model(
        model,
        r=recipe.rank,
        lora_alpha=recipe.alpha,
        lora_dropout=0.0,
        target_modules=list(TARGETS),
        bias="none",
        use_gradient_checkpointing="unsloth",
        random_state=recipe.seed,
        max_seq_length=longest,
    )
    FastLanguageModel.for_training(model)
    return model


def load(way: str, base: Path, recipe: Recipe, longest: int, device: str) -> Peer:
    """The peer `way` on a base, ready to train."""
    extra: Extra = lambda lengths: {"use_cache": False}  # noqa: E731
    if way.startswith("unsloth"):
        model = load_unsloth(base, recipe, device, longest, four_bit=way.endswith("nf4"))
        extra = _told_to_unsloth
    else:
        model = load_transformers(base, recipe, device, liger=way == "liger")
    import torch

    model.train()
    parameters: dict[str, torch.nn.Parameter] = {}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
            parameters[name.replace(".default.", ".")] = parameter
    optimizer = torch.optim.AdamW(
        list(parameters.values()),
        lr=recipe.learning_rate,
        betas=(recipe.beta1, recipe.beta2),
        weight_decay=0.0,
        fused=device != "cpu",
    )
    return Peer(model, parameters, optimizer, extra, device, recipe.clip_norm)


def _told_to_unsloth(lengths: tuple[int, ...]) -> dict[str, Any]:
    import torch

    if len(lengths) == 1:
        return {}
    return {"packed_seq_lengths": torch.tensor(lengths, dtype=torch.int32)}


def read_first_adapter(peer: Peer, folder: Path) -> None:
    """Start from the same A and B as every other way.

    Raises:
        ValueError: the peer adapts other layers.
    """
    import torch
    from safetensors.torch import load_file

    tensors = load_file(str(folder / "adapter_model.safetensors"))
    if tensors.keys() != peer.parameters.keys():
        odd = sorted(tensors.keys() ^ peer.parameters.keys())
        raise ValueError(f"{len(odd)} tensors are not of both sides, {odd[0]} first")
    with torch.no_grad():
        for name, parameter in peer.parameters.items():
            parameter.copy_(tensors[name])


def check(asked: Asked, peer: Peer) -> dict[str, Any]:
    """Losses on the text while it is learnt, and what a document sees of the one before it."""
    read_first_adapter(peer, asked.out / "first-adapter")
    leak = PackedData(asked.out / "data/leak")
    pair: list[float] = []
    for number in range(2):
        loss = peer.loss(leak.batch(np.array([number])))
        loss.backward()
        peer.optimizer.zero_grad(set_to_none=True)
        pair.append(float(loss.item()))
    batch = PackedData(asked.out / "data/check").batch(np.array([0]))
    journal = [Replan(0, CHECK_STEPS, "plan")]
    losses = []
    for step in range(CHECK_STEPS):
        peak = asked.recipe.learning_rate
        rate = learning_rate(step, journal, peak=peak, warmup=0.0, decay="linear")
        losses.append(peer.step(batch, rate))
    return {"losses": losses, "leak": abs(pair[0] - pair[1])}


def speed(asked: Asked, peer: Peer, shape: str) -> dict[str, Any]:
    """Seconds of every step of a shape, and its peak memory."""
    import torch

    data = PackedData(speed_data(asked.out, shape, read_models(asked.out).base.vocabulary))
    seconds, losses = [], []
    for step in range(asked.steps):
        started = time.perf_counter()
        batch = data.batch(np.array([step % len(data)]))
        losses.append(peer.step(batch, asked.recipe.learning_rate))
        if peer.device != "cpu":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    if peer.device == "cpu":
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    else:
        peak = torch.cuda.max_memory_reserved() / 2**30
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    return speed_figures(seconds, losses, peak, sum(lengths_of(shape)))


def main() -> None:
    """Do the tasks in turn; each result is written as soon as it is there."""
    asked = child_arguments(__doc__)
    device = read_machine(asked.out)["kind"]
    shapes = [task for task in asked.tasks if task != CHECK]
    if CHECK in asked.tasks:
        peer = load(asked.way, asked.out / "check-base", asked.recipe, 4096, device)
        write_result(asked.out, asked.way, CHECK, check(asked, peer))
        del peer
        gc.collect()
    if shapes:
        longest = max(sum(lengths_of(shape)) for shape in shapes)
        peer = load(asked.way, asked.out / "base", asked.recipe, longest, device)
        for shape in shapes:
            write_result(asked.out, asked.way, shape, speed(asked, peer, shape))


if __name__ == "__main__":
    main()

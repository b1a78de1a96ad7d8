"""The optimizer of an adapter: which kind for which tensor, averages, exact resume.

`make_optimizer` is called by worker.py; step.py sets the rate and steps; saving.py
writes `tensors()` through safetensors and gives them back to `load`. After a resume
every later update has the same bits on a CPU. docs/methods.md compares the kinds.

Groups: tensors are grouped by rate (LoRA+: B learns `lora_plus_ratio` times as fast,
arXiv 2402.12354), by decay and by kind. Not decayed are those whose neutral value is
not zero: magnitudes of DoRA and factors of IA³; decay would pull them, and with them
the base's own weights, towards zero.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from pipeline.base.errors import UserError
from pipeline.base.params import TrainParams
from pipeline.learning.adalora import Allocator
from pipeline.learning.muon import Muon
from pipeline.learning.schedule_free import ScheduleFreeAdamW

Named = Mapping[str, torch.nn.Parameter]
"""Tensor name in the adapter file → fp32 master."""

MASTER, WEIGHT = "master", "schedule_free.weight"
NOT_DECAYED = ("lora_magnitude_vector", "ia3_l")
DERIVED = ("step", "qmap1", "qmap2", "x")
"""State that is not saved: it follows from the step, is a constant, or lies in adapter/."""
BYTES = {"adamw": 8, "adamw-8bit": 2.1, "adamw-8bit-paged": 2.1, "muon": 8, "schedule-free": 8}
"""State of one element, in bytes; an upper bound, for the disk that a save needs."""
ALLOCATOR_BYTES = 8
EMA_START = 10
"""The average keeps at most (1 + n)/(10 + n) of itself after n steps, so that a short run
does not average its start (TensorFlow's ExponentialMovingAverage, `num_updates`)."""


def groups_of(named: Named, params: TrainParams, select: Callable[[str], bool]) -> list[Any]:
    """Parameter groups of the chosen tensors, each with `lr_scale` and `weight_decay`."""
    groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    for name, parameter in named.items():
        if select(name):
            scale = params.lora_plus_ratio if ".lora_B" in name else 1.0
            decay = 0.0 if name.endswith(NOT_DECAYED) else params.weight_decay
            groups.setdefault((scale, decay), []).append(parameter)
    return [
        {"params": chosen, "lr_scale": scale, "weight_decay": decay}
        for (scale, decay), chosen in groups.items()
    ]


def is_matrix(parameter: torch.Tensor) -> bool:
    """Whether Muon can orthogonalise it: two sides, neither of them 1."""
    return parameter.dim() == 2 and min(parameter.shape) > 1


def _adamw(groups: list[Any], params: TrainParams, device: torch.device) -> Any:
    betas = (params.beta1, params.beta2)
    return torch.optim.AdamW(
        groups, lr=params.learning_rate, betas=betas, fused=device.type == "cuda"
    )


def _parts(named: Named, params: TrainParams, device: torch.device) -> list[Any]:
    """The optimizers that together cover all tensors."""
    rate, betas = params.learning_rate, (params.beta1, params.beta2)
    everything = groups_of(named, params, lambda _: True)
    if params.optimizer == "adamw":
        return [_adamw(everything, params, device)]
    if params.optimizer == "schedule-free":
        return [ScheduleFreeAdamW(everything, rate, betas, params.weight_decay)]
    if params.optimizer == "muon":
        matrices = groups_of(named, params, lambda name: is_matrix(named[name]))
        others = groups_of(named, params, lambda name: not is_matrix(named[name]))
        parts: list[Any] = [Muon(matrices, rate, params.weight_decay)] if matrices else []
        return [*parts, *([_adamw(others, params, device)] if others else [])]
    try:
        from bitsandbytes.optim import AdamW8bit
    except ImportError as error:
        raise UserError(
            f"train.optimizer: {params.optimizer} needs bitsandbytes ({error})",
            "Install bitsandbytes, or set train.optimizer to adamw.",
        ) from None
    paged = params.optimizer == "adamw-8bit-paged"
    return [AdamW8bit(everything, lr=rate, betas=betas, is_paged=paged)]


class AdapterOptimizer:
    """Optimizers, averages and AdaLoRA's allocator behind one face.

    Args:
        named: every trainable tensor, in sorted order.
        device: of the tensors.

    Attributes:
        progress: share of the run done when the next step is, set before every step;
            AdaLoRA's budget follows from it.
    """

    def __init__(self, named: Named, params: TrainParams, device: torch.device) -> None:
        self.named, self.params = dict(named), params
        self.parts = _parts(self.named, params, device)
        self.allocator = Allocator(self.named) if params.method == "adalora" else None
        self.steps = 0
        self.progress: float | None = None
        self.average = {
            name: parameter.detach().clone()
            for name, parameter in self.named.items()
            if params.ema_decay
        }

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Groups of all parts."""
        return [group for part in self.parts for group in part.param_groups]

    @property
    def bytes_per_element(self) -> float:
        """Upper bound on what a checkpoint holds beside adapter/, per trained element."""
        averaged = 4 if self.params.ema_decay else 0
        allocated = ALLOCATOR_BYTES if self.allocator else 0
        return BYTES[self.params.optimizer] + averaged + allocated

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=set_to_none)

    def add_gradients(self) -> None:
        """Add what the method adds to the loss; once a step, before clipping."""
        if self.allocator is not None:
            self.allocator.add_gradients()

    def set_rate(self, learning_rate: float) -> None:
        """Give every group its share of the rate of this step."""
        for group in self.param_groups:
            group["lr"] = learning_rate * group["lr_scale"]

    def step(self) -> None:
        """One update, then masks and averages.

        Raises:
            RuntimeError: AdaLoRA was not told the progress.
        """
        for part in self.parts:
            part.step()
        self.steps += 1
        if self.allocator is not None:
            if self.progress is None:
                raise RuntimeError("AdaLoRA needs the progress of the run before every step")
            self.allocator.after_step(self.progress)
        self.progress = None
        if self.average:
            kept = min(self.params.ema_decay, (1 + self.steps) / (EMA_START + self.steps))
            masters = [self.named[name].detach() for name in self.average]
            torch._foreach_lerp_(list(self.average.values()), masters, 1 - kept)

    @contextlib.contextmanager
    def averages_in_place(self) -> Iterator[None]:
        """While it lasts the parameters hold what is to be read by others: the averages."""
        averages = self._averages()
        masters = {name: self.named[name].data for name in averages}
        try:
            for name, average in averages.items():
                self.named[name].data = average
            yield
        finally:
            for name, master in masters.items():
                self.named[name].data = master

    def _averages(self) -> dict[str, torch.Tensor]:
        """Tensors that are published in place of the masters; empty without averaging."""
        free = self._schedule_free()
        if free is None:
            return self.average
        return {name: free.start(parameter)["x"] for name, parameter in self.named.items()}

    def _schedule_free(self) -> ScheduleFreeAdamW | None:
        first = self.parts[0]
        return first if isinstance(first, ScheduleFreeAdamW) else None

    def tensors(self) -> dict[str, torch.Tensor]:
        """Everything but what adapter/ holds, on the CPU: name → tensor."""
        found: dict[str, torch.Tensor] = {}
        for part in self.parts:
            names = self._names_of(part)
            for parameter, state in part.state.items():
                for key, value in state.items():
                    if torch.is_tensor(value) and key not in DERIVED:
                        found[f"{names[id(parameter)]}.{key}"] = value
        if self.average:
            found |= {f"{name}.{MASTER}": master for name, master in self.named.items()}
        if self.allocator is not None:
            found |= self.allocator.tensors()
        free = self._schedule_free()
        if free is not None:
            found[WEIGHT] = torch.tensor(free.weight, dtype=torch.float64)
        return {name: value.detach().cpu().contiguous() for name, value in found.items()}

    def _names_of(self, part: Any) -> dict[int, str]:
        names = {id(parameter): name for name, parameter in self.named.items()}
        own = {id(p) for group in part.param_groups for p in group["params"]}
        return {number: name for number, name in names.items() if number in own}

    @torch.no_grad()
    def load(self, tensors: Mapping[str, torch.Tensor], steps: int) -> None:
        """Take back what `tensors` gave after `steps` steps; the parameters hold adapter/.

        Raises:
            KeyError: a tensor is missing.
        """
        self.steps = steps
        if self.average:
            for name, parameter in self.named.items():
                self.average[name].copy_(parameter)
                parameter.copy_(tensors[f"{name}.{MASTER}"])
        if self.allocator is not None:
            self.allocator.load(tensors)
        for part in self.parts:
            names = self._names_of(part)
            for number, group in enumerate(part.param_groups):
                for place, parameter in enumerate(group["params"]):
                    prefix = names[id(parameter)]
                    state = self._empty_state(part, parameter, (number, place))
                    for key in state.keys() - set(DERIVED):
                        state[key].copy_(tensors[f"{prefix}.{key}"])
        free = self._schedule_free()
        if free is not None:
            free.steps, free.weight = steps, float(tensors[WEIGHT])
            free.place(list(self.named.values()))

    def _empty_state(
        self, part: Any, parameter: torch.nn.Parameter, place: tuple[int, int]
    ) -> dict[str, Any]:
        """State of one tensor as its optimizer lays it out, the step already right."""
        state: dict[str, Any] = part.state[parameter]
        if isinstance(part, ScheduleFreeAdamW):
            part.start(parameter)
        elif isinstance(part, Muon):
            state["momentum"] = torch.zeros_like(parameter)
        elif isinstance(part, torch.optim.AdamW):
            # The fused optimizer wants its count beside the parameter, the others on the CPU.
            where = parameter.device if part.defaults["fused"] else "cpu"
            state["step"] = torch.tensor(float(self.steps), device=where)
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        else:
            # bitsandbytes lays out its own buffers, some of them in pages.
            part.init_state(part.param_groups[place[0]], parameter, *place)
            state["step"] = self.steps
        return state


def make_optimizer(named: Named, params: TrainParams, device: torch.device) -> AdapterOptimizer:
    """The optimizer that `train.optimizer` and its neighbours describe.

    Raises:
        UserError: it needs a library that is not installed.
    """
    return AdapterOptimizer(named, params, device)

"""Device, precision and storage of the base: what the machine allows of what is asked.

An explicit param wins. What cannot work, or only by slow emulation, is refused
with the way out; every choice says why it was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pipeline.base.errors import UserError
from pipeline.base.params import Params
from pipeline.hardware.machine import Machine

USABLE = {"cpu": 0.9, "cuda": 0.97}
"""Share of a device's memory that one run plans with. A CPU shares its memory
with the system, a GPU with the driver and what else holds a context on it."""

NATIVE_BF16 = (8, 0)
"""First CUDA capability with bfloat16 arithmetic. Older ones emulate it, and
torch.cuda.is_bf16_supported() says yes all the same, so it is not asked."""

NATIVE_FP8 = (9, 0)
"""First CUDA capability with fp8 products scaled by rows and columns."""

Why = list[str]
"""Sentences for plan.json, one a decision."""


@dataclass(frozen=True)
class Devices:
    """Where the work runs; a rank a GPU, or one on the CPU."""

    device: Literal["cpu", "cuda"]
    ranks: int
    capacity_gib: float
    """Memory that one rank may fill."""
    capability: tuple[int, int]
    """Least CUDA capability of all ranks; (0, 0) on a CPU."""
    native_bf16: bool
    name: str
    """The device that sets the limits."""
    memory_gib: float
    """All of its memory."""

    @property
    def offer(self) -> str:
        """For messages: what one rank may fill."""
        return f"{self.name} offers {self.capacity_gib:.1f} of {self.memory_gib:g} GiB"


def choose_devices(params: Params, machine: Machine, why: Why) -> Devices:
    """All usable GPUs, else the CPU.

    Raises:
        UserError: a GPU is asked for and none can be used.
    """
    wanted, cpu = params.plan.device, machine.cpu
    if wanted == "cuda" and not machine.gpus:
        raise UserError(
            f"plan.device is cuda, but no GPU can be used ({machine.gpu_note or 'none found'})",
            "Set plan.device to auto or cpu, or mend the driver and the torch build.",
        )
    if wanted == "cpu" or not machine.gpus:
        note = f"; {machine.gpu_note}" if machine.gpu_note else ""
        asked = "plan.device asks for it" if wanted == "cpu" else f"no GPU can be used{note}"
        why.append(f"Device: the CPU, one process on {cpu.physical_cores} cores, since {asked}.")
        usable = cpu.ram_gib * USABLE["cpu"]
        return Devices("cpu", 1, usable, (0, 0), cpu.bf16, cpu.model, cpu.ram_gib)
    smallest = min(machine.gpus, key=lambda gpu: gpu.memory_gib)
    capability = min(gpu.capability for gpu in machine.gpus)
    count = len(machine.gpus)
    text = f"Device: {count} × {smallest.name}, {count} {'rank' if count == 1 else 'ranks'}"
    if len({(gpu.name, gpu.memory_gib) for gpu in machine.gpus}) > 1:
        text += "; they differ, so the smallest memory and the lowest capability decide for all"
    why.append(f"{text}.")
    usable = smallest.memory_gib * USABLE["cuda"]
    native = capability >= NATIVE_BF16
    return Devices("cuda", count, usable, capability, native, smallest.name, smallest.memory_gib)


def choose_dtype(params: Params, devices: Devices, why: Why) -> str:
    """Compute type: bfloat16 where it is native, else float16 on GPUs, float32 on CPUs.

    Raises:
        UserError: the asked type is not native to the device.
    """
    asked = params.train.precision
    cuda = devices.device == "cuda"
    major, minor = devices.capability
    if asked == "auto":
        if devices.native_bf16:
            reason = f"capability {major}.{minor} computes" if cuda else "this CPU multiplies"
            why.append(f"Precision: bfloat16 with fp32 adapters, which {reason} natively.")
            return "bfloat16"
        if cuda:
            why.append(
                f"Precision: float16 with fp32 adapters and a loss scale, since capability "
                f"{major}.{minor} is below 8.0 and only emulates bfloat16."
            )
            return "float16"
        why.append(
            "Precision: float32, since this CPU has neither avx512_bf16 nor amx_bf16 and emulated "
            "bfloat16 is slower than float32."
        )
        return "float32"
    if asked == "bfloat16" and not devices.native_bf16:
        lack = f"capability {major}.{minor} < 8.0" if cuda else "no avx512_bf16 or amx_bf16"
        raise UserError(
            f"train.precision: bfloat16 is not native to {devices.name} ({lack})",
            f"Set train.precision to auto or {'float16' if cuda else 'float32'}.",
        )
    if asked == "float16" and not cuda:
        raise UserError(
            "train.precision: float16 cannot be trained on a CPU",
            "Set train.precision to auto or float32.",
        )
    why.append(f"Precision: {asked}, as train.precision says.")
    return asked


def storage_options(params: Params, devices: Devices, machine: Machine) -> list[str]:
    """Ways to store the base, in order of preference.

    Raises:
        UserError: a form is asked for that cannot be computed here.
    """
    asked = params.train.base_quantization
    if asked not in ("auto", "none") and devices.device == "cpu":
        raise UserError(
            f"train.base_quantization: {asked} is for GPUs; a CPU would unpack all weights every"
            " pass",
            "Set train.base_quantization to auto or none, or use a GPU.",
        )
    if asked == "fp8" and devices.capability < NATIVE_FP8:
        major, minor = devices.capability
        raise UserError(
            f"train.base_quantization: fp8 needs capability 9.0 or higher, {devices.name} has "
            f"{major}.{minor}",
            "Set train.base_quantization to auto or none.",
        )
    if asked == "nf4" and machine.bitsandbytes is None:
        raise UserError(
            "train.base_quantization: nf4 needs bitsandbytes, which is not installed",
            "Install bitsandbytes, or set train.base_quantization to none.",
        )
    if asked != "auto":
        return [asked]
    possible = devices.device == "cuda" and machine.bitsandbytes is not None
    return ["none", "nf4"] if possible else ["none"]

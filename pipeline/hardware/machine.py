"""What a machine can do, as written to work/probe/machine.json.

Only facts that stay the same from run to run: a plan that depended on free
memory or clock rates would change, and everything after it would be repeated.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Cpu:
    """The processors that this process may use."""

    model: str
    physical_cores: int
    """Cores within the affinity mask and the container's quota; at least 1."""
    logical_cores: int
    ram_gib: float
    """Installed memory or the container's limit, whichever is less."""
    bf16: bool
    """Native bfloat16 arithmetic (avx512_bf16 or amx_bf16)."""


@dataclass(frozen=True)
class Gpu:
    """One GPU that torch can compute on."""

    index: int
    """Number within the visible ones: `cuda:index`."""
    name: str
    memory_gib: float
    capability: tuple[int, int]


@dataclass(frozen=True)
class Machine:
    """CPU, usable GPUs and the versions of what computes on them."""

    cpu: Cpu
    gpus: tuple[Gpu, ...]
    torch: str
    transformers: str
    peft: str
    python: str
    bitsandbytes: str | None
    """None when it is not installed, and with it no nf4."""
    gpu_note: str | None
    """Why GPUs that the driver lists are not used; None when there is nothing to say."""

    def to_json(self) -> dict[str, Any]:
        """The content of machine.json."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}


def machine_from_json(tree: dict[str, Any]) -> Machine:
    """Inverse of `Machine.to_json`; the two optional texts may be missing."""
    gpus = [{**gpu, "capability": tuple(gpu["capability"])} for gpu in tree["gpus"]]
    return Machine(
        cpu=Cpu(**tree["cpu"]),
        gpus=tuple(Gpu(**gpu) for gpu in gpus),
        torch=tree["torch"],
        transformers=tree["transformers"],
        peft=tree["peft"],
        python=tree["python"],
        bitsandbytes=tree.get("bitsandbytes"),
        gpu_note=tree.get("gpu_note"),
    )


def describe(machine: Machine) -> str:
    """The machine in one line."""
    cpu = machine.cpu
    cores = f"{cpu.physical_cores} core{'s' if cpu.physical_cores != 1 else ''}"
    native = "with" if cpu.bf16 else "without"
    text = f"{cores} of {cpu.model} {native} native bfloat16, {cpu.ram_gib:g} GiB memory"
    if not machine.gpus:
        return f"{text}; no usable GPU"
    first = machine.gpus[0]
    major, minor = first.capability
    kind = f"{first.memory_gib:g} GiB, capability {major}.{minor}"
    return f"{text}; {len(machine.gpus)} × {first.name} ({kind})"

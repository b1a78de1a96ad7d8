"""Described machines and model shapes, for planning without the hardware."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pipeline.base.fingerprint import ModelShape
from pipeline.hardware.machine import Cpu, Gpu, Machine

QWEN3_14B = ModelShape(
    architecture="Qwen3ForCausalLM",
    model_type="qwen3",
    layers=40,
    hidden=5120,
    intermediate=17408,
    heads=40,
    kv_heads=8,
    head_dim=128,
    vocabulary=151936,
    tied_embeddings=False,
    max_positions=40960,
    parameters=14_768_307_200,
    weight_bytes=29_536_664_000,
)

SMOLLM2 = ModelShape(
    architecture="LlamaForCausalLM",
    model_type="llama",
    layers=30,
    hidden=576,
    intermediate=1536,
    heads=9,
    kv_heads=3,
    head_dim=64,
    vocabulary=49152,
    tied_embeddings=True,
    max_positions=8192,
    parameters=134_515_008,
    weight_bytes=269_060_552,
)


def described(
    gpus: Iterable[Gpu] = (), *, cores: int = 2, ram_gib: float = 23.5, bf16: bool = True
) -> Machine:
    """A machine with everything installed."""
    return Machine(
        cpu=Cpu("Test CPU", cores, cores, ram_gib, bf16),
        gpus=tuple(gpus),
        torch="2.13.0",
        transformers="4.57.6",
        peft="0.9.0",
        python="3.11.7",
        bitsandbytes="0.50.2",
        gpu_note=None,
    )


def several(gpu: Gpu, count: int) -> list[Gpu]:
    """The same GPU under several numbers."""
    return [replace(gpu, index=index) for index in range(count)]


T4 = Gpu(0, "Tesla T4", 14.5, (7, 5))
H100 = Gpu(0, "NVIDIA H100 80GB HBM3", 79.1, (9, 0))
H200 = Gpu(0, "NVIDIA H200", 139.8, (9, 0))

T4X2 = described(several(T4, 2), cores=8, ram_gib=50.0, bf16=False)
H200X1 = described([H200], cores=16, ram_gib=120.0)
H100X8 = described(several(H100, 8), cores=64, ram_gib=1000.0)
CPU_BF16 = described()
CPU_PLAIN = described(cores=4, ram_gib=15.5, bf16=False)

"""Peak rates of GPUs, from their makers' data sheets.

Dense 16-bit tensor rates with 32-bit accumulation (no sparsity) in TFLOP/s and
memory bandwidth in GB/s. A name that is not listed gets a cautious figure from
its capability and memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.hardware.machine import Gpu


@dataclass(frozen=True)
class GpuRate:
    """What the data sheet promises."""

    tflops: float
    gigabytes_per_second: float
    source: str


_KNOWN: tuple[tuple[str, float, float, str], ...] = (
    # Name pattern, TFLOP/s, GB/s, source; the first match counts.
    (r"G?B300", 2250, 8000, "NVIDIA HGX B300 data sheet"),
    (r"G?B200", 2250, 8000, "NVIDIA HGX B200 data sheet"),
    (r"B100", 1750, 8000, "NVIDIA Blackwell architecture brief"),
    (r"H200", 989, 4800, "NVIDIA H200 data sheet"),
    (r"GH200", 989, 4000, "NVIDIA GH200 data sheet, 96 GB"),
    (r"H20\b", 148, 4000, "NVIDIA H20 data sheet"),
    (r"H100 PCIe", 756, 2000, "NVIDIA H100 data sheet, PCIe"),
    (r"H100 NVL", 835, 3900, "NVIDIA H100 data sheet, NVL"),
    (r"H[18]00", 989, 3350, "NVIDIA H100 data sheet, SXM"),
    (r"A[18]00.*80\s?GB", 312, 1935, "NVIDIA A100 data sheet, 80 GB"),
    (r"A[18]00", 312, 1555, "NVIDIA A100 data sheet, 40 GB"),
    (r"A40\b", 149.7, 696, "NVIDIA A40 data sheet"),
    (r"A30\b", 165, 933, "NVIDIA A30 data sheet"),
    (r"A10G", 70, 600, "AWS EC2 G5 instance page"),
    (r"A10\b", 125, 600, "NVIDIA A10 data sheet"),
    (r"A2\b", 18, 200, "NVIDIA A2 data sheet"),
    (r"L40S", 362, 864, "NVIDIA L40S data sheet"),
    (r"L40\b", 181, 864, "NVIDIA L40 data sheet"),
    (r"L4\b", 121, 300, "NVIDIA L4 data sheet"),
    (r"RTX 6000 Ada", 364, 960, "NVIDIA RTX 6000 Ada data sheet"),
    (r"RTX A6000", 155, 768, "NVIDIA RTX A6000 data sheet"),
    (r"RTX A5000", 111, 768, "NVIDIA RTX A5000 data sheet"),
    (r"RTX 5090", 209, 1792, "NVIDIA RTX Blackwell architecture paper"),
    (r"RTX 4090", 165, 1008, "NVIDIA Ada architecture paper, appendix A"),
    (r"RTX 4080", 97, 717, "NVIDIA Ada architecture paper, appendix A"),
    (r"RTX 3090", 71, 936, "NVIDIA GA102 architecture paper, table 9"),
    (r"RTX 3080", 59.5, 760, "NVIDIA GA102 architecture paper, table 9"),
    (r"RTX 2080 Ti", 53.8, 616, "NVIDIA Turing architecture paper, table 1"),
    (r"(Quadro )?RTX (6|8)000", 65, 672, "NVIDIA Turing architecture paper, 32-bit accumulation"),
    (r"V100", 112, 900, "NVIDIA V100 data sheet, PCIe"),
    (r"T4\b", 65, 320, "NVIDIA T4 data sheet"),
    (r"P100", 18.7, 732, "NVIDIA P100 data sheet, PCIe"),
)

_CAUTIOUS: tuple[tuple[tuple[int, int], float, float, float], ...] = (
    # Lowest capability, least memory in GiB, TFLOP/s, GB/s; the first match counts.
    ((10, 0), 80, 1000, 4000),
    ((10, 0), 0, 90, 400),
    ((9, 0), 60, 600, 2000),
    ((8, 0), 36, 120, 600),
    ((8, 0), 0, 30, 250),
    ((7, 0), 0, 25, 250),
    ((0, 0), 0, 4, 150),
)


def gpu_rate(gpu: Gpu) -> GpuRate:
    """Peak rates of a GPU, by name or else by capability and memory."""
    for pattern, tflops, bandwidth, source in _KNOWN:
        if re.search(rf"(?<![A-Za-z0-9]){pattern}", gpu.name):
            return GpuRate(tflops, bandwidth, source)
    tflops, bandwidth = next(
        (tflops, bandwidth)
        for capability, memory, tflops, bandwidth in _CAUTIOUS
        if gpu.capability >= capability and gpu.memory_gib >= memory
    )
    major, minor = gpu.capability
    source = f"not listed: a cautious figure for capability {major}.{minor}"
    return GpuRate(tflops, bandwidth, source)


def achieved_share(gpu: Gpu, *, compiled: bool = False) -> float:
    """Share of the peak that a LoRA step of a large model reaches.

    From capability 8.0 up, measured with this trainer on an H200 (sizes of Qwen3-14B,
    rank 64, one document of 16,384 tokens; bench/RESULTS.md): 0.43 of 989 TFLOP/s
    with full recomputation and nothing compiled, 0.56 with compiled layers. Before 8.0
    there is no fused attention with grouped keys, and a 70 W T4 cannot hold
    its clock under tensor load: 0.3, assumed, not measured.
    """
    if gpu.capability < (8, 0):
        return 0.3
    return 0.56 if compiled else 0.43

"""How many tokens a second a machine trains and decodes: arithmetic over rates.

Training counts floating-point operations a token and divides the rate by them.
Decoding adds up what one step of a batch must do: call the layers, read the
weights, multiply, read the cache. The constants were fitted to measurements
that their docstrings give.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pipeline.base.fingerprint import ModelShape
from pipeline.base.flops import spent_flops_per_token
from pipeline.hardware.counts import adapter_elements, cache_bytes_per_token
from pipeline.hardware.gpu_rates import achieved_share, gpu_rate
from pipeline.hardware.machine import Cpu, Machine
from pipeline.hardware.memory import BYTES, Setting, weights_bytes

CPU_TRAIN_GFLOPS = {"bfloat16": 160.0, "float32": 60.0}
"""GFLOP/s a core. SmolLM2-135M, rank 16 on all linear layers, 2 cores with
avx512_bf16: 513 tokens/s in bfloat16 and 177-231 in float32 at 4×512 and 4×256
tokens, at 0.63 GFLOP a token."""

CPU_DECODE_GFLOPS = {"bfloat16": 96.0, "float32": 60.0}
CPU_WEIGHT_GBPS = 5.0
CPU_CACHE_GBPS = 0.95
"""Of one core. Same model and machine: 149 tokens/s at 8 sequences and 264 at 64
in bfloat16 (192 tokens long), 144 at 32 (512 long); 95 and 153 at 8 and 32 in
float32. The cache counts more than its bytes, since it is copied as it grows."""

CORE_EXPONENT = 0.85
"""Rate grows as cores^0.85: one core made 0.55-0.65 of what two made."""

CALIBRATED_CORES = 2

GPU_LAYER_SECONDS = 0.0027
"""Launching the kernels of one layer of one decoding step from Python: 549
tokens/s with 64 sequences on an H200 (40 layers) leave 117 ms a step."""

NF4_TRAFFIC = 9.0
"""Bytes moved for every stored byte of nf4 when it is decoded: read half a byte,
write two, read two."""

FP8_GAIN = 1.3
"""Whole step with the base in fp8 against bf16: 9,002 and 6,915 tokens/s on an H200 with
Qwen3-14B's layers and 16,384 tokens; the linear layers alone are twice as fast."""

REDUCE_SHARE = 0.95
"""What summing the adapter's gradients between ranks leaves of the rate."""

SPREAD_SHARE = 0.9
"""What gathering the base, two times a forward pass, leaves of the rate where it is spread: an
assumption for links that are fast enough to be hidden; the clock of training corrects it."""


@dataclass(frozen=True)
class Rate:
    """Tokens a second and where the figure comes from."""

    tokens_per_second: float
    source: str


def training_flops(shape: ModelShape, setting: Setting) -> float:
    """Floating-point operations to train one packed token, as this trainer does it."""
    return spent_flops_per_token(
        shape,
        adapter_elements(shape, setting.rank, setting.targets),
        setting.sequence_tokens,
        recomputed=setting.recompute,
    )


def _cores(cpu: Cpu) -> float:
    """Cores as they count, in units of one core of the calibrated pair."""
    return CALIBRATED_CORES * float((cpu.physical_cores / CALIBRATED_CORES) ** CORE_EXPONENT)


def training_rate(shape: ModelShape, machine: Machine, setting: Setting) -> Rate:
    """Predicted packed tokens a second over all ranks."""
    flops = training_flops(shape, setting)
    if setting.device == "cpu":
        kind = "bfloat16" if setting.compute_dtype == "bfloat16" else "float32"
        each = CPU_TRAIN_GFLOPS[kind]
        rate = _cores(machine.cpu) * each * 1e9 / flops
        source = (
            f"{machine.cpu.physical_cores} cores at {each:g} GFLOP/s a core in {kind} "
            f"(fitted to SmolLM2-135M on 2 cores), {flops / 1e9:.3g} GFLOP a token"
        )
        return Rate(rate, source)
    share_of = partial(achieved_share, compiled=setting.compiled)
    slowest = min(machine.gpus, key=lambda gpu: gpu_rate(gpu).tflops * share_of(gpu))
    peak, share = gpu_rate(slowest), share_of(slowest)
    if setting.quantization == "fp8":
        share *= FP8_GAIN
    if setting.compute_dtype == "float32":
        # Without tensor cores; 1/8 holds within a factor of two from Turing to Hopper.
        share /= 8
    ranks = setting.ranks * (REDUCE_SHARE if setting.ranks > 1 else 1.0)
    if setting.sharded:
        ranks *= SPREAD_SHARE
    source = (
        f"{setting.ranks} × {slowest.name}: {peak.tflops:g} TFLOP/s ({peak.source}), "
        f"{share:.3g} of it reached, {flops / 1e9:.3g} GFLOP a token"
    )
    return Rate(ranks * peak.tflops * share * 1e12 / flops, source)


@dataclass(frozen=True)
class Decoding:
    """How replies are generated on one device."""

    device: str
    dtype: str
    quantization: str
    context_tokens: int
    """Mean tokens in the cache of a running reply."""


def decode_step_seconds(
    shape: ModelShape, machine: Machine, decoding: Decoding, batch: int
) -> float:
    """Seconds for one more token of each of `batch` replies."""
    weights = weights_bytes(shape, decoding.dtype, decoding.quantization)
    cache = cache_bytes_per_token(shape, BYTES[decoding.dtype]) * decoding.context_tokens
    flops = 2 * shape.parameters
    if decoding.device == "cpu":
        cores = _cores(machine.cpu)
        kind = "bfloat16" if decoding.dtype == "bfloat16" else "float32"
        a_reply = flops / CPU_DECODE_GFLOPS[kind] + cache / CPU_CACHE_GBPS
        return (weights / CPU_WEIGHT_GBPS + batch * a_reply) / (cores * 1e9)
    gpu = machine.gpus[0]
    peak = gpu_rate(gpu)
    moved = weights * (NF4_TRAFFIC if decoding.quantization == "nf4" else 1.0)
    read = (moved + batch * cache) / (peak.gigabytes_per_second * 0.7e9)
    compute = batch * flops / (peak.tflops * achieved_share(gpu) * 1e12)
    return GPU_LAYER_SECONDS * shape.layers + read + compute

"""How many problems the evaluation share allows, and how replies are batched.

The result depends on the base, the machine, `budget`, `plan.device`, `evaluation` and
the number of `prompt.variants` alone: nothing of the recipe, so that an edit of the
recipe does not repeat the evaluation of the frozen base. Every problem is asked under
`main` and every variant, so with two variants it takes three times as long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import ModelShape
from pipeline.base.params import Params
from pipeline.base.progress import duration
from pipeline.hardware.choices import Devices
from pipeline.hardware.clock import Shares
from pipeline.hardware.counts import adapter_elements, cache_bytes_per_token
from pipeline.hardware.machine import Machine
from pipeline.hardware.memory import BYTES, CONTEXT_GIB, GIB, weights_bytes
from pipeline.hardware.speed import Decoding, decode_step_seconds

PROMPT_TOKENS = 512
"""Allowance for the template, the instruction and a long problem."""

SAMPLING_BYTES = 24
"""Bytes a vocabulary entry of one reply: fp32 logits, sorted probabilities, their
running sum and the 64-bit order."""

CACHE_MARGIN = 1.25
"""The cache of one layer is copied while it grows, and blocks fragment."""

ADAPTER_RANK = 64
"""Largest adapter that evaluation must hold: the contract's rank on every layer."""

MOST_REPLIES = {"cpu": 64, "cuda": 256}
"""Beyond these, a larger batch no longer makes decoding faster."""

RUNS = 2
"""baseline and evaluate share the evaluation time."""


@dataclass(frozen=True)
class Store:
    """How the base is held while it is evaluated."""

    dtype: str
    quantization: str
    free_gib: float
    """What is left for replies."""


def reply_gib(shape: ModelShape, params: Params, dtype: str) -> float:
    """Memory of one running reply at its full length: keys, values, sampling."""
    tokens = PROMPT_TOKENS + params.evaluation.max_new_tokens
    cache = tokens * cache_bytes_per_token(shape, BYTES[dtype]) * CACHE_MARGIN
    return (cache + SAMPLING_BYTES * shape.vocabulary) / GIB


def choose_store(shape: ModelShape, params: Params, devices: Devices, machine: Machine) -> Store:
    """Unquantised when a batch of replies fits beside the weights, else nf4.

    Raises:
        UserError: not even one reply fits.
    """
    if devices.native_bf16:
        dtype = "bfloat16"
    else:
        dtype = "float16" if devices.device == "cuda" else "float32"
    adapter = adapter_elements(shape, ADAPTER_RANK, "all-linear") * 4 / GIB
    fixed = CONTEXT_GIB[devices.device] + adapter
    stores = []
    for quantization in ("none", "nf4"):
        weights = weights_bytes(shape, dtype, quantization) / GIB
        stores.append(Store(dtype, quantization, devices.capacity_gib - fixed - weights))
    if devices.device == "cpu" or machine.bitsandbytes is None:
        stores = stores[:1]
    one = reply_gib(shape, params, dtype)
    for store in stores:
        if store.free_gib >= one:
            return store
    raise UserError(
        f"evaluation: the base leaves {max(0.0, stores[-1].free_gib):.1f} GiB, one reply of "
        f"{params.evaluation.max_new_tokens:,} tokens needs {one:.1f} ({devices.offer})",
        "Lower evaluation.max_new_tokens, or use a device with more memory.",
    )


def prompts_asked(params: Params) -> int:
    """Under how many prompts each problem is asked: `main` and every variant."""
    return 1 + len(params.prompt.variants)


def choose_batch(shape: ModelShape, params: Params, devices: Devices, store: Store) -> int:
    """Replies at a time: as many as fit, or as params say when those fit.

    Variants share no batch, so one never holds more than the replies to one prompt.

    Raises:
        UserError: the asked number does not fit.
    """
    wanted = params.evaluation
    most = int(store.free_gib // reply_gib(shape, params, store.dtype))
    if wanted.batch_sequences is not None:
        if wanted.batch_sequences > most:
            raise UserError(
                f"evaluation.batch_sequences: {wanted.batch_sequences} replies of "
                f"{wanted.max_new_tokens:,} tokens do not fit; {most} do ({devices.offer})",
                f"Set it to at most {most}, or to null.",
            )
        return wanted.batch_sequences
    replies = wanted.problems * wanted.samples_per_problem
    return max(1, min(most, MOST_REPLIES[devices.device], replies))


def plan_evaluation(
    shape: ModelShape, params: Params, devices: Devices, machine: Machine, shares: Shares
) -> tuple[dict[str, Any], list[str]]:
    """The content of evaluation.json, and why, in sentences.

    The sentences stay out of the file: a longer budget that asks the same problems
    must not repeat the baseline. Every reply is assumed to run to `max_new_tokens`
    in a full batch; most end earlier, so that the time is an upper bound.

    Raises:
        UserError: the replies do not fit the memory or the model's positions.
    """
    wanted = params.evaluation
    if shape.max_positions and wanted.max_new_tokens >= shape.max_positions:
        raise UserError(
            f"evaluation.max_new_tokens: {wanted.max_new_tokens} leave no place for the prompt in "
            f"the base's {shape.max_positions} positions",
            f"Set it to less than {shape.max_positions}.",
        )
    store = choose_store(shape, params, devices, machine)
    batch = choose_batch(shape, params, devices, store)
    context = PROMPT_TOKENS // 2 + wanted.max_new_tokens // 2
    decoding = Decoding(devices.device, store.dtype, store.quantization, context)

    def seconds(problems: int) -> float:
        """Time of one run over so many problems, under every prompt."""
        full, rest = divmod(problems * wanted.samples_per_problem, batch)
        steps = full * decode_step_seconds(shape, machine, decoding, batch)
        if rest:
            steps += decode_step_seconds(shape, machine, decoding, rest)
        return steps * wanted.max_new_tokens * prompts_asked(params)

    share = shares.evaluation / RUNS
    problems = next((n for n in range(wanted.problems, 1, -1) if seconds(n) <= share), 1)
    settings = {
        "problems": problems,
        "samples_per_problem": wanted.samples_per_problem,
        "max_new_tokens": wanted.max_new_tokens,
        "batch_sequences": batch,
        "device": devices.device,
        "dtype": store.dtype,
        "quantization": store.quantization,
        "threads": machine.cpu.physical_cores,
    }
    return settings, _explain(params, store, batch, problems, seconds, share)


def _explain(
    params: Params,
    store: Store,
    batch: int,
    problems: int,
    seconds: Callable[[int], float],
    share: float,
) -> list[str]:
    wanted, prompts = params.evaluation, prompts_asked(params)
    k, length = wanted.samples_per_problem, wanted.max_new_tokens
    rate = problems * prompts * k * length / seconds(problems)
    stored = "nf4" if store.quantization == "nf4" else store.dtype
    replies = f"{k} {'reply' if k == 1 else 'replies'} × {length:,} tokens"
    if prompts > 1:
        replies = f"{prompts} prompts × {replies}"
    fewer = "fewer samples, shorter replies or fewer prompt.variants leave room for more."
    if prompts == 1:
        fewer = "fewer samples or shorter replies leave room for more."
    sentences = [
        f"Evaluation: base in {stored}; {batch} replies of up to {length:,} tokens at a time in "
        f"{store.free_gib:.1f} GiB.",
        f"Panel: {problems} problems × {replies} at {rate:,.0f} tokens/s "
        f"take at most {duration(seconds(problems))} of the {duration(share)} that base and "
        "adapter have each.",
    ]
    if problems < wanted.problems:
        sentences.append(
            f"Panel: lowered from evaluation.problems = {wanted.problems} to {problems}; a "
            f"larger budget.evaluation_share, {fewer}"
        )
    if seconds(problems) > share:
        sentences.append(
            "Panel: even one problem may take too long; evaluation stops at its share. Lower "
            "evaluation.max_new_tokens."
        )
    return sentences

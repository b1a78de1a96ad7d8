"""From params, base and machine to a complete plan: the decisions in their order.

Pure: the same inputs give the same plan. Of the recipe it reads what decides
size and time (method, rank, target modules, steps, epochs, tokens a step, precision,
quantisation, the curriculum), and checks what must go together (adapter.py); an edit
of the learning rate changes nothing here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pipeline.base.curriculum import Stage
from pipeline.base.fingerprint import ModelShape
from pipeline.base.method_rules import allowed_storage
from pipeline.base.params import Params
from pipeline.base.stage_table import StageRow, stage_rows
from pipeline.hardware.adapter import check_method, check_size
from pipeline.hardware.choices import Devices, choose_devices, choose_dtype, storage_options
from pipeline.hardware.clock import (
    Shares,
    explain_clock,
    split_budget,
    steps_by_clock,
    unique_tokens,
)
from pipeline.hardware.evaluation import plan_evaluation
from pipeline.hardware.explain import explain, explain_stages
from pipeline.hardware.fit import Fit, Fitter, choose_fit
from pipeline.hardware.gpu_rates import gpu_rate
from pipeline.hardware.machine import Machine
from pipeline.hardware.memory import needed_gib, training_parts
from pipeline.hardware.speed import Rate, training_rate
from pipeline.hardware.spread import ways_to_spread
from pipeline.hardware.stages import corpus_stages, setting_at, stages_of

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Plans:
    """What the plan stage writes."""

    training: dict[str, Any]
    """plan.json"""
    corpus: dict[str, Any]
    """corpus.json"""
    evaluation: dict[str, Any]
    """evaluation.json"""
    evaluation_why: list[str]
    """evaluation_why.json"""


def _rate(
    shape: ModelShape, params: Params, machine: Machine, fit: Fit, stages: list[Stage]
) -> Rate:
    given = params.plan.training_tokens_per_second
    if given is not None:
        return Rate(given, "plan.training_tokens_per_second")
    if len(stages) == 1:
        return training_rate(shape, machine, fit.setting)
    rates = [training_rate(shape, machine, setting_at(fit.setting, one)) for one in stages]
    # Every step has as many tokens, so the seconds of a token are averaged over the steps.
    seconds = sum(
        one.share / rate.tokens_per_second for one, rate in zip(stages, rates, strict=True)
    )
    slowest = min(rates, key=lambda rate: rate.tokens_per_second)
    return Rate(1 / seconds, f"mean over the stages, of which the slowest is: {slowest.source}")


def _training(
    fit: Fit,
    rows: list[StageRow],
    devices: Devices,
    machine: Machine,
    layers: int,
    steps: int | None,
    seconds: float,
) -> dict[str, Any]:
    setting, cores = fit.setting, machine.cpu.physical_cores
    return {
        "device": setting.device,
        "ranks": setting.ranks,
        "parallel": "sharded" if setting.sharded else "replicas",
        "micro_batch_sequences": setting.micro_batch_sequences,
        "accumulation": fit.accumulation,
        "sequence_tokens": setting.sequence_tokens,
        "sequences_per_step": fit.sequences_per_step,
        "stages": [row.to_json() for row in rows],
        "gradient_checkpointing": setting.gradient_checkpointing,
        "recomputed_layers": setting.recomputed_layers(layers),
        "compile": setting.compiled,
        "offload": setting.offload,
        "loss_chunk_positions": setting.loss_chunk_positions,
        "compute_dtype": setting.compute_dtype,
        "base_dtype": setting.compute_dtype,
        "quantization": setting.quantization,
        "threads": max(1, cores // devices.ranks),
        "peak_tflops": _peak_tflops(machine, setting.device),
        "steps_by_clock": steps,
        "seconds_by_clock": round(seconds, 1),
    }


def _peak_tflops(machine: Machine, device: str) -> float | None:
    """Data-sheet TFLOP/s of the slowest card that trains; None on a CPU."""
    if device == "cpu":
        return None
    return min(gpu_rate(gpu).tflops for gpu in machine.gpus)


def _rows(stages: list[Stage], total_steps: int, fit: Fit) -> list[StageRow]:
    return stage_rows(
        stages,
        total_steps=total_steps,
        tokens_per_step=fit.tokens_per_step,
        micro_batch_tokens=fit.setting.tokens,
        ranks=fit.setting.ranks,
    )


def _time(shares: Shares, rate: Rate, tokens: int) -> dict[str, Any]:
    return {
        "tokens_per_second": float(f"{rate.tokens_per_second:.4g}"),
        "source": rate.source,
        "training_seconds": round(shares.training, 1),
        "tokens": tokens,
        "predicted_seconds": round(tokens / rate.tokens_per_second, 1),
        "budget_seconds": round(shares.budget, 1),
        "evaluation_seconds": round(shares.evaluation, 1),
        "reserve_seconds": round(shares.reserve, 1),
        "allowance_seconds": round(shares.allowance, 1),
    }


def make_plans(shape: ModelShape, machine: Machine, params: Params) -> Plans:
    """Decide everything that params leave open.

    Raises:
        UserError: what is asked cannot work on this machine or in this time.
    """
    why = [check_size(shape, params)]
    devices = choose_devices(params, machine, why)
    dtype = choose_dtype(params, devices, why)
    check_method(shape, params, machine, devices, dtype)
    options = allowed_storage(params.train.method, storage_options(params, devices, machine))
    fitter = Fitter(shape, params, devices, dtype)
    fit, found = choose_fit(fitter, options, ways_to_spread(params, devices, machine))
    why += explain(fitter, fit, options, found)
    parts = training_parts(shape, fit.setting)
    need = needed_gib(parts)
    why.append(f"Memory: {need:.1f} GiB on every rank; {devices.offer}.")

    shares = split_budget(params, shape)
    stages = stages_of(params, fit.setting.sequence_tokens)
    rate = _rate(shape, params, machine, fit, stages)
    steps = None
    if params.train.steps is None:
        steps = steps_by_clock(shares.training, rate.tokens_per_second, fit.tokens_per_step)
    total = params.train.steps or steps or 0
    rows = _rows(stages, total, fit)
    if len(rows) > 1:
        why.append(explain_stages(fit, rows))
    why.append(explain_clock(shares, params, steps, fit.tokens_per_step, rate.tokens_per_second))
    unique = unique_tokens(steps, fit.tokens_per_step, params.train.epochs)
    if unique is not None:
        why.append(
            f"Data: the clock allows {unique:,} unique tokens for {params.train.epochs:g} passes; "
            "fewer data end the run after as many passes."
        )
    plan = {
        "schema_version": SCHEMA_VERSION,
        "machine": machine.to_json(),
        "training": _training(fit, rows, devices, machine, shape.layers, steps, shares.training),
        "memory": [{**asdict(part), "gib": round(part.gib, 3)} for part in parts],
        "memory_needed_gib": round(need, 3),
        "memory_available_gib": round(devices.capacity_gib, 3),
        "time": _time(shares, rate, total * fit.tokens_per_step),
        "why": why,
    }
    corpus = {
        "sequence_tokens": fit.setting.sequence_tokens,
        "token_budget": unique,
        **corpus_stages(params, stages, fit.setting.sequence_tokens),
    }
    return Plans(plan, corpus, *plan_evaluation(shape, params, devices, machine, shares))

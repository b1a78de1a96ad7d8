"""Refuse at plan time what training or `verify` would refuse hours later.

Called by planner.py: the size of the adapter against the contract's limits, and
the recipe against what PEFT 0.9.0 can load (base/method_rules.py). Pure.
"""

from __future__ import annotations

from pipeline.base import method_rules
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import SUPPORTED_MODELS, ModelShape
from pipeline.base.params import Params
from pipeline.hardware.choices import Devices
from pipeline.hardware.counts import adapted
from pipeline.hardware.machine import Machine


def recipe_of(params: Params) -> method_rules.Recipe:
    """The part of `train` that decides what can be made."""
    return method_rules.Recipe(
        method=params.train.method,
        rank=params.train.rank,
        alpha=params.train.alpha,
        rslora=params.train.rslora,
        dropout=params.train.dropout,
        rank_pattern=params.train.rank_pattern,
        alpha_pattern=params.train.alpha_pattern,
        base_quantization=params.train.base_quantization,
        optimizer=params.train.optimizer,
        lora_plus_ratio=params.train.lora_plus_ratio,
        ema_decay=params.train.ema_decay,
    )


def check_size(shape: ModelShape, params: Params) -> str:
    """The adapter in one sentence.

    Raises:
        UserError: the base cannot be trained, or the adapter would be over a limit.
    """
    if shape.model_type not in SUPPORTED_MODELS:
        raise UserError(
            f"base.path: model type {shape.model_type!r} cannot be planned or trained",
            f"Use a base of type {', '.join(SUPPORTED_MODELS)}.",
        )
    recipe, limits = recipe_of(params), params.verify
    if recipe.rank > limits.max_rank and recipe.method != "ia3":
        raise UserError(
            f"train.rank: {recipe.rank} is more than verify.max_rank {limits.max_rank}",
            f"Set train.rank to at most {limits.max_rank}.",
        )
    targets = params.train.target_modules
    layers = adapted(shape, targets)
    elements = shape.layers * method_rules.adapter_size(recipe, layers, recipe.rank)
    if elements > limits.max_elements:
        raise UserError(
            f"train.rank: {recipe.rank} makes an adapter of {elements:,} elements, "
            f"verify.max_elements allows {limits.max_elements:,}",
            _smaller(shape, recipe, layers, limits.max_elements, limits.max_rank),
        )
    chosen = targets if isinstance(targets, str) else ", ".join(targets)
    kind = "" if recipe.method == "lora" else f"{recipe.method}, "
    rank = "" if recipe.method == "ia3" else f"rank {recipe.rank} "
    return f"Adapter: {kind}{rank}on {chosen}, {elements:,} elements."


def _smaller(
    shape: ModelShape,
    recipe: method_rules.Recipe,
    layers: dict[str, tuple[int, int]],
    most: int,
    max_rank: int,
) -> str:
    """The remedy: the rank nearest to the one asked for that fits, if any does."""
    fitting = [
        rank
        for rank in range(1, max_rank + 1)
        if shape.layers * method_rules.adapter_size(recipe, layers, rank) <= most
    ]
    fewer = "adapt fewer train.target_modules."
    if not fitting:
        return fewer.capitalize()
    nearest = min(fitting, key=lambda rank: abs(rank - recipe.rank))
    bound = "at least" if nearest > recipe.rank else "at most"
    return f"Set train.rank to {bound} {nearest}, or {fewer}"


def check_method(
    shape: ModelShape, params: Params, machine: Machine, devices: Devices, dtype: str
) -> None:
    """Refuse a recipe that cannot be trained here, or that PEFT 0.9.0 could not load.

    Raises:
        UserError: with everything that does not go together.
    """
    around = method_rules.Surroundings(
        layers=adapted(shape, params.train.target_modules),
        parameters=shape.parameters,
        device=devices.device,
        compute_dtype=dtype,
        peft=machine.peft,
        bitsandbytes=machine.bitsandbytes,
        export_dtype=params.export.dtype,
        max_rank=params.verify.max_rank,
    )
    method_rules.check_recipe(recipe_of(params), around)

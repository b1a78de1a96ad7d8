"""Device, precision and storage: what is chosen and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.base.errors import UserError
from pipeline.hardware.choices import choose_devices, choose_dtype, storage_options
from pipeline.hardware.machine import Machine
from tests.support.machines import CPU_BF16, CPU_PLAIN, H200, H200X1, T4, T4X2, described
from tests.support.settings import make_params


def dtype_on(machine: Machine, **overrides: Any) -> tuple[str, list[str]]:
    params, why = make_params(**overrides), list[str]()
    return choose_dtype(params, choose_devices(params, machine, why), why), why


def test_every_visible_gpu_is_a_rank() -> None:
    devices = choose_devices(make_params(), T4X2, [])
    assert (devices.device, devices.ranks) == ("cuda", 2)
    assert 13.5 < devices.capacity_gib < 14.5


def test_a_cpu_is_one_rank_and_keeps_memory_for_the_system() -> None:
    devices = choose_devices(make_params(), CPU_PLAIN, [])
    assert (devices.device, devices.ranks) == ("cpu", 1)
    assert devices.capacity_gib < 15.5


def test_a_gpu_may_be_left_alone() -> None:
    assert choose_devices(make_params(**{"plan.device": "cpu"}), H200X1, []).device == "cpu"


def test_a_gpu_that_is_not_there_is_refused_with_the_reason() -> None:
    machine = replace(CPU_BF16, gpu_note="nvidia-smi shows 1 × Tesla T4, torch 2.13.0+cpu")
    with pytest.raises(UserError, match=r"2\.13\.0\+cpu.*plan\.device to auto"):
        choose_devices(make_params(**{"plan.device": "cuda"}), machine, [])


def test_unlike_gpus_are_planned_by_the_least_of_them() -> None:
    why: list[str] = []
    devices = choose_devices(make_params(), described([H200, replace(T4, index=1)]), why)
    assert devices.memory_gib == 14.5
    assert not devices.native_bf16
    assert "differ" in why[0]


def test_a_t4_computes_in_float16_with_fp32_adapters() -> None:
    # Soup#387, diffusers#14129: is_bf16_supported() is true on a T4, by emulation.
    dtype, why = dtype_on(T4X2)
    assert dtype == "float16"
    assert "fp32 adapters" in why[-1]
    assert "7.5 is below 8.0" in why[-1]


@pytest.mark.parametrize(
    ("machine", "dtype"), [(H200X1, "bfloat16"), (CPU_BF16, "bfloat16"), (CPU_PLAIN, "float32")]
)
def test_auto_takes_what_is_native(machine: Machine, dtype: str) -> None:
    assert dtype_on(machine)[0] == dtype


@pytest.mark.parametrize(
    ("machine", "asked"),
    [(H200X1, "float16"), (H200X1, "float32"), (T4X2, "float32"), (CPU_BF16, "float32")],
)
def test_an_explicit_precision_wins(machine: Machine, asked: str) -> None:
    dtype, why = dtype_on(machine, **{"train.precision": asked})
    assert dtype == asked
    assert "as train.precision says" in why[-1]


@pytest.mark.parametrize(
    ("machine", "asked", "remedy"),
    [
        (T4X2, "bfloat16", "float16"),
        (CPU_PLAIN, "bfloat16", "float32"),
        (CPU_BF16, "float16", "float32"),
    ],
)
def test_emulated_precision_is_refused(machine: Machine, asked: str, remedy: str) -> None:
    with pytest.raises(UserError, match=rf"train\.precision.*{remedy}"):
        dtype_on(machine, **{"train.precision": asked})


def options_on(machine: Machine, asked: str) -> list[str]:
    params = make_params(**{"train.base_quantization": asked})
    return storage_options(params, choose_devices(params, machine, []), machine)


def test_storage_prefers_no_quantisation() -> None:
    assert options_on(T4X2, "auto") == ["none", "nf4"]
    assert options_on(CPU_BF16, "auto") == ["none"]
    assert options_on(T4X2, "nf4") == ["nf4"]


def test_nf4_is_refused_where_it_cannot_work() -> None:
    with pytest.raises(UserError, match="GPU"):
        options_on(CPU_BF16, "nf4")
    bare = replace(T4X2, bitsandbytes=None)
    assert options_on(bare, "auto") == ["none"]
    with pytest.raises(UserError, match="Install bitsandbytes"):
        options_on(bare, "nf4")

"""GPU names as drivers print them, and cautious figures for the rest."""

from __future__ import annotations

import pytest

from pipeline.hardware.gpu_rates import achieved_share, gpu_rate
from pipeline.hardware.machine import Gpu


@pytest.mark.parametrize(
    ("name", "tflops"),
    [
        ("NVIDIA H200", 989),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA GH200 480GB", 989),
        ("NVIDIA GB200", 2250),
        ("NVIDIA A100-SXM4-40GB", 312),
        ("NVIDIA A10G", 70),
        ("NVIDIA A10", 125),
        ("NVIDIA L40S", 362),
        ("NVIDIA L4", 121),
        ("NVIDIA RTX A6000", 155),
        ("NVIDIA RTX 6000 Ada Generation", 364),
        ("NVIDIA GeForce RTX 4090", 165),
        ("Tesla V100-SXM2-16GB", 112),
        ("Tesla T4", 65),
    ],
)
def test_known_names(name: str, tflops: float) -> None:
    rate = gpu_rate(Gpu(0, name, 40.0, (8, 0)))
    assert rate.tflops == tflops
    assert "not listed" not in rate.source


def test_a_name_inside_another_is_no_match() -> None:
    assert "not listed" in gpu_rate(Gpu(0, "NVIDIA T400 4GB", 4.0, (7, 5))).source
    assert gpu_rate(Gpu(0, "NVIDIA GH200 480GB", 95.0, (9, 0))).gigabytes_per_second == 4000


def test_an_unknown_gpu_gets_less_than_any_known_one_of_its_kind() -> None:
    for gpu in (Gpu(0, "New X", 141.0, (9, 0)), Gpu(0, "New Y", 16.0, (7, 5))):
        assert "cautious" in gpu_rate(gpu).source
    assert gpu_rate(Gpu(0, "New X", 141.0, (9, 0))).tflops < 756
    assert gpu_rate(Gpu(0, "New Y", 16.0, (7, 5))).tflops < 65
    assert gpu_rate(Gpu(0, "Old Z", 4.0, (3, 5))).tflops > 0


def test_memory_tells_a_data_centre_card_from_a_desktop_one() -> None:
    large, small = Gpu(0, "New", 180.0, (10, 0)), Gpu(0, "New", 16.0, (12, 0))
    assert gpu_rate(large).tflops > 5 * gpu_rate(small).tflops


def test_before_capability_8_less_of_the_peak_is_reached() -> None:
    assert achieved_share(Gpu(0, "Tesla T4", 14.5, (7, 5))) < achieved_share(
        Gpu(0, "NVIDIA A100", 40.0, (8, 0))
    )

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.base.adapter_format import lora_key
from pipeline.release.load_check import (
    GIB,
    Placement,
    available_ram,
    choose_placement,
    inspect,
    main,
)
from tests.support.adapters import lora_tensors, write_adapter

CPU = Placement("cpu", "float32")
Q0 = "model.layers.0.self_attn.q_proj"
DOWN0 = "model.layers.0.mlp.down_proj"


@pytest.mark.parametrize(
    ("parameters", "ram", "gpu", "wanted"),
    [
        (135_000_000, 8, 0, Placement("cpu", "float32")),
        (135_000_000, 8, 80, Placement("cpu", "float32")),
        (1_000_000_000, 4, 0, None),
        (1_000_000_000, 5, 0, Placement("cpu", "bfloat16")),
        (14_800_000_000, 200, 140, Placement("cuda:0", "bfloat16")),
        (14_800_000_000, 64, 15, Placement("cpu", "bfloat16")),
        (14_800_000_000, 28, 15, Placement("cuda:0", "float16", "nf4")),
        (14_800_000_000, 28, 0, None),
    ],
)
def test_the_most_exact_way_that_fits(
    parameters: int, ram: int, gpu: int, wanted: Placement | None
) -> None:
    assert choose_placement(parameters, ram * GIB, gpu * GIB) == wanted


def test_this_machine_has_memory() -> None:
    assert available_ram() > GIB // 4


@pytest.mark.stack
def test_a_sound_adapter_is_loaded_whole_and_changes_logits(base: Path, tmp_path: Path) -> None:
    report = inspect(base, write_adapter(tmp_path / "adapter", base), CPU)
    assert (report["missing"], report["unexpected"], report["different"]) == ([], [], [])
    assert report["tensors"] == 8
    assert report["scales"] == [2.0]
    assert report["largest_logit_change"] > 0
    assert report["repeatable"]
    assert report["base_unchanged"]


@pytest.mark.stack
def test_scales_of_patterns_and_rank_stabilisation(base: Path, tmp_path: Path) -> None:
    folder = write_adapter(
        tmp_path / "adapter", base, lora_alpha=4, use_rslora=True, alpha_pattern={"q_proj": 16}
    )
    assert inspect(base, folder, CPU)["scales"] == [2.0, 8.0]


@pytest.mark.stack
def test_what_the_loader_passes_over_is_seen(base: Path, tmp_path: Path) -> None:
    tensors = lora_tensors(base, 4)
    tensors[lora_key(Q0.replace("layers", "blocks"), "A")] = tensors.pop(lora_key(Q0, "A"))
    report = inspect(base, write_adapter(tmp_path / "adapter", base, tensors=tensors), CPU)
    assert report["missing"] == [lora_key(Q0, "A")]
    assert report["unexpected"] == [lora_key(Q0.replace("layers", "blocks"), "A")]


@pytest.mark.stack
def test_an_adapter_without_effect_or_with_nan(base: Path, tmp_path: Path) -> None:
    tensors = {k: v * (".lora_A." in k) for k, v in lora_tensors(base, 4).items()}
    silent = inspect(base, write_adapter(tmp_path / "zero", base, tensors=tensors), CPU)
    assert silent["largest_logit_change"] == 0.0
    # Not in q_proj: some attention kernels turn a row of NaN scores into zeros.
    tensors[lora_key(DOWN0, "B")] = np.full_like(tensors[lora_key(DOWN0, "B")], np.nan)
    loud = inspect(base, write_adapter(tmp_path / "nan", base, tensors=tensors), CPU)
    assert loud["finite_logits"] is False
    assert loud["largest_logit_change"] is None
    json.dumps(loud, allow_nan=False)


def test_a_base_that_cannot_be_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "nowhere"), str(tmp_path)]) == 2
    assert "is not a folder" in capsys.readouterr().err

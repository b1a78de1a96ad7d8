"""Stage plan: three facts in, the plans out."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.artifacts import write_json
from pipeline.base.errors import UserError
from pipeline.plan import BASE, CLEAN, MACHINE, PLANS, main
from tests.support.machines import CPU_BF16, QWEN3_14B, SMOLLM2, T4X2
from tests.support.settings import make_params

FILES = ("corpus.json", "evaluation.json", "evaluation_why.json", "plan.json")


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_json(BASE, {"kind": "embedded", "shape": asdict(SMOLLM2)})
    write_json(MACHINE, CPU_BF16.to_json())
    write_json(CLEAN, {"read": 20, "kept": 18, "dropped": {"overlap": 2}, "sets": []})
    return tmp_path


def written() -> dict[str, bytes]:
    return {name: (PLANS / name).read_bytes() for name in FILES}


def load(name: str) -> Any:
    return json.loads((PLANS / name).read_text())


def test_the_files_hold_what_later_stages_read(inputs: Path) -> None:
    main(make_params())
    assert load("corpus.json") == {
        "sequence_tokens": 512,
        "token_budget": None,
        "bands": [512],
        "stages": [],
    }
    assert set(load("evaluation.json")) == {
        "problems", "samples_per_problem", "max_new_tokens", "batch_sequences", "device", "dtype",
        "quantization", "threads",
    }  # fmt: skip
    plan = load("plan.json")
    assert plan["training"] == {
        "device": "cpu",
        "ranks": 1,
        "parallel": "replicas",
        "micro_batch_sequences": 2,
        "accumulation": 1,
        "sequence_tokens": 512,
        "sequences_per_step": 2,
        "stages": [
            {
                "sequence_tokens": 512,
                "share": 1.0,
                "tiers": None,
                "steps": 160,
                "tokens": 160 * 1024,
                "micro_batch_sequences": 2,
                "accumulation": 1,
                "sequences_per_step": 2,
            }
        ],
        "gradient_checkpointing": False,
        "recomputed_layers": 0,
        "compile": False,
        "offload": False,
        "peak_tflops": None,
        "loss_chunk_positions": 2048,
        "compute_dtype": "bfloat16",
        "base_dtype": "bfloat16",
        "quantization": "none",
        "threads": 2,
        "steps_by_clock": None,
        "seconds_by_clock": plan["time"]["training_seconds"],
    }
    assert plan["time"]["tokens"] == 160 * 1024
    assert all(part["formula"] for part in plan["memory"])


def test_the_same_inputs_give_the_same_bytes(inputs: Path) -> None:
    main(make_params())
    first = written()
    main(make_params(**{"train.learning_rate": 0.123, "train.seed": 4}))
    assert written() == first


def test_the_reasons_are_printed(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(make_params())
    out = capsys.readouterr().out
    for topic in ("Device:", "Precision:", "Memory:", "Time:", "Panel:"):
        assert f"plan: {topic}" in out


def test_another_machine_gets_another_plan(inputs: Path) -> None:
    write_json(BASE, {"kind": "external", "shape": asdict(QWEN3_14B)})
    write_json(MACHINE, T4X2.to_json())
    main(make_params(**{"budget.hours": 20.0, "plan.sequence_tokens": None}))
    training = load("plan.json")["training"]
    assert (training["device"], training["compute_dtype"]) == ("cuda", "float16")


def test_a_refusal_leaves_no_plan(inputs: Path) -> None:
    with pytest.raises(UserError, match="8192 positions"):
        main(make_params(**{"plan.sequence_tokens": 9000}))
    assert not PLANS.exists()


def test_nothing_left_to_learn_stops_here(inputs: Path) -> None:
    write_json(CLEAN, {"read": 20, "kept": 0, "dropped": {"overlap": 20}, "sets": []})
    with pytest.raises(UserError, match="no trace is left of 20"):
        main(make_params())

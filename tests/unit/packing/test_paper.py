"""Plans on paper: the table of docs/curriculum.md, passes by hand, refusals."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.errors import UserError
from pipeline.packing.paper import Sizes, as_json, as_markdown, main, plan_on_paper, read_sizes

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/curriculum.md").read_text(encoding="utf-8")
TIERS = {"easy": 1.234e9, "medium": 3.872e9, "hard": 2.391e9}
BANDS = {2048: 5.333e9, 4096: 0.578e9, 8192: 1.587e9}
LATE = {"easy": 0.1, "medium": 0.45, "hard": 0.45}
STAGES: list[dict[str, Any]] = [
    {
        "sequence_tokens": 2048,
        "tokens": 7e10 / 30,
        "tiers": {"easy": 0.5, "medium": 0.3, "hard": 0.2},
    },
    {
        "sequence_tokens": 4096,
        "tokens": 7e10 / 30,
        "tiers": {"easy": 0.2, "medium": 0.4, "hard": 0.4},
    },
    {"sequence_tokens": 8192, "tokens": 7e10 / 30, "tiers": LATE},
    {"sequence_tokens": 8192, "tokens": 3e9, "tiers": LATE},
]
CORPUS: dict[str, Any] = {
    "tokens_per_step": 262_144,
    "gpus": 8,
    "micro_batch_tokens": 8192,
    "bands": BANDS,
    "sources": {"corpus": TIERS},
    "stages": STAGES,
}
SMALL: dict[str, Any] = {
    "tokens_per_step": 64,
    "gpus": 1,
    "micro_batch_tokens": 32,
    "bands": {8: 800.0, 32: 3200.0},
    "sources": {"a": {"easy": 4000.0}},
    "stages": [{"sequence_tokens": 32, "tokens": 8000.0}],
}


def figures(tree: dict[str, Any]) -> dict[str, Any]:
    return as_json(plan_on_paper(Sizes.model_validate(tree)))


def test_the_corpus_of_seven_and_a_half_billion_tokens() -> None:
    found = figures(CORPUS)
    assert found["steps"] == 38_147
    assert [one["steps"] for one in found["stages"]] == [8901, 8901, 8901, 11_444]
    assert [round(one["tokens"] / 1e9, 2) for one in found["stages"]] == [2.33, 2.33, 2.33, 3.0]
    assert [
        (one["micro_batch_sequences"], one["accumulation"], one["sequences_per_step"])
        for one in found["stages"]
    ] == [(4, 4, 128), (2, 4, 64), (1, 4, 32), (1, 4, 32)]
    passes = {tier: round(one["passes"], 2) for tier, one in found["tiers"].items()}
    assert passes == {"easy": 1.76, "medium": 1.04, "hard": 1.59}
    handed = sum(one["handed_out"] for one in found["tiers"].values())
    assert handed == pytest.approx(found["tokens"], rel=1e-6)
    assert found["tokens"] == 38_147 * 262_144


def test_twenty_five_sources_have_the_passes_of_their_tiers() -> None:
    sources = {
        f"source-{n:02d}": {tier: TIERS[tier] * (n + 1) / 325 for tier in list(TIERS)[n % 3 :]}
        for n in range(25)
    }
    found = figures({**CORPUS, "sources": sources})
    assert len(found["sources"]) == 25
    hard = found["tiers"]["hard"]["passes"]
    assert found["sources"]["source-02"]["passes"] == pytest.approx(hard, abs=1e-3)
    for kind in ("tiers", "bands"):
        for key in ("held", "handed_out"):
            whole = sum(one[key] for one in found[kind].values())
            assert sum(one[key] for one in found["sources"].values()) == pytest.approx(whole)


def test_known_lengths_of_a_source_are_used() -> None:
    """Stage 1 takes the short half, stage 2 both: 3.0 and 1.0 passes over 800 tokens each."""
    stages = [{"sequence_tokens": 8, "tokens": 1600.0}, {"sequence_tokens": 32, "tokens": 1600.0}]
    sources = {"short": {"easy": {8: 800.0}}, "long": {"easy": {32: 800.0}}}
    found = figures({**SMALL, "sources": sources, "stages": stages})
    assert found["sources"]["short"]["passes"] == pytest.approx(3.0, abs=0.05)
    assert found["sources"]["long"]["passes"] == pytest.approx(1.0, abs=0.05)
    assert [found["bands"][band]["passes"] for band in ("8", "32")] == [
        found["sources"][name]["passes"] for name in ("short", "long")
    ]


def test_a_step_is_rounded_up_to_the_gpus() -> None:
    found = figures({**SMALL, "gpus": 3, "tokens_per_step": 100})
    assert found["tokens_per_step"] == 96
    assert figures({**SMALL, "gpus": 3, "tokens_per_step": 128})["tokens_per_step"] == 192
    assert figures(SMALL)["stages"][0]["micro_batch_sequences"] == 1
    assert figures({**SMALL, "micro_batch_tokens": 64})["stages"][0]["micro_batch_sequences"] == 2


def test_the_page_shows_what_its_own_sizes_give(tmp_path: Path) -> None:
    example = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[1]
    path = tmp_path / "sizes.yaml"
    path.write_text(example, encoding="utf-8")
    assert as_markdown(plan_on_paper(read_sizes(path))) in PAGE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bands": {8: 1.0, 12: 2.0, 32: 1.0}}, "12 tokens are no multiple of 8"),
        ({"stages": [{"sequence_tokens": 16, "tokens": 9.0}], "bands": {32: 9.0}}, "no document"),
        (
            {"stages": [{"sequence_tokens": 32, "tokens": 9.0, "tiers": {"odd": 1.0}}]},
            "of tier odd",
        ),
    ],
)
def test_what_cannot_be_planned_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        figures({**SMALL, **change})


def test_the_command_prints_tables_and_json(tmp_path: Path) -> None:
    path = tmp_path / "sizes.yaml"
    path.write_text(json.dumps({**SMALL, "bands": None}).replace("null", "{8: 9.0}"))
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.packing.paper", str(path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    tables, _, rest = done.stdout.partition("```json\n")
    assert "| easy |" in tables
    assert json.loads(rest.removesuffix("```\n"))["steps"] == 125


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpus: [", "cannot be read"),
        ("{gpus: 0, extra: 1}", r"gpus: .*; .*extra: extra inputs"),
        ("[]", "the file"),
    ],
)
def test_a_faulty_file_is_named_with_its_faults(
    tmp_path: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sizes.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        read_sizes(path)
    assert main([str(path)]) == 2
    assert f"paper: {path}" in capsys.readouterr().err


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.yaml: cannot be read"):
        read_sizes(tmp_path / "none.yaml")

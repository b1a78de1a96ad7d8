"""Every planned fault of the embedded data is found on its way, and nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import decontaminate, prepare, semantic
from pipeline import filter as filter_stage
from pipeline.embedded.dirt import SHARES
from pipeline.embedded.traces import PANEL_PROBLEMS, generate
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base

ROWS = 400

REASONS = {
    "wrong_answer": "wrong-answer",
    "no_box": "no-box",
    "two_boxes": "several-boxes",
    "truncated": "no-box",
    "german": "not-english",
    "french": "not-english",
    "chinese": "not-english",
    "broken_line": "not-json",
    "not_a_number": "not-finite",
    "lone_surrogate": "lone-surrogate",
    "duplicate": "duplicate-row",
}
"""Kind of dirt → the reason under which the filter drops it; panel copies pass it."""


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    folder = tmp_path_factory.mktemp("project")
    base = write_tiny_base(folder / "base")
    params = make_params(**{"base.path": str(base), "data.embedded_rows": ROWS})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for stage in (prepare, filter_stage, semantic, decontaminate):
            stage.main(params)
    paths = (folder / "work/filter/funnel.json", folder / "work/decontaminate/report.json")
    funnel, report = (json.loads(Path(path).read_text()) for path in paths)
    return funnel, report


def test_the_filter_drops_each_planned_fault_under_its_reason(reports: tuple[Any, Any]) -> None:
    expected: dict[str, int] = {}
    for kind, rows in generate(ROWS, seed=0).counts.items():
        if kind in REASONS:
            expected[REASONS[kind]] = expected.get(REASONS[kind], 0) + rows
    assert reports[0]["dropped"] == expected
    assert REASONS.keys() == {*SHARES, "duplicate"}


def test_decontamination_finds_every_copy_and_keeps_every_clean_row(
    reports: tuple[Any, Any],
) -> None:
    counts = generate(ROWS, seed=0).counts
    assert sum(reports[1]["dropped"].values()) == counts["panel_copy"]
    assert reports[1]["kept"] == counts["clean"]
    assert reports[1]["sets"][0]["problems"] == PANEL_PROBLEMS

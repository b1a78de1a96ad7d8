"""The panel and the protected files, each problem once, under names that tell them apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.base.artifacts import sha256_file
from pipeline.base.errors import UserError
from pipeline.base.records import write_rows
from pipeline.corpus.overlap.protected import load_sets
from tests.support.overlap import protected


@pytest.fixture(autouse=True)
def _project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_rows(Path("work/filter/panel.jsonl"), [protected("One?", "x.jsonl")])


def entry(name: str, rows: list[object]) -> dict[str, str]:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {"path": name, "sha256": sha256_file(path)}


def test_sets_and_their_figures() -> None:
    rows: list[object] = [
        {"question": "Two?"},
        {"problem": " two? "},
        {"a": 1},
        {"prompt": "Three?"},
    ]
    panel, one, other = load_sets(
        [entry("a/t.jsonl", rows), entry("b/t.jsonl", [{"problem": "4?"}])]
    )
    assert [panel.name, one.name, other.name] == ["panel", "a/t.jsonl", "b/t.jsonl"]
    assert [problem.problem for problem in one.problems] == ["Two?", "Three?"]
    assert {problem.source for problem in one.problems} == {"a/t.jsonl"}
    assert (one.repeated, one.unreadable) == (1, 1)
    assert panel.problems[0].source == "panel"
    assert one.summary()["state"] == "own"


def test_a_file_called_panel_is_not_mistaken_for_the_panel() -> None:
    names = [one.name for one in load_sets([entry("panel", [{"problem": "5?"}])])]
    assert names == ["panel", "panel (protected file)"]


def test_a_changed_file_is_refused() -> None:
    listed = entry("t.jsonl", [{"problem": "6?"}])
    Path("t.jsonl").write_text('{"problem": "7?"}\n')
    with pytest.raises(UserError, match="changed since"):
        load_sets([listed])

"""Stage filter on twenty rows, clean and dirty."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline import filter as stage
from pipeline.base.artifacts import read_json, read_jsonl, sha256_file, write_json
from pipeline.base.errors import UserError
from pipeline.base.records import Dropped, Problem, Trace, problem_id, read_rows
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_tokenizer

ROOT = Path(__file__).resolve().parents[2]
OUT = Path("work/filter")


def clean(number: int) -> dict[str, Any]:
    text = f"<think>Add them.</think>{number} and {number} make \\boxed{{{2 * number}}}."
    return {"problem": f"What is {number} + {number}?", "solution": text, "answer": 2 * number}


def listed(path: Path) -> dict[str, Any]:
    return {"path": str(path), "bytes": path.stat().st_size, "sha256": sha256_file(path)}


def prepare(folder: Path, lines: list[bytes], panel: bool = True) -> None:
    data = folder / "traces.jsonl"
    data.write_bytes(b"\n".join(lines))
    problems = folder / "panel.jsonl"
    problems.write_text('{"problem": "What is 70 + 7?", "answer": "77"}\n')
    write_json(folder / "work/prepare/base.json", {"path": "base"})
    known = folder / "earlier.jsonl"
    known.write_text('{"problem": "What is 99 + 99?"}\n')
    entry = listed(problems) if panel else None
    sources = [{"source": 0, **listed(data)}]
    write_json(
        folder / "work/prepare/data.json",
        {"sources": sources, "panel": entry, "protected": [], "earlier": [listed(known)]},
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_tiny_tokenizer(tmp_path / "base")
    return tmp_path


CLEAN = [json.dumps(clean(number)).encode() for number in range(1, 21)]
DIRT = [
    json.dumps(clean(1)).encode(),
    json.dumps(clean(2) | {"answer": 5}).encode(),
    json.dumps({"messages": [{"role": "user", "content": "Hi"}]}).encode(),
    rb'{"problem": "Half?", "solution": "\ud83d \\boxed{1}", "answer": 1}',
    b'{"problem": "Cut',
]


def test_every_row_is_kept_or_dropped_with_a_reason(project: Path) -> None:
    prepare(project, CLEAN + DIRT)
    stage.main(make_params(**{"data.sources": ["t.jsonl"]}))
    funnel = read_json(OUT / "funnel.json")
    assert funnel["read"] == 25
    assert funnel["kept"] == 19, "the contradicted problem goes with its wrong copy"
    assert funnel["dropped"] == {
        "duplicate-row": 1,
        "gold-conflict": 1,
        "lone-surrogate": 1,
        "no-solution": 1,
        "not-json": 1,
        "wrong-answer": 1,
    }
    assert funnel["read"] == funnel["kept"] + sum(funnel["dropped"].values())
    kept = list(read_rows(Trace, OUT / "kept.jsonl"))
    assert all(row.tokens > 20 and row.thinking == "Add them." for row in kept)
    assert len(list(read_rows(Dropped, OUT / "dropped.jsonl"))) == sum(funnel["dropped"].values())
    panel = list(read_rows(Problem, OUT / "panel.jsonl"))
    assert [(row.problem, row.gold) for row in panel] == [("What is 70 + 7?", "77")]
    assert sorted(path.name for path in OUT.iterdir()) == [
        *("dropped.jsonl", "funnel.json", "kept.jsonl", "panel.jsonl", "reserve.jsonl"),
    ]
    source = funnel["sources"][0]
    assert (source["from"], source["kind"], source["tier"]) == ("t.jsonl", "auto", None)
    assert list(Path("runs/corpus").iterdir()) == [], "nothing is left of the shards"


def test_line_ends_and_a_byte_order_mark_give_the_same_output(project: Path) -> None:
    prepare(project, CLEAN)
    stage.main(make_params())
    first = sha256_file(OUT / "kept.jsonl")
    windows = [line.replace(b"</think>", rb"\r\n</think>") + b"\r" for line in CLEAN]
    prepare(project, [b"\xef\xbb\xbf" + windows[0], *windows[1:]])
    stage.main(make_params())
    assert sha256_file(OUT / "kept.jsonl") == first


def test_a_hold_out_is_the_panel_and_is_not_trained(project: Path) -> None:
    prepare(project, [*CLEAN, json.dumps(clean(99)).encode()], panel=False)
    shares = {"holdout.problems": 5, "holdout.reinforcement_share": 0.2}
    stage.main(make_params(**{"data.panel": "holdout", **shares}))
    held = {row.id for row in read_rows(Problem, OUT / "panel.jsonl")}
    reserved = {row.id for row in read_rows(Problem, OUT / "reserve.jsonl")}
    kept = {row.id for row in read_rows(Trace, OUT / "kept.jsonl")}
    assert len(held) == 5
    assert reserved
    everything = {problem_id(clean(number)["problem"]) for number in range(1, 21)}
    assert held | kept | reserved == everything
    assert len(held) + len(kept) + len(reserved) == 20
    funnel = read_json(OUT / "funnel.json")
    assert (funnel["read"], funnel["held_out"], funnel["reserved"]) == (21, 5, len(reserved))
    assert funnel["dropped"] == {"held-out-earlier": 1}


def test_a_hold_out_of_nothing_and_a_missing_panel_are_refused(project: Path) -> None:
    prepare(project, CLEAN, panel=False)
    with pytest.raises(UserError, match=r"holdout\.problems is 0"):
        stage.main(make_params(**{"data.panel": "holdout"}))
    with pytest.raises(UserError, match="names no panel"):
        stage.main(make_params())


def outputs() -> dict[str, str]:
    return {path.name: sha256_file(path) for path in OUT.iterdir()}


@pytest.mark.parametrize(("workers", "shard_mib"), [(1, 0.0005), (4, 0.002), (4, 0.0002)])
def test_workers_and_shards_change_no_byte(project: Path, workers: int, shard_mib: float) -> None:
    prepare(project, CLEAN + DIRT)
    stage.main(make_params(**{"holdout.reinforcement_share": 0.2}))
    whole = outputs()
    cut = {"executor.workers": workers, "executor.shard_mib": shard_mib}
    stage.main(make_params(**{"holdout.reinforcement_share": 0.2, **cut}))
    assert outputs() == whole


def test_a_restart_goes_on_where_it_stopped(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(project, CLEAN + DIRT)
    params = make_params(**{"executor.shard_mib": 0.0005, "executor.workers": 1})
    stage.main(params)
    whole = outputs()
    with monkeypatch.context() as patch:
        patch.setattr(stage, "_settle", kill)
        with pytest.raises(KeyboardInterrupt):
            stage.main(params)
    [scratch] = Path("runs/corpus").iterdir()
    judged = sorted((scratch / "judge").iterdir())
    assert len(judged) > 3
    shutil.rmtree(judged[1])
    before = {path: path.stat().st_mtime_ns for path in judged if path != judged[1]}
    monkeypatch.setattr(stage, "forget_scratch", lambda _: None)
    stage.main(params)
    assert outputs() == whole
    assert {path: path.stat().st_mtime_ns for path in before} == before, "judged once"


def kill(*_: Any) -> None:
    raise KeyboardInterrupt


def test_changed_data_are_refused(project: Path) -> None:
    prepare(project, CLEAN)
    (project / "traces.jsonl").write_bytes(b"\n".join(CLEAN[:5]))
    with pytest.raises(UserError, match=r"traces\.jsonl: changed since"):
        stage.main(make_params())


def test_a_broken_file_stops_the_run_at_its_first_bad_line(project: Path) -> None:
    prepare(project, [CLEAN[0], b"not json", CLEAN[1], b"nor this"])
    with pytest.raises(UserError, match=r"traces\.jsonl:2: not-json .*2 of 4 rows"):
        stage.main(make_params())
    assert not (OUT / "funnel.json").exists()


def test_nothing_left_is_an_error_that_lists_its_rows(project: Path) -> None:
    prepare(project, [b'{"problem": "What is it?", "solution": "No idea at all, sorry."}'] * 3)
    with pytest.raises(UserError, match=r"none of 3 rows is left \(no-box 3; e\.g\. traces"):
        stage.main(make_params())
    assert [row["reason"] for row in read_jsonl(OUT / "dropped.jsonl")] == ["no-box"] * 3


@pytest.mark.parametrize("name", ["filter", "decontaminate", "select"])
def test_the_stage_leaves_torch_alone(name: str) -> None:
    heavy = "{'torch', 'transformers', 'peft', 'datasets', 'pandas'}"
    code = f"import sys, pipeline.{name}; sys.exit(bool({heavy} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_a_panel_with_one_answer_changed_after_it_was_listed_stops_the_run(project: Path) -> None:
    prepare(project, CLEAN)
    panel = project / "panel.jsonl"
    panel.write_text(panel.read_text().replace("77", "78"))
    with pytest.raises(UserError, match=r"panel\.jsonl: changed since the data were listed"):
        stage.main(make_params(**{"data.sources": ["t.jsonl"], "data.panel": str(panel)}))

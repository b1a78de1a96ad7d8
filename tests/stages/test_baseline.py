"""baseline on a tiny base and a panel of eight."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline import baseline
from pipeline.base.artifacts import read_json, write_json
from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.base.records import Problem, Sample, read_rows
from pipeline.measurement import panel
from tests.support.evaluation import SETTINGS, write_evaluation_inputs
from tests.support.settings import make_params


def run(root: Path, monkeypatch: pytest.MonkeyPatch, **overrides: object) -> None:
    monkeypatch.chdir(root)
    baseline.main(make_params(**overrides))


def read_samples(root: Path) -> list[Sample]:
    return list(read_rows(Sample, root / "work/baseline/samples.jsonl"))


def test_writes_samples_and_scores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_evaluation_inputs(tmp_path)
    run(tmp_path, monkeypatch)
    samples = read_samples(tmp_path)
    scores = read_json(tmp_path / "work/baseline/scores.json")
    problems = {row.id: row for row in read_rows(Problem, tmp_path / "work/filter/panel.jsonl")}
    assert len(samples) == 10
    assert len({sample.id for sample in samples}) == 5
    for sample in samples:
        assert sample.gold == problems[sample.id].gold
        assert problems[sample.id].problem in sample.prompt
        assert 1 <= sample.tokens <= 12
        assert sample.truncated is (sample.reason == "truncated")
    assert scores["label"] == "base"
    assert (scores["problems"], scores["requested_problems"], scores["k"]) == (5, 5, 2)
    assert scores["ended_by"] == "complete"
    assert scores["pass_at_1"] == 0.0
    assert scores["tokens_per_second"] > 0
    assert scores["sampling"]["max_new_tokens"] == 12
    assert sum(scores["reasons"].values()) == 10
    assert "base: pass@1 0.000" in capsys.readouterr().out


BARE: dict[str, object] = {
    "name": "bare", "weight": 1, "system": None, "instruction": "", "thinking": "template",
}  # fmt: skip
BOTH = {"prompt.variants": [{**BARE, "name": "closed", "thinking": "empty-prefill"}, BARE]}
UNTIMED = ("seconds", "tokens_per_second")


def test_variants_are_asked_apart_and_leave_main_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_evaluation_inputs(tmp_path)
    gold = next(read_rows(Problem, tmp_path / "work/filter/panel.jsonl")).gold
    run(tmp_path, monkeypatch)
    alone = read_samples(tmp_path)
    scores_alone = read_json(tmp_path / "work/baseline/scores.json")
    capsys.readouterr()

    decode = Chat.decode
    monkeypatch.setattr(
        Chat,
        "decode",
        lambda chat, ids: (
            rf"\boxed{{{gold}}}" if chat.prompt.thinking == "empty-prefill" else decode(chat, ids)
        ),
    )
    run(tmp_path, monkeypatch, **BOTH)
    samples = read_samples(tmp_path)
    scores = read_json(tmp_path / "work/baseline/scores.json")
    assert samples[:10] == alone
    assert [one.variant for one in samples] == ["main"] * 10 + ["closed"] * 10 + ["bare"] * 10
    assert all(one.prompt.endswith("</think>\n\n") for one in samples[10:20])
    assert not any("Work step by step" in one.prompt for one in samples[20:])

    variants = scores.pop("variants")
    for name in UNTIMED:
        del scores[name], scores_alone[name]
    assert scores == scores_alone
    assert list(variants) == ["closed", "bare"]
    right = sum(one.correct for one in samples[10:20])
    assert variants["closed"]["pass_at_1"] == right / 10 > 0 == variants["bare"]["pass_at_1"]
    for one in variants.values():
        assert (one["problems"], one["requested_problems"], one["ended_by"]) == (5, 5, "complete")
        assert len(one["pass_at_1_interval"]) == 2
    said = capsys.readouterr().out
    assert "base, prompt closed: pass@1 " in said
    assert "base, prompt bare: pass@1 0.000" in said


def test_time_is_spent_on_main_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_evaluation_inputs(tmp_path, batch_sequences=10)
    calls = iter(range(10**6))
    monkeypatch.setattr(panel, "time_share", lambda params, root: lambda: 16.0 - next(calls))
    run(tmp_path, monkeypatch, **BOTH)
    scores = read_json(tmp_path / "work/baseline/scores.json")
    assert (scores["problems"], scores["ended_by"]) == (5, "complete")
    bare = scores["variants"]["bare"]
    assert (bare["problems"], bare["pass_at_1"], bare["ended_by"]) == (0, None, "time")
    assert bare["requested_problems"] == 5


def test_twice_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_evaluation_inputs(tmp_path)
    run(tmp_path, monkeypatch)
    first = read_samples(tmp_path)
    # Another batch size must not change what is sampled.
    write_json(tmp_path / "work/plan/evaluation.json", {**SETTINGS, "batch_sequences": 10})
    run(tmp_path, monkeypatch)
    assert read_samples(tmp_path) == first


def test_correct_replies_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_evaluation_inputs(tmp_path)
    gold = next(read_rows(Problem, tmp_path / "work/filter/panel.jsonl")).gold
    monkeypatch.setattr(Chat, "decode", lambda chat, ids: rf"So \boxed{{{gold}}}.")
    run(tmp_path, monkeypatch)
    scores = read_json(tmp_path / "work/baseline/scores.json")
    asked = {sample.id for sample in read_samples(tmp_path) if sample.gold == gold}
    assert scores["pass_at_1"] == len(asked) / 5
    assert scores["reasons"].get("match-exact", 0) == 2 * len(asked)


def test_no_time_still_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_evaluation_inputs(tmp_path)
    run(tmp_path, monkeypatch, **{"budget.evaluation_share": 0.0})
    scores = read_json(tmp_path / "work/baseline/scores.json")
    assert read_samples(tmp_path) == []
    assert (scores["problems"], scores["pass_at_1"], scores["ended_by"]) == (0, None, "time")
    assert scores["requested_problems"] == 5
    assert "no problem of 5" in capsys.readouterr().out


def test_the_reserve_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_evaluation_inputs(tmp_path)
    run(tmp_path, monkeypatch, **{"budget.hours": 0.5, "budget.reserve_minutes": 30.0})
    assert read_json(tmp_path / "work/baseline/scores.json")["problems"] == 0


def test_stopped_midway_counts_whole_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_evaluation_inputs(tmp_path, batch_sequences=3)
    calls = iter(range(10**6))
    monkeypatch.setattr(panel, "time_share", lambda params, root: lambda: 20.0 - next(calls))
    run(tmp_path, monkeypatch)
    scores = read_json(tmp_path / "work/baseline/scores.json")
    assert scores["ended_by"] == "time"
    assert 0 < scores["problems"] < 5
    assert len(read_samples(tmp_path)) >= 2 * scores["problems"]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"problems": "many"}, "`problems`"), ({"surprise": 1}, "`surprise`")],
)
def test_a_broken_plan_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, object], message: str
) -> None:
    write_evaluation_inputs(tmp_path)
    write_json(tmp_path / "work/plan/evaluation.json", {**SETTINGS, **change})
    with pytest.raises(UserError, match=message):
        run(tmp_path, monkeypatch)

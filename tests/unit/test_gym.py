"""The gym as a command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline import gym
from pipeline.gym import main
from pipeline.hardware.gym.environment import load_environment
from pipeline.hardware.gym.solver import reply


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    """Replies to all but two of five fresh tasks: golds, and one of another form."""
    tasks = load_environment(seed=5, count=5).tasks
    rows = [{"id": task.id, "reply": reply(task.gold)} for task in tasks[:3]]
    rows.append({"id": tasks[3].id, "reply": "no idea"})
    path = tmp_path / "replies.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return path


def test_tasks_are_lines_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tasks", "--seed", "5", "--count", "3"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    tasks = load_environment(seed=5, count=3).tasks
    assert [row["prompt"] for row in rows] == [task.prompt for task in tasks]
    assert [row["gold"]["fix"] for row in rows] == [task.gold.fix for task in tasks]
    assert rows[0]["metadata"]["tier"] in ("diagnosis", "two_faults", "computed")


def test_replies_are_graded(answered: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade", str(answered), "--seed", "5", "--count", "5"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["tasks"], told["replies"], told["score"]) == (5, 4, 0.6)
    assert told["format"] == told["diagnosis"] == 0.6


def test_replies_to_other_tasks_are_refused(
    answered: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["grade", str(answered), "--split", "hard"]) == 2
    assert "no task 'fresh-5-00000'. Name the split" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"id": 3, "reply": ""}', '{"id": "a"}', '{"id": "a", "reply": 1}']
)
def test_a_line_of_another_form_is_named(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text('{"id": "b", "reply": ""}\n' + line, encoding="utf-8")
    assert main(["grade", str(path)]) == 2
    assert f"{path}, line 2: no reply to a task" in capsys.readouterr().err


def test_a_second_reply_to_a_task_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "replies.jsonl"
    path.write_text('{"id": "b", "reply": ""}\n' * 2, encoding="utf-8")
    assert main(["grade", str(path)]) == 2
    assert "line 2" in capsys.readouterr().err


def test_bad_input_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grade"]) == 2
    assert "no replies to grade. Name a file" in capsys.readouterr().err
    assert main(["grade", str(tmp_path / "none.jsonl")]) == 2
    assert "none.jsonl: cannot be read" in capsys.readouterr().err
    assert main(["tasks", "--split", "easy"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_audit_fails_when_a_limit_breaks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gym, "SPLITS", {"hard": 200})
    assert main(["audit"]) == 0
    assert capsys.readouterr().out.startswith("hard   keyword 0.")
    monkeypatch.setattr(gym, "mean_scores", lambda environment: {})
    monkeypatch.setattr(gym, "broken", lambda scores: ["echo"])
    assert main(["audit"]) == 1
    assert "limits broken: echo on hard" in capsys.readouterr().err

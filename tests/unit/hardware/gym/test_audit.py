"""What players that understand nothing win."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from pipeline.hardware.gym.audit import LEAST, MOST, PLAYERS, broken, mean_scores, play, usual
from pipeline.hardware.gym.disk_family import CheckpointDisk
from pipeline.hardware.gym.environment import Environment, load_environment
from pipeline.hardware.gym.prompt import Text
from pipeline.hardware.gym.solver import answer, solve

Gyms = dict[str, Environment]


@pytest.mark.parametrize("name", ["train", "hard", "test"])
def test_all_limits_hold(gyms: Gyms, name: str) -> None:
    scores = mean_scores(gyms[name])
    assert broken(scores) == [], scores
    assert set(scores) == set(MOST) | set(LEAST)


def test_limits_hold_on_fresh_tasks_and_other_guesses() -> None:
    gym = load_environment(seed=11, count=600)
    assert fmean(grade.score for grade in play(gym, "keyword")) <= MOST["keyword"]
    for seed in range(3):
        assert fmean(grade.score for grade in play(gym, "random", seed)) <= MOST["random"]


def test_keyword_heuristic_is_a_real_one(gyms: Gyms) -> None:
    for name in ("train", "test"):
        pairs = zip(gyms[name].tasks, play(gyms[name], "keyword"))
        right = [g.diagnosis for task, g in pairs if task.metadata["tier"] == "diagnosis"]
        assert fmean(right) >= 0.8


def test_every_player_but_echo_keeps_the_form(gyms: Gyms) -> None:
    for name in PLAYERS:
        forms = {grade.format for grade in play(gyms["test"], name)}
        assert forms == ({0.0} if name == "echo" else {1.0})


def test_broken_limits_are_named() -> None:
    scores = dict.fromkeys(MOST, 0.0) | {"solver": 0.94, "gold": 1.0}
    assert broken(scores) == ["solver"]
    assert broken(scores | {"keyword": 0.16, "solver": 1.0}) == ["keyword"]


def test_solver_needs_every_number(gyms: Gyms) -> None:
    task = gyms["hard"].tasks[0]
    head, log = task.prompt.split("## Log")
    assert answer(task.prompt)
    assert answer(head + "## Log\n\n## Answer" + log.split("## Answer")[1]) == ""
    nothing = head.split("## Config")[0] + "## Config\n{}\n\n## Profiler\n\n## Log" + log
    assert solve(nothing) is None


def test_solver_is_silent_without_an_event() -> None:
    task = next(t for t in load_environment(seed=4, count=30).tasks if not t.quantities)
    assert answer(task.prompt)
    head, log = task.prompt.split("## Log")
    told = [line for line in log.splitlines() if "xamples" in line]
    assert answer("\n".join([head + "## Log", *told, "", "## Answer", ""])) == ""


def test_usual_remedies() -> None:
    text = Text.of(load_environment(seed=4, count=1).tasks[0].prompt)
    text.config.update(a=4, micro_batch=1, lr=0.5, packing=False, name="x", max_seq_len=8)
    names = ("a", "micro_batch", "lr", "packing", "name", "max_seq_len", "precision")
    assert [usual(name, text) for name in names] == [2, 1, 0.25, True, "x", 16, "bf16"]


def test_solver_follows_the_text_and_no_gold(gyms: Gyms) -> None:
    task = next(t for t in gyms["test"].tasks if t.metadata["family"] == "checkpoint_disk")
    assert isinstance(task.case, CheckpointDisk)
    limit = f'"save_steps": {task.case.save_steps}'
    assert limit in task.prompt
    other = solve(task.prompt.replace(limit, '"save_steps": 1'))
    assert other is not None
    assert "saving_over_time" in other.codes


def test_unnamed_trouble_gets_the_keyword_players_default() -> None:
    gym = load_environment(seed=5, count=50)
    prompts = [t.prompt.split("## Log")[0] + "## Log\n\n## Answer\n" for t in gym.tasks]
    assert "batch_off_target" in PLAYERS["keyword"](prompts[0], Random(0))

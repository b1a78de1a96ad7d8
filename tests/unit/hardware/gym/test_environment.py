"""The entrance of the gym, and its wrapper."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from pipeline.base.errors import UserError
from pipeline.hardware.gym.environment import (
    Environment,
    load_environment,
    verifiers_environment,
)
from pipeline.hardware.gym.solver import reply

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def small() -> Environment:
    return load_environment(seed=3, count=20)


def test_gold_scores_one_on_all_splits(gyms: dict[str, Environment]) -> None:
    for gym in gyms.values():
        replies = [reply(task.gold) for task in gym.tasks]
        grades = gym.evaluate([task.prompt for task in gym.tasks], replies)
        assert {grade.score for grade in grades} == {1.0}


def test_order_and_repetition_are_free(small: Environment) -> None:
    first, second = small.tasks[:2]
    grades = small.evaluate(
        [second.prompt, first.prompt, second.prompt],
        [reply(second.gold), reply(first.gold), "no idea"],
    )
    assert [grade.score for grade in grades] == [1.0, 1.0, 0.0]


def test_a_chat_counts_by_its_last_message(small: Environment) -> None:
    task = small.tasks[0]
    chat = [{"role": "user", "content": "?"}, {"role": "assistant", "content": reply(task.gold)}]
    assert [g.score for g in small.evaluate([task.prompt] * 2, [chat, []])] == [1.0, 0.0]


def test_strangers_are_refused(small: Environment) -> None:
    with pytest.raises(UserError, match=r"no task has the prompt 'what\?'"):
        small.evaluate(["what?"], ["{}"])
    with pytest.raises(UserError, match="1 prompts and 2 completions"):
        small.evaluate([small.tasks[0].prompt], ["", ""])


def test_fresh_tasks_by_seed() -> None:
    hard = load_environment(seed=9, count=12, hard=True)
    assert len(hard.tasks) == 12
    assert {task.metadata["tier"] for task in hard.tasks} == {"two_faults", "computed"}


def test_standard_library_is_enough() -> None:
    program = (
        "import sys; from pipeline.hardware.gym.environment import load_environment\n"
        "load_environment(seed=1, count=3)\n"
        "foreign = {n.split('.')[0] for n in sys.modules} - set(sys.stdlib_module_names)\n"
        "print(sorted(n for n in foreign if not n.startswith('_')))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['pipeline']"


def test_wrapper_hands_tasks_and_score_over(
    small: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifiers, datasets = ModuleType("verifiers"), ModuleType("datasets")
    vars(datasets)["Dataset"] = SimpleNamespace(from_list=list)
    vars(verifiers)["Rubric"] = lambda funcs: funcs
    vars(verifiers)["SingleTurnEnv"] = lambda dataset, rubric: (dataset, rubric)
    monkeypatch.setitem(sys.modules, "verifiers", verifiers)
    monkeypatch.setitem(sys.modules, "datasets", datasets)
    made = verifiers_environment(small)
    assert isinstance(made, tuple)
    rows, (score,) = made
    assert [row["question"] for row in rows] == [task.prompt for task in small.tasks]
    chat = [{"role": "assistant", "content": reply(small.tasks[1].gold)}]
    assert score(completion=chat, answer=rows[1]["answer"]) == 1.0
    assert score(completion=chat, answer=rows[2]["answer"]) < 1.0


def test_wrapper_refuses_a_release_without_its_class(
    small: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "verifiers", ModuleType("verifiers"))
    monkeypatch.setitem(sys.modules, "datasets", ModuleType("datasets"))
    with pytest.raises(UserError, match=r"no SingleTurnEnv\. Run `pip install 'verifiers<0\.2'`"):
        verifiers_environment(small)


def test_wrapper_says_what_is_missing(small: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "verifiers", None)
    with pytest.raises(
        UserError, match=r"verifiers is not installed\. Run `pip install verifiers`"
    ):
        verifiers_environment(small)

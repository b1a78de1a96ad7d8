"""The gym as an environment: tasks, a grader of whole batches, and a wrapper.

    from pipeline.hardware.gym.environment import load_environment
    environment = load_environment("train")
    grades = environment.evaluate([task.prompt for task in environment.tasks], completions)

Standard library only. `verifiers_environment` needs the packages verifiers, below 0.2,
and datasets, which are imported when it is called.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType

from pipeline.base.errors import UserError
from pipeline.hardware.gym.grader import Grade, grade
from pipeline.hardware.gym.tasks import Task, fresh, split

Message = Mapping[str, str]
Completion = str | Sequence[Message]
"""A reply, or a chat whose last message is the reply."""


def text_of(completion: Completion) -> str:
    """The reply's text."""
    if isinstance(completion, str):
        return completion
    return completion[-1]["content"] if completion else ""


class Environment:
    """Tasks with their grader.

    Args:
        tasks: each with prompt, gold and metadata.
    """

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tuple(tasks)
        self._by_prompt = {task.prompt: task for task in self.tasks}

    def evaluate(self, prompts: Sequence[str], completions: Sequence[Completion]) -> list[Grade]:
        """Grade completions, one for each prompt, in any order and any number of times.

        Raises:
            UserError: another number of completions, or a prompt of no task.
        """
        if len(prompts) != len(completions):
            raise UserError(
                f"gym: {len(prompts)} prompts and {len(completions)} completions",
                "Give one completion for each prompt.",
            )
        return [
            self.grade(prompt, text_of(completion))
            for prompt, completion in zip(prompts, completions)
        ]

    def grade(self, prompt: str, reply: str) -> Grade:
        """Grade one reply.

        Raises:
            UserError: the prompt belongs to no task of this environment.
        """
        task = self._by_prompt.get(prompt)
        if task is None:
            raise UserError(
                f"gym: no task has the prompt {prompt[:40]!r}", "Give prompts of .tasks unchanged."
            )
        return grade(reply, task.gold, task.fields, task.quantities)


def load_environment(
    name: str = "train", *, seed: int | None = None, count: int = 200, hard: bool = False
) -> Environment:
    """The environment of a split, or of fresh tasks.

    Args:
        name: train, hard or test; not read with a seed.
        seed: makes `count` fresh tasks instead, of the hard kind if `hard`.

    Raises:
        UserError: an unknown split, or a count below 1.
    """
    return Environment(split(name) if seed is None else fresh(seed, count, hard=hard))


def package(name: str) -> ModuleType:
    """A package that only the wrapper needs.

    Raises:
        UserError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise UserError(
            f"gym: the package {name} is not installed", f"Run `pip install {name}`."
        ) from None


def verifiers_environment(environment: Environment) -> object:
    """The same tasks as a `verifiers.SingleTurnEnv` whose reward is the score.

    Raises:
        UserError: verifiers or datasets is not installed, or too new.
    """
    verifiers, datasets = package("verifiers"), package("datasets")
    if not hasattr(verifiers, "SingleTurnEnv"):
        raise UserError(
            "gym: this release of verifiers has no SingleTurnEnv",
            "Run `pip install 'verifiers<0.2'`.",
        )
    rows = [{"question": task.prompt, "answer": task.id} for task in environment.tasks]
    prompts = {task.id: task.prompt for task in environment.tasks}

    def score(completion: Completion, answer: str) -> float:
        """The weighted sum of a grade, 0 to 1."""
        return environment.grade(prompts[answer], text_of(completion)).score

    made: object = verifiers.SingleTurnEnv(
        dataset=datasets.Dataset.from_list(rows), rubric=verifiers.Rubric(funcs=[score])
    )
    return made

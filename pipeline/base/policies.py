r"""The three grading policies behind one interface, side by side.

    with Grader("symbolic") as grader:
        verdict = grader.grade(reply, gold, truncated=False)

`harness` gives lm-evaluation-harness's verdicts (harness_verdict.py), `strict` those of
grading.py, `symbolic` adds equality by algebra where `strict` finds a mismatch
(algebra_judge.py). Called by the measurement room and the benchmarks; writes nothing.
Which policy is for what is in docs/grading.md.
"""

from __future__ import annotations

from typing import Literal, get_args

from pipeline.base.algebra_judge import MEMORY_GIB, SECONDS, AlgebraJudge
from pipeline.base.answers import MAX_CHARACTERS, normalise_answer
from pipeline.base.grading import (
    THINK_CLOSE,
    Verdict,
    after_thinking,
    grade,
    unbox,
    unfinished_thinking,
)
from pipeline.base.harness_verdict import harness_answer, harness_equal

Policy = Literal["harness", "strict", "symbolic"]
POLICIES: tuple[Policy, ...] = get_args(Policy)


class Grader:
    """Grades replies by one policy. A context manager, since `symbolic` owns a process.

    Args:
        policy: which verdict `grade` gives.
        integer: the task's answers are integers (AIME). The harness knows no such mode,
            so its verdicts do not change.
        seconds: wall-clock limit of one comparison by algebra.
        memory_gib: memory limit of the process that does algebra, GiB.
    """

    def __init__(
        self,
        policy: Policy = "strict",
        *,
        integer: bool = False,
        seconds: float = SECONDS,
        memory_gib: float = MEMORY_GIB,
    ) -> None:
        self._policy, self._integer = policy, integer
        self._judge = AlgebraJudge(seconds, memory_gib)

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *_: object) -> None:
        self._judge.close()

    def grade(self, reply: str, gold: str, *, truncated: bool = False) -> Verdict:
        """Grade one reply; see `grading.grade`.

        Raises:
            UserError: the policy is `symbolic` and its worker cannot be started.
        """
        return self._by(self._policy, reply, gold, truncated)

    def grade_by_all(
        self, reply: str, gold: str, *, truncated: bool = False
    ) -> dict[Policy, Verdict]:
        """The verdict of each policy on one reply."""
        return {policy: self._by(policy, reply, gold, truncated) for policy in POLICIES}

    def _by(self, policy: Policy, reply: str, gold: str, truncated: bool) -> Verdict:
        if policy == "harness":
            return grade_as_harness(reply, gold, truncated=truncated)
        verdict = grade(reply, gold, truncated=truncated, integer=self._integer)
        expected = unbox(gold)
        if (
            policy == "strict"
            or verdict.reason != "mismatch"
            or self._integer
            or max(len(verdict.answer), len(expected)) > MAX_CHARACTERS
        ):
            return verdict
        found = self._judge.judge(normalise_answer(verdict.answer), normalise_answer(expected))
        if found == "different":
            return verdict
        correct = found == "same"
        return Verdict(correct, "match-symbolic" if correct else "timeout", verdict.answer)


def grade_as_harness(reply: str, gold: str, *, truncated: bool = False) -> Verdict:
    r"""Whether lm-evaluation-harness calls a reply right, on its part after the thinking.

    A reply without a box is compared as a whole, as the harness does it. Only two rules
    stand before the harness's: an unreadable gold and an unfinished thinking block are
    never right.
    """
    strict = grade(reply, gold, truncated=truncated)
    if strict.reason == "unreadable-gold" or unfinished_thinking(reply):
        return strict
    visible = after_thinking(reply)
    answer = harness_answer(visible.lstrip() if THINK_CLOSE in reply else visible)
    expected = harness_answer(gold) if "\\boxed" in gold else gold
    if harness_equal(answer, expected):
        return Verdict(True, "match-exact" if answer == expected else "match-normalised", answer)
    boxless = strict.answer == ""
    return Verdict(False, strict.reason if boxless else "mismatch", strict.answer)

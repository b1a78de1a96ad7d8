"""Base against adapter: the words must fit the figures, whichever way they fall."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pipeline.summary.comparison import (
    Paired,
    comparison_section,
    headline,
    paired,
    samples_section,
)
from pipeline.summary.evidence import Evidence
from tests.support.finished_run import sample, scores

UNMEASURED = {
    **scores("adapter", 0, []),
    "problems": 0,
    "pass_at_1": None,
    "best_of_k": None,
    "pass_at_1_interval": None,
    "best_of_k_interval": None,
    "truncation_rate": None,
    "no_box_rate": None,
    "mean_tokens": None,
    "reasons": {},
}


@pytest.mark.parametrize(
    ("base", "adapter", "said"),
    [
        ((1, [0.02, 0.3]), (9, [0.6, 0.98]), "80.0 points above the base and the intervals do not"),
        ((3, [0.1, 0.6]), (7, [0.4, 0.9]), "above the base, but the intervals overlap"),
        (
            (3, [0.1, 0.6]),
            (2, [0.05, 0.5]),
            "10.0 points below the base, but the intervals overlap",
        ),
        ((9, [0.6, 0.98]), (1, [0.02, 0.3]), "**training has harmed it.**"),
        ((3, [0.1, 0.6]), (3, [0.1, 0.6]), "score the same"),
    ],
)
def test_meaning_follows_the_intervals(
    evidence: Evidence, base: Any, adapter: Any, said: str
) -> None:
    changed = replace(evidence, baseline=scores("b", *base), evaluate=scores("a", *adapter))
    assert said in " ".join(headline(changed))


def test_problems_are_compared_one_by_one(evidence: Evidence) -> None:
    assert "better on 5, worse on 1, equal on 4 (sign test, p = 0.219)" in headline(evidence)[2]
    same = replace(evidence, after=evidence.before)
    assert "they are equal, on all 10." in headline(same)[2]
    assert "Problem by problem" not in headline(replace(evidence, after=[]))[2]


def test_headline_has_figures_intervals_and_size(evidence: Evidence) -> None:
    first = headline(evidence)[0]
    assert first.startswith("**30.0 % → 70.0 % of first answers right**")
    assert "10.8–60.3 % and 39.7–89.2 %; 10 problems × 1 reply, 64 asked for" in first


def test_panels_of_two_sizes_are_both_said(evidence: Evidence) -> None:
    other = {**evidence.baseline, "problems": 9}
    first = headline(replace(evidence, baseline=other))[0]
    assert "9 problems × 1 reply, 64 asked for against 10 problems" in first


@pytest.mark.parametrize(
    ("base", "adapter", "said"),
    [
        (None, None, "**Accuracy was not measured:**"),
        (UNMEASURED, UNMEASURED, "**Accuracy was not measured:**"),
        (scores("base", 3, [0.1, 0.6]), UNMEASURED, "with the base** (10.0–60.0 %"),
        (scores("base", 3, [0.1, 0.6]), None, "The adapter was not measured"),
        (UNMEASURED, scores("adapter", 7, [0.4, 0.9]), "The base was not measured"),
    ],
)
def test_what_was_not_measured_is_said(
    evidence: Evidence, base: Any, adapter: Any, said: str
) -> None:
    changed = replace(evidence, baseline=base, evaluate=adapter)
    assert said in " ".join(headline(changed))


def test_table_of_an_empty_evaluation_has_words_for_figures(evidence: Evidence) -> None:
    lines = comparison_section(replace(evidence, evaluate=UNMEASURED))
    assert "| right at the first reply (pass@1) | 30.0 % | not measured |" in lines
    assert "| mean tokens a reply | 63.4 | not recorded |" in lines
    assert "| problems × replies | 10 × 1 | 0 × 1 |" in lines


def test_table_of_a_stage_that_did_not_run(evidence: Evidence) -> None:
    lines = comparison_section(replace(evidence, evaluate=None))
    assert "| replies without a box | 20.0 % | not run |" in lines
    none = comparison_section(replace(evidence, evaluate=None, baseline=None))
    assert "No evaluation has run." in none


def test_verdicts_and_unreadable_answers_are_counted(evidence: Evidence) -> None:
    lines = comparison_section(
        replace(evidence, evaluate={**evidence.evaluate, "unreadable_golds": 2})
    )
    assert "| `match-exact` | 3 | 7 |" in lines
    assert any("2 problems were left out" in line for line in lines)


def test_pairs_count_problems_not_replies() -> None:
    before = [sample(1, "base", right) for right in (False, True)] + [sample(2, "base", True)]
    after = [sample(1, "a", True), sample(1, "a", True), sample(2, "a", False)]
    assert paired(before, after) == Paired(better=1, worse=1, same=0)


def test_problems_with_unequal_replies_are_not_compared() -> None:
    assert paired([sample(1, "b", True)] * 2, [sample(1, "a", True)]) is None
    assert paired([], []) is None


def test_sign_test() -> None:
    assert Paired(5, 0, 9).p_value == pytest.approx(2 / 32)
    assert Paired(0, 0, 3).p_value == 1.0
    assert Paired(900, 300, 0).p_value < 1e-60  # large counts do not overflow


def test_one_reply_of_each_kind_with_problem_and_both_answers(evidence: Evidence) -> None:
    text = "\n".join(samples_section(evidence))
    fixed, wrong, broken = text.split("### ")[1:]
    assert fixed.startswith("Fixed by training (5 of 10")
    assert "> What is 0 + 1?" in fixed
    assert "The base adds" in fixed
    assert "The adapter adds" in fixed
    assert "`1`" in fixed
    assert wrong.startswith("Still wrong (2 of 10")
    assert "> What is 7 + 1?" in wrong
    assert broken.startswith("Broken by training (1 of 10")
    assert "> What is 9 + 1?" in broken


def test_kinds_that_do_not_occur_are_said(evidence: Evidence) -> None:
    kept = [s for s in evidence.before if not s.correct]
    text = "\n".join(samples_section(replace(evidence, before=kept)))
    assert "### Broken by training (0 of 7 replies)\n\nNone." in text


def test_reply_cannot_break_out_of_its_box(evidence: Evidence) -> None:
    hostile = [replace(s, reply="```\n# not a heading") for s in evidence.before]
    assert "````text\n```\n# not a heading\n````" in "\n".join(
        samples_section(replace(evidence, before=hostile))
    )
    assert samples_section(replace(evidence, before=[])) == []


def test_the_table_says_what_it_can_show(evidence: Evidence) -> None:
    text = "\n".join(comparison_section(evidence))
    # Of ten problems 5 are better and 1 worse by a whole reply: mean +0.4, s = 0.6992.
    assert "the adapter is +40.0 points from the base" in text
    assert "less than 61.9 points is too small for these 10 problems" in text
    alone = "\n".join(comparison_section(replace(evidence, after=[])))
    assert "Between two runs of 10 problems a true difference of less than" in alone
    nothing = replace(evidence, baseline=UNMEASURED, evaluate=None, before=[], after=[])
    assert "no difference can be seen" in "\n".join(comparison_section(nothing))

r"""Which traces are worth learning from: one named rule, one reason code each.

Called by the judging step for every row; reads and writes nothing. `judge_candidate`
cuts what follows the final answer, checks `RULES` in order (the first rule that speaks
gives the reason) and marks what looks like cheating. docs/data.md lists the codes of all
stages, docs/quality.md says how each rule was measured and what it costs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pipeline.corpus.rows.schemas import Candidate
from pipeline.corpus.rules import answer_rules, text_rules
from pipeline.corpus.rules.boxes import grade_reply
from pipeline.corpus.rules.cutting import after_answer
from pipeline.corpus.rules.settings import Settings, settings_for
from pipeline.corpus.rules.suspicion import early_answer, unreasoned

__all__ = ["CUT", "MARKS", "RULES", "Judgement", "Settings", "judge_candidate", "settings_for"]

CUT = "cut-after-answer"
"""The note of a reply that lost what it said after its answer."""


@dataclass(frozen=True)
class Rule:
    """A reason code, what it means in a sentence, and the test that gives the detail."""

    code: str
    meaning: str
    check: Callable[[Candidate, Settings], str | None]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What becomes of one candidate."""

    row: Candidate
    """As it will be trained; its reply may be shorter than the one given."""
    fault: tuple[str, str] | None
    """(reason, detail) for which it is dropped; None if it may stay."""
    flags: tuple[str, ...]
    """Marks of cheating, whether the row stays or not."""
    notes: tuple[str, ...]
    """Conversions to be counted."""
    cut_characters: int
    """Characters that the reply lost."""


RULES = (
    Rule("no-problem", "The row has no problem text.", text_rules.no_problem),
    Rule("no-solution", "The row has no reply.", text_rules.no_solution),
    Rule(
        "nothing-after-thinking",
        "The reply ends with its reasoning; nothing visible states an answer.",
        text_rules.nothing_after_thinking,
    ),
    Rule(
        "unfinished-thinking",
        "Think tags are left in the text, or the reasoning breaks off in mid-sentence.",
        text_rules.unfinished_thinking,
    ),
    Rule(
        "special-token", "Text spells a control token of the tokenizer.", text_rules.special_token
    ),
    Rule("labelled-wrong", "The source marks the reply as wrong.", answer_rules.labelled_wrong),
    Rule(
        "labelled-unverifiable",
        "The source checked the reply without a result.",
        answer_rules.labelled_unverifiable,
    ),
    Rule("no-box", r"The visible reply holds no filled `\boxed{}`.", answer_rules.no_box),
    Rule("no-gold", "No field states the right answer and no box stands in.", answer_rules.no_gold),
    Rule(
        "unreadable-gold",
        "The answer is empty or has unbalanced braces.",
        answer_rules.unreadable_gold,
    ),
    Rule(
        "gold-symbols",
        "The stated answer uses a symbol that the problem does not introduce.",
        answer_rules.gold_symbols,
    ),
    Rule("prose-box", "The box holds sentences.", answer_rules.prose_box),
    Rule("several-boxes", "The visible reply boxes different answers.", answer_rules.several_boxes),
    Rule("wrong-answer", "The reply's answer is not the stated one.", answer_rules.wrong_answer),
    Rule(
        "too-short",
        "Reasoning and reply together are shorter than `filter.min_solution_characters`.",
        text_rules.too_short,
    ),
    Rule(
        "too-long",
        "Reasoning and reply together are longer than `filter.max_reply_characters`.",
        text_rules.too_long,
    ),
    Rule("refusal", "The reply opens by declining to answer.", text_rules.refusing),
    Rule("placeholder", "A field of a template was not filled in.", text_rules.unfilled),
    Rule("mojibake", "Characters were lost or wrongly decoded.", text_rules.mojibake),
    Rule(
        "html-remains", "Several tags or entities of a rendered page are left.", text_rules.rendered
    ),
    Rule(
        "broken-latex",
        "The LaTeX is damaged to a degree that no honest text shows.",
        text_rules.damaged_latex,
    ),
    Rule(
        "repetition-loop",
        "Reasoning or reply repeats itself in a loop.",
        text_rules.repetition_loop,
    ),
    Rule(
        "not-english",
        "A part is in another script, or a sentence in another language.",
        text_rules.not_english,
    ),
)


def _is_unreasoned(row: Candidate, _: Settings) -> str | None:
    return unreasoned(row)


def _is_early(row: Candidate, settings: Settings) -> str | None:
    return early_answer(row, settings.filter.early_answer_share)


MARKS = (
    Rule("unreasoned", "Nothing but the answer, with a set phrase beside it.", _is_unreasoned),
    Rule("early-answer", "The reasoning states the answer before deriving it.", _is_early),
)
"""What one row shows by itself; `canned` needs the whole set."""


def _cut(row: Candidate) -> Candidate:
    """The row without what its reply says after the answer; itself if nothing may go.

    A reply that answers first and explains afterwards is its explanation, unless
    reasoning precedes it. The grade before and after must be the same.
    """
    place = after_answer(row.solution)
    if place is None or (not row.thinking and 2 * place < len(row.solution)):
        return row
    shorter = row.solution[:place].rstrip()
    if grade_reply(shorter, row.gold) != grade_reply(row.solution, row.gold):
        return row
    return replace(row, solution=shorter)


def first_fault(row: Candidate, settings: Settings) -> tuple[str, str] | None:
    """(reason, detail) of the first rule that refuses the row; None if it may stay."""
    if row.fault is not None:
        return row.fault
    for rule in RULES:
        detail = rule.check(row, settings)
        if detail is not None:
            return rule.code, detail
    return None


def judge_candidate(row: Candidate, settings: Settings) -> Judgement:
    """Judge one row: pure, and linear in the row's length.

    Returns:
        The judgement. With `filter.flagged: drop` a mark is also the row's reason.
    """
    kept = _cut(row) if settings.filter.cut_after_answer else row
    lost = len(row.solution) - len(kept.solution)
    notes = (CUT,) if lost else ()
    fault = first_fault(kept, settings)
    if fault is not None:
        return Judgement(kept, fault, (), notes, lost)
    found = [(mark.code, said) for mark in MARKS if (said := mark.check(kept, settings))]
    if found and settings.filter.flagged == "drop":
        fault = found[0]
    return Judgement(kept, fault, tuple(code for code, _ in found), notes, lost)

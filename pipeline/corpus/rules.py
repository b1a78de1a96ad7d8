r"""Which traces are worth learning from: one named rule, one reason code each.

Called by intake.py; reads and writes nothing. `RULES` is checked in order and the
first rule that speaks gives the reason. docs/data.md lists the codes of all stages.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from pipeline.base.chat import Chat
from pipeline.base.grading import grade, is_readable_gold, last_boxed
from pipeline.base.params import FilterParams
from pipeline.corpus.language import foreign
from pipeline.corpus.schemas import Candidate
from pipeline.corpus.text import excerpt_of

_MATHS = re.compile(r"\$[^$]*\$|\\\[.{0,2000}?\\\]|\\\(.{0,2000}?\\\)", re.DOTALL)
_COMMAND = re.compile(
    r"\\(?:text|mathrm|mathbb|mbox|operatorname|textbf|mathbf)\s*\{[^{}]*\}|\\[A-Za-z]+"
)
_SYMBOL = re.compile(r"(?<![A-Za-z.])[A-Za-z](?![A-Za-z.])")
_UNIT = re.compile(r"(?<=[\d}])(?:\s|~|\\,)+[A-Za-z](?![A-Za-z])")
COMMON_SYMBOLS = frozenset("eixyzC")
"""Need no introduction: constants, coordinates, a constant of integration."""

MAX_BOXES = 20
"""Boxes of one reply that are compared, counted from its end."""


@dataclass(frozen=True)
class Settings:
    """What the rules need to know besides the row."""

    filter: FilterParams
    markup: re.Pattern[str]
    """Text that the tokenizer would turn into one of its control tokens."""


def settings_for(chat: Chat, params: FilterParams) -> Settings:
    """The rules' settings for one tokenizer."""
    added = [token.content for token in chat.tokenizer.get_added_tokens_decoder().values()]
    control = sorted({text for text in added if text.startswith(("<", "[")) and len(text) > 2})
    return Settings(params, re.compile("|".join(map(re.escape, control)) or r"(?!)"))


def _no_problem(row: Candidate, _: Settings) -> str | None:
    return None if row.problem else "the problem is empty"


def _judged_wrong(row: Candidate, _: Settings) -> str | None:
    unproven = row.gold_from in ("own-box", "none")
    return "the row marks its reply as wrong" if row.judged_wrong and unproven else None


def _no_solution(row: Candidate, _: Settings) -> str | None:
    return None if row.solution or row.thinking else "no reply to learn from"


def _nothing_after_thinking(row: Candidate, _: Settings) -> str | None:
    return None if row.solution else f"{len(row.thinking)} characters of reasoning, then nothing"


def _special_token(row: Candidate, settings: Settings) -> str | None:
    for field, text in (
        ("problem", row.problem),
        ("reasoning", row.thinking),
        ("reply", row.solution),
    ):
        found = settings.markup.search(text)
        if found is not None:
            return f"{found.group()} in the {field}"
    return None


def _no_box(row: Candidate, _: Settings) -> str | None:
    if last_boxed(row.solution) is not None:
        return None
    return f"the reply ends {excerpt_of(row.solution[-40:].strip())!r}"


def _no_gold(row: Candidate, _: Settings) -> str | None:
    return None if row.gold else f"no field states the answer; schema {row.schema}"


def _unreadable_gold(row: Candidate, _: Settings) -> str | None:
    return None if is_readable_gold(row.gold) else f"gold {excerpt_of(row.gold)!r}"


def _gold_symbols(row: Candidate, _: Settings) -> str | None:
    if row.gold_from != "stated":
        return None
    gold = _COMMAND.sub(" ", _UNIT.sub(" ", row.gold))
    symbols = set(_SYMBOL.findall(gold)) - COMMON_SYMBOLS
    if not symbols or gold.upper() == gold:
        return None
    problem = _COMMAND.sub(" ", row.problem)
    known = set(_SYMBOL.findall(problem)) | set("".join(_MATHS.findall(problem)))
    unknown = symbols - known
    return f"{', '.join(sorted(unknown))} in gold {excerpt_of(row.gold)!r}" if unknown else None


def _several_boxes(row: Candidate, _: Settings) -> str | None:
    boxes = boxed_answers(row.solution)
    for other in boxes[:-1]:
        if f"\\boxed{{{other}}}" in row.problem:
            continue  # the reply repeats the question
        if not grade(f"\\boxed{{{other}}}", boxes[-1]).correct:
            return f"{excerpt_of(other)!r} and {excerpt_of(boxes[-1])!r}"
    return None


def _wrong_answer(row: Candidate, _: Settings) -> str | None:
    verdict = grade(row.solution, row.gold)
    if verdict.correct:
        return None
    return f"{verdict.reason}: {excerpt_of(verdict.answer)!r}, gold {excerpt_of(row.gold)!r}"


def _too_short(row: Candidate, settings: Settings) -> str | None:
    length = len(row.thinking) + len(row.solution)
    least = settings.filter.min_solution_characters
    return None if length >= least else f"{length} characters, {least} are wanted"


def _not_english(row: Candidate, settings: Settings) -> str | None:
    if not settings.filter.english_only:
        return None
    return next(
        (found for text in (row.problem, row.thinking, row.solution) if (found := foreign(text))),
        None,
    )


def boxed_answers(reply: str) -> list[str]:
    r"""Contents of the last `MAX_BOXES` boxes of a text, in order."""
    found: list[str] = []
    end = len(reply)
    while len(found) < MAX_BOXES and (start := reply.rfind("\\boxed", 0, end)) >= 0:
        content = last_boxed(reply[start:end])
        if content is not None:
            found.insert(0, content)
        end = start
    return found


@dataclass(frozen=True)
class Rule:
    """A reason code, what it means in a sentence, and the test that gives the detail."""

    code: str
    meaning: str
    check: Callable[[Candidate, Settings], str | None]


RULES = (
    Rule("no-problem", "The row has no problem text.", _no_problem),
    Rule("no-solution", "The row has no reply.", _no_solution),
    Rule(
        "nothing-after-thinking",
        "The reply ends with its reasoning; nothing visible states an answer.",
        _nothing_after_thinking,
    ),
    Rule("special-token", "Text spells a control token of the tokenizer.", _special_token),
    Rule("no-box", r"The visible reply holds no filled `\boxed{}`.", _no_box),
    Rule("no-gold", "No field states the right answer and no box stands in.", _no_gold),
    Rule("unreadable-gold", "The answer is empty or has unbalanced braces.", _unreadable_gold),
    Rule(
        "gold-symbols",
        "The stated answer uses a symbol that the problem does not introduce.",
        _gold_symbols,
    ),
    Rule(
        "labelled-wrong",
        "No answer is stated to check against and the row marks its reply as wrong.",
        _judged_wrong,
    ),
    Rule("several-boxes", "The visible reply boxes different answers.", _several_boxes),
    Rule("wrong-answer", "The reply's answer is not the stated one.", _wrong_answer),
    Rule(
        "too-short",
        "Reasoning and reply together are shorter than `filter.min_solution_characters`.",
        _too_short,
    ),
    Rule(
        "not-english",
        "A part is in another script or dense with another language's function words.",
        _not_english,
    ),
)


def first_fault(row: Candidate, settings: Settings) -> tuple[str, str] | None:
    """(reason, detail) of the first rule that refuses the row; None if it may stay."""
    for rule in RULES:
        detail = rule.check(row, settings)
        if detail is not None:
            return rule.code, detail
    return None

"""Each rule drops its own kind of row and leaves a sound one; the whole judgement."""

from __future__ import annotations

import pickle
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.chat import Chat
from pipeline.base.grading import grade
from pipeline.corpus.rows.schemas import Candidate
from pipeline.corpus.rules import catalogue as rules
from pipeline.corpus.rules.catalogue import (
    CUT,
    MARKS,
    RULES,
    Settings,
    first_fault,
    judge_candidate,
    settings_for,
)
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_tokenizer

SETTINGS = Settings(
    make_params(**{"filter.max_reply_characters": 2000}).filter, re.compile(r"<\|im_end\|>")
)
SOUND = Candidate(
    problem="What is $2n + 2n$ for $n = 1$?",
    gold="4",
    gold_from="stated",
    thinking="",
    solution="Two and two make four, so the answer is \\boxed{4}.",
    schema="problem/solution/answer",
    row_id="",
)
LONG = "We add one to the sum of the first {} numbers and look at the next one. "

FAULTS: dict[str, dict[str, Any]] = {
    "no-problem": {"problem": ""},
    "no-solution": {"solution": ""},
    "nothing-after-thinking": {"solution": "", "thinking": "It must be \\boxed{4}."},
    "unfinished-thinking": {"thinking": "Two and two make four, and then we multiply by the"},
    "special-token": {"solution": SOUND.solution + "<|im_end|>"},
    "labelled-wrong": {"verified": "wrong"},
    "labelled-unverifiable": {"verified": "unverifiable"},
    "no-box": {"solution": "Two and two make four. Answer: 4", "thinking": "\\boxed{4}."},
    "no-gold": {"gold": "", "gold_from": "none"},
    "unreadable-gold": {"gold": "\\frac{1}{2"},
    "gold-symbols": {"gold": "4k + 1"},
    "prose-box": {"solution": "\\boxed{" + "the number that we have found " * 4 + "}"},
    "several-boxes": {"solution": "Either \\boxed{3} or rather, I think, \\boxed{4}."},
    "wrong-answer": {"gold": "5"},
    "too-short": {"solution": "\\boxed{4}"},
    "too-long": {"thinking": "".join(LONG.format(number) for number in range(40))},
    "refusal": {"solution": "I'm sorry, but I cannot help with that. It is \\boxed{4}."},
    "placeholder": {"solution": "I am {{name}}, and two and two make \\boxed{4}."},
    "mojibake": {"problem": "What is 2 \ufffd 2?"},
    "html-remains": {"solution": "<span class='katex'><mrow><mn>2</mn> so it is \\boxed{4}."},
    "broken-latex": {"solution": "\\frac\\frac\\frac{1}{2} and so on gives \\boxed{4}."},
    "repetition-loop": {"thinking": "Wait, let me look at the sum again. " * 20},
    "not-english": {"thinking": "我们先把两个数相加，然后得到四。"},
}

NEAR: dict[str, dict[str, Any]] = {
    "no-problem": {"problem": "2 + 2?"},
    "no-solution": {"solution": "So it is four: \\boxed{4}"},
    "nothing-after-thinking": {"solution": "\\boxed{4}", "thinking": "It must be \\boxed{4}."},
    "unfinished-thinking": {"thinking": "Two and two make four, as we multiply by the two."},
    "special-token": {"solution": SOUND.solution + " <|im_ends|> is no token."},
    "labelled-wrong": {"verified": "correct"},
    "labelled-unverifiable": {"verified": ""},
    "no-box": {"solution": "Two and two make four. Answer: \\fbox{4}", "thinking": "\\boxed{4}."},
    "no-gold": {"gold_from": "reference"},
    "unreadable-gold": {"gold": "\\frac{8}{2}"},
    "gold-symbols": {"gold": "4n + 1", "solution": "The sum is then \\boxed{4n + 1}."},
    "prose-box": {
        "gold": "the number " * 5 + "has been found",
        "solution": "\\boxed{" + "the number " * 5 + "is of us}",
        "gold_from": "reference",
    },
    "several-boxes": {"solution": "It is \\boxed{4.0} or rather, I think, \\boxed{4}."},
    "wrong-answer": {"gold": "04.0"},
    "too-short": {"solution": "So it is 4: \\boxed{4}"},
    "too-long": {
        "thinking": "".join(LONG.format(number) for number in range(40))[
            : 1999 - len(SOUND.solution)
        ].rstrip(" ")
        + "."
    },
    "refusal": {"solution": "I'm sorry, but five is too much. It is \\boxed{4}."},
    "placeholder": {"solution": "We write x^{{n}}, and two and two make \\boxed{4}."},
    "mojibake": {"problem": "What is 2 × 2, at 30° and √2?"},
    "html-remains": {"solution": "<span class='katex'>2</span> and 2, so it is \\boxed{4}."},
    "broken-latex": {"solution": "\\frac\\frac{1}{2}{3} and so on gives \\boxed{4}."},
    "repetition-loop": {"thinking": "Wait, let me look at the sum again. " * 3},
    "not-english": {"thinking": "The sign 中 stands for the middle, and two and two make four."},
}


def test_a_sound_row_passes() -> None:
    judged = judge_candidate(SOUND, SETTINGS)
    assert (judged.row, judged.fault, judged.flags, judged.notes) == (SOUND, None, (), ())


@pytest.mark.parametrize("code", FAULTS)
def test_each_rule_gives_its_reason_and_a_detail(code: str) -> None:
    found = first_fault(replace(SOUND, **FAULTS[code]), SETTINGS)
    assert found is not None
    assert found[0] == code
    assert found[1]


@pytest.mark.parametrize("code", NEAR)
def test_each_rule_lets_a_near_row_pass(code: str) -> None:
    row = replace(SOUND, **NEAR[code])
    (rule,) = [one for one in RULES if one.code == code]
    assert rule.check(row, SETTINGS) is None
    if code != "prose-box":  # its gold is not what the box holds
        assert first_fault(row, SETTINGS) is None


def test_every_rule_is_tested_and_says_what_it_means() -> None:
    assert [rule.code for rule in RULES] == list(FAULTS) == list(NEAR)
    assert all(rule.meaning.endswith(".") for rule in (*RULES, *MARKS))


def test_docs_list_every_rule_in_order_and_no_other() -> None:
    text = Path("docs/data.md").read_text(encoding="utf-8")
    start = text.index("Rules, in the order in which they are checked")
    listed = re.findall(r"^\| `([a-z-]+)` \|", text[start : text.index("## Panel", start)], re.M)
    codes = [rule.code for rule in (*RULES, *MARKS)]
    assert listed[: len(codes)] == codes
    quality = Path("docs/quality.md").read_text(encoding="utf-8")
    assert [code for code in (*codes, CUT, "canned") if f"`{code}`" not in quality] == []


@pytest.mark.parametrize(
    "change",
    [
        {"solution": "It is \\boxed{4}, once more \\boxed{4.0}, that is all."},
        {
            "solution": "Fill \\boxed{\\phantom{2}}: with \\boxed{4}.",
            "problem": "Fill \\boxed{\\phantom{2}}",
        },
        {"gold": "B", "solution": "The right choice is \\boxed{B}, as shown."},
        {"gold": "4 m", "solution": "The length that we want is \\boxed{4 m}."},
        {"gold": "2n", "solution": "The sum is therefore \\boxed{2n}, as shown."},
        {"gold": "x + e^{i\\pi}", "solution": "It is \\boxed{x + e^{i\\pi}} as shown."},
        {"gold": "k", "problem": "Solve \\[k = 2\\]!", "solution": "Thus we obtain \\boxed{k}."},
        {"solution": "\\boxed{4}", "thinking": "Two and two make four."},
        {"solution": "\\boxed{4}", "thinking": "Two and two make four, so the answer is 4"},
        {"verified": "correct"},
        {"solution": "By all means! If x < y, it is <b>four</b>: \\boxed{4}."},
        {"gold": "It is not possible", "solution": "Odd: \\boxed{\\text{It is not possible}}."},
    ],
)
def test_rules_leave_what_only_looks_wrong(change: dict[str, Any]) -> None:
    assert first_fault(replace(SOUND, **change), SETTINGS) is None


def test_a_reply_that_could_not_be_read_keeps_its_fault() -> None:
    row = replace(SOUND, fault=("malformed-thinking", "2 closing think tags"))
    assert judge_candidate(row, SETTINGS).fault == row.fault


def test_length_limits_belong_to_what_is_allowed() -> None:
    filters = {"filter.min_solution_characters": 30, "filter.max_reply_characters": 40}
    settings = replace(SETTINGS, filter=make_params(**filters).filter)
    lengths = {29: "too-short", 30: None, 40: None, 41: "too-long"}
    for length, code in lengths.items():
        thinking = ("So two and two make four, by all accounts")[: length - len("\\boxed{4}") - 1]
        row = replace(SOUND, solution="\\boxed{4}", thinking=thinking + ".")
        assert len(row.thinking) + len(row.solution) == length
        found = first_fault(row, settings)
        assert (found and found[0]) == code


def test_nothing_is_cut_that_would_change_the_grade(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "grade_reply", lambda reply, _: len(reply))
    row = replace(SOUND, solution=SOUND.solution + "\n\nI hope that this helps you!")
    assert judge_candidate(row, SETTINGS).row is row


def test_other_languages_stay_if_the_run_wants_them() -> None:
    settings = replace(SETTINGS, filter=make_params(**{"filter.english_only": False}).filter)
    assert first_fault(replace(SOUND, **FAULTS["not-english"]), settings) is None


def test_think_tags_left_in_a_reply_are_unfinished_thinking() -> None:
    row = replace(SOUND, solution="<think> so it is \\boxed{4}.")
    assert first_fault(row, SETTINGS) == ("unfinished-thinking", "<think> in the reply")


WORK = "We add the first number to the second one and look at {} of them. "
THOUGHT = "".join(map(WORK.format, range(12)))


@pytest.mark.parametrize(
    ("ending", "finished"),
    [
        ("So both of them together are fo", False),
        ("So both of them together are four,", False),
        ("So both of them together are four.", True),
        ("So both of them together make 4 pears", True),
        ("**Final answer**\nfour", True),
        ("\\[ 2 + 2 = 4 \\]", True),
    ],
)
def test_long_reasoning_ends_its_last_sentence(ending: str, finished: bool) -> None:
    row = replace(SOUND, thinking=THOUGHT + ending, solution="\\boxed{4}")
    fault = first_fault(row, SETTINGS)
    assert (fault is None) == finished
    if fault is not None:
        assert fault[0] == "unfinished-thinking"
        assert fault[1].endswith(f"{ending}'")


def test_text_after_the_answer_is_cut_counted_and_graded_again() -> None:
    row = replace(SOUND, solution=SOUND.solution + "\n\nI hope that this helps you!")
    judged = judge_candidate(row, SETTINGS)
    assert judged.row.solution == SOUND.solution
    assert (judged.fault, judged.notes) == (None, (CUT,))
    assert judged.cut_characters == len("\n\nI hope that this helps you!")
    assert grade(judged.row.solution, "4") == grade(row.solution, "4")


def test_a_run_may_keep_what_follows_the_answer() -> None:
    settings = replace(SETTINGS, filter=make_params(**{"filter.cut_after_answer": False}).filter)
    row = replace(SOUND, solution=SOUND.solution + "\n\nI hope that this helps you!")
    assert judge_candidate(row, settings).row is row


def test_an_explanation_after_the_answer_stays_unless_reasoning_precedes_it() -> None:
    explained = "\\boxed{4}\n\nFor two pears and two pears are four pears, whoever counts them."
    row = replace(SOUND, solution=explained)
    assert judge_candidate(row, SETTINGS).row is row
    thought = replace(row, thinking="Two pears and two pears make four pears.")
    assert judge_candidate(thought, SETTINGS).row.solution == "\\boxed{4}"


def test_of_many_boxes_the_first_that_differs_is_named() -> None:
    said = " or ".join(f"\\boxed{{{n}}}" for n in [4, 11, 12, 13, 14, 15, 16, 17, 18, 4])
    found = first_fault(replace(SOUND, solution=f"It is {said}."), SETTINGS)
    assert found == ("several-boxes", "'11' and '4'")


def test_marks_drop_a_row_only_if_the_run_says_so() -> None:
    row = replace(SOUND, solution="Therefore, the final answer is \\boxed{4}.")
    kept = judge_candidate(row, SETTINGS)
    assert (kept.fault, kept.flags) == (None, ("unreasoned",))
    strict = replace(SETTINGS, filter=make_params(**{"filter.flagged": "drop"}).filter)
    dropped = judge_candidate(row, strict)
    assert dropped.fault is not None
    assert dropped.fault[0] == "unreasoned"
    assert dropped.flags == ("unreasoned",)


def test_control_tokens_come_from_the_tokenizer(tmp_path: Any) -> None:
    write_tiny_tokenizer(tmp_path)
    params = make_params()
    settings = pickle.loads(
        pickle.dumps(settings_for(Chat(tmp_path, params.prompt), params.filter))
    )
    assert settings.markup.search("a <|im_start|> b")
    assert not settings.markup.search("a < b and [0, 1] > c")
    found = first_fault(replace(SOUND, problem="a <|im_start|> b"), settings)
    assert found == ("special-token", "<|im_start|> in the problem")


BOMB = "(5^(5^(5^(5^5)) - 4) - 5)/16"
HOSTILE_BOXES = {
    "bomb": BOMB,
    "tower": "9^{" * 300 + "9" + "}" * 300,
    "megabyte": "7" * 1_000_000,
    "deep": "{" * 100_000 + "5" + "}" * 100_000,
    "fractions": "\\frac" * 200_000,
    "roots": "\\sqrt" * 190 + "2",
}


@pytest.mark.parametrize("name", HOSTILE_BOXES)
def test_a_hostile_answer_costs_one_row_and_little_time(name: str) -> None:
    box = HOSTILE_BOXES[name]
    rows = [
        SOUND,
        replace(SOUND, solution=f"The sum is \\boxed{{{box}}}"),
        replace(SOUND, gold=box),
        SOUND,
    ]
    started = time.perf_counter()
    faults = [judge_candidate(row, SETTINGS).fault for row in rows]
    assert time.perf_counter() - started < 5
    assert faults[0] is None
    assert faults[3] is None
    assert faults[1] is not None
    assert faults[2] is not None


@pytest.mark.parametrize(
    "piece",
    [
        *("\\boxed{", "\\boxed{1} ", "{", "\\[", "\\(", "$$ ", "$", "```", "\\begin{a}", "[asy]"),
        *(
            "que los \\[ ",
            "\\begin{b}que \\begin{c}",
            "é ",
            "中 ",
            "ab ",
            ". ",
            "{{a",
            "<span ",
            "&",
        ),
        *("the answer is 4 ", "\\frac{", "As an AI ", " ", "\n", "x y ", "Ã", "ά", "0123456789"),
    ],
)
def test_a_megabyte_of_anything_is_judged_in_little_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    started = time.perf_counter()
    judge_candidate(replace(SOUND, thinking=text, problem="Find $k$.", gold="k"), SETTINGS)
    judge_candidate(replace(SOUND, problem=text, gold="k", solution="It is \\boxed{k}."), SETTINGS)
    judge_candidate(replace(SOUND, solution=SOUND.solution + text), SETTINGS)
    assert time.perf_counter() - started < 5

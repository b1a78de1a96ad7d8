"""Loops are found wherever they stand; calculations, tables and echoes are none."""

from __future__ import annotations

import random

import pytest

from pipeline.corpus.rules.repetition import loop_in

PROSE = "".join(
    f"In step {number} we take {number * 37 % 101} away and {number * 53 % 97} remain, "
    f"which is {'more' if number % 3 else 'less'} than case {number * 7 % 89} gave us. "
    for number in range(60)
)


def test_honest_prose_has_no_loop() -> None:
    assert loop_in(PROSE, 0.5) is None


@pytest.mark.parametrize(
    "loop",
    [
        "Wait, I should check that again. ",
        "no, ",
        "So the answer must be larger.\nBut then the sum is smaller.\n",
        "x = y, hence " * 5 + "and so on. ",
        "A paragraph that is much longer than the others, with thoughts about the number. " * 6
        + "It ends here.\n\n",
    ],
)
def test_a_loop_is_found_at_the_start_in_the_middle_and_at_the_end(loop: str) -> None:
    looped = loop * (2500 // len(loop) + 5)
    for text in (looped, PROSE[:1500] + looped + PROSE[1500:3000], PROSE[:3000] + looped):
        assert loop_in(text, 0.5) is not None


def test_a_loop_is_quoted_from_its_beginning() -> None:
    found = loop_in(PROSE[:1410] + "Zig and zag and zoom out. " * 60 + PROSE[1500:2000], 0.4)
    assert found is not None
    assert "'Zig and zag" in found
    assert found.startswith("60 times in a row")


def test_a_short_loop_at_the_very_end_counts_whatever_its_share() -> None:
    ending = "Let me compute once more the whole thing. " * 5
    assert "5 times" not in PROSE
    assert loop_in(PROSE + ending, 0.5) is not None
    assert loop_in(PROSE + ending + "Ah, so it is seven, as the first step had shown.", 0.5) is None


def test_a_loop_without_words_counts_by_its_share() -> None:
    digits = "The quotient is 0." + "142857" * 60
    assert loop_in(digits, 0.5) is not None
    assert loop_in(PROSE[:2000] + digits + PROSE[2000:], 0.5) is None


def test_copies_of_long_passages_are_found_as_sentences() -> None:
    passage = PROSE[:3000]
    assert loop_in(passage * 3, 0.5) is not None
    assert loop_in(passage + PROSE[3000:] + passage[:600], 0.5) is None


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"{n} * {n + 1} = {n * (n + 1)}\n" for n in range(200)),
        "".join(f"| {n} | {n % 2} | yes | no |\n" for n in range(100)),
        "\n".join("0 & 0 & 0 & 0 \\\\" for _ in range(9)) + PROSE[:1000],
        "-" * 150 + PROSE[:1000],
        "2 + 2 + 2 + 2 = 8",
        "a" * 159,
        "",
    ],
)
def test_tables_and_calculations_are_no_loops(text: str) -> None:
    assert loop_in(text, 0.5) is None


def test_the_share_is_the_caller_s() -> None:
    half = PROSE[:1000] + "1 0 " * 200 + PROSE[1000:1500]
    assert loop_in(half, 0.3) is not None
    assert loop_in(half, 0.5) is None


def test_random_text_of_few_letters_has_no_loop() -> None:
    drawn = random.Random(1)
    assert loop_in("".join(drawn.choice("ab ") for _ in range(20_000)), 0.5) is None

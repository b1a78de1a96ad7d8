"""What many different training problems share proves nothing; a copy always does."""

from __future__ import annotations

from tests.support.overlap import LONG, index_of, verdict_of

TAIL = "find the smallest possible weight of the parcel that lies on the last wooden shelf"
NAMES = "abcdefghijklmnop"


def test_wording_of_many_training_problems_is_no_evidence_but_a_copy_is() -> None:
    index = index_of(f"Thirty birds fly there; {TAIL}")
    training = [f"Team {name} wins {name}{name} cups; {TAIL}" for name in NAMES]
    assert verdict_of(index, training[0], training) is None
    assert verdict_of(index, training[0], training[:9]) is not None, (
        "a few copies do not excuse themselves"
    )
    assert verdict_of(index, f"Thirty birds fly there; {TAIL}", training) is not None


def test_the_share_decides_in_a_large_corpus() -> None:
    index = index_of(f"Thirty birds fly there; {TAIL}")
    training = [f"Team {name} wins {name}{name} cups; {TAIL}" for name in NAMES]
    others = [f"Number {number}?" for number in range(100)]
    assert verdict_of(index, training[0], [*training, *others], share=0.2) is not None
    assert verdict_of(index, training[0], [*training, *others], share=0.1) is None


def test_a_phrase_of_the_trade_is_none_however_large_the_corpus() -> None:
    story = "Eleven players wear numbered shirts, three of them goalkeepers from Lyon or Nice;"
    phrase = (
        "express the chance as a fraction whose numerator and denominator share no prime factor"
    )
    index = index_of(f"{story} {phrase}")
    subjects = [f"{n}{n} {n}om boats {n}al rivers {n}et colours {n}up" for n in NAMES]
    training = [f"{one} {one.upper()} {one[::-1]} {phrase}" for one in subjects]
    few = verdict_of(index, training[0], training[:9])
    assert few is not None
    assert (few.name, few.methods) == ("review", ("ngram",))
    assert verdict_of(index, training[0], [*training, *map(str, range(5000))]) is None


def test_a_short_wording_of_many_problems_is_a_genre() -> None:
    index = index_of("Find the greatest common divisor of 3339 and 2961.")
    training = [f"Find the greatest common divisor of {n} and 90." for n in range(100, 110)]
    others = [f"Number {number}?" for number in range(1600)]
    edited = verdict_of(index, training[0], [*training[:9], *others])
    assert edited is not None
    assert edited.name == "edited"
    assert verdict_of(index, training[0], [*training, *others]) is None


def test_a_long_wording_of_some_problems_is_none() -> None:
    training = [LONG.replace("7 rows", f"{n} rows") for n in range(10, 25)]
    others = [f"Number {number}?" for number in range(1600)]
    assert verdict_of(index_of(LONG), training[0], [*training, *others]) is not None


def test_a_short_problem_inside_many_others_is_no_evidence() -> None:
    index = index_of("What is 2 + 3?")
    training = [f"Card {name} asks: what is 2 + 3 times {name}{name}?" for name in NAMES]
    assert verdict_of(index, training[0], training[:9]) is not None
    assert verdict_of(index, training[0], training) is None
    assert verdict_of(index, "What is 2 + 3 ?", training) is not None

"""English stays however many symbols it has; other languages go."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.rules.language import _COMMON, _gaps, foreign

SYMBOLS = [
    "\\[\\sum_{k=1}^{n} \\frac{1}{k^2} \\le 2, \\quad \\forall n \\in \\mathbb{N}\\]",
    "Let $\\alpha, \\beta, \\gamma$ be angles, α + β + γ = π, ℵ₀ < 𝔠. Find ∠ABC if ∂f/∂x ≥ 0.",
    "de = el + la; que := un * los; les = des - un  # variable names of a program in English",
    "In triangle $АВС$ (drawn with Cyrillic letters) the point М lies on АВ. Find СМ.",
    "Señora Pérez and Herr Müller meet in Los Angeles and drive from La Jolla to El Paso.",
    "A die is rolled. What is the chance that it shows a six, or that the die is lost?",
    "The word for the middle is 中 in one script; how many strokes does the sign have, then?",
    "By a theorem of Чебышёв there is a prime between $n$ and $2n$ for every $n$ greater than 1.",
    "12 + 34 = 46, 46 * 2 = 92, 92 - 7 = 85",
    "Integrate sin x cos x sin x cos x sin x over one period.",
    "SingularityFunction(x, 0, 1) for x over 3 plots the beam.",
    "As Lamé did, plot f. Plot x, x for x over 3.",
    "data index SPX CAC SPX CAC SPX CAC, a pre hook common to both",
    "Juan de la Cruz, Maria dos Santos van der Berg, Ludwig von Mises",
    "Use `que los dos` as in $\\text{que los dos son para una}$ or \\[\\text{und der die das}\\].",
    "",
]


@pytest.mark.parametrize("text", SYMBOLS)
def test_english_and_symbols_stay(text: str) -> None:
    assert foreign(text) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("First we add the numbers. 然后我们得到答案是四。 So it is 4.", "CJK"),
        ("Найдите сумму всех чисел от одного до ста.", "non-Latin"),
        ("أوجد مجموع الأعداد من واحد إلى مئة", "non-Latin"),
        ("Tìm số các số tự nhiên của tập hợp và cho biết là bao nhiêu trong một dãy", "Vietnamese"),
        (
            "Se sabe que la suma de los números es 12 y que el producto de las cifras es 35 "
            "para cada una de ellas.",
            "Spanish",
        ),
        (
            "Wir suchen die Zahl, und das Ergebnis der Rechnung ist nicht so schwer zu finden, "
            "denn sie ist eine Primzahl.",
            "German",
        ),
        (
            "On cherche le nombre des points qui sont dans le plan et sur une droite avec nous",
            "French",
        ),
    ],
)
def test_other_languages_are_named(text: str, said: str) -> None:
    found = foreign(text)
    assert found is not None
    assert said in found


@pytest.mark.parametrize(
    "sentence",
    [
        "Pomnožimo oba broja i zatim oduzmemo sedam od toga što smo dobili.",
        "Obe strani delimo z dva in tako dobimo vrednost, ki jo iščemo.",
        "Laskemme ensin luvut yhteen ja sitten jaamme sen kahdella.",
        "Vi lægger først de to tal sammen og deler så med tre.",
        "Vi legger først de to tallene sammen og deler så på tre.",
        "Pagsamahin natin ang dalawang bilang upang makuha ang sagot.",
        "Wir ziehen auf beiden Seiten sieben ab und teilen durch zwei.",
    ],
)
def test_one_sentence_in_any_european_or_asian_language_is_found(sentence: str) -> None:
    english = "We add the two numbers and then we look at what is left of the sum.\n\n" * 5
    assert foreign(sentence) is not None
    assert foreign(f"{english}{sentence}\n\n{english}") is not None


def test_a_stretch_of_foreign_words_is_found_without_an_unmistakable_one() -> None:
    words = "kita beli lima dan dua lalu bagi"
    assert foreign(f"We look at it: {words}. That is all.") is not None
    assert foreign("We look at Villa de la Cruz del Monte San Rafael now. That is all.") is None


def test_greek_letters_of_formulas_pass_and_greek_words_do_not() -> None:
    assert foreign("Let αβγ and δεζ be arcs, θωφ a third, ηκλ the last, and ά none.") is None
    assert foreign("Η περίμετρος του τριγώνου είναι δώδεκα.") is not None


@pytest.mark.parametrize(
    "piece",
    ["\\[", "\\(", "$$ ", "```", "\\begin{a}", "[asy]", "a\n", "中 ", ".", "α", "a", "$", "x'"],
)
@pytest.mark.parametrize("before", ["", "que los é ά "])
def test_hostile_text_costs_one_pass(piece: str, before: str) -> None:
    started = time.perf_counter()
    foreign(before + piece * 300_000 + "a")
    assert time.perf_counter() - started < 5


def test_one_switched_paragraph_in_a_long_english_text_is_found() -> None:
    english = "We add the two numbers and then we look at what is left of the sum. " * 40
    switched = "Se tiene que la suma de los números es igual para cada una de las cifras."
    assert foreign(f"{english}\n{english}") is None
    assert foreign(f"{english}\n{switched}\n{english}") is not None


@given(st.lists(st.sampled_from(["the", "qzx", "foo", "los", "une"]), max_size=40))
def test_stretches_are_the_runs_without_a_common_word(tokens: list[str]) -> None:
    telling = {"los", "une"}
    signs = "".join(
        "e" if token in _COMMON else "f" if token in telling else "x" for token in tokens
    )
    runs = [run.span() for run in re.finditer("[^e]{6,}", signs) if "f" in run.group()]
    assert list(_gaps(tokens, telling)) == [tokens[start:stop] for start, stop in runs]

"""A batch is cut into the very tokens that the plain rule gives, one problem at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.overlap.hashing import OPERATOR, cut
from pipeline.corpus.overlap.tokens import (
    OPERATORS,
    is_number,
    masked_words,
    ngrams,
    tokens_of,
    words_of,
)

PIECES = st.sampled_from(
    [
        *("\\begin{", "pmatrix}", "\\end{align*}", "\\left", "\\frac", "\\times", "\\neq", "\\div"),
        *("12", "1,234", "{,}", "\\,", "\\!", "'", "3.4.5", ".", ",", "000", "é", "Ω", "①", "½"),
        *("≤", "İ", "ẞ", "Σ", "²", "٣", "ﬁ", "\\begin{array}{ll}", "[asy]", "[/asy]", "\0", "\\"),
        *("x", " ", "*}", "cdot", "{", "}", "a+b", "=", "X_1", "the sum of", "\ud800"),
    ]
)
PROBLEMS = st.lists(
    st.one_of(st.text(max_size=12), st.lists(PIECES, max_size=12).map("".join)),
    min_size=1,
    max_size=4,
)


@given(PROBLEMS)
def test_tokens_of_a_batch_equal_those_of_its_problems(problems: list[str]) -> None:
    found = cut(problems)
    wanted = [tokens_of(problem) for problem in problems]
    flat = [(place, token) for place, tokens in enumerate(wanted) for token in tokens]
    assert found.problem.tolist() == [place for place, _ in flat]
    assert one_to_one(found.hashes.tolist(), [token for _, token in flat])
    assert (found.kinds == OPERATOR).tolist() == [token in OPERATORS for _, token in flat]
    names = [len(t) == 1 and t not in OPERATORS and not is_number(t) for _, t in flat]
    assert found.single.tolist() == names


def one_to_one(hashes: list[int], tokens: list[str]) -> bool:
    """Equal tokens have equal hashes, and only they."""
    return len(hashes) == len(tokens) and (
        len(set(zip(hashes, tokens, strict=True))) == len(set(hashes)) == len(set(tokens))
    )


@given(PROBLEMS, st.integers(1, 5))
def test_windows_are_the_ngrams(problems: list[str], size: int) -> None:
    found = cut(problems)
    words = [words_of(tokens_of(problem)) for problem in problems]
    for tokens, wanted in (
        (found.words(), words),
        (found.masked(), [masked_words(one) for one in words]),
    ):
        runs = [(place, run) for place, one in enumerate(wanted) for run in ngrams(one, size)]
        hashes, places = tokens.windows(size)
        assert places.tolist() == [place for place, _ in runs]
        assert one_to_one(hashes.tolist(), [" ".join(run) for _, run in runs])


@given(PROBLEMS)
def test_wholes_are_hashes_of_all_tokens(problems: list[str]) -> None:
    texts = [" ".join(tokens_of(problem)) for problem in problems]
    hashes = cut(problems).wholes(len(problems)).tolist()
    assert one_to_one(hashes, texts)
    assert [one == 0 for one in hashes] == [not text for text in texts]


@given(PROBLEMS, st.integers(1, 5))
def test_hashes_do_not_depend_on_the_rest_of_the_batch(problems: list[str], size: int) -> None:
    whole, alone = cut(problems), [cut([problem]) for problem in problems]
    hashes = [one for tokens in alone for one in tokens.windows(size)[0].tolist()]
    assert whole.windows(size)[0].tolist() == hashes
    wholes = [tokens.wholes(1)[0] for tokens in alone]
    assert whole.wholes(len(problems)).tolist() == wholes


@given(PROBLEMS, st.data())
def test_a_part_of_a_batch_is_cut_as_it_is_alone(problems: list[str], data: st.DataObject) -> None:
    chosen = data.draw(st.sets(st.integers(0, len(problems) - 1)))
    rows = np.array(sorted(chosen), np.int64)
    found = cut(problems).only(rows, len(problems))
    if chosen:
        alone = cut([problems[row] for row in sorted(chosen)])
        assert found.hashes.tolist() == alone.hashes.tolist()
        assert found.problem.tolist() == alone.problem.tolist()
    else:
        assert len(found.hashes) == 0


def test_a_batch_larger_than_the_tables_of_powers() -> None:
    problem = " ".join(f"word{number}" for number in range(3000))
    assert len(np.unique(cut([problem] * 3).hashes)) == 3001

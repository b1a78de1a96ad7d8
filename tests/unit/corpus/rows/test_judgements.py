"""Which labels count follows from what the source is; what was found is said."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.base.params_corpus import SourceParams
from pipeline.corpus.rows.schemas import Candidate, read_candidates

ROW = {"problem": "1 + 1?", "answer": "2"}
TWO = {**ROW, "generations": ["So \\boxed{2}.", "So \\boxed{3}."]}
ONE = {**ROW, "generation": "So \\boxed{2}."}


def read(row: dict[str, Any], **source: Any) -> list[Candidate]:
    return read_candidates(row, SourceParams(path="x", **source))


def verdicts(row: dict[str, Any], **source: Any) -> list[str]:
    return [found.verified for found in read(row, **source)]


def test_parallel_labels_of_several_generations() -> None:
    row = TWO | {"correctness_math_verify": [True, False], "correctness_count": 1}
    assert verdicts(row) == ["correct", "wrong"]
    assert verdicts(row | {"correctness_llama": [False, True]}) == ["correct", "correct"]
    assert verdicts(TWO | {"is_correct": ["unknown", 0]}) == ["unverifiable", "wrong"]
    assert read(row)[0].schema == ("problem/generations/answer; labels correctness_math_verify")


def test_samples_with_scores_beside_them() -> None:
    codes = [f"So \\boxed{{{n}}}." for n in (2, 3, 2, 2)]
    row = ROW | {"code": codes, "pred": ["2", "3", "2", "2"], "score": [True, False, True, True]}
    found = read(row)
    assert [one.verified for one in found] == ["correct", "wrong", "correct", "correct"]
    assert {(one.solve_rate, one.tier) for one in found} == {(0.75, "easy")}
    assert found[0].schema == "problem/code/answer; labels score; rate score"


def test_labels_inside_the_replies() -> None:
    row = {
        "question": "1 + 1?",
        "ground_truth": "2",
        "small_model": {"solution": "So \\boxed{3}.", "is_correct": False},
        "large_model": {"solution": "So \\boxed{2}.", "is_correct": True},
    }
    assert verdicts(row) == ["wrong", "correct"]
    texts = [{"text": "So \\boxed{2}.", "correct": True}, {"text": "So \\boxed{3}."}]
    assert verdicts(ROW | {"responses": texts}) == ["correct", "unverifiable"]


@pytest.mark.parametrize(
    ("kind", "column", "with_gold", "without_gold"),
    [
        ("auto", "is_correct", "wrong", "wrong"),
        ("auto", "label", "unlabelled", "wrong"),
        ("traces", "is_correct", "unlabelled", "wrong"),
        ("traces", "label", "unlabelled", "wrong"),
        ("generations", "is_correct", "wrong", "wrong"),
        ("generations", "label", "wrong", "wrong"),
        ("solutions", "is_correct", "unlabelled", "unlabelled"),
    ],
)
def test_kinds(kind: str, column: str, with_gold: str, without_gold: str) -> None:
    row = ONE | {column: False}
    assert verdicts(row, kind=kind) == [with_gold]
    assert verdicts(row | {"answer": None}, kind=kind) == [without_gold]


def test_unknown_spellings_leave_generations_unverifiable_and_others_alone() -> None:
    assert verdicts(ONE | {"verdict": "hm"}, kind="generations") == ["unverifiable"]
    assert verdicts(ONE | {"verdict": "hm"}) == ["unlabelled"]
    assert verdicts(ONE | {"score": 3.5}, kind="generations") == ["unlabelled"]


def test_a_mapped_label_is_the_only_one() -> None:
    row = ONE | {"is_correct": True, "my_check": "wrong"}
    assert verdicts(row, columns={"verified": "my_check"}) == ["wrong"]
    assert verdicts(row, columns={"verified": "gone"}) == ["unverifiable"]
    assert read(row, columns={"verified": "my_check"})[0].schema.endswith(
        "verified=my_check; labels verified"
    )


def test_answers_that_were_voted_for_prove_nothing() -> None:
    kinds = ("has_answer_extracted", "no_answer_extracted", "converted_proof")
    rows = [ONE | {"problem_type": kind} for kind in kinds]
    assert [verdicts(row)[0] for row in rows] == ["unlabelled", "unverifiable", "unverifiable"]
    assert verdicts(rows[1], kind="traces") == ["unlabelled"]


def test_rates_tiers_and_their_mapping() -> None:
    row = ONE | {"pass_rate_72b_tir": "0.40", "difficulty": 9, "level": "Level 5"}
    found = read(row)[0]
    assert (found.solve_rate, found.tier) == (0.4, "medium")
    assert found.schema.endswith("; rate pass_rate_72b_tir")
    assert read(row, tier="hard")[0].tier == "hard"
    assert read(ONE | {"difficulty": 0.9, "level": 1})[0].tier == "unknown"
    mapped = read(row | {"ease": 70}, columns={"solve_rate": "ease"})[0]
    assert (mapped.solve_rate, mapped.tier) == (0.7, "easy")
    assert read(ONE | {"extra_info": {"solve_rate": 0.1}})[0].tier == "hard"
    assert read(ONE | {"pass_rate": "n/a"})[0].solve_rate is None

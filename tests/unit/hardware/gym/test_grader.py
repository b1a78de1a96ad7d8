"""The grader: weights, forms, tolerances, penalties."""

from __future__ import annotations

import json

import pytest

from pipeline.hardware.gym.cases import CLOSE, EXACT, Gold
from pipeline.hardware.gym.grader import LONGEST, Grade, grade

GOLD = Gold(
    ("batch_off_target", "states_over_budget"),
    {"fixed_gib": 20.0, "effective_batch": 64.0},
    {"zero_stage": 3, "gradient_accumulation_steps": 8},
)
FIELDS = frozenset({
    "zero_stage", "gradient_accumulation_steps", "learning_rate", "packing", "precision",
})  # fmt: skip
QUANTITIES = {"fixed_gib": CLOSE, "effective_batch": EXACT}
RIGHT: dict[str, object] = {
    "diagnosis": ["states_over_budget", "batch_off_target"],
    "intermediates": {"fixed_gib": 20.05, "effective_batch": 64},
    "fix": {"zero_stage": 3, "gradient_accumulation_steps": 8},
}


def graded(reply: object, **changed: object) -> Grade:
    text = reply if isinstance(reply, str) else json.dumps({**RIGHT, **changed})
    return grade(text, GOLD, FIELDS, QUANTITIES)


def test_right_answer_scores_one() -> None:
    assert graded(RIGHT) == Grade(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("changed", "score"),
    [
        ({"diagnosis": ["states_over_budget"]}, 0.70),
        ({"intermediates": {"fixed_gib": 20.2, "effective_batch": 64}}, 0.875),
        ({"intermediates": {"fixed_gib": None, "effective_batch": 65}}, 0.75),
        ({"fix": {"zero_stage": 3}}, 0.775),
        ({"fix": {"zero_stage": 3, "gradient_accumulation_steps": 4}}, 0.65),
        ({"fix": {}}, 0.65),
        ({"fix": {"zero_stage": 3, "gradient_accumulation_steps": 8, "packing": True}}, 0.775),
    ],
)
def test_each_part_has_its_weight(changed: dict[str, object], score: float) -> None:
    assert graded(RIGHT, **changed).score == pytest.approx(score)


def test_weights_without_intermediates() -> None:
    gold = Gold(("disk_full",), {}, {"zero_stage": 3})

    def score(codes: list[str], fix: dict[str, object]) -> float:
        return grade(json.dumps({"diagnosis": codes, "fix": fix}), gold, FIELDS, {}).score

    assert score(["disk_full"], {"zero_stage": 3}) == 1.0
    assert score(["data_starved"], {"zero_stage": 3}) == pytest.approx(0.65)
    assert score(["disk_full"], {"zero_stage": 2}) == pytest.approx(0.45)


def test_dumping_all_fixes_wins_nothing_but_form_and_diagnosis() -> None:
    dumped = {"zero_stage": 3, "gradient_accumulation_steps": 8, "learning_rate": 1e-4,
              "packing": True, "precision": "bf16"}  # fmt: skip
    assert (graded(RIGHT, fix=dumped).fix, graded(RIGHT, fix=dumped).minimality) == (0.0, 0.0)


@pytest.mark.parametrize(
    "reply",
    [
        "", "no idea", "[]", "{}", "}", "{" * 50_000, "[" * 50_000 + "}", '{"diagnosis": 1}',
        json.dumps(RIGHT) + "\nThat is all.", json.dumps(RIGHT)[1:],
        json.dumps({**RIGHT, "remarks": ""}), json.dumps([RIGHT]), json.dumps(RIGHT) * 2 + "]",
        json.dumps({**RIGHT, "diagnosis": []}), json.dumps({**RIGHT, "diagnosis": "disk_full"}),
        json.dumps({**RIGHT, "diagnosis": ["bad_luck"]}),
        json.dumps({**RIGHT, "diagnosis": ["disk_full", "disk_full"]}),
        json.dumps({**RIGHT, "diagnosis": [["disk_full"]]}),
        json.dumps({**RIGHT, "fix": [3]}), json.dumps({**RIGHT, "fix": {"gpus": 3}}),
        json.dumps({**RIGHT, "fix": {"zero_stage": [0, 1, 2, 3]}}),
        json.dumps({**RIGHT, "fix": {"zero_stage": None}}),
        json.dumps({**RIGHT, "fix": {"zero_stage": float("nan")}}),
        json.dumps({**RIGHT, "intermediates": {"fixed_gib": 20}}),
        json.dumps({**RIGHT, "intermediates": {"fixed_gib": "20", "effective_batch": 64}}),
        json.dumps({**RIGHT, "intermediates": {"fixed_gib": True, "effective_batch": 64}}),
        json.dumps({**RIGHT, "intermediates": {"fixed_gib": float("inf"), "effective_batch": 1}}),
        json.dumps({**RIGHT, "intermediates": None}), '{"a": ' * 20_000 + "}",
        " " * 10 + "x" * LONGEST + "}", '{"diagnosis": ' + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_another_form_scores_nothing(reply: str) -> None:
    assert graded(reply) == Grade()


def test_the_last_answer_counts() -> None:
    wrong = json.dumps({**RIGHT, "diagnosis": ["disk_full"]})
    assert graded(wrong + json.dumps(RIGHT)).score == 1.0
    assert graded(json.dumps(RIGHT) + wrong).score == 0.7
    assert graded("{" * 200 + wrong + "} " + json.dumps(RIGHT)).score == 1.0


@pytest.mark.parametrize(
    "form",
    [
        "{}", "Thinking {{of}} it.\n{}", "```json\n{}\n```", "<think>{{\"fix\": 1}}</think> {}\n",
    ],
)  # fmt: skip
def test_text_and_fences_around_the_answer_are_allowed(form: str) -> None:
    text = form.replace("{}", "@").replace("{{", "{").replace("}}", "}")
    assert graded(text.replace("@", json.dumps(RIGHT, indent=2))).score == 1.0


@pytest.mark.parametrize(
    ("right", "given", "same"),
    [
        (True, True, True), (True, 1, False), (1, True, False), (2, 2.0, True), (2, 2.001, False),
        (2e-4, 2.001e-4, True), (2e-4, 2.01e-4, False), ("bf16", "bf16", True),
        ("bf16", "BF16", False), ("bf16", 16, False), (8, "8", False),
    ],
)  # fmt: skip
def test_values_of_a_fix(right: bool | int | float | str, given: object, same: bool) -> None:
    gold = Gold(("disk_full",), {}, {"zero_stage": right})
    reply = json.dumps({"diagnosis": ["disk_full"], "fix": {"zero_stage": given}})
    assert grade(reply, gold, FIELDS, {}).fix == float(same)


def test_zero_is_within_tolerance_of_zero_alone() -> None:
    gold = Gold(("disk_full",), {"rate": 0.0}, {"zero_stage": 1})

    def share(value: float) -> float:
        row = {"diagnosis": ["disk_full"], "intermediates": {"rate": value}, "fix": {}}
        return grade(json.dumps(row), gold, FIELDS, {"rate": CLOSE}).intermediates

    assert (share(0), share(1e-12), share(1e-6)) == (1.0, 1.0, 0.0)

"""Sums drawn by reasoning-gym and worked by us."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from types import ModuleType

import pytest

from pipeline.base.errors import UserError
from pipeline.base.grading import grade
from pipeline.embedded import sums
from pipeline.embedded.sums import QUESTIONS, Sum, draw, load_chain_sum


def test_a_sum_is_worked_from_left_to_right() -> None:
    item = Sum("15 - 43 - 75", -103, "What is 15 - 43 - 75?")
    assert item.steps == ["15 - 43 = -28", "-28 - 75 = -103"]
    assert item.solution == (
        "Step 1: 15 - 43 = -28.\nStep 2: -28 - 75 = -103.\nThe answer is \\boxed{-103}."
    )


def test_every_step_and_every_box_is_right() -> None:
    for item in islice(draw(3), 300):
        for step in item.steps:
            left, right = step.split(" = ")
            a, sign, b = left.split()
            assert int(right) == (int(a) + int(b) if sign == "+" else int(a) - int(b))
        assert grade(item.solution, str(item.answer)).correct
        assert item.expression in item.question


def test_equal_seeds_draw_equal_sums_and_no_sum_comes_twice() -> None:
    first, again, other = (list(islice(draw(seed), 400)) for seed in (7, 7, 8_000_000))
    assert first == again
    assert first != other
    assert len({item.expression for item in first}) == 400
    assert {form_of(item) for item in first} == set(QUESTIONS)


def form_of(item: Sum) -> str:
    return item.question.replace(item.expression, "{}")


def test_sums_have_two_or_three_terms_of_at_most_two_digits() -> None:
    terms = [item.expression.replace("-", "+").split(" + ") for item in islice(draw(0), 300)]
    assert {len(one) for one in terms} == {2, 3}
    assert {len(number) for one in terms for number in one} == {1, 2}


def test_loading_leaves_nothing_half_imported_behind() -> None:
    module = load_chain_sum()
    assert module.__name__ == "reasoning_gym.arithmetic.chain_sum"
    assert not [name for name in sys.modules if name.startswith("reasoning_gym")]


def test_a_package_that_is_already_imported_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    present = ModuleType("reasoning_gym")
    monkeypatch.setitem(sys.modules, "reasoning_gym", present)
    load_chain_sum()
    assert sys.modules["reasoning_gym"] is present


def test_only_light_packages_are_needed() -> None:
    program = (
        "import sys; from pipeline.embedded.sums import load_chain_sum; load_chain_sum();"
        "heavy = {'sympy', 'numpy', 'matplotlib', 'pycosat', 'torch'} & set(sys.modules);"
        "raise SystemExit(sorted(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_missing_package_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sums.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(UserError, match=r"`pip install --no-deps reasoning-gym==0\.1\.25`"):
        next(draw(0))
    assert "reasoning_gym" not in sys.modules

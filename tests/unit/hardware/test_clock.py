"""Time shares and steps."""

from __future__ import annotations

import pytest

from pipeline.base.errors import UserError
from pipeline.hardware.clock import explain_clock, split_budget, steps_by_clock, unique_tokens
from tests.support.machines import QWEN3_14B, SMOLLM2
from tests.support.settings import make_params


def test_the_shares_add_up_to_the_budget() -> None:
    params = make_params(**{"budget.hours": 20.0, "budget.evaluation_share": 0.25})
    shares = split_budget(params, QWEN3_14B)
    assert shares.evaluation == 18000
    assert shares.reserve == 60
    # 60 s for the data stages and five passes over 29.5 GB at 0.4 GB/s.
    assert shares.allowance == pytest.approx(60 + 5 * 73.84, abs=1)
    total = shares.training + shares.evaluation + shares.reserve + shares.allowance
    assert total == pytest.approx(72000)


def test_a_short_budget_has_a_short_allowance() -> None:
    shares = split_budget(make_params(**{"budget.hours": 0.1}), SMOLLM2)
    assert shares.allowance < 25


def test_no_time_to_train_is_refused_with_hours_that_work() -> None:
    with pytest.raises(UserError, match=r"budget\.hours to at least ([\d.]+)") as caught:
        split_budget(make_params(**{"budget.hours": 0.02}), SMOLLM2)
    hours = float(caught.value.remedy.split("at least ")[1].split(",")[0])
    assert split_budget(make_params(**{"budget.hours": hours}), SMOLLM2).training > 0


def test_steps_are_whole_and_at_least_one() -> None:
    assert steps_by_clock(1000.0, 50.0, 1024) == 48
    with pytest.raises(UserError, match=r"one step of 65,536 tokens takes 10m55s"):
        steps_by_clock(600.0, 100.0, 65536)


def test_unique_tokens_are_the_clocks_tokens_over_the_passes() -> None:
    assert unique_tokens(100, 1024, 4) == 25600
    assert unique_tokens(None, 1024, 4) is None
    assert unique_tokens(2, 1024, 8) == 1024


def test_fixed_steps_that_take_too_long_are_said() -> None:
    params = make_params(**{"train.steps": 1000})
    shares = split_budget(params, SMOLLM2)
    assert "too long" in explain_clock(shares, params, None, 65536, 100.0)
    assert "too long" not in explain_clock(shares, params, None, 512, 1000.0)

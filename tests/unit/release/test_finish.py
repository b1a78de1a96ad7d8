"""What is said at the end of a run."""

from __future__ import annotations

from pipeline.release.finish import score_line


def test_accuracy_stands_with_its_interval() -> None:
    scores = {
        "problems": 64, "k": 3,
        "pass_at_1": 0.5, "pass_at_1_interval": [0.4, 0.6],
        "best_of_k": 0.75, "best_of_k_interval": [0.6, 0.9],
    }  # fmt: skip
    line = score_line("adapter", scores)
    assert "pass@1 50.0% [40.0%, 60.0%]" in line
    assert "best of 3 75.0% [60.0%, 90.0%] on 64 problems" in line


def test_an_evaluation_without_time_is_said_not_reckoned() -> None:
    nothing = {"problems": 0, "k": 3, "pass_at_1": None, "pass_at_1_interval": None}
    assert "no problem was answered" in score_line("base", nothing)

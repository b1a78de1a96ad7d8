"""Traces for tests: every field has a value that passes, any may be given."""

from __future__ import annotations

from typing import Any

from pipeline.base.records import Trace, problem_id


def make_trace(problem: str = "What is 1 + 2?", gold: str = "3", **given: Any) -> Trace:
    """A trace of a problem; its reply boxes the gold answer unless another is given."""
    key = problem_id(problem)
    fields = {
        "id": key,
        "problem": problem,
        "gold": gold,
        "thinking": "",
        "solution": f"\\boxed{{{gold}}}",
        "source": "t.jsonl",
        "origin": "t.jsonl:1",
        "tokens": 9,
        "group": given.get("id", key),
        "tier": "unknown",
        "solve_rate": None,
        "weight": 1.0,
    }
    return Trace(**(fields | given))

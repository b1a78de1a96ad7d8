"""Before and after in figures."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.corpus.selection.choice import REASONS, Limits
from pipeline.corpus.selection.entries import TIERS
from pipeline.corpus.selection.report import describe, summary_lines
from pipeline.corpus.selection.topics import BUCKETS, TOPICS
from tests.support.entries import make_entries

LIMITS = Limits("first", 1, 300, 200, 0, tier_shares={"hard": 3.0, "easy": 1.0})


def report(rows: list[tuple[int, int]], reasons: list[str], **given_: Any) -> dict[str, Any]:
    places = np.asarray([REASONS.index(one) for one in reasons], dtype=np.uint8)
    return describe(make_entries(rows, **given_), places, LIMITS, 100)


SMALL = report(
    [(1, 64), (1, 65), (2, 150), (3, 300)],
    ["chosen", "more-traces", "chosen", "over-budget"],
    tiers=["hard", "hard", "easy", "unknown"],
    sources=[0, 1, 1, 1],
    weights={0: 2.0, 1: 1.0},
    rates=[0.3, 0.29, 1.0, None],
    topics=[0, 1, BUCKETS, BUCKETS],
)


def test_totals() -> None:
    assert {key: SMALL[key] for key in ("read", "kept", "problems_read", "problems")} == {
        "read": 4, "kept": 2, "problems_read": 3, "problems": 2,
    }  # fmt: skip
    assert SMALL["dropped"] == {"more-traces": 1, "over-budget": 1}
    assert (SMALL["tokens_read"], SMALL["tokens"], SMALL["longest"]) == (579, 214, 150)
    assert SMALL["kept_beyond_answer_limit"] == 1
    assert SMALL["kept_of_unknown_solve_rate"] == 0


def test_a_bar_holds_its_upper_bound_and_empty_bars_show() -> None:
    assert [(one["up_to"], one["read"], one["kept"]) for one in SMALL["length_histogram"]] == [
        (64, 1, 1), (128, 1, 0), (256, 1, 1), (512, 1, 0),
    ]  # fmt: skip
    assert report([(1, 300)], ["chosen"])["length_histogram"][0] == {
        "up_to": 64, "read": 0, "kept": 0, "tokens_read": 0, "tokens": 0,
    }  # fmt: skip


def test_tiers_show_what_was_wanted() -> None:
    assert SMALL["tiers"] == [
        {"tier": "unknown", "read": 1, "kept": 0, "tokens_read": 300, "tokens": 0, "wanted": 0},
        {"tier": "easy", "read": 1, "kept": 1, "tokens_read": 150, "tokens": 150, "wanted": 50},
        {"tier": "hard", "read": 2, "kept": 1, "tokens_read": 129, "tokens": 64, "wanted": 150},
    ]


def test_a_rate_on_a_bound_belongs_to_the_band_above_and_one_to_the_last() -> None:
    bands = {one["solve_rate"]: one["read"] for one in SMALL["solve_rates"]}
    assert bands == {"0.2-0.3": 1, "0.3-0.4": 1, "0.9-1.0": 1, "unknown": 1}


def test_files_have_their_reasons_in_order_of_name() -> None:
    first, second = SMALL["sources"]
    assert first == {
        "source": "s0", "read": 1, "kept": 1, "tokens_read": 64, "tokens": 64, "dropped": {},
    }  # fmt: skip
    assert (second["source"], second["dropped"]) == ("s1", {"more-traces": 1, "over-budget": 1})


def test_weights_show_what_was_wanted_and_only_where_they_differ() -> None:
    shown = [
        (one["entry"], one["weight"], one["wanted"], one["tokens"]) for one in SMALL["weights"]
    ]
    assert shown == [(0, 2.0, 133, 64), (1, 1.0, 67, 150)]
    assert report([(1, 300)], ["chosen"])["weights"] == []


def test_topics_and_subjects() -> None:
    assert (SMALL["topics"]["read"], SMALL["topics"]["kept"]) == (3, 2)
    even = report([(n, 9) for n in range(TOPICS)], ["chosen"] * TOPICS, topics=list(range(TOPICS)))
    assert even["topics"]["kept_share_of_top_tenth"] == round((TOPICS // 10) / TOPICS, 4)
    assert [(one["subject"], one["read"]) for one in SMALL["subjects"]] == [
        ("geometry", 2), ("numbers", 2),
    ]  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.integers(0, 4), st.integers(1, 999), st.sampled_from(REASONS), st.integers(0, 3)
        ),
        max_size=20,
    )
)
def test_every_table_adds_up(rows: list[tuple[int, int, str, int]]) -> None:
    made = report(
        [row[:2] for row in rows], [row[2] for row in rows], tiers=[TIERS[row[3]] for row in rows],
        sources=[row[3] for row in rows], topics=[row[3] * BUCKETS for row in rows],
        rates=[None if row[3] == 3 else row[3] / 2 for row in rows],
    )  # fmt: skip
    assert made["read"] == made["kept"] + sum(made["dropped"].values())
    tables = ("length_histogram", "tiers", "solve_rates", "subjects", "sources")
    for column in ("read", "kept", "tokens_read", "tokens"):
        assert [sum(one[column] for one in made[table]) for table in tables] == [made[column]] * 5
    assert sum(sum(one["dropped"].values()) for one in made["sources"]) == (
        made["read"] - made["kept"]
    )
    json.dumps(made, allow_nan=False)
    assert all("nan" not in line for line in summary_lines(made))


def test_the_summary_says_what_shifted_and_warns_of_long_rows() -> None:
    lines = summary_lines(SMALL)
    assert "tokens 579 -> 214, problems 3 -> 2, topics 3 -> 2 of 88" in lines[0]
    assert any("hard 22% -> 30%" in line for line in lines)
    assert any("1 of 2 rows are longer" in line and "select.max_tokens" in line for line in lines)

"""What the encoded parts hold together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.packing import encoded as module
from tests.support.packing import encode_traces, sum_trace

ROWS = [sum_trace(n, "Carry. " * (n % 4)) for n in range(1, 13)]


@pytest.mark.parametrize("dense", [0, 10**9])
def test_tokens_come_out_as_the_chat_makes_them(
    base: Path, chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dense: int
) -> None:
    monkeypatch.setattr(module, "DENSE", dense)  # read piece by piece, or mapped
    encoded = encode_traces(base, tmp_path, ROWS, 5, 3, 4)
    chosen = np.array([0, 4, 5, 8, 11], dtype=np.int32)
    sizes = encoded.lengths[chosen].astype(np.int64)
    places = np.cumsum(sizes[::-1])[::-1] - sizes  # the last of them first
    target = np.full(int(sizes.sum()), -1, dtype=np.int32)
    encoded.copy_tokens(chosen, places, target)
    for number, place, size in zip(chosen.tolist(), places.tolist(), sizes.tolist()):
        row = ROWS[number]
        one = chat.encode(row.problem, row.thinking, row.solution)
        assert target[place : place + size].tolist() == one.prompt + one.reply


def test_kinds_are_source_and_tier_and_add_up(base: Path, tmp_path: Path) -> None:
    encoded = encode_traces(base, tmp_path, ROWS, 1, 11)
    assert encoded.names == [("sums", tier) for tier in ("easy", "hard", "medium", "unknown")]
    assert [encoded.names[kind][1] for kind in encoded.kinds.tolist()] == [r.tier for r in ROWS]
    tiers = encoded.per_source()["sums"]
    assert {tier: one["documents"] for tier, one in tiers.items()} == dict.fromkeys(tiers, 3)
    assert sum(one["tokens"] for one in tiers.values()) == encoded.lengths.sum()


def test_sequences_too_short_for_most_rows_stop_the_run(base: Path, tmp_path: Path) -> None:
    encoded = encode_traces(base, tmp_path, ROWS[:2], sequence_tokens=16)
    with pytest.raises(UserError, match=r"2 of 2 rows .* 16 tokens .*plan.sequence_tokens"):
        encoded.require_enough(16)


def test_half_of_the_rows_may_be_too_long(base: Path, tmp_path: Path) -> None:
    rows = [sum_trace(1), sum_trace(2), *(sum_trace(n, "No. " * 400) for n in (3, 4))]
    encode_traces(base, tmp_path, rows).require_enough(512)


def test_no_rows_at_all_stop_the_run(base: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"0 of 0 rows .* 0 rows are left"):
        encode_traces(base, tmp_path, [], 0).require_enough(512)


def test_a_part_that_is_cut_short_is_noticed(base: Path, tmp_path: Path) -> None:
    encoded = encode_traces(base, tmp_path, ROWS)
    path = tmp_path / "parts0/0/tokens.bin"
    path.write_bytes(path.read_bytes()[:-8])
    last = np.array([11], dtype=np.int32)
    with pytest.raises(UserError, match=r"tokens\.bin: \d+ bytes of \d+"):
        encoded.copy_tokens(last, np.array([0]), np.empty(encoded.lengths[11], dtype=np.int32))

"""Arrays and objects of rows: read through a window, each broken row alone."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import BinaryIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.corpus.execution.watch import Watch, new_slots
from pipeline.corpus.readers import arrays, window
from pipeline.corpus.readers.arrays import read_values, shape_of
from pipeline.corpus.rows.strict_json import Row

GOOD = {"problem": 'What "is" {2} + [2]\\?', "answer": "4"}
LINE = json.dumps(GOOD)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab{}[]"\\,:é😀\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)


def read(text: str | bytes) -> list[Row]:
    return list(read_values(io.BytesIO(text if isinstance(text, bytes) else text.encode()), "x"))


def faults(rows: list[Row]) -> list[tuple[str, str]]:
    return [(row.origin, row.fault.reason) for row in rows if row.fault]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of a few bytes, so that every value is cut somewhere."""
    monkeypatch.setattr(window, "PIECE_BYTES", 3)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    rows=st.lists(st.dictionaries(st.just("k"), JSON), max_size=4),
    indent=st.sampled_from([0, None]),
)
def test_any_array_is_read_whatever_the_pieces(
    rows: list[dict[str, object]], indent: int | None
) -> None:
    text = json.dumps(rows, indent=indent, ensure_ascii=bool(indent))
    with pytest.MonkeyPatch.context() as patch:
        whole = [(row.value, row.fault and row.fault.reason) for row in read(text)]
        patch.setattr(window, "PIECE_BYTES", 1)
        assert [(row.value, row.fault and row.fault.reason) for row in read(text)] == whole
    assert len(whole) == len(rows)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        ('{"a": tru}', "not-json"),
        ('{"a": 1,}', "not-json"),
        ('{"a": "raw \n end"}', "not-json"),
        ("[" * 3000 + "]" * 3000, "not-json"),
        ('{"a":' * 3000 + "1" + "}" * 3000, "not-json"),
        ('{"a": NaN}', "not-finite"),
        ('{"a": 1, "a": 2}', "duplicate-key"),
        ("123456789012", "not-object"),
        ("null", "not-object"),
    ],
)
def test_a_broken_row_costs_itself_alone(broken: str, reason: str) -> None:
    rows = read(f"[{LINE}, {broken}, {LINE}]")
    assert faults(rows) == [("x#1", reason)]
    assert [row.value for row in rows] == [GOOD, None, GOOD]


def test_bytes_that_are_not_utf8_cost_their_row() -> None:
    rows = read(b"[" + LINE.encode() + b', {"a": "\xff\xfe"}, ' + LINE.encode() + b"]")
    assert faults(rows) == [("x#1", "not-utf8")]
    assert len(rows) == 3


@pytest.mark.parametrize("tail", [", nonsense here", ", }", ' {"a": "', ", {{]", "] x"])
def test_what_cannot_be_told_apart_is_one_lost_rest(tail: str) -> None:
    rows = read(f"[{LINE}{tail}")
    assert rows[0].value == GOOD
    assert rows[-1].fault is not None
    assert "lost" in rows[-1].fault.detail


def test_lists_in_an_object_are_all_read() -> None:
    rows = read(json.dumps({"version": 2, "train": [GOOD], "data": [GOOD, 5], "note": {"a": 1}}))
    assert [row.value for row in rows] == [GOOD, GOOD, None]
    assert faults(rows) == [("x#2", "not-object")]


def test_values_one_after_the_other_are_rows() -> None:
    pretty = json.dumps(GOOD, indent=1)
    assert [row.value for row in read(f"{pretty}\n{pretty}\n")] == [GOOD, GOOD]


def test_one_row_with_objects_inside_is_one_row() -> None:
    row = GOOD | {"metadata": {"a": 1}, "data": ["x"]}
    assert [found.value for found in read(json.dumps(row))] == [row]
    twice = f'{{"a": {{}}, "b": 1, {LINE[1:-1]}, "answer": "5"}}'
    assert faults(read(twice)) == [("x#0", "duplicate-key")]


def test_a_large_object_of_rows_by_name_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrays, "MAX_UNDECIDED", 200)
    members = [f'"train/{n}": {LINE}' for n in range(20)]
    rows = read("{" + ", ".join([*members, '"version": 3']) + "}")
    assert [row.value for row in rows[:-1]] == [GOOD] * 20
    assert rows[0].origin == "x#train/0"
    assert faults(rows) == [("x#version", "not-object")]
    rows = read("{" + ", ".join(f'"k{n}": "{LINE[2:9]}"' for n in range(50)) + "}")
    assert [fault[1] for fault in faults(rows)] == ["too-large"]


def test_a_row_above_the_limit_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "MAX_ROW_BYTES", 2**16)
    monkeypatch.setattr(window, "PIECE_BYTES", 2**12)
    large = json.dumps({"t": 'quote " and \\ and } ' * 20_000})
    rows = read(f"[{LINE}, {large}, {LINE}]")
    assert faults(rows) == [("x#1", "too-large")]
    assert [row.value for row in rows] == [GOOD, None, GOOD]
    assert faults(read(f"[{LINE}, {large[:-3]}")) == [("x#1", "not-json")]


@given(value=JSON.filter(lambda one: isinstance(one, dict | list | str)), piece=st.integers(1, 9))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_a_row_to_be_dropped_is_passed_over_whatever_the_pieces(value: object, piece: int) -> None:
    text = f"[{LINE}, {json.dumps(value, ensure_ascii=False)}, {LINE}]"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(window, "PIECE_BYTES", piece)
        watch = Watch(new_slots(), {1: "timeout"})
        rows = list(read_values(io.BytesIO(text.encode()), "x", watch))
    assert faults(rows) == [("x#1", "timeout")]
    assert [row.value for row in rows] == [GOOD, None, GOOD]
    assert rows[1].text == json.dumps(value, ensure_ascii=False)[:2000]


def test_a_row_to_be_dropped_is_not_held() -> None:
    text = f'[{{"t": "{"x" * 2**25}"}}, {LINE}]'.encode()
    tracemalloc.start()
    rows = list(read_values(io.BytesIO(text), "x", Watch(new_slots(), {0: "memory"})))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [row.value for row in rows] == [None, GOOD]
    assert peak < 2**23


def test_memory_does_not_grow_with_the_file() -> None:
    text = ("[" + ",\n".join([LINE] * 12_000) + "]").encode()
    tracemalloc.start()
    count = sum(1 for row in read_values(io.BytesIO(text), "x") if row.value == GOOD)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (count, len(text) > 2**19) == (12_000, True)
    assert peak < 2**20 + 2**19


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (f"[{LINE},\n{LINE}]", "array"),
        (f"\ufeff \n[\n{LINE}]", "array"),
        ("[]", "array"),
        ("[1, 2]\n[3]", "lines"),
        ("[]\n[]", "lines"),
        (f"{LINE}\n{LINE}", "lines"),
        (f"{LINE[:9]}\n{LINE}", "lines"),
        (LINE, "object"),
        (f'{{"rows": [{LINE},\n{LINE}]}}', "object"),
        (f'{{"rows": [\n{LINE}\n,{LINE}]}}', "object"),
        (json.dumps(GOOD, indent=1), "object"),
        ("", "lines"),
        ("text", "lines"),
    ],
)
def test_shapes(text: str, shape: str) -> None:
    stream: BinaryIO = io.BytesIO(text.encode())
    assert shape_of(stream) == shape

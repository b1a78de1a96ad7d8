"""Files of rows: every kind is read, no content ends the reading."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.base.errors import UserError
from pipeline.corpus.readers.cuts import opens_array, plan_shards
from pipeline.corpus.readers.places import data_files
from pipeline.corpus.readers.sources import read_rows_of, read_shard, source_names
from pipeline.corpus.rows.strict_json import Row

GOOD = {"problem": "What is 2 + 2?", "answer": "4"}
LINE = json.dumps(GOOD)


def read(path: Path, content: bytes | str) -> list[Row]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return list(read_rows_of(path, path.name))


def values(rows: list[Row]) -> list[object]:
    return [row.value for row in rows if row.fault is None]


def faults(rows: list[Row]) -> list[tuple[str, str]]:
    return [(row.origin, row.fault.reason) for row in rows if row.fault is not None]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from([b"[" * 5000, b'{"a":' * 3000, b'{"a": 1e999}', b"\xef\xbb\xbf{}"]),
            st.just(LINE.encode()),
        ),
        max_size=6,
    ),
    suffix=st.sampled_from([".jsonl", ".json"]),
)
def test_no_bytes_end_the_reading(tmp_path: Path, content: list[bytes], suffix: str) -> None:
    for row in read(tmp_path / f"x{suffix}", b"\n".join(content)):
        assert (row.value is None) == (row.fault is not None)
        json.dumps([row.value, row.origin, row.excerpt], allow_nan=False).encode()


@given(lines=st.lists(st.binary(max_size=30).map(lambda one: one.replace(b"\n", b"")), max_size=6))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_good_lines_survive_any_neighbours(tmp_path: Path, lines: list[bytes]) -> None:
    mixed = [LINE.encode()]
    for line in lines:
        mixed += [line, LINE.encode()]
    assert values(read(tmp_path / "x.jsonl", b"\n".join(mixed))).count(GOOD) == len(lines) + 1


def test_byte_order_mark_and_line_ends_change_nothing(tmp_path: Path) -> None:
    plain = values(read(tmp_path / "a.jsonl", f"{LINE}\n{LINE}\n"))
    assert values(read(tmp_path / "b.jsonl", b"\xef\xbb\xbf" + f"{LINE}\r\n{LINE}\r\n".encode()))
    assert values(read(tmp_path / "b.jsonl", f"\ufeff{LINE}\r\n{LINE}\r\n")) == plain
    assert values(read(tmp_path / "c.json", f"\ufeff[{LINE},\r\n{LINE}]")) == plain


def test_blank_lines_are_no_rows_and_a_cut_line_is_named(tmp_path: Path) -> None:
    rows = read(tmp_path / "x.jsonl", f"{LINE}\n\n  \n{LINE}\n{LINE}\n{LINE[:20]}")
    assert len(values(rows)) == 3
    assert faults(rows) == [("x.jsonl:6", "not-json")]
    assert rows[-1].fault is not None
    assert "cut" in rows[-1].fault.detail


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"score": NaN}', "not-finite"),
        (b'{"score": -Infinity}', "not-finite"),
        (b'{"score": 1e400}', "not-finite"),
        (b'{"answer": 1, "answer": 2}', "duplicate-key"),
        (b'{"deep": {"a": 1, "a": 1}}', "duplicate-key"),
        (b'{"t": "a\x00b"}', "nul-character"),
        (rb'{"t": "a\u0000b"}', "nul-character"),
        (rb'{"t": "half \ud83d"}', "lone-surrogate"),
        (b'{"t": "\xff"}', "not-utf8"),
        (b"[1, 2]", "not-object"),
        (b'"text"', "not-object"),
        (b'{"t": ' + b"9" * 5000 + b"}", "not-json"),
    ],
)
def test_each_fault_has_its_code_in_lines_and_in_arrays(
    tmp_path: Path, line: bytes, code: str
) -> None:
    good = LINE.encode()
    rows = read(tmp_path / "x.jsonl", good + b"\n" + line + b"\n" + good)
    assert faults(rows) == [("x.jsonl:2", code)]
    if code not in ("not-utf8", "not-json"):
        rows = read(tmp_path / "x.json", b"[" + good + b", " + line + b", " + good + b"]")
        assert faults(rows) == [("x.json#1", code)]
    assert values(rows) == [GOOD, GOOD]


def test_a_surrogate_pair_is_one_character(tmp_path: Path) -> None:
    assert values(read(tmp_path / "x.jsonl", r'{"t": "\ud83d\ude00"}')) == [{"t": "😀"}]


def test_json_in_every_arrangement_gives_the_same_rows(tmp_path: Path) -> None:
    arrangements = {
        "array.json": [GOOD, GOOD],
        "rows.json": {"note": {"by": "x"}, "rows": [GOOD, GOOD]},
        "server.json": {"rows": [{"row_idx": 0, "row": GOOD}, {"row_idx": 1, "row": GOOD}]},
        "named.json": {"train/1.json": GOOD, "train/2.json": GOOD},
        "array.jsonl": [GOOD, GOOD],
    }
    for name, value in arrangements.items():
        assert values(read(tmp_path / name, json.dumps(value))) == [GOOD, GOOD], name
        assert values(read(tmp_path / name, json.dumps(value, indent=1))) == [GOOD, GOOD], name
    assert values(read(tmp_path / "lines.json", f"{LINE}\n{LINE}")) == [GOOD, GOOD]
    assert values(read(tmp_path / "one.json", json.dumps(GOOD, indent=1))) == [GOOD]


def test_equal_names_in_an_object_of_rows_lose_no_row(tmp_path: Path) -> None:
    text = f'{{"a": {LINE}, "a": {LINE.replace("2 + 2", "3 + 1")}}}'
    assert len(values(read(tmp_path / "x.json", text))) == 2


def test_a_cut_array_keeps_its_rows_and_says_so(tmp_path: Path) -> None:
    for tail in ("", ",", f", {LINE[:12]}", f"] {LINE}"):
        rows = read(tmp_path / "x.json", f"[{LINE}{tail}")
        assert values(rows) == [GOOD]
        assert faults(rows) == [("x.json#1", "not-json")], tail


def test_parquet_keeps_types_nulls_and_nested_lists(tmp_path: Path) -> None:
    table = pa.table(
        {
            "problem": ["a", None, "c"],
            "answer": [1.0, float("nan"), 2.5],
            "nested": pa.array([[None, 1], [], None], pa.list_(pa.int64())),
            "messages": [[{"role": "user", "content": "q"}], None, []],
        }
    )
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=2)
    rows = list(read_rows_of(tmp_path / "x.parquet", "x"))
    assert values(rows) == [
        {
            "problem": "a",
            "answer": 1.0,
            "nested": [None, 1],
            "messages": [{"role": "user", "content": "q"}],
        },
        {"nested": []},
        {"problem": "c", "answer": 2.5, "messages": []},
    ]
    assert [row.origin for row in rows] == ["x#0", "x#1", "x#2"]


def test_damaged_parquet_text_costs_its_row_and_a_broken_file_is_named(tmp_path: Path) -> None:
    damaged = pa.array(["fine", "\x00"]).cast(pa.binary()).to_pylist()
    column = pa.Array.from_buffers(
        pa.string(), 2, pa.array([damaged[0], b"\xff"], pa.binary()).buffers()
    )
    pq.write_table(pa.table({"problem": column}), tmp_path / "x.parquet")
    assert faults(list(read_rows_of(tmp_path / "x.parquet", "x"))) == [("x#1", "not-utf8")]
    (tmp_path / "y.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(UserError, match=r"y\.parquet"):
        list(read_rows_of(tmp_path / "y.parquet", "y"))


def test_a_folder_gives_its_files_in_order_under_telling_names(tmp_path: Path) -> None:
    for name in ("b/x.jsonl", "a/x.jsonl", ".hidden/x.jsonl", "a/readme.md", "c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")
    files = data_files(tmp_path)
    assert source_names(files) == ["a/x.jsonl", "b/x.jsonl", "c.json"]
    assert source_names(files[:1]) == ["x.jsonl"]


def test_missing_places_are_said_with_a_remedy(tmp_path: Path) -> None:
    for place in (tmp_path / "none", tmp_path):
        with pytest.raises(UserError, match=r"data.sources"):
            data_files(place)
    with pytest.raises(UserError, match="not found"):
        read_rows_of(tmp_path / "gone.jsonl", "gone")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lines=st.lists(
        st.sampled_from([LINE, LINE[:9], "", "  ", "\ufeff" + LINE, "é" * 30]), max_size=9
    ),
    ends=st.sampled_from(["\n", "\r\n"]),
    shard_bytes=st.integers(1, 300),
)
def test_shards_of_lines_give_the_rows_of_the_file(
    tmp_path: Path, lines: list[str], ends: str, shard_bytes: int
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(ends.join(lines).encode())
    whole = [(row.origin, row.value, row.excerpt) for row in read_rows_of(path, "x")]
    shards = plan_shards([(path, "x", 0)], shard_bytes)
    parts = [row for shard in shards for row in read_shard(shard)]
    assert [(row.origin, row.value, row.excerpt) for row in parts] == whole


def test_shards_of_other_files_give_the_rows_of_the_file(tmp_path: Path) -> None:
    table = pa.table({"problem": [f"What is {n}?" for n in range(50)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=7)
    (tmp_path / "b.json").write_text(json.dumps([GOOD] * 9))
    (tmp_path / "c.jsonl").write_text(json.dumps([GOOD] * 9, indent=1))
    (tmp_path / "d.txt").write_text(f"{LINE}\n{LINE}\n")
    assert [opens_array(tmp_path / name) for name in ("b.json", "c.jsonl", "d.txt")] == [
        *(True, True, False)
    ]
    for path in [*data_files(tmp_path), tmp_path / "d.txt"]:
        whole = [(row.origin, row.value) for row in read_rows_of(path, "x")]
        shards = plan_shards([(path, "x", 0)], 64)
        assert [(r.origin, r.value) for shard in shards for r in read_shard(shard)] == whole
        assert len(shards) == (8 if path.suffix == ".parquet" else 1)
    shard = plan_shards([(tmp_path / "d.txt", "x", 0)], 64)[0]
    (tmp_path / "d.txt").unlink()
    with pytest.raises(UserError, match="not found"):
        list(read_shard(shard))

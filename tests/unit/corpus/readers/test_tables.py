"""Tables: types, damaged groups and batches, both formats of Arrow."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from pipeline.base.errors import UserError
from pipeline.corpus.readers.sources import read_rows_of
from pipeline.corpus.rows.strict_json import Row

TABLE = pa.table({"problem": [f"What is {n}?" for n in range(1000)], "answer": list(range(1000))})
VALUES = TABLE.to_pylist()


def read(path: Path) -> list[Row]:
    return list(read_rows_of(path, "x"))


def write_arrow(path: Path, table: pa.Table, *, stream: bool = True) -> None:
    new = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    with new(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


def test_a_damaged_row_group_costs_its_own_rows(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(TABLE, path, row_group_size=250, compression="gzip", use_dictionary=False)
    column = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    content[middle : middle + 20] = bytes(20)
    path.write_bytes(content)
    rows = read(path)
    assert [row.origin for row in rows] == [f"x#{n}" for n in range(1000)]
    assert [row.value for row in rows[:250] + rows[500:]] == VALUES[:250] + VALUES[500:]
    assert {row.fault.reason for row in rows[250:500] if row.fault} == {"damaged-archive"}
    assert all(row.fault for row in rows[250:500])


@pytest.mark.parametrize("stream", [True, False])
def test_arrow_of_either_format(tmp_path: Path, stream: bool) -> None:
    write_arrow(tmp_path / "x.arrow", TABLE, stream=stream)
    rows = read(tmp_path / "x.arrow")
    assert [row.value for row in rows] == VALUES
    assert rows[-1].origin == "x#999"


def test_a_cut_arrow_stream_keeps_its_rows_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "x.arrow"
    write_arrow(path, TABLE)
    whole = path.read_bytes()
    for kept in (len(whole) // 2, len(whole) - 8):
        path.write_bytes(whole[:kept])
        rows = read(path)
        assert [row.value for row in rows[:-1]] == VALUES[: len(rows) - 1]
        assert rows[-1].fault is not None
        assert rows[-1].fault.reason == "damaged-archive"
        assert len(rows) > 300
    path.write_bytes(b"not arrow at all")
    with pytest.raises(UserError, match=r"x\.arrow"):
        read(path)


def test_offsets_that_point_nowhere_cost_their_row(tmp_path: Path) -> None:
    offsets = pa.array([0, 4, 9_999_999, 12], pa.int32()).buffers()[1]
    text = pa.py_buffer(b"fineoddsgood")
    column = pa.Array.from_buffers(pa.string(), 3, [None, offsets, text])
    write_arrow(tmp_path / "x.arrow", pa.table({"problem": column}))
    rows = read(tmp_path / "x.arrow")
    assert rows[0].value == {"problem": "fine"}
    assert [row.fault.reason for row in rows if row.fault] == ["wrong-type", "wrong-type"]


def test_equal_column_names_are_equal_keys(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], ["problem", "problem"])
    write_arrow(tmp_path / "x.arrow", table)
    assert [row.fault.reason for row in read(tmp_path / "x.arrow") if row.fault] == [
        "duplicate-key"
    ]


def test_types_of_tables_become_types_of_rows(tmp_path: Path) -> None:
    table = pa.table(
        {
            "when": [datetime.date(2024, 5, 1)],
            "exact": [Decimal("1.50")],
            "text": [b"as bytes"],
            "image": [b"\xff\xd8\xff"],
            "nested": pa.array([[None, 1]], pa.list_(pa.int64())),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet")[0].value == {
        "when": "2024-05-01",
        "exact": Decimal("1.50"),
        "text": "as bytes",
        "image": "<3 bytes>",
        "nested": [None, 1],
    }

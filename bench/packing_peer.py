"""TRL's `pack_dataset` on the rows of bench.packing, which starts this with another interpreter.

    python -m bench.packing_peer FOLDER SEQUENCE ROWS_AT_A_TIME

Reads FOLDER/lengths.npy; writes a dataset with token ids of these lengths (not timed), packs it
from the disk to the disk with strategy `bfd` and prints one line of JSON.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import datasets
import numpy as np
import pyarrow as pa
import trl

CHUNK_ROWS = 20_000


def tables(lengths: np.ndarray) -> Iterator[pa.Table]:
    """Token ids of so many rows at a time, as lists of int32."""
    generator = np.random.default_rng(1)
    for first in range(0, len(lengths), CHUNK_ROWS):
        sizes = lengths[first : first + CHUNK_ROWS]
        ids = generator.integers(0, 150_000, int(sizes.sum()), dtype=np.int32)
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        yield pa.table({"input_ids": pa.ListArray.from_arrays(pa.array(offsets), pa.array(ids))})


def main() -> None:
    """Write the rows, pack them, count what is there."""
    folder, sequence, rows = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    home = folder / "peer"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    with pa.OSFile(str(home / "rows.arrow"), "wb") as sink:
        writer = None
        for table in tables(np.load(folder / "lengths.npy")):
            writer = writer or pa.ipc.new_stream(sink, table.schema)
            writer.write_table(table)
        writer.close()
    dataset = datasets.Dataset.from_file(str(home / "rows.arrow"))
    start, worked = time.perf_counter(), time.process_time()
    options = {"batch_size": rows, "cache_file_name": str(home / "packed.arrow")}
    packed = trl.pack_dataset(dataset, sequence, "bfd", map_kwargs=options)
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    column = packed.with_format("arrow")["seq_lengths"]
    chunks = column.chunks if hasattr(column, "chunks") else column[:].chunks
    tokens = sum(int(np.sum(chunk.values.to_numpy())) for chunk in chunks)
    shutil.rmtree(home)
    found = {"seconds": seconds, "processor_seconds": worked, "peak_bytes": peak}
    print(json.dumps(found | {"tokens": tokens, "bins": len(packed)}))


if __name__ == "__main__":
    main()

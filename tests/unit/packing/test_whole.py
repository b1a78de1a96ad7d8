"""The whole folder read back: whatever is changed in it is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.base.artifacts import read_json, sha256_file, write_json
from pipeline.base.curriculum import Stage
from pipeline.base.errors import UserError
from pipeline.packing.buckets import lay_out
from pipeline.packing.files import SCHEMA_VERSION, write_packed
from pipeline.packing.stored import Stored
from pipeline.packing.whole import (
    ProveJob,
    index_documents,
    prove_counts,
    prove_layout,
    prove_part,
)
from tests.support.packing import Attended, encode_traces, make_job, parts_of, sum_trace

ROWS = [sum_trace(n, "Carry. " * (n % 9)) for n in range(1, 13)]
ROWS.append(sum_trace(50, solution="so on " * 500))


@pytest.fixture(scope="module")
def packed(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with traces.jsonl and out/, the packed corpus of it in two bands."""
    home = tmp_path_factory.mktemp("packed")
    encoded = encode_traces(base, home, ROWS, 6, 7)
    layout = lay_out(encoded, [100, 512], [Stage(512, 1.0)])
    arrays = write_packed(home / "out", encoded, layout)
    gone = b"".join((home / f"parts2/{n}/dropped.jsonl").read_bytes() for n in range(2))
    (home / "out/dropped.jsonl").write_bytes(gone)
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "bands": [100, 512],
        "documents": len(encoded),
        "tokens": int(encoded.lengths.sum()),
        "trained_tokens": int(encoded.trained.sum()),
        "dropped": encoded.dropped,
        "buckets": layout.described(),
        "arrays": arrays,
    }
    write_json(home / "out/manifest.json", manifest)
    return home


@pytest.fixture
def home(packed: Path, tmp_path: Path) -> Path:
    shutil.copytree(packed, tmp_path / "home")
    return tmp_path / "home"


def prove(base: Path, home: Path) -> dict[str, int]:
    out, index = home / "out", home / "index"
    manifest, stored = read_json(out / "manifest.json"), Stored(out)
    prove_layout(stored, manifest)
    index_documents(stored, index)
    job = ProveJob(make_job(base), str(out), str(index))
    folders = []
    for number, part in enumerate(parts_of(home / "traces.jsonl", [4, 9])):
        folders.append(home / f"proof{number}")
        folders[-1].mkdir()
        prove_part(job, part, folders[-1], Attended())
    return dict(prove_counts(folders, out, manifest))


def test_finds_every_row_and_counts_it(base: Path, home: Path) -> None:
    found = prove(base, home)
    assert (found["documents"], found["dropped"]) == (12, 1)
    assert found["tokens"] == len(np.load(home / "out/tokens.npy"))


def change_array(name: str, change: Callable[[Any], Any]) -> Callable[[Path], None]:
    """Alter an array, and the manifest's hash with it."""

    def spoil(out: Path) -> None:
        path = out / f"{name}.npy"
        array = np.load(path)
        change(array)
        np.save(path, array)
        manifest = read_json(out / "manifest.json")
        manifest["arrays"][name]["sha256"] = sha256_file(path)
        write_json(out / "manifest.json", manifest)

    return spoil


def change_note(**fields: Any) -> Callable[[Path], None]:
    """Alter the first line of documents.jsonl."""

    def spoil(out: Path) -> None:
        lines = (out / "documents.jsonl").read_text().splitlines()
        lines[0] = json.dumps(json.loads(lines[0]) | fields)
        (out / "documents.jsonl").write_text("\n".join(lines) + "\n")

    return spoil


def change_manifest(change: Callable[[Any], Any]) -> Callable[[Path], None]:
    def spoil(out: Path) -> None:
        manifest = read_json(out / "manifest.json")
        change(manifest)
        write_json(out / "manifest.json", manifest)

    return spoil


def move_one(counts: Any) -> None:
    counts[0] += 1
    counts[-1] -= 1


def forget_a_row(out: Path) -> None:
    (out / "dropped.jsonl").write_bytes(b"")


def repeat_a_line(out: Path) -> None:
    first, second, *others = (out / "documents.jsonl").read_text().splitlines()
    line = json.loads(first)["line"]
    lines = [first, json.dumps(json.loads(second) | {"line": line}), *others]
    (out / "documents.jsonl").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda out: np.save(out / "tokens.npy", np.load(out / "tokens.npy") + 1), "bytes that"),
        (change_array("trained", lambda a: a.__setitem__(-1, False)), "must end with"),
        (change_array("trained", lambda a: a.__setitem__(0, True)), "first token"),
        (change_array("tokens", lambda a: a.__setitem__(0, 7)), "begin with its prompt"),
        (change_array("document_lengths", move_one), "not as announced"),
        (change_array("sequence_documents", move_one), "bucket|not the document"),
        (change_note(sequence=1), "documents.jsonl:1: not the document"),
        (change_note(id="0123456789abcdef"), "documents.jsonl says"),
        (change_note(trained=1), "documents.jsonl says"),
        (change_note(variant="other"), "documents.jsonl says"),
        (repeat_a_line, "12 lines of 11 rows"),
        (forget_a_row, r"sums\.jsonl:50: the row is neither stored nor in dropped"),
        (change_manifest(lambda m: m.update(tokens=1)), "the manifest says"),
        (change_manifest(lambda m: m.update(schema_version=1)), "another version"),
        (change_manifest(lambda m: m["buckets"].pop()), "bins have a bucket"),
        (change_manifest(lambda m: m["buckets"][0].update(tokens=1)), "not as announced"),
        (change_manifest(lambda m: m["buckets"][0].update(band=50)), "not as announced"),
        (change_manifest(lambda m: m["buckets"][0].update(tier="hard")), "lies in bucket hard"),
    ],
)
def test_finds_what_was_changed(base: Path, home: Path, spoil: Any, said: str) -> None:
    spoil(home / "out")
    with pytest.raises(UserError, match=said):
        prove(base, home)


def test_a_document_of_no_row_is_found(base: Path, home: Path) -> None:
    lines = (home / "traces.jsonl").read_bytes().splitlines(keepends=True)
    (home / "traces.jsonl").write_bytes(b"".join([lines[1], lines[0], *lines[2:]]))
    with pytest.raises(UserError, match=r"sums\.jsonl:2"):
        prove(base, home)

"""The arrays on the disk: whole documents in storage order, hashes that hold."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.base.artifacts import sha256_file
from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.packing.encoding import Document
from pipeline.packing.files import prove_masks, write_arrays
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_tokenizer
from tests.support.traces import make_trace


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Chat:
    folder = tmp_path_factory.mktemp("base")
    write_tiny_tokenizer(folder)
    return Chat(folder, make_params().prompt)


def document(chat: Chat, number: int) -> Document:
    problem, solution = f"Say {number}.", f"{number} " * number
    row = make_trace(problem, solution=solution, source="s", origin=f"s.jsonl:{number}")
    one = chat.encode(problem, "", solution)
    return Document(row, np.array(one.prompt + one.reply, dtype=np.int32), len(one.prompt))


SEQUENCES = [[2], [0, 1], [3]]


@pytest.fixture
def documents(chat: Chat, tmp_path: Path) -> list[Document]:
    documents = [document(chat, number) for number in (1, 2, 3, 4)]
    write_arrays(tmp_path, documents, SEQUENCES)
    return documents


def test_documents_lie_end_to_end_in_the_order_of_their_sequences(
    tmp_path: Path, documents: list[Document]
) -> None:
    stored = [documents[n] for n in (2, 0, 1, 3)]
    tokens, trained, lengths, counts = (
        np.load(tmp_path / f"{name}.npy")
        for name in ("tokens", "trained", "document_lengths", "sequence_documents")
    )
    assert tokens.tolist() == [i for one in stored for i in one.ids.tolist()]
    assert lengths.tolist() == [len(one.ids) for one in stored]
    assert counts.tolist() == [1, 2, 1]
    assert len(trained) == len(tokens) == lengths.sum()
    assert counts.sum() == len(lengths)
    assert [str(a.dtype) for a in (tokens, trained, lengths, counts)] == [
        "int32", "bool", "int32", "int32",
    ]  # fmt: skip


def test_first_token_of_every_document_carries_no_loss(
    tmp_path: Path, documents: list[Document]
) -> None:
    lengths = np.load(tmp_path / "document_lengths.npy")
    trained = np.load(tmp_path / "trained.npy")
    starts = np.cumsum(lengths) - lengths
    assert not trained[starts].any()
    assert trained[starts + lengths - 1].all()


def test_documents_file_says_where_each_row_went(tmp_path: Path, documents: list[Document]) -> None:
    rows = [json.loads(line) for line in (tmp_path / "documents.jsonl").read_text().splitlines()]
    assert [(row["origin"], row["sequence"]) for row in rows] == [
        ("s.jsonl:3", 0), ("s.jsonl:1", 1), ("s.jsonl:2", 1), ("s.jsonl:4", 2),
    ]  # fmt: skip
    assert rows[0]["length"] == len(documents[2].ids)
    assert rows[0]["id"] == documents[2].trace.id


def test_hashes_are_those_of_the_files_and_repeat(chat: Chat, tmp_path: Path) -> None:
    documents = [document(chat, number) for number in (1, 2, 3, 4)]
    first = write_arrays(tmp_path / "a", documents, SEQUENCES)
    assert write_arrays(tmp_path / "b", documents, SEQUENCES) == first
    for name, entry in first.items():
        assert entry["sha256"] == sha256_file(tmp_path / f"a/{name}.npy")
    assert not list((tmp_path / "a").glob(".*"))


def test_all_masks_are_read_back_when_there_are_few(
    chat: Chat, tmp_path: Path, documents: list[Document]
) -> None:
    assert prove_masks(tmp_path, chat, documents, SEQUENCES) == 4
    assert prove_masks(tmp_path, chat, documents, SEQUENCES, most=2) == 2  # first and last


def test_a_mask_that_moved_on_the_disk_is_noticed(
    chat: Chat, tmp_path: Path, documents: list[Document]
) -> None:
    path = tmp_path / "trained.npy"
    np.save(path, np.roll(np.load(path), 1))
    with pytest.raises(UserError, match=r"s\.jsonl:3"):
        prove_masks(tmp_path, chat, documents, SEQUENCES)

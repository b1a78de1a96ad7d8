r"""Problems as token ids on disk, and the fixed batches in which they are embedded.

A store is a folder with tokens.bin (token ids of all texts, uint32) and rows.npy (`ROW`).
A plan is a folder with order.npy (`PLACE`: the distinct problems by length in tokens, then
id) and cuts.npy (where batches begin). Both follow from the data alone: how many workers
there are and how large a shard is moves no text into another batch. Called by neighbours.py;
torch-free.

What is embedded is the problem as it stands, LaTeX and numbers too, without drawings:
docs/semantic.md compares this with simpler texts.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from pipeline.base.errors import UserError
from pipeline.base.records import Trace, from_line
from pipeline.corpus.execution.executor import PoisonRow, Watch
from pipeline.corpus.execution.shards import Shard, read_shard_lines
from pipeline.corpus.overlap.sentence_model import SentenceModel
from pipeline.corpus.overlap.tokens import without_drawings

ROW = np.dtype([("id", "<u8"), ("start", "<u8"), ("length", "<u4"), ("truncated", "u1")])
"""A text of a store: id of its problem, first token and number of tokens."""
PLACE = np.dtype([("id", "<u8"), ("start", "<u8"), ("length", "<u4"), ("store", "<u4")])
"""A distinct problem and the store that holds its tokens; 24 bytes."""

CHARACTERS_PER_TOKEN = 32
"""Characters of a text, for each token that the model reads, that are tokenised at all."""

Rows = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive batches of a plan: a shard of the embedding."""

    path: str
    first_row: int
    """Number of the first batch."""
    stop: int
    """Past the last batch."""
    tokens: int


def as_number(problem: str) -> int:
    """A problem's id as 64 bits."""
    return int(problem, 16)


def as_id(number: int) -> str:
    """The 16 hexadecimal digits of a number."""
    return f"{number:016x}"


def text_of(problem: str) -> str:
    """What is embedded of a problem."""
    return without_drawings(problem).strip() or problem


@functools.cache
def _tokenizer(model: SentenceModel) -> Tokenizer:
    tokenizer = Tokenizer.from_file(f"{model.folder}/tokenizer.json")
    tokenizer.no_padding()
    tokenizer.enable_truncation(model.max_tokens)
    return tokenizer


class Store:
    """Writes the token ids of problems, each problem once.

    Args:
        folder: receives tokens.bin and rows.npy.
    """

    def __init__(self, folder: Path, model: SentenceModel) -> None:
        self._folder = folder
        self._model = model
        self._tokenizer = _tokenizer(model)
        self._rows: list[tuple[int, int, int, bool]] = []
        self._known: set[int] = set()
        self._tokens = (folder / "tokens.bin").open("wb")
        self._end = 0

    def add(self, problem: str, text: str) -> None:
        """Tokenise one problem unless it is in the store.

        Args:
            problem: its id.
            text: as the row holds it.
        """
        number = as_number(problem)
        if number in self._known:
            return
        self._known.add(number)
        text = text_of(text)
        limit = self._model.max_tokens * CHARACTERS_PER_TOKEN
        cut = text[:limit].lower() if self._model.lower_case else text[:limit]
        encoding = self._tokenizer.encode(cut)
        truncated = len(text) > limit or bool(encoding.overflowing)
        ids = np.asarray(encoding.ids, dtype="<u4")
        self._tokens.write(ids.tobytes())
        self._rows.append((number, self._end, len(ids), truncated))
        self._end += len(ids)

    def close(self) -> None:
        """Write rows.npy."""
        self._tokens.close()
        np.save(self._folder / "rows.npy", np.array(self._rows, dtype=ROW))


def tokenise(model: SentenceModel, shard: Shard, folder: Path, watch: Watch) -> None:
    """Task: the distinct problems of a shard of traces as a store in `folder`.

    Raises:
        UserError: a row takes too much time or memory; leaving it out unseen is no choice.
    """
    store = Store(folder, model)
    for row, line in enumerate(read_shard_lines(shard)):
        where = f"{shard.path}:{shard.first_row + row}"
        try:
            with watch.guarded(row):
                trace = from_line(Trace, line, where)
                store.add(trace.id, trace.problem)
        except PoisonRow as fault:
            raise UserError(
                f"{where}: the problem cannot be tokenised ({fault.reason})",
                "Raise executor.row_seconds or executor.worker_gib, or take the row out.",
            ) from None
    store.close()


def write_store(folder: Path, problems: Iterable[tuple[str, str]], model: SentenceModel) -> None:
    """A store of (id, text) pairs, written by this process."""
    folder.mkdir(parents=True, exist_ok=True)
    store = Store(folder, model)
    for problem, text in problems:
        store.add(problem, text)
    store.close()


def write_plan(folder: Path, stores: Sequence[Path], batch_tokens: int) -> tuple[int, int]:
    """order.npy and cuts.npy over all stores; return (problems, truncated ones).

    A problem that several stores hold is taken from the first.

    Args:
        batch_tokens: most tokens of a batch, padding included; one text is always taken.
    """
    parts, truncated = [], []
    for number, store in enumerate(stores):
        rows = np.load(store / "rows.npy")
        part = np.empty(len(rows), dtype=PLACE)
        for name in ("id", "start", "length"):
            part[name] = rows[name]
        part["store"] = number
        parts.append(part)
        truncated.append(rows["truncated"])
    places = np.concatenate(parts)
    first = np.unique(places["id"], return_index=True)[1]
    order = first[np.argsort(places["length"][first], kind="stable")]
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "order.npy", places[order])
    np.save(folder / "cuts.npy", _cuts(places["length"][order], batch_tokens))
    return len(order), int(np.concatenate(truncated)[first].sum())


def _cuts(lengths: NDArray[np.uint32], batch_tokens: int) -> NDArray[np.int64]:
    """Where batches begin, and the end; lengths ascend, so a batch's last text is its width."""
    cuts = [0]
    while cuts[-1] < len(lengths):
        start = cuts[-1]
        most = max(1, batch_tokens // int(lengths[start]))
        widths = lengths[start : start + most].astype(np.int64)
        fitting = int((np.arange(1, len(widths) + 1) * widths <= batch_tokens).sum())
        cuts.append(start + max(1, fitting))
    return np.array(cuts, dtype=np.int64)


def spans_of(plan: Path, span_tokens: int, most: int) -> list[Span]:
    """All batches of a plan in order, in shards of at least `span_tokens` tokens.

    Args:
        most: shards are longer where there would be many more than this.
    """
    cuts = np.load(plan / "cuts.npy")
    lengths = np.load(plan / "order.npy")["length"]
    ends = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])[cuts]
    span_tokens = max(span_tokens, int(ends[-1]) // most)
    spans, first = [], 0
    while first < len(cuts) - 1:
        stop = int(np.searchsorted(ends, ends[first] + span_tokens))
        stop = min(max(stop, first + 1), len(cuts) - 1)
        spans.append(Span(str(plan), first, stop, int(ends[stop] - ends[first])))
        first = stop
    return spans


class Batches:
    """The batches of a span, read back from the stores.

    Args:
        stores: in the order in which the plan numbers them.
    """

    def __init__(self, span: Span, stores: Sequence[str]) -> None:
        plan = Path(span.path)
        cuts = np.load(plan / "cuts.npy", mmap_mode="r")[span.first_row : span.stop + 1]
        self.cuts = [int(cut) for cut in cuts]
        order = np.load(plan / "order.npy", mmap_mode="r")
        self.rows: Rows = np.array(order[self.cuts[0] : self.cuts[-1]])
        self._stores = stores
        self._open: dict[int, NDArray[np.uint32]] = {}

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def read(self, number: int) -> tuple[Rows, list[NDArray[np.uint32]]]:
        """(places, token ids of each text) of one batch of the span."""
        start, stop = (cut - self.cuts[0] for cut in self.cuts[number : number + 2])
        rows = self.rows[start:stop]
        return rows, [self._tokens(row) for row in rows]

    def _tokens(self, row: np.void) -> NDArray[np.uint32]:
        store, start, length = int(row["store"]), int(row["start"]), int(row["length"])
        if store not in self._open:
            path = Path(self._stores[store]) / "tokens.bin"
            self._open[store] = np.memmap(path, dtype="<u4", mode="r")
        return self._open[store][start : start + length]

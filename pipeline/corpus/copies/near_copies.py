"""Finds problems that are worded almost alike, among any number of them.

Called by judge.py, which signs every problem of a shard, and by index.py, which brings
near copies together. A signature is a MinHash (Broder 1997, "On the resemblance and
containment of documents") cut into bands; two problems are compared when a band and all
their figures agree (wording.py), and only an exact comparison of the texts makes them
near copies. Signatures stay on disk and are read one band at a time; so are texts.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rensa import RMinHash

from pipeline.corpus.copies.keyed_hash import id_number, run_starts
from pipeline.corpus.copies.shard_store import PROBLEM, Folders, TextWriter, Unsigned, hash64
from pipeline.corpus.copies.wording import jaccard, read_wording, shingles

HASHES = 128
SEED = 1
MOST_MISSED = 1e-6
"""Share of pairs, exactly as similar as asked for, that no band brings together."""
MOST_COMPARED = 32
"""Problems of one band to which a problem is compared, counted back from itself."""
CACHED_TEXTS = 1024
EXAMPLES = 20
CHUNK_PROBLEMS = 4096

_MIX = np.uint64(0x9E3779B97F4A7C15)


def band_rows(similarity: float) -> int:
    """Hashes in a band: as many as leave the share of missed pairs below `MOST_MISSED`.

    A pair of similarity s agrees in one band of r hashes with probability s**r
    (Leskovec, Rajaraman and Ullman, Mining of Massive Datasets, 3.4.2).
    """
    fitting = [
        rows
        for rows in range(1, 17)
        if (1 - similarity**rows) ** (HASHES // rows) <= MOST_MISSED or rows == 1
    ]
    return max(fitting)


class Signer:
    """Signs the distinct problems of one shard and writes what the search needs of them.

    Args:
        folder: gets the store `problems`, problems.npy, and signatures.npy of shape
            [bands, problems], uint64: one hash of a band and the figures.
        similarity: least Jaccard similarity of near copies.
    """

    def __init__(self, folder: Path, similarity: float) -> None:
        self._folder = folder
        self._rows = band_rows(similarity)
        self._texts = TextWriter(folder, "problems")
        self._places: dict[str, int] = {}
        self._about: list[tuple[int, int]] = []
        self._hashes = array("I")
        self._keys: list[Unsigned] = []

    def place_of(self, key: str, problem: str) -> int:
        """The number of a problem in this shard; a new one is signed.

        Args:
            key: its problem id.
        """
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = self._texts.add(problem)
            words, figures = read_wording(problem)
            self._about.append((id_number(key), hash64(" ".join(figures))))
            sketch = RMinHash(num_perm=HASHES, seed=SEED)
            sketch.update(list(shingles(words)))
            self._hashes.extend(sketch.digest())
            if len(self._hashes) >= CHUNK_PROBLEMS * HASHES:
                self._sign()
        return place

    def _sign(self) -> None:
        """Turn the hashes so far into keys of bands."""
        hashes = np.array(self._hashes, dtype=np.uint32).reshape(-1, HASHES).T
        first = len(self._about) - hashes.shape[1]
        figures = np.array([one for _, one in self._about[first:]], dtype=np.uint64)
        keys = np.empty((HASHES // self._rows, hashes.shape[1]), dtype=np.uint64)
        for band in range(len(keys)):
            mixed = figures + np.uint64(band)
            for row in hashes[band * self._rows : (band + 1) * self._rows]:
                mixed = (mixed ^ row) * _MIX
                mixed ^= mixed >> np.uint64(29)
            keys[band] = mixed
        self._keys.append(keys)
        self._hashes = array("I")

    def close(self) -> None:
        """Write what is still to be written."""
        self._texts.close()
        self._sign()
        np.save(self._folder / "signatures.npy", np.concatenate(self._keys, axis=1))
        np.save(self._folder / "problems.npy", np.array(self._about, dtype=PROBLEM))


@dataclass(frozen=True)
class Located:
    """The distinct problems of all shards in order of id; all of shape [problems]."""

    ids: Unsigned
    shard: NDArray[np.uint32]
    place: NDArray[np.uint32]
    """Where the first shard that has a problem keeps its text."""
    order: NDArray[np.int64]
    """Its place among the problems of all shards, as `Folders.band` joins them."""


def locate(folders: Folders) -> Located:
    """All distinct problems, and where their texts lie."""
    ids, order = np.unique(folders.problems("problem"), return_index=True)
    counts = folders.counts("problems.npy")
    ends = np.cumsum(counts)
    shard = np.searchsorted(ends, order, side="right")
    place = order - (ends - counts)[shard]
    return Located(ids, shard.astype(np.uint32), place.astype(np.uint32), order)


@dataclass
class Clusters:
    """Near copies brought together: for every problem the first one of its cluster."""

    root: NDArray[np.int32]
    """Place of the cluster's smallest id in `Located.ids`; shape [problems]."""
    examples: list[tuple[str, str, float]] = field(default_factory=list)
    """Two texts and their similarity."""


class Union:
    """Disjoint sets of the numbers below `count`; each is named by its smallest member."""

    def __init__(self, count: int) -> None:
        self._parent = array("i", range(count))

    def find(self, one: int) -> int:
        parent = self._parent
        while parent[one] != one:
            parent[one] = parent[parent[one]]
            one = parent[one]
        return one

    def join(self, one: int, other: int) -> None:
        first, second = sorted((self.find(one), self.find(other)))
        self._parent[second] = first

    def roots(self) -> NDArray[np.int32]:
        """The name of every number's set."""
        roots = np.array(self._parent, dtype=np.int32)
        while np.any(roots != (above := roots[roots])):
            roots = above
        return roots


def cluster(folders: Folders, found: Located, similarity: float) -> Clusters:
    """Bring all near copies together; a chain of near copies is one cluster.

    Memory: 44 bytes a problem and some texts.
    """
    sets = Union(len(found.ids))
    clusters = Clusters(np.empty(0, dtype=np.int32))
    text = _texts(folders, found)
    compare = _comparison(text)
    for band in range(HASHES // band_rows(similarity)):
        for members in _alike(folders.band(band)[found.order]):
            for one, other in open_pairs(members, sets):
                likeness = compare(one, other)
                if likeness >= similarity:
                    sets.join(one, other)
                    if len(clusters.examples) < EXAMPLES:
                        clusters.examples.append((text(other), text(one), round(likeness, 4)))
    clusters.root = sets.roots()
    return clusters


def _texts(folders: Folders, found: Located) -> Callable[[int], str]:
    return lambda one: folders.text("problems", int(found.shard[one]), int(found.place[one]))


def _comparison(text: Callable[[int], str]) -> Callable[[int, int], float]:
    """Similarity of two problems by number; -1 if their figures differ."""

    @lru_cache(maxsize=CACHED_TEXTS)
    def wording(one: int) -> tuple[frozenset[str], list[str]]:
        words, figures = read_wording(text(one))
        return shingles(words), figures

    @lru_cache(maxsize=CACHED_TEXTS * 64)
    def compare(one: int, other: int) -> float:
        (grams, figures), (grams_of, figures_of) = wording(one), wording(other)
        return jaccard(grams, grams_of) if figures == figures_of else -1.0

    return compare


def _alike(keys: Unsigned) -> Iterator[list[int]]:
    """Numbers of the problems that share a key, in ascending order; single ones left out."""
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(run_starts(keys[order]))
    stops = np.append(starts[1:], len(keys))
    several = stops - starts > 1
    for start, stop in zip(starts[several].tolist(), stops[several].tolist(), strict=True):
        yield order[start:stop].tolist()


def open_pairs(
    members: list[int], sets: Union, most: int = MOST_COMPARED
) -> Iterator[tuple[int, int]]:
    """Pairs (later, earlier) of a band that are not in one set yet.

    Args:
        most: earlier members, counted back, that a member is paired with.
    """
    for place, one in enumerate(members):
        for other in members[max(0, place - most) : place]:
            if sets.find(one) != sets.find(other):
                yield one, other

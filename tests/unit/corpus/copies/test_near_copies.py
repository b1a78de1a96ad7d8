"""The search finds what an exact comparison of all pairs finds, wherever shards are cut."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.base.records import problem_id
from pipeline.corpus.copies import near_copies
from pipeline.corpus.copies.near_copies import HASHES, Signer, band_rows, cluster, locate
from pipeline.corpus.copies.shard_store import Folders
from pipeline.corpus.copies.wording import are_near_copies
from tests.support.closure import ROOT

WORDS = "farmer cow friend village river market apple basket winter morning teacher train".split()


def sign(folder: Path, shards: list[list[str]], similarity: float) -> Folders:
    paths = []
    for number, problems in enumerate(shards):
        paths.append(folder / str(number))
        paths[-1].mkdir(parents=True)
        signer = Signer(paths[-1], similarity)
        for problem in problems:
            signer.place_of(problem_id(problem), problem)
        signer.close()
    return Folders(paths)


def groups(folder: Path, shards: list[list[str]], similarity: float) -> dict[str, str]:
    """Problem id → id of the group."""
    folders = sign(folder, shards, similarity)
    located = locate(folders)
    root = cluster(folders, located, similarity).root
    ids = [f"{one:016x}" for one in located.ids.tolist()]
    return {key: ids[place] for key, place in zip(ids, root.tolist(), strict=True)}


def exact_groups(problems: list[str], similarity: float) -> dict[str, str]:
    """The same by comparing all pairs."""
    home = {problem_id(one): problem_id(one) for one in problems}
    for one, other in combinations(problems, 2):
        if are_near_copies(one, other, similarity):
            first, second = sorted((home[problem_id(one)], home[problem_id(other)]))
            home = {key: first if value == second else value for key, value in home.items()}
    return home


@st.composite
def corpora(draw: st.DrawFn) -> list[str]:
    """A few problems and copies of them with some words or a number changed."""
    made = []
    for _ in range(draw(st.integers(1, 4))):
        words = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=30))
        made.append(f"{' '.join(words)} {draw(st.integers(1, 3))}")
        for _ in range(draw(st.integers(0, 4))):
            copy = made[-1].split()
            copy[draw(st.integers(0, len(copy) - 1))] = draw(st.sampled_from([*WORDS, "7"]))
            made.append(" ".join(copy))
    return made


@settings(max_examples=25, deadline=None)
@given(corpora(), st.sampled_from([0.5, 0.8, 1.0]), st.integers(1, 3))
def test_groups_are_those_of_all_pairs(
    tmp_path_factory: pytest.TempPathFactory, problems: list[str], similarity: float, shards: int
) -> None:
    cut = [problems[number::shards] for number in range(shards)]
    found = groups(tmp_path_factory.mktemp("near"), cut, similarity)
    assert found == exact_groups(problems, similarity)


def test_a_shard_may_be_signed_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = [f"{' '.join(WORDS[:number])} {number}" for number in range(1, 6)]
    whole = sign(tmp_path / "whole", [problems], 0.8).band(3).tolist()
    monkeypatch.setattr(near_copies, "CHUNK_PROBLEMS", 2)
    assert sign(tmp_path / "pieces", [problems], 0.8).band(3).tolist() == whole
    assert len(set(whole)) == 5


def test_all_pairs_of_a_band_are_compared_but_for_those_already_together() -> None:
    sets = near_copies.Union(6)
    pairs = near_copies.open_pairs([0, 2, 3, 5], sets)
    assert sorted(pairs) == [(2, 0), (3, 0), (3, 2), (5, 0), (5, 2), (5, 3)]
    sets.join(5, 3)
    sets.join(3, 2)
    assert list(near_copies.open_pairs([0, 2, 3, 5], sets)) == [(2, 0), (3, 0), (5, 0)]
    assert sets.roots().tolist() == [0, 1, 2, 2, 4, 2]
    crowd = list(near_copies.open_pairs(list(range(6)), near_copies.Union(6), most=2))
    assert len(crowd) == 1 + 2 * 4, "a crowd costs so many comparisons a problem and no more"


def test_a_group_has_the_smallest_id_and_an_example(tmp_path: Path) -> None:
    first = " ".join(WORDS * 3) + " 5"
    second, third = first.replace("cow", "pig", 1), first.replace("river", "lake", 1)
    folders = sign(tmp_path, [[first, "something else 5"], [second, third]], 0.8)
    located = locate(folders)
    found = cluster(folders, located, 0.8)
    sizes = np.bincount(found.root)
    assert sorted(sizes[sizes > 0].tolist()) == [1, 3]
    ids = [f"{one:016x}" for one in located.ids.tolist()]
    assert ids[int(sizes.argmax())] == min(map(problem_id, (first, second, third)))
    one, other, likeness = found.examples[0]
    assert {one, other} <= {first, second, third}
    assert 0.8 <= likeness < 1


@pytest.mark.parametrize(("similarity", "rows"), [(0.1, 1), (0.5, 2), (0.8, 4), (1.0, 16)])
def test_bands_miss_almost_nothing(similarity: float, rows: int) -> None:
    assert band_rows(similarity) == rows
    missed = (1 - similarity**rows) ** (HASHES // rows)
    assert missed < 2e-6, "one pair of a million, at most, is not brought together"


def test_another_process_signs_alike(tmp_path: Path) -> None:
    """Shards are signed by many processes, each with hash seeds of its own."""
    problem = "What is the sum of the first 100 odd numbers in this list?"
    here = sign(tmp_path, [[problem]], 0.8).band(0).tolist()
    program = (
        "from pathlib import Path; import numpy\n"
        "from pipeline.corpus.copies.near_copies import Signer\n"
        f"signer = Signer(Path({str(tmp_path)!r}), 0.8)\n"
        f"signer.place_of('0' * 16, {problem!r}); signer.close()\n"
        f"print(numpy.load({str(tmp_path / 'signatures.npy')!r})[0].tolist())"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, check=True
    )
    assert json.loads(done.stdout) == here

r"""Two ways in which others decontaminate, timed on one file of rows; run by `bench.corpus`.

    PEER_PYTHON bench/corpus_peers.py datatrove|datasets --words N --rows FILE \
        --protected FOLDER --out FOLDER

Runs under an interpreter that has datatrove[processing] and datasets, and imports nothing of this
project. `datatrove` is its n-gram index and filter (numbers folded to 0, one shared n-gram drops),
read and written by its JSONL reader and writer; `datasets` is the rule most scripts write by
themselves: small letters, punctuation to blanks, one shared n-gram drops. Both look at the
problem alone. Prints one line of JSON: rows, seconds and processor_seconds (file in, files
out), decide_seconds (processor time of the decisions alone, problems in memory, in `ROUNDS`
parts) and the origins of the dropped rows.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

Result = dict[str, Any]
ROUNDS = 3
"""Repetitions of the decisions, each on other rows."""


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file."""
    with path.open(encoding="utf-8") as stream:
        yield from map(json.loads, stream)


def protected_problems(folder: Path) -> Iterator[tuple[str, str]]:
    """(set, problem) of every protected problem."""
    for path in sorted(folder.glob("*.jsonl")):
        for row in read(path):
            yield path.stem, row["problem"]


def run_datatrove(words: int, rows: Path, protected: Path, out: Path) -> Result:
    """NGramsDecontFilter between JsonlReader and JsonlWriter, one local task."""
    from datatrove.data import Document
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.decont import n_grams
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    spacy = importlib.util.find_spec("spacy") is not None
    if not spacy:
        n_grams.load_word_tokenizer = lambda language: BlankTokenizer()
    config = n_grams.NGramsDecontConfig(n_grams=words)
    index = out / "index"
    index.mkdir(parents=True, exist_ok=True)
    # Its run() wants lighteval for tasks of a leaderboard; these problems are files, so only
    # its hashes are used and written in its format.
    indexer = object.__new__(n_grams.NGramsDecontIndexer)
    n_grams.NGramsDecontIndexer.__init__(indexer, str(index), config=config)
    _write_index(indexer.compute_hashes, protected, index)
    start, worked = time.perf_counter(), time.process_time()
    LocalPipelineExecutor(
        pipeline=[
            JsonlReader(str(rows.parent), glob_pattern=rows.name, text_key="problem"),
            n_grams.NGramsDecontFilter(
                str(index),
                config=config,
                exclusion_writer=JsonlWriter(str(out / "dropped"), compression=None),
            ),
            JsonlWriter(str(out / "kept"), compression=None),
        ],
        tasks=1,
        workers=1,
        logging_dir=str(out / "logs"),
        skip_completed=False,
    ).run()
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    dropped = [row for path in (out / "dropped").glob("*.jsonl") for row in read(path)]
    problems = [row["problem"] for row in read(rows)]
    decide = n_grams.NGramsDecontFilter(str(index), config=config)
    decide.load_index_hashes()

    def decide_all(texts: list[str]) -> None:
        for document in [Document(text=text, id="") for text in texts]:
            decide.filter(document)

    return {
        "rows": len(problems),
        "seconds": seconds,
        "processor_seconds": worked,
        "decide_seconds": timed(decide_all, problems),
        "dropped": [row["metadata"]["origin"] for row in dropped],
        "note": f"datatrove {version('datatrove')}, words cut by {'spaCy' if spacy else 'blanks'}",
    }


def timed(decide: Callable[[list[str]], None], problems: list[str]) -> list[float]:
    """Processor seconds of the decisions on every `ROUNDS`-th problem, `ROUNDS` times."""
    found = []
    for first in range(ROUNDS):
        part = problems[first::ROUNDS]
        start = time.process_time()
        decide(part)
        found.append(time.process_time() - start)
    return found


class BlankTokenizer:
    """Words as blanks part them: what is left of datatrove's English words without spaCy.

    Its normalisation has made all punctuation blanks before, so that few words differ, and
    this splits faster, in its favour.
    """

    def word_tokenize(self, text: str) -> list[str]:
        """The words of a normalised text."""
        return text.split()


def _write_index(hashes: Callable[[str], list[int]], protected: Path, index: Path) -> None:
    import numpy as np

    by_set: dict[str, set[int]] = {}
    for name, problem in protected_problems(protected):
        by_set.setdefault(name, set()).update(hashes(problem))
    for name, found in by_set.items():
        np.array(list(found), dtype=np.uint64).tofile(index / f"{name}.index.hashes")


def word_ngrams(text: str, words: int) -> set[str]:
    """All runs of so many words, punctuation aside."""
    split = re.sub(r"[^a-z0-9\s]", " ", text.lower()).split()
    return {" ".join(split[i : i + words]) for i in range(len(split) - words + 1)}


def run_datasets(words: int, rows: Path, protected: Path, out: Path) -> Result:
    """load_dataset, map, filter, to_json with one process."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["HF_DATASETS_CACHE"] = str(out / "cache")
    import datasets

    datasets.disable_progress_bars()
    grams = {
        gram for _, problem in protected_problems(protected) for gram in word_ngrams(problem, words)
    }

    def mark(row: dict[str, Any]) -> dict[str, bool]:
        return {"contaminated": not word_ngrams(row["problem"], words).isdisjoint(grams)}

    start, worked = time.perf_counter(), time.process_time()
    loaded = datasets.load_dataset("json", data_files=str(rows), split="train")
    marked = loaded.map(mark)
    kept = marked.filter(lambda contaminated: not contaminated, input_columns=["contaminated"])
    kept.to_json(str(out / "kept.jsonl"))
    seconds, worked = time.perf_counter() - start, time.process_time() - worked
    dropped = marked.select_columns(["origin", "contaminated"])

    def decide_all(texts: list[str]) -> None:
        datasets.Dataset.from_dict({"problem": texts}).map(mark, keep_in_memory=True)

    return {
        "rows": len(loaded),
        "seconds": seconds,
        "processor_seconds": worked,
        "decide_seconds": timed(decide_all, loaded["problem"][:]),
        "dropped": [row["origin"] for row in dropped if row["contaminated"]],
        "note": f"datasets {version('datasets')}",
    }


def main() -> None:
    """Run one peer and print its result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peer", choices=["datatrove", "datasets"])
    parser.add_argument("--words", type=int, required=True)
    parser.add_argument("--rows", type=Path, required=True)
    parser.add_argument("--protected", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    run = run_datatrove if given.peer == "datatrove" else run_datasets
    print(json.dumps(run(given.words, given.rows, given.protected, given.out.resolve())))


if __name__ == "__main__":
    main()

"""The real texts that `bench.corpus_rows` recombines, read from public files.

Seeds are problems with answers, documents are solutions cut into sentences, both without boxes.
A seed that may itself be a copy of a protected problem is left out, so that a drop of a row
without a planted copy is a false one.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROTECTED = {
    "math500": "bench/math500.jsonl",
    "gsm8k_test": "bench/gsm8k_test_orig.jsonl",
    "aime24": "bench/qwen25math/aime24.jsonl",
    "aime25": "bench/aime25_oneshot.jsonl",
}
GSM8K = "train/gsm8k_train_orig.jsonl"
COMPETITION = (
    "train/rllm/math_train.json",
    "train/rllm/aime_train.json",
    "train/o1pruner_math_train_hard.json",
)
REASONING = "train/intellect3_sft_sample_256.jsonl"
ALIKE_SHARE = 0.5
"""A seed with so many of its word 3-grams (numbers folded) in one protected problem is left out."""
MAX_PROBLEM_CHARACTERS = 1_200
MIN_DOCUMENT_SENTENCES = 3

_SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z$\\])|\n+")
_NUMBER = re.compile(r"(?<![\w^_.{\\])\d+(?![\w}])")
_CALCULATOR = re.compile(r"<<[^>]*>>")
_BOX = re.compile(r"\\boxed\s*\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}")
_WORD = re.compile(r"[a-z]+|\d+")


@dataclass(frozen=True, slots=True)
class Seed:
    """A real problem."""

    problem: str
    answer: str

    @property
    def sentences(self) -> list[str]:
        """The problem's sentences."""
        return sentences_of(self.problem)


def sentences_of(text: str) -> list[str]:
    """The text cut after sentences and at line ends."""
    return [part.strip() for part in _SENTENCE.split(text) if part.strip()]


def change_numbers(text: str, chance: random.Random) -> str:
    """Other whole numbers with the same count of digits; exponents and the like stay."""

    def other(found: re.Match[str]) -> str:
        digits = len(found[0])
        return found[0] if digits > 6 else str(chance.randrange(10 ** (digits - 1), 10**digits))

    return _NUMBER.sub(other, text)


def _load(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="utf-8")
    if text.startswith("["):
        rows: list[dict[str, Any]] = json.loads(text)
        return rows
    return [json.loads(line) for line in text.splitlines()]


def _seed(row: dict[str, Any]) -> Seed:
    problem = str(row.get("problem") or row["question"])
    answer = str(row.get("ground_truth_answer") or row.get("answer") or "")
    return Seed(problem.strip(), answer.rsplit("####", 1)[-1].strip())


def read_protected(folder: Path) -> list[tuple[str, int, Seed]]:
    """(set, index in its file, problem) of every protected problem."""
    return [
        (name, index, _seed(row))
        for name, path in PROTECTED.items()
        for index, row in enumerate(_load(folder / path))
    ]


def _trigrams(seed: Seed) -> set[tuple[str, ...]]:
    words = _WORD.findall(seed.problem.lower())
    folded = ["0" if word.isdigit() else word for word in words]
    return set(zip(folded, folded[1:], folded[2:]))


def read_seeds(folder: Path, protected: list[Seed]) -> tuple[list[list[Seed]], int]:
    """Seeds by family (word problems, competition problems) and how many were left out."""
    holders: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for number, seed in enumerate(protected):
        for trigram in _trigrams(seed):
            holders[trigram].append(number)

    def alike(seed: Seed) -> bool:
        mine = _trigrams(seed)
        shared = Counter(number for trigram in mine for number in holders.get(trigram, ()))
        return bool(shared) and max(shared.values()) >= ALIKE_SHARE * len(mine)

    families: list[list[Seed]] = []
    left_out = 0
    for paths in ((GSM8K,), COMPETITION):
        read = [_seed(row) for path in paths for row in _load(folder / path)]
        read = [one for one in read if one.answer and len(one.problem) <= MAX_PROBLEM_CHARACTERS]
        families.append([one for one in read if not alike(one)])
        left_out += len(read) - len(families[-1])
    return families, left_out


def read_documents(folder: Path) -> list[list[str]]:
    """Real solutions and reasoning as lists of sentences."""
    texts = [_CALCULATOR.sub("", row["answer"]) for row in _load(folder / GSM8K)]
    for path in COMPETITION[1:]:
        rows = _load(folder / path)
        texts += [row.get("solution") or row.get("ground_truth_solution") or "" for row in rows]
    for row in _load(folder / REASONING):
        text = row["completion"][0]["content"] or ""
        if text.isascii() and "```" not in text:
            # Long reasoning fills most of a real corpus, so its texts are drawn more often.
            texts += [text] * 20
    documents = [
        [line for line in sentences_of(_plain(text)) if not line.startswith("####")]
        for text in texts
    ]
    return [one for one in documents if len(one) >= MIN_DOCUMENT_SENTENCES]


def _plain(text: str) -> str:
    text = re.sub(r"</?think>|\[asy\].*?\[/asy\]", " ", text, flags=re.DOTALL)
    return _BOX.sub(r"\1", text).replace("\\boxed", "")

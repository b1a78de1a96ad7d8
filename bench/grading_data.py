"""Recorded answers of public projects as (set, reply, gold, label); read by bench/grading.py.

Files lie in one folder under their published names: example solutions of GSM8K, samples of
Qwen2.5-Math on MATH, ToRA on GSM8K, answers to MATH-500 of two models, outputs of NeMo,
EvalScope. A label is the file's own verdict, None where it holds none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One recorded reply."""

    source: str
    reply: str
    gold: str
    label: bool | None


def recorded(folder: Path) -> list[Answer]:
    """Every recorded answer of the folder, in the order of its files."""
    return [
        *_gsm8k(folder / "gsm8k_example_model_solutions.jsonl"),
        *_qwen(folder / "qwen_math_cot_100x8.jsonl"),
        *_tora(folder / "tora-70b-v1.0_gsm8k.jsonl"),
        *(one for name in ("gpt", "qwen3") for one in _math500(folder, name)),
        *(one for number in (0, 1) for one in _nemo(folder / f"nemo_output-rs{number}.jsonl")),
        *_evalscope(folder),
        *(one for path in sorted(folder.glob("lighteval_*.json")) for one in _lighteval(path)),
    ]


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def _final(text: str) -> str:
    """What stands after the last `A:` of a GSM8K solution."""
    return re.split(r"(?m)^A:", text)[-1].strip() if re.search(r"(?m)^A:", text) else ""


def _gsm8k(path: Path) -> Iterator[Answer]:
    """The answer line of each solution, put in a box."""
    models = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    for row in _rows(path):
        for model in models:
            reply = f"\\boxed{{{_final(row[model]['solution'])}}}"
            yield Answer("gsm8k", reply, _final(row["ground_truth"]), row[model]["is_correct"])


def _qwen(path: Path) -> Iterator[Answer]:
    for row in _rows(path):
        for reply, label in zip(row["code"], row["score"], strict=True):
            yield Answer("qwen-math", reply, row["gt"], label)


def _tora(path: Path) -> Iterator[Answer]:
    for row in _rows(path):
        yield from (Answer("tora-gsm8k", reply, str(row["gt"]), None) for reply in row["code"])


def _math500(folder: Path, name: str) -> Iterator[Answer]:
    for row in json.loads((folder / f"math500_{name}_answers.json").read_text(encoding="utf-8")):
        yield Answer(f"math500-{name}", row["prediction"] or "", row["answer"], None)


def _nemo(path: Path) -> Iterator[Answer]:
    for row in _rows(path):
        yield Answer("nemo", row["generation"], str(row["expected_answer"]), None)


def _evalscope(folder: Path) -> Iterator[Answer]:
    reviews = _rows(folder / "evalscope_qwen-plus_gsm8k_reviews.jsonl")
    golds = {row["index"]: row["target"] for row in reviews}
    for row in _rows(folder / "evalscope_qwen-plus_gsm8k_predictions.jsonl"):
        reply = row["model_output"]["choices"][0]["message"]["content"]
        yield Answer("evalscope", reply, golds[row["index"]], None)


def _lighteval(path: Path) -> Iterator[Answer]:
    for case in json.loads(path.read_text(encoding="utf-8"))["test_cases"]:
        doc = case["doc"]
        gold = doc["choices"][doc["gold_index"]]
        for reply in case["model_response"]["text"]:
            yield Answer("lighteval", reply, gold, None)

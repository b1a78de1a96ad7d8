"""For tests of the semantic search: a tiny sentence-embedding model, and an executor.

The model has random weights, but embeddings of words that outweigh its layers: two texts
are as near as the words they share, so that a test can tell which neighbour comes first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from pipeline.corpus.execution.executor import inline_watch

WORDS = (
    "what is the sum of and a b c d train leaves town find how many apples pears boxes hours "
    "triangle circle area side angle at in for each holds old new red blue green number"
).split()
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def write_tiny_sentence_model(folder: Path, **given: Any) -> Path:
    """A small BERT with its files.

    Args:
        given: `pooling` ("mean" or "cls"), `max_tokens`, `hidden`, `layers`.
    """
    pooling, hidden = given.get("pooling", "mean"), given.get("hidden", 32)
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary = _write_tokenizer(folder)
    config = transformers.BertConfig(
        vocab_size=vocabulary, hidden_size=hidden, intermediate_size=2 * hidden,
        num_hidden_layers=given.get("layers", 2), num_attention_heads=4,
        max_position_embeddings=64, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.BertModel(config)
    torch.nn.init.normal_(model.embeddings.word_embeddings.weight, std=1.0)
    model.save_pretrained(str(folder), safe_serialization=True)
    kinds = [("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")]
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (path, kind) in enumerate(kinds)
    ]
    flags = {
        "word_embedding_dimension": hidden,
        "pooling_mode_cls_token": pooling == "cls",
        "pooling_mode_mean_tokens": pooling == "mean",
        "pooling_mode_max_tokens": pooling == "max",
    }
    write(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir(exist_ok=True)
    write(folder / "1_Pooling/config.json", flags)
    limits = {"max_seq_length": given.get("max_tokens", 16), "do_lower_case": False}
    write(folder / "sentence_bert_config.json", limits)
    return folder


def run_inline(
    name: str, task: Any, job: Any, shards: Sequence[Any], scratch: Path, *_: Any
) -> list[Path]:
    """Stands in for run_shards: every shard here, one after the other."""
    folders = [scratch / name / f"{number:05d}" for number in range(len(shards))]
    for folder, shard in zip(folders, shards):
        folder.mkdir(parents=True)
        task(job, shard, folder, inline_watch())
    return folders


def write(path: Path, value: Any) -> None:
    """A JSON file."""
    path.write_text(json.dumps(value), encoding="utf-8")


def _write_tokenizer(folder: Path) -> int:
    digits = [str(digit) for digit in range(10)]
    vocabulary = {word: n for n, word in enumerate([*SPECIAL, *WORDS, *digits])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return len(vocabulary)

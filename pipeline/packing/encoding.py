"""Traces to token ids, each with the place where its reply begins.

`python -m pipeline.tokenize` calls this. A document is the prompt, the reply and
the end token; only reply and end token are trained. Prompts and replies are
encoded apart (see pipeline/base/chat.py), so the boundary between them is exact.
Rows that cannot be learnt from whole are dropped and counted:

too-long          more tokens than a sequence holds; a cut reply has no ending.
end-token-inside  the reply spells the end token, where decoding would stop.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from pipeline.base.artifacts import canonical_hash, sha256_file
from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.base.progress import Progress
from pipeline.base.records import Trace, excerpt

BATCH_ROWS = 256
MAX_TOO_LONG_SHARE = 0.5
"""More rows than this share too long means that the sequence length is wrong."""

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")


@dataclass(frozen=True, slots=True)
class Document:
    """One trace as the model reads it."""

    trace: Trace
    ids: NDArray[np.int32]
    """Prompt, reply, end token; shape [length]."""
    prompt_tokens: int
    """Tokens before the first one that the model must write; at least 1."""


@dataclass(frozen=True)
class Encoding:
    """All documents of a run, in the order of their rows, and what was left out."""

    documents: list[Document]
    dropped: dict[str, int]
    """Reason code -> rows."""
    dropped_tokens: int
    """Tokens of the dropped rows: kept and dropped add up to what was read."""


def encode_traces(
    chat: Chat, traces: Iterable[Trace], sequence_tokens: int, progress: Progress
) -> Encoding:
    """Encode every trace; rows that do not fit whole are dropped and counted.

    Raises:
        UserError: a row without prompt or reply tokens, or more than half of the
            rows too long, or none left.
    """
    documents: list[Document] = []
    dropped: Counter[str] = Counter()
    dropped_tokens = read = 0
    for document in _encode(chat, traces):
        read += 1
        reason = _refusal(chat, document, sequence_tokens)
        if reason is None:
            documents.append(document)
        else:
            dropped[reason] += 1
            dropped_tokens += len(document.ids)
        progress.add(1)
    too_long = dropped["too-long"]
    if not documents or too_long > MAX_TOO_LONG_SHARE * read:
        raise UserError(
            f"{too_long} of {read} rows are longer than a sequence of {sequence_tokens} tokens"
            f" and {len(documents)} rows are left",
            "Raise `plan.sequence_tokens` or choose shorter traces.",
        )
    return Encoding(documents, dict(sorted(dropped.items())), dropped_tokens)


def _encode(chat: Chat, traces: Iterable[Trace]) -> Iterator[Document]:
    rows = iter(traces)
    while batch := list(islice(rows, BATCH_ROWS)):
        prompts = _encode_texts(chat, [chat.prompt_text(row.problem) for row in batch])
        replies = _encode_texts(chat, [chat.reply_text(r.thinking, r.solution) for r in batch])
        for row, prompt, reply in zip(batch, prompts, replies, strict=True):
            if not prompt or not reply:
                _refuse_untrainable(chat, row, "prompt" if not prompt else "reply")
            ids = np.array([*prompt, *reply, chat.end_id], dtype=np.int32)
            yield Document(row, ids, len(prompt))


def _encode_texts(chat: Chat, texts: list[str]) -> list[list[int]]:
    """What `Chat` makes of each text, many at a time; the template has the specials."""
    encoded = chat.tokenizer.encode_batch(texts, add_special_tokens=False)
    return [list(one.ids) for one in encoded]


def _refuse_untrainable(chat: Chat, row: Trace, part: str) -> NoReturn:
    remedy = {
        "prompt": f"Give {chat.base} a chat template that opens the assistant's turn.",
        "reply": "Drop the row or raise `filter.min_solution_characters`.",
    }
    raise UserError(f"{row.origin}: the {part} of this row has no tokens", remedy[part])


def _refusal(chat: Chat, document: Document, sequence_tokens: int) -> str | None:
    if len(document.ids) > sequence_tokens:
        return "too-long"
    reply = document.ids[document.prompt_tokens : -1]
    return "end-token-inside" if bool((reply == chat.end_id).any()) else None


def trained_mask(document: Document) -> NDArray[np.bool_]:
    """True where the model must predict the token; shape [length], first one False."""
    return np.arange(len(document.ids)) >= document.prompt_tokens


def prove_mask(
    chat: Chat, trace: Trace, ids: NDArray[np.int32], trained: NDArray[np.bool_]
) -> None:
    """Read a stored document back and compare what it trains with the trace's reply.

    Args:
        ids: tokens of the document, shape [length].
        trained: its mask, same shape.

    Raises:
        UserError: anything but the whole reply and its end token carries loss.
    """
    learnt = ids[trained].tolist()
    if trained[0] or not learnt or learnt.pop() != chat.end_id:
        raise UserError(
            f"{trace.origin}: the loss mask must leave the first token and end with"
            f" {chat.end_text!r}",
            f"Check the chat template of {chat.base}.",
        )
    wanted = _comparable(chat.reply_text(trace.thinking, trace.solution))
    found = _comparable(str(chat.tokenizer.decode(learnt, skip_special_tokens=False)))
    if found != wanted:
        raise UserError(
            f"{trace.origin}: the trained tokens read {excerpt(found)!r},"
            f" the reply is {excerpt(wanted)!r}",
            f"Take tokenizer.json of {chat.base} from the base's release: this one alters text.",
        )


def _comparable(text: str) -> str:
    # Tokenizers may normalise Unicode; that changes no mask.
    return unicodedata.normalize("NFKC", text)


def describe_documents(encoding: Encoding) -> dict[str, Any]:
    """The manifest's counts of documents and tokens, kept and dropped."""
    documents = encoding.documents
    return {
        "documents": len(documents),
        "tokens": sum(len(one.ids) for one in documents),
        "trained_tokens": sum(len(one.ids) - one.prompt_tokens for one in documents),
        "dropped": encoding.dropped,
        "dropped_tokens": encoding.dropped_tokens,
    }


def describe_tokenizer(chat: Chat) -> dict[str, Any]:
    """The manifest's facts of the tokenizer; its hash covers the chat template too."""
    present = [name for name in TOKENIZER_FILES if (chat.base / name).is_file()]
    return {
        "tokenizer_sha256": canonical_hash(
            {name: sha256_file(chat.base / name) for name in present}
        ),
        "end_id": chat.end_id,
        "end_text": chat.end_text,
        "base_end_ids": _declared_end_ids(chat.base),
        "pad_id": chat.pad_id,
    }


def _declared_end_ids(base: Path) -> list[int]:
    """End tokens that the base's generation settings name; empty if they name none."""
    for name in ("generation_config.json", "config.json"):
        path = base / name
        value = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        found = value.get("eos_token_id")
        if found is not None:
            return [int(one) for one in (found if isinstance(found, list) else [found])]
    return []

"""Traces to token ids, each with the places that carry loss.

shards.py and proof.py call this. A document is the prompt, the reply and the end token;
only reply and end token are trained, and of the reply not what a tool wrote
(tool_spans.py). Prompts and replies are encoded apart (see pipeline/base/chat.py), so the
boundary between them is exact. Rows that cannot be learnt from whole are refused:

too-long          more tokens than a sequence holds; a cut reply has no ending.
end-token-inside  the reply spells the end token, where decoding would stop.
nothing-to-learn  a tool wrote the whole reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.base.prompt_variants import Prompts
from pipeline.base.records import Trace
from pipeline.packing.tool_spans import Span, tool_spans, touched_tokens


@dataclass(frozen=True, slots=True)
class Document:
    """One trace as the model reads it."""

    trace: Trace
    variant: str
    """The prompt variant that it is put with."""
    prompt: list[int]
    reply: list[int]
    """What the model must write, and the end token."""
    untrained: list[Span]
    """Runs of the reply's tokens that carry no loss; from the reply's first token on."""
    tool_spans: int
    """Spans of text that they stand for."""

    @property
    def ids(self) -> list[int]:
        """All tokens, in order."""
        return self.prompt + self.reply

    @property
    def trained_tokens(self) -> int:
        """Tokens that carry loss, the end token among them."""
        return len(self.reply) - sum(stop - start for start, stop in self.untrained)

    def mask(self) -> NDArray[np.bool_]:
        """True where the model must predict the token; bool [length], the first one False."""
        mask = np.zeros(len(self.prompt) + len(self.reply), dtype=np.bool_)
        reply = mask[len(self.prompt) :]
        reply[:] = True
        for start, stop in self.untrained:
            reply[start:stop] = False
        return mask


def encode_documents(prompts: Prompts, traces: Sequence[Trace], seed: int) -> list[Document]:
    """Encode traces, each under the prompt variant that its problem has by the seed.

    Raises:
        UserError: a row without prompt or reply tokens.
    """
    rows: dict[str, list[int]] = {}
    for number, trace in enumerate(traces):
        rows.setdefault(prompts.variant_of(trace.id, seed), []).append(number)
    documents: dict[int, Document] = {}
    for variant, numbers in rows.items():
        chosen = [traces[number] for number in numbers]
        encoded = _encode(prompts.chats[variant], variant, chosen)
        documents.update(zip(numbers, encoded, strict=True))
    return [documents[number] for number in range(len(traces))]


def _encode(chat: Chat, variant: str, traces: Sequence[Trace]) -> list[Document]:
    texts = [chat.reply_text(trace.thinking, trace.solution) for trace in traces]
    prompts = chat.encode_prompts([trace.problem for trace in traces])
    replies = chat.encode_replies(texts)
    documents = []
    for trace, text, prompt, reply in zip(traces, texts, prompts, replies, strict=True):
        if not prompt or not reply:
            _refuse_untrainable(chat, trace, "prompt" if not prompt else "reply")
        spans = tool_spans(text)
        untrained = _untrained(chat, trace, text, reply, spans) if spans else []
        reply.append(chat.end_id)
        documents.append(Document(trace, variant, prompt, reply, untrained, len(spans)))
    return documents


def _untrained(
    chat: Chat, trace: Trace, text: str, reply: list[int], spans: Sequence[Span]
) -> list[Span]:
    """The reply's tokens that touch a span, by the offsets that the tokenizer gives."""
    for before in ("", "\n"):  # a reply may have been encoded behind a line end
        one = chat.tokenizer.encode(before + text, add_special_tokens=False)
        lead = len(one.ids) - len(reply)
        if lead >= 0 and list(one.ids[lead:]) == reply:
            shift = len(before)
            offsets = [(max(0, a - shift), max(0, b - shift)) for a, b in one.offsets[lead:]]
            return touched_tokens(offsets, spans, len(text))
    raise UserError(
        f"{trace.origin}: the tokenizer of {chat.base} does not say which characters its tokens"
        " stand for, so what a tool wrote in this reply cannot be told apart",
        "Drop the row, or take tokenizer.json from the base's release.",
    )


def _refuse_untrainable(chat: Chat, row: Trace, part: str) -> NoReturn:
    remedy = {
        "prompt": f"Give {chat.base} a chat template that opens the assistant's turn.",
        "reply": "Drop the row or raise `filter.min_solution_characters`.",
    }
    raise UserError(f"{row.origin}: the {part} of this row has no tokens", remedy[part])


def refusal(document: Document, end_id: int, sequence_tokens: int) -> tuple[str, str] | None:
    """Why a document must not be trained, as reason code and figures; None if it may."""
    tokens = len(document.prompt) + len(document.reply)
    if tokens > sequence_tokens:
        return "too-long", f"{tokens} tokens, a sequence holds {sequence_tokens}"
    inside = document.reply.count(end_id) - 1
    if inside:
        return "end-token-inside", f"the reply spells the end token {inside} times"
    if document.trained_tokens < 2:
        return "nothing-to-learn", f"a tool wrote all {len(document.reply) - 1} tokens of the reply"
    return None

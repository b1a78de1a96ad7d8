"""Does a stored document train what it should, and nothing else?

Pure functions over one document, read back from the disk; sample.py and whole.py call
them. Nothing here looks at how the mask was made: what is stored is decoded and compared
with the trace.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.base.records import Trace, excerpt
from pipeline.packing.tool_spans import Span, tool_spans

_BROKEN = "\N{REPLACEMENT CHARACTER}"


def prove_document(
    chat: Chat,
    trace: Trace,
    prompt: Sequence[int],
    ids: NDArray[np.int32],
    trained: NDArray[np.bool_],
) -> None:
    """Compare what a stored document trains with the trace's reply.

    Args:
        chat: of the document's prompt variant.
        prompt: token ids from which decoding would start.
        ids: tokens of the document, int32 [length].
        trained: its mask, bool [length].

    Raises:
        UserError: anything carries loss but the reply, without what a tool wrote, and the
            end token; or the prompt is another.
    """
    if trained[0] or trained.all() or not trained.any():
        raise UserError(
            f"{trace.origin}: the loss mask must leave the first token and train some other",
            _remedy(chat),
        )
    if ids[-1] != chat.end_id or not trained[-1]:
        raise UserError(
            f"{trace.origin}: the loss mask must end with {chat.end_text!r}", _remedy(chat)
        )
    border = len(prompt)
    if ids[:border].tolist() != list(prompt) or trained[:border].any():
        raise UserError(
            f"{trace.origin}: the document does not begin with its prompt, free of loss",
            _remedy(chat),
        )
    whole = _decode(chat, ids[border:-1])
    wanted = chat.reply_text(trace.thinking, trace.solution)
    _require_same(chat, trace, "the reply reads", whole, wanted)
    mask = trained[border:-1]
    pieces = _pieces(chat, ids[border:-1], mask, whole)
    _prove_pieces(chat, trace, pieces, whole, _borders(chat, ids[border:-1], whole))
    stops = [0, *(place for piece in pieces for place in piece[1]), len(whole)]
    to_learn = "".join(whole[a:b] for a, b in zip(stops[::2], stops[1::2], strict=True))
    learnt = _decode(chat, ids[trained][:-1])
    _require_same(chat, trace, "the trained tokens read", learnt, to_learn)


Borders = Callable[[int], tuple[int, bool]]
"""Characters of the reply before a token, and whether the border cuts no character."""


def _borders(chat: Chat, reply: NDArray[np.int32], whole: str) -> Borders:
    def border(token: int) -> tuple[int, bool]:
        shown = _decode(chat, reply[:token])
        if whole.startswith(shown):
            return len(shown), True
        return len(shown.rstrip(_BROKEN)), False

    return border


def _pieces(
    chat: Chat, reply: NDArray[np.int32], mask: NDArray[np.bool_], whole: str
) -> list[tuple[Span, Span]]:
    """Runs of the reply that carry no loss, as tokens and as characters."""
    if mask.all():
        return []
    border = _borders(chat, reply, whole)
    changes = np.flatnonzero(np.diff(np.concatenate(([True], mask, [True])).astype(np.int8)))
    runs = zip(changes[::2].tolist(), changes[1::2].tolist(), strict=True)
    return [((start, stop), (border(start)[0], border(stop)[0])) for start, stop in runs]


def _prove_pieces(
    chat: Chat, trace: Trace, pieces: list[tuple[Span, Span]], whole: str, border: Borders
) -> None:
    """Every span that a tool wrote lies in a piece, and no token of a piece lies outside."""
    spans = tool_spans(whole)
    for start, stop in spans:
        if not any(a <= start and stop <= b for _, (a, b) in pieces):
            raise UserError(
                f"{trace.origin}: what a tool wrote is trained: {excerpt(whole[start:stop])!r}",
                _remedy(chat),
            )
    for (first, last), (start, stop) in pieces:
        inside = [span for span in spans if start <= span[0] and span[1] <= stop]
        edges = [start, *(place for span in inside for place in span), stop]
        for low, high in list(pairwise(edges))[::2]:
            if low < high and _holds_token(border, first, last, low, high):
                raise UserError(
                    f"{trace.origin}: the model wrote this and it is not trained:"
                    f" {excerpt(whole[low:high])!r}",
                    _remedy(chat),
                )


def _holds_token(border: Borders, first: int, last: int, low: int, high: int) -> bool:
    """Whether a token from `first` on lies between two characters, as far as borders show."""
    end = last
    while first < end:  # the first token that begins at `low` or later
        middle = (first + end) // 2
        if border(middle)[0] < low:
            first = middle + 1
        else:
            end = middle
    if first >= last:
        return False
    (_, begins), (after, ends) = border(first), border(first + 1)
    return begins and ends and after <= high


def _require_same(chat: Chat, trace: Trace, what: str, found: str, wanted: str) -> None:
    # Tokenizers may normalise Unicode; that changes no mask.
    found, wanted = (unicodedata.normalize("NFKC", text) for text in (found, wanted))
    if found != wanted:
        place = next(
            (n for n, (a, b) in enumerate(zip(found, wanted)) if a != b),
            min(len(found), len(wanted)),
        )
        start = max(0, place - 20)
        raise UserError(
            f"{trace.origin}: {what} {excerpt(found[start:])!r} at character {start},"
            f" it should be {excerpt(wanted[start:])!r}",
            f"Take tokenizer.json of {chat.base} from the base's release: this one alters text.",
        )


def _decode(chat: Chat, ids: NDArray[np.int32]) -> str:
    return str(chat.tokenizer.decode(ids.tolist(), skip_special_tokens=False))


def _remedy(chat: Chat) -> str:
    return f"Check the chat template of {chat.base} and run `dvc repro -f tokenize`."

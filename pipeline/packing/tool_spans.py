r"""What a tool wrote inside a reply, and which tokens of the reply touch it.

Pure functions; encoding.py and proof.py call them. A model must not learn to invent what
a tool answers, so these spans of a reply carry no loss:

- behind a block of code, with nothing but blanks between: `<output>` to `</output>`, or a
  block fenced as `output`, its fences included (one that is never closed reaches to the
  end of the reply);
- `<|tool…|>` and its like, any token in `<|…|>` whose name speaks of a tool, a function,
  python, an interpreter or output; from one that begins a response or output to the one
  that ends it, all between them too.

The same words elsewhere in a reply are text, and learnt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Span = tuple[int, int]
"""First and one-past-last place: characters of a text, or tokens of a document."""

_CODE_ENDS = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n`]*\n(?:.*\n)*?[ \t]*(?P=fence)[ \t]*$"
    r"|</(?:code|python|tool_call)>",
    re.MULTILINE,
)
_ELEMENT = re.compile(r"\s*(<output>.*?(?:</output>|\Z))", re.DOTALL)
_FENCED = re.compile(
    r"\s*^([ \t]*(?P<fence>`{3,}|~{3,})[ \t]*output[ \t]*(?:\n.*?^[ \t]*(?P=fence)[ \t]*$|.*\Z))",
    re.DOTALL | re.MULTILINE,
)
_TOKEN = re.compile(r"<\|(?P<name>[^\s|<>]{1,60})\|>")
_TOOL = re.compile(r"tool|function|python|interpreter|output", re.IGNORECASE)
_ANSWER = re.compile(r"output|response|result", re.IGNORECASE)
_END = re.compile(r"^/|(?:^|[_▁-])end(?:[_▁-]|$)", re.IGNORECASE)


def tool_spans(text: str) -> list[Span]:
    """Spans of a reply that a tool wrote, in characters, ascending, apart from each other."""
    blocks = _blocks(text) if "output" in text else []
    tokens = _tokens(text) if "<|" in text else []
    return _joined([*blocks, *tokens])


def _blocks(text: str) -> list[Span]:
    found: list[Span] = []
    place = 0
    while code := _CODE_ENDS.search(text, place):
        place = code.end()
        while block := _ELEMENT.match(text, place) or _FENCED.match(text, place):
            found.append(block.span(1))
            place = block.end()
    return found


def _tokens(text: str) -> list[Span]:
    found: list[Span] = []
    begun: int | None = None
    for token in _TOKEN.finditer(text):
        name, start = token["name"], token.start()
        if not _TOOL.search(name):
            continue
        if _END.search(name) and begun is not None:
            start, begun = begun, None
        elif begun is None and _ANSWER.search(name) and not _END.search(name):
            begun = start
        found.append((start, token.end()))
    return found


def _joined(spans: list[Span]) -> list[Span]:
    joined: list[Span] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def touched_tokens(offsets: Sequence[Span], spans: Sequence[Span], characters: int) -> list[Span]:
    """Runs of tokens that share a character with a span: ascending, apart from each other.

    A token that straddles a border is touched, and so is one that shares a character with a
    touched one (the bytes of one character may lie in two tokens). Some tokenizers leave
    blanks out of their offsets; these count to the tokens on either side.

    Args:
        offsets: first and one-past-last character of every token, in order.
        spans: in characters, ascending.
        characters: length of the text.
    """
    extents = _extents(offsets, characters)
    touched = [False] * len(extents)
    wanted = list(spans)
    while wanted:
        fresh = [
            number
            for number, (start, stop) in enumerate(extents)
            if not touched[number] and any(start < b and a < stop for a, b in wanted)
        ]
        for number in fresh:
            touched[number] = True
        # Only characters that two tokens share: own offsets, not the blanks beside them.
        wanted = [offsets[number] for number in fresh if offsets[number][0] < offsets[number][1]]
    return _runs(touched)


def _extents(offsets: Sequence[Span], characters: int) -> list[Span]:
    """Offsets widened over what no token claims, up to the neighbours on either side."""
    behind = [0]
    for _, stop in offsets:
        behind.append(max(behind[-1], stop))
    ahead = [characters]
    for start, _ in reversed(offsets):
        ahead.append(min(ahead[-1], start))
    ahead.reverse()
    return [
        (min(start, behind[number]), max(stop, ahead[number + 1]))
        for number, (start, stop) in enumerate(offsets)
    ]


def _runs(flags: Sequence[bool]) -> list[Span]:
    runs: list[Span] = []
    for number, flag in enumerate(flags):
        if flag and runs and runs[-1][1] == number:
            runs[-1] = runs[-1][0], number + 1
        elif flag:
            runs.append((number, number + 1))
    return runs

"""Packed bins in a terminal: colour where it may be, clear marks where not.

Draws what view.py reads; `python -m pipeline.inspect` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pipeline.packing.view import BinView, DocumentView, Line, Piece, about, lines

OPEN, CLOSE = "⟦", "⟧"
_HIDDEN = {ord(OPEN): f"⟨U+{ord(OPEN):04X}⟩", ord(CLOSE): f"⟨U+{ord(CLOSE):04X}⟩"}
KEEP = 48
"""Tokens that stay at either end of a stretch that is abbreviated."""
GUTTER = 7

GREEN, DIM, BOLD, PLAIN = "\x1b[32m", "\x1b[2m", "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Gap:
    """Tokens of one mask that are left out."""

    position: int
    tokens: int
    trained: bool

    def sentence(self) -> str:
        kind = "trained" if self.trained else "untrained"
        return (
            f"│{self.position:>{GUTTER}} … {self.tokens:,} {kind} tokens are left out here;"
            " --full shows them …"
        )


@dataclass(frozen=True)
class Pen:
    """How trained, untrained and heading text is told apart."""

    colour: bool

    def legend(self) -> str:
        """What the marks mean."""
        trained = self.trained("trained") if self.colour else f"{OPEN}trained{CLOSE}"
        return (
            f"{trained}: the model learns to write it; {self.untrained('the rest')}: it is only"
            " read. Numbers are positions, from 0 in every document."
        )

    def heading(self, text: str) -> str:
        return f"{BOLD}{text}{PLAIN}" if self.colour else text

    def trained(self, text: str) -> str:
        if self.colour:
            return f"{GREEN}{text}{PLAIN}"
        # The text may hold the marks themselves.
        return f"{OPEN}{text.translate(_HIDDEN)}{CLOSE}"

    def untrained(self, text: str) -> str:
        return f"{DIM}{text}{PLAIN}" if self.colour else text.translate(_HIDDEN)


def draw_bin(view: BinView, pen: Pen, *, full: bool) -> Iterator[str]:
    """Yield the lines of a bin.

    Args:
        full: leave nothing out.
    """
    count = len(view.documents)
    yield pen.heading(
        f"━━ bin {view.number} · tier {view.tier} · {count} document{'s' * (count != 1)} ·"
        f" {view.tokens:,} of {view.band:,} tokens, {view.tokens / view.band:.1%} full ·"
        f" {view.trained:,} trained ━━"
    )
    for number, document in enumerate(view.documents, start=1):
        yield from _draw_document(document, f"document {number} of {count}", pen, full)
    yield ""


def _draw_document(document: DocumentView, name: str, pen: Pen, full: bool) -> Iterator[str]:
    last = document.length - 1
    yield pen.heading(
        f"┌─ {name} · {document.length:,} tokens, {document.trained:,} trained · positions"
        f" 0–{last} · tokens {document.place}–{document.place + last} of the bin"
    )
    yield f"│  {about(document.row)}"
    for part in [document.pieces] if full else abbreviated(document.pieces, KEEP):
        if isinstance(part, Gap):
            yield part.sentence()
        else:
            yield from (_draw_line(line, pen) for line in lines(part))
    yield "└" + "─" * GUTTER


def abbreviated(whole: Sequence[Piece], keep: int) -> list[list[Piece] | Gap]:
    """Leave out the middle of every long stretch of one mask; both its ends stay.

    Args:
        keep: pieces that stay at either end.

    Returns:
        What stays, with gaps between.
    """
    found: list[list[Piece] | Gap] = []
    shown: list[Piece] = []
    for trained, run in groupby(whole, key=lambda piece: piece.trained):
        stretch = list(run)
        middle = stretch[keep:-keep]
        if len(middle) <= keep:
            shown += stretch
            continue
        gap = Gap(middle[0].position, sum(len(piece.ids) for piece in middle), trained)
        found += [[*shown, *stretch[:keep]], gap]
        shown = stretch[-keep:]
    return [*found, shown]


def _draw_line(line: Line, pen: Pen) -> str:
    position = "" if line.position is None else str(line.position)
    drawn = []
    for trained, run in groupby(line.parts, key=lambda part: part[1].trained):
        text = "".join(shown for shown, _ in run)
        drawn.append(pen.trained(text) if trained else pen.untrained(text))
    return f"│{position:>{GUTTER}} {''.join(drawn)}"

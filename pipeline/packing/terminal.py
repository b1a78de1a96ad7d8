"""Packed bins in a terminal: colour where it may be, clear marks where not.

Draws what view.py reads; `python -m pipeline.inspect` prints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pipeline.packing.view import BinView, DocumentView, Line, Piece, about, counted, lines

OPEN, CLOSE = "⟦", "⟧"
_HIDDEN = {ord(OPEN): f"⟨U+{ord(OPEN):04X}⟩", ord(CLOSE): f"⟨U+{ord(CLOSE):04X}⟩"}
KEEP = 48
"""Pieces of a long document that stay on either side of a border of its mask."""
BORDERS = 4
"""So many from either end, the end among them; tools may have made many more."""
GUTTER = 7

GREEN, DIM, BOLD, PLAIN = "\x1b[32m", "\x1b[2m", "\x1b[1m", "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Gap:
    """Tokens that are left out."""

    position: int
    """Of the first."""
    tokens: int
    trained: int

    def sentence(self) -> str:
        """The line that stands for them."""
        return (
            f"│{self.position:>{GUTTER}} … {self.tokens:,} tokens ({self.trained:,} trained) are"
            " left out here; --full shows them …"
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
        """Of a bin or a document."""
        return f"{BOLD}{text}{PLAIN}" if self.colour else text

    def trained(self, text: str) -> str:
        """What carries loss."""
        if self.colour:
            return f"{GREEN}{text}{PLAIN}"
        # The text may hold the marks themselves.
        return f"{OPEN}{text.translate(_HIDDEN)}{CLOSE}"

    def untrained(self, text: str) -> str:
        """What carries none."""
        return f"{DIM}{text}{PLAIN}" if self.colour else text.translate(_HIDDEN)


def draw_bin(view: BinView, pen: Pen, *, full: bool) -> Iterator[str]:
    """Yield the lines of a bin.

    Args:
        full: leave nothing out.
    """
    count = len(view.documents)
    yield pen.heading(
        f"━━ bin {view.number} · tier {view.tier} · {counted(count, 'document')} ·"
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
    """Leave out what is far from both ends and from the first and last borders of the mask.

    Args:
        keep: pieces that stay on either side of a border.

    Returns:
        What stays, with gaps of more than `keep` pieces between.
    """
    changes = [n for n in range(1, len(whole)) if whole[n].trained != whole[n - 1].trained]
    borders = [0, *changes, len(whole)]
    stays = [False] * len(whole)
    for border in [*borders[:BORDERS], *borders[-BORDERS:]]:
        near = range(max(0, border - keep), min(len(whole), border + keep))
        stays[near.start : near.stop] = [True] * len(near)
    found: list[list[Piece] | Gap] = []
    shown: list[Piece] = []
    for stay, numbers in groupby(range(len(whole)), key=stays.__getitem__):
        stretch = [whole[number] for number in numbers]
        if stay or len(stretch) <= keep:
            shown += stretch
            continue
        sizes = [(len(piece.ids), piece.trained) for piece in stretch]
        trained = sum(size for size, learnt in sizes if learnt)
        gap = Gap(stretch[0].position, sum(size for size, _ in sizes), trained)
        found, shown = [*found, shown, gap], []
    return [*found, shown]


def _draw_line(line: Line, pen: Pen) -> str:
    position = "" if line.position is None else str(line.position)
    drawn = []
    for trained, run in groupby(line.parts, key=lambda part: part[1].trained):
        text = "".join(shown for shown, _ in run)
        drawn.append(pen.trained(text) if trained else pen.untrained(text))
    return f"│{position:>{GUTTER}} {''.join(drawn)}"

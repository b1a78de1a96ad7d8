"""Packed bins as one self-contained HTML page, without script, font or picture from outside.

Draws what view.py reads, in whole; `python -m pipeline.inspect` writes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from pipeline.packing.view import BinView, DocumentView, Line, Piece, about, counted, lines

STYLE = """\
:root{color-scheme:light dark;--paper:#fff;--ink:#1f2328;--soft:#59636e;--rule:#d1d9e0;
--card:#f6f8fa;--learn:#0a5c22;--tint:#dff6e4;--tint2:#c8edd1;--fill:#2da44e;--rest:#afb8c1}
@media (prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--soft:#9198a1;
--rule:#3d444d;--card:#151b23;--learn:#9be9a8;--tint:#12351f;--tint2:#1b4a2b;--fill:#3fb950;
--rest:#565e68}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:72rem;padding:1rem;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",sans-serif;overflow-wrap:anywhere}
h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.1rem;margin:2rem 0 .2rem}
p{margin:.3rem 0;color:var(--soft)}
mark{background:var(--tint);color:var(--learn);text-decoration:underline;
text-decoration-color:var(--fill);text-underline-offset:3px}
.text mark:nth-of-type(even){background:var(--tint2)}
.map{display:flex;height:1rem;gap:2px;margin:.5rem 0;background:var(--card);
border:1px solid var(--rule)}
.map a{display:flex;min-width:2px}.map i{background:var(--rest)}.map i.learn{background:var(--fill)}
details{border:1px solid var(--rule);border-radius:6px;margin:.6rem 0}
summary{cursor:pointer;padding:.5rem .7rem;background:var(--card);border-radius:6px}
summary small{display:block;color:var(--soft)}
.text{padding:.5rem 0;font:13px/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;
white-space:pre-wrap;color:var(--soft)}
.line{position:relative;padding:0 .6rem 0 3.6rem;min-height:1.6em}
.line::before{content:attr(data-position);position:absolute;left:0;width:3rem;text-align:right;
color:var(--soft);border-right:1px solid var(--rule);padding-right:.4rem;height:100%}
.text span:hover,.text mark:hover{outline:1px solid var(--ink)}
.text span:hover::after,.text mark:hover::after{content:attr(data-token);position:fixed;
left:0;bottom:0;z-index:1;padding:.3rem .8rem;font-size:15px;background:var(--ink);
color:var(--paper)}"""

LEGEND = (
    "<mark>Marked text</mark> is trained: the model learns to write it, token by token. The rest"
    " it only reads. The numbers at the left are positions, which start from 0 in every document;"
    " the token under the pointer or"
    " finger shows its id and position at the foot of the page."
)


def draw_page(told: Sequence[str], bins: Iterable[BinView]) -> Iterator[str]:
    """Yield the parts of the page, a bin at a time.

    Args:
        told: sentences on the whole folder.
    """
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>What training sees</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n"
        "<h1>What training sees</h1>\n"
    )
    yield "".join(f"<p>{escape(sentence)}</p>\n" for sentence in told)
    yield f"<p>{LEGEND}</p>\n"
    for view in bins:
        yield from _draw_bin(view)
    yield "</body>\n</html>\n"


def _draw_bin(view: BinView) -> Iterator[str]:
    count = len(view.documents)
    yield (
        f'<section id="bin-{view.number}">\n<h2>Bin {view.number}</h2>\n'
        f"<p>tier {escape(view.tier)} · {counted(count, 'document')} · {view.tokens:,} of"
        f" {view.band:,} tokens, {view.tokens / view.band:.1%} full ·"
        f" {view.trained:,} trained</p>\n{_draw_map(view)}"
    )
    for number, document in enumerate(view.documents, start=1):
        yield _draw_document(document, f"bin-{view.number}-{number}", f"{number} of {count}")
    yield "</section>\n"


def _draw_map(view: BinView) -> str:
    """A strip as long as the bin: its documents, what is trained of them, what is empty."""
    drawn = []
    for number, document in enumerate(view.documents, start=1):
        inside = "".join(
            f'<i{" class=learn" * trained} style="flex:{tokens} 0 0"></i>'
            for trained, tokens in document.runs()
        )
        drawn.append(
            f'<a href="#bin-{view.number}-{number}" title="document {number}"'
            f' aria-label="document {number}" style="flex:{document.length} 0 0">{inside}</a>'
        )
    empty = view.band - view.tokens
    drawn.append(f'<span style="flex:{empty} 0 0"></span>' if empty else "")
    return f'<div class="map">{"".join(drawn)}</div>\n'


def _draw_document(document: DocumentView, anchor: str, name: str) -> str:
    last = document.length - 1
    text = "".join(_draw_line(line) for line in lines(document.pieces))
    return (
        f'<details open id="{anchor}">\n<summary>Document {name} · {document.length:,} tokens,'
        f" {document.trained:,} trained · positions 0–{last} · tokens"
        f" {document.place}–{document.place + last} of the bin"
        f'<small>{escape(about(document.row))}</small></summary>\n<div class="text">'
        f"{text}</div>\n</details>\n"
    )


def _draw_line(line: Line) -> str:
    position = "" if line.position is None else line.position
    inside = "".join(_draw_part(text, piece) for text, piece in line.parts)
    return f'<div class="line" data-position="{position}">{inside}</div>'


def _draw_part(text: str, piece: Piece) -> str:
    tag = "mark" if piece.trained else "span"
    ids = " ".join(map(str, piece.ids))
    return f'<{tag} data-token="id {ids} · position {piece.position}">{escape(text)}</{tag}>'

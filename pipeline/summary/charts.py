"""A line chart as one self-contained SVG: the loss of a run, raw and smoothed.

`python -m pipeline.report` draws it from work/train/steps.csv. The picture carries
its own background and follows the reader's light or dark setting; it needs no
script, font or library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import accumulate

WIDTH, HEIGHT = 760, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 62, 52
MOST_POINTS = 1000
"""Longer curves are averaged down to this many points: a pixel shows no more."""

_FLAT = 1e-12
"""A range below this share of its values (or of 1) is rounding, not a curve."""

Point = tuple[float, float]

STYLE = """\
.card{fill:#ffffff;stroke:#d8dee6}.grid{stroke:#e6eaef}.axis{stroke:#8b95a1}
text{font:12px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#57606a}
.title{font-size:15px;font-weight:600;fill:#1f2328}.last{font-weight:600;fill:#0b62c4}
.raw{fill:none;stroke:#8fb8ea;stroke-width:1;stroke-linejoin:round}
.smooth{fill:none;stroke:#0b62c4;stroke-width:2.25;stroke-linejoin:round;stroke-linecap:round}
.dot{fill:#0b62c4;stroke:none}
@media (prefers-color-scheme:dark){
.card{fill:#14181d;stroke:#333b44}.grid{stroke:#272e36}.axis{stroke:#6b7580}
text{fill:#9aa5b1}.title{fill:#e8edf2}.last{fill:#7ab8ff}
.raw{stroke:#37597f}.smooth{stroke:#7ab8ff}.dot{fill:#7ab8ff}}"""


def smoothed(values: Sequence[float], span: int) -> list[float]:
    """Mean of each value with its neighbours, `span` of them in all (fewer at the ends)."""
    reach = span // 2
    sums = [0.0, *accumulate(values)]
    bounds = [(max(0, i - reach), min(len(values), i + reach + 1)) for i in range(len(values))]
    return [(sums[stop] - sums[start]) / (stop - start) for start, stop in bounds]


def ticks(low: float, high: float, about: int = 5, least: float = 0.0) -> list[float]:
    """Round numbers that cover `low` to `high` in steps of 1, 2 or 5 times a power of ten.

    The first is at or below `low`, the last at or above `high`; they are `least`
    or more apart.
    """
    if high - low <= _FLAT * max(1.0, abs(low), abs(high)):
        margin = max(abs(low) * 0.1, least)
        margin = margin if margin > _FLAT else 1.0
        low, high = low - margin, high + margin
    raw = max((high - low) / about, least)
    power = 10.0 ** math.floor(math.log10(raw))
    step = power * next(f for f in (1, 2, 5, 10) if f * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, last + 1)]


def thin(points: Sequence[Point], most: int = MOST_POINTS) -> list[Point]:
    """At most `most` points: neighbours are averaged."""
    size = max(1, math.ceil(len(points) / most))
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [(_mean([x for x, _ in group]), _mean([y for _, y in group])) for group in groups]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def loss_chart(steps: Sequence[float], losses: Sequence[float], title: str) -> str:
    """The SVG text of a loss curve.

    Args:
        steps: optimizer steps, ascending.
        losses: mean loss a trained token, in nats, at these steps; those
            that are not finite are left out.
        title: heading inside the picture.
    """
    points = [(x, y) for x, y in zip(steps, losses, strict=True) if math.isfinite(y)]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}"'
        f' width="{WIDTH}" height="{HEIGHT}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8"/>',
        _text(LEFT, 30, escape(title), "title"),
    ]
    lines += _curve(points) if points else [_text(LEFT, HEIGHT // 2, "no steps were recorded")]
    return "\n".join([*lines, "</svg>"]) + "\n"


def _curve(points: list[Point]) -> list[str]:
    span = max(3, len(points) // 20 | 1)
    average = smoothed([y for _, y in points], span)
    trend = thin([(x, y) for (x, _), y in zip(points, average, strict=True)])
    raw = thin(points)
    last = points[-1][0]
    x_ticks = ticks(points[0][0], last, 8, least=1)
    right = last if last > x_ticks[0] else x_ticks[-1]
    y_ticks = ticks(min(y for _, y in raw), max(y for _, y in raw))
    frame = _Frame(x_ticks[0], right, y_ticks[0], y_ticks[-1])
    end_x, end_y = frame.place(trend[-1])
    return [
        *_axes(frame, x_ticks, y_ticks),
        *_legend(span),
        _path(frame, raw, "raw"),
        _path(frame, trend, "smooth"),
        f'<circle class="dot" cx="{end_x:.1f}" cy="{end_y:.1f}" r="3.5"/>',
        _text(end_x, end_y - 10, f"{trend[-1][1]:.3f}", "last", "end"),
    ]


class _Frame:
    """From data to pixels."""

    def __init__(self, left: float, right: float, bottom: float, top: float) -> None:
        self.left, self.right, self.bottom, self.top = left, right, bottom, top

    def place(self, point: Point) -> Point:
        x = LEFT + (point[0] - self.left) / (self.right - self.left) * (WIDTH - LEFT - RIGHT)
        share = (point[1] - self.bottom) / (self.top - self.bottom)
        return x, HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)


def _axes(frame: _Frame, x_ticks: list[float], y_ticks: list[float]) -> list[str]:
    lines = []
    for value in y_ticks:
        _, y = frame.place((frame.left, value))
        lines.append(_line(LEFT, y, WIDTH - RIGHT, y, "grid"))
        lines.append(_text(LEFT - 8, y + 4, _label(value, y_ticks), "", "end"))
    floor = HEIGHT - BOTTOM
    lines.append(_line(LEFT, floor, WIDTH - RIGHT, floor, "axis"))
    for value in (tick for tick in x_ticks if tick <= frame.right):
        x, _ = frame.place((value, frame.bottom))
        lines.append(_line(x, floor, x, floor + 5, "axis"))
        lines.append(_text(x, floor + 20, _label(value, x_ticks), "", "middle"))
    lines.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "step", "", "middle"))
    lines.append(_text(LEFT, TOP - 14, "loss (nats a trained token)"))
    return lines


def _legend(span: int) -> list[str]:
    right, y = WIDTH - RIGHT, TOP - 14
    text = f"mean over {span} steps"
    left = right - 7 * len(text)
    return [
        _text(right, y, text, "", "end"),
        f'<path class="smooth" d="M{left - 26} {y - 4}h20"/>',
        _text(left - 42, y, "each step", "", "end"),
        f'<path class="raw" d="M{left - 126} {y - 4}h20"/>',
    ]


def _label(value: float, among: list[float]) -> str:
    """A tick's number with as many decimals as its neighbours need to differ."""
    step = among[1] - among[0]
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return f"{value + 0.0:,.{decimals}f}"


def _path(frame: _Frame, points: list[Point], kind: str) -> str:
    corners = "L".join(f"{x:.1f} {y:.1f}" for x, y in map(frame.place, points))
    return f'<path class="{kind}" d="M{corners}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'

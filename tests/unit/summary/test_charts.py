"""The loss chart: well-formed, to scale, readable in light and dark, whatever the curve."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.summary.charts import HEIGHT, MOST_POINTS, WIDTH, loss_chart, smoothed, thin, ticks

SVG = "{http://www.w3.org/2000/svg}"


def corners(svg: str, kind: str) -> list[tuple[float, float]]:
    """Points of the curve of one kind, in pixels."""
    paths = [p for p in ElementTree.fromstring(svg).iter(f"{SVG}path") if p.get("class") == kind]
    numbers = re.findall(r"[-\d.]+ [-\d.]+", paths[-1].attrib["d"])
    return [(float(x), float(y)) for x, y in (pair.split() for pair in numbers)]


def texts(svg: str) -> list[str]:
    return [text.text or "" for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_falling_loss_falls_in_the_picture_and_the_axes_carry_round_numbers() -> None:
    svg = loss_chart(range(1, 101), [2.0 - 0.015 * n for n in range(100)], "Loss")
    heights = [y for _, y in corners(svg, "smooth")]
    assert heights == sorted(heights)
    assert heights[0] < heights[-1]
    shown = texts(svg)
    assert {"0", "20", "100", "0.5", "2.0", "step"} <= set(shown)


def test_points_lie_where_the_ticks_say() -> None:
    svg = loss_chart([0, 5, 10], [1.0, 3.0, 2.0], "Loss")
    (x0, y0), (x1, y1), (x2, y2) = corners(svg, "raw")
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.11)
    assert y0 - y1 == pytest.approx(2 * (y2 - y1), abs=0.11)


def test_both_colour_schemes_and_nothing_from_outside() -> None:
    svg = loss_chart([1, 2], [1.0, 0.5], "Loss")
    assert "prefers-color-scheme:dark" in svg
    assert 'class="card"' in svg
    assert svg.count("http") == 1  # the namespace


def test_title_is_escaped_and_named_for_screen_readers() -> None:
    root = ElementTree.fromstring(loss_chart([1, 2], [1.0, 0.5], "a < b & c"))
    title = root.find(f"{SVG}title")
    assert root.get("role") == "img"
    assert title is not None
    assert title.text == "a < b & c"


@pytest.mark.parametrize("losses", [[], [math.nan], [math.inf, math.nan]])
def test_nothing_to_draw_is_said(losses: list[float]) -> None:
    assert "no steps were recorded" in loss_chart(range(len(losses)), losses, "Loss")


def test_values_that_are_not_finite_are_left_out() -> None:
    svg = loss_chart([1, 2, 3], [2.0, math.nan, 1.0], "Loss")
    assert len(corners(svg, "raw")) == 2
    assert "nan" not in svg.lower()


def test_long_runs_stay_small_and_inside_the_card() -> None:
    svg = loss_chart(range(50_000), [math.sin(n) + 2 for n in range(50_000)], "Loss")
    points = corners(svg, "raw")
    assert len(points) <= MOST_POINTS
    assert len(svg) < 60_000
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in points)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30))
def test_any_curve_stays_inside_the_card(losses: list[float]) -> None:
    svg = loss_chart(range(len(losses)), losses, "Loss")
    assert all(0 < x < WIDTH and 0 < y < HEIGHT for x, y in corners(svg, "smooth"))


@pytest.mark.parametrize("losses", [[0.0, 5e-324], [1e-300, 1e-300], [1.0, 1.0 + 2**-52]])
def test_a_curve_that_only_rounding_bends_is_flat(losses: list[float]) -> None:
    svg = loss_chart([1, 2], losses, "Loss")
    (_, first), (_, last) = corners(svg, "raw")
    assert first == pytest.approx(last)
    assert len(svg) < 4000


@given(st.floats(-1e6, 1e6), st.floats(0.001, 1e6))
def test_ticks_cover_the_range_in_even_round_steps(low: float, width: float) -> None:
    found = ticks(low, low + width)
    step = found[1] - found[0]
    assert found[0] <= low + step * 1e-6
    assert found[-1] >= low + width - step * 1e-6
    assert 3 <= len(found) <= 8
    assert f"{step:.0e}"[0] in "125"


def test_ticks_of_a_flat_curve_and_of_whole_steps() -> None:
    assert ticks(2.0, 2.0)[0] < 2.0 < ticks(2.0, 2.0)[-1]
    assert ticks(1, 3, 8, least=1) == [1, 2, 3]


def test_smoothing_keeps_a_constant_and_averages_a_spike() -> None:
    assert smoothed([3.0] * 9, 5) == pytest.approx([3.0] * 9)
    assert smoothed([0, 0, 3, 0, 0], 3) == pytest.approx([0, 1, 1, 1, 0])


def test_thinning_averages_neighbours() -> None:
    assert thin([(0, 0), (1, 2), (2, 4), (3, 6)], most=2) == [(0.5, 1), (2.5, 5)]
    assert thin([(0, 0), (1, 2)], most=2) == [(0, 0), (1, 2)]

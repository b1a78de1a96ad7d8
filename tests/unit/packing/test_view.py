"""What a person is shown is what is stored: text, borders, masks and positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from pipeline.base.errors import UserError
from pipeline.packing.page import draw_page
from pipeline.packing.terminal import BORDERS, KEEP, Gap, Pen, abbreviated, draw_bin
from pipeline.packing.view import Bins, Piece, lines, pieces, summary, visible
from tests.support.bins import Made, write_bins
from tests.support.tiny import write_tiny_tokenizer

MARKS, COLOURS = Pen(colour=False), Pen(colour=True)
PROMPT, REPLY = "<|im_start|>user\nWhat is 12 + 35?<|im_end|>\n", "It is \\boxed{47}.<|im_end|>"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return write_tiny_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def sentencepiece() -> Tokenizer:
    """Words behind a blank, other characters byte by byte, as 32k vocabularies do it."""
    words = ["<s>", "▁a", "▁b", "ab", *(f"<0x{byte:02X}>" for byte in range(256))]
    vocabulary = {word: number for number, word in enumerate(words)}
    made = Tokenizer(models.BPE(vocabulary, [], byte_fallback=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    made.decoder = decoders.Sequence([*steps, decoders.Strip(" ", 1, 0)])
    return made


def document(tokenizer: Tokenizer, prompt: str = PROMPT, reply: str = REPLY) -> Made:
    asked, said = (tokenizer.encode(text).ids for text in (prompt, reply))
    return asked + said, [False] * len(asked) + [True] * len(said)


def bins_of(
    folder: Path, tokenizer: Tokenizer, bins: Sequence[Sequence[Made]], **given: Any
) -> Bins:
    return Bins(write_bins(folder, bins, 200, **given), tokenizer)


def text_of(found: Sequence[Piece]) -> str:
    return "".join(piece.text for piece in found)


@given(st.text(max_size=40), st.text(max_size=40))
def test_pieces_hold_every_token_once_and_all_the_text(
    tokenizer: Tokenizer, prompt: str, reply: str
) -> None:
    ids, mask = document(tokenizer, prompt, reply)
    found = pieces(tokenizer, ids, mask)
    assert [one for piece in found for one in piece.ids] == ids
    assert [piece.trained for piece in found for _ in piece.ids] == mask
    assert [piece.position for piece in found] == [
        sum(len(piece.ids) for piece in found[:number]) for number in range(len(found))
    ]
    assert text_of(found) == tokenizer.decode(ids, skip_special_tokens=False)


def test_tokens_of_one_character_stay_together(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("a√🙂b").ids
    found = pieces(tokenizer, ids, [True] * len(ids))
    assert [(piece.text, len(piece.ids)) for piece in found] == [
        ("a", 1), ("√", 3), ("🙂", 4), ("b", 1),
    ]  # fmt: skip
    assert [piece.position for piece in found] == [0, 1, 4, 8]


def test_a_mask_that_cuts_a_character_shows_on_both_sides(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("√").ids
    found = pieces(tokenizer, ids, [False, True, True])
    assert [piece.trained for piece in found] == [False, True]
    assert all("\N{REPLACEMENT CHARACTER}" in piece.text for piece in found)


def test_words_keep_the_blank_in_front_that_others_swallow() -> None:
    made = sentencepiece()
    ids = [1, 2, made.token_to_id("<0xC3>"), made.token_to_id("<0xA9>"), 1, 3]
    found = pieces(made, ids, [True] * len(ids))
    assert text_of(found) == made.decode(ids, skip_special_tokens=False)
    assert [piece.text for piece in found] == ["a", " b", "é", " a", "ab"]


def test_control_characters_show_and_a_terminal_obeys_none() -> None:
    assert visible("\x1b[31m\x07\x7f\r\t") == "␛[31m␇␡␍␉"
    assert visible("a\u200bb\u202ec\u2028\x85\u00a0") == (
        "a⟨U+200B⟩b⟨U+202E⟩c⟨U+2028⟩⟨U+0085⟩⟨U+00A0⟩"
    )
    assert visible("plain text, √2 ≤ 漢字 🙂") == "plain text, √2 ≤ 漢字 🙂"


@given(st.text())
def test_nothing_unprintable_is_left(text: str) -> None:
    assert visible(text).isprintable()


def test_lines_end_where_the_text_does_and_know_their_position() -> None:
    made = [
        Piece("ab", (5,), 0, False),
        Piece("\n\nc", (6, 7), 1, False),
        Piece("", (8,), 3, True),
        Piece("d\n", (9,), 4, True),
    ]
    shown = [(line.position, "".join(text for text, _ in line.parts)) for line in lines(made)]
    assert shown == [(0, "ab⏎"), (None, "⏎"), (3, "c⟨id 8⟩d⏎")]


def test_a_bin_shows_borders_masks_positions_and_whence(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    rows = [
        {
            "id": "a1",
            "source": "sums",
            "origin": "sums.jsonl:7",
            "tier": "hard",
            "variant": "plain",
        },
        {"id": "b2\x1b[2J"},
    ]
    short = document(tokenizer, "Q\n", "R")
    bins = bins_of(tmp_path, tokenizer, [[document(tokenizer), short]], rows=rows)
    view = bins.view(0)
    drawn = list(draw_bin(view, MARKS, full=False))
    first, prompt = len(document(tokenizer)[0]), sum(not one for one in document(tokenizer)[1])
    assert drawn[0] == (
        f"━━ bin 0 · tier all · 2 documents · {first + len(short[0])} of 200 tokens,"
        f" {view.tokens / 200:.1%} full · {view.trained} trained ━━"
    )
    assert drawn[1] == (
        f"┌─ document 1 of 2 · {first} tokens, {first - prompt} trained ·"
        f" positions 0–{first - 1} · tokens 0–{first - 1} of the bin"
    )
    assert drawn[2] == ("│  id a1 · source sums · origin sums.jsonl:7 · tier hard · variant plain")
    assert drawn[3] == "│      0 <|im_start|>user⏎"
    assert drawn[5] == f"│{prompt:>7} ⟦It is \\boxed{{47}}.<|im_end|>⟧"
    assert drawn[6].startswith("└")
    second = drawn[7:]
    assert f"positions 0–2 · tokens {first}–{first + 2} of the bin" in second[0]
    assert "id b2␛[2J" in second[1]
    assert second[2:4] == ["│      0 Q⏎", "│      2 ⟦R⟧"]


def test_colours_say_what_the_marks_say(tmp_path: Path, tokenizer: Tokenizer) -> None:
    view = bins_of(tmp_path, tokenizer, [[document(tokenizer)]]).view(0)
    plain, coloured = ("\n".join(draw_bin(view, pen, full=True)) for pen in (MARKS, COLOURS))
    assert "\x1b" not in plain
    trained = re.findall(r"⟦(.*?)⟧", plain)
    assert trained == re.findall(r"\x1b\[32m(.*?)\x1b\[0m", coloured)
    assert trained == ["It is \\boxed{47}.<|im_end|>"]
    stripped = re.sub(r"\x1b\[\d+m", "", coloured)
    assert stripped == plain.replace("⟦", "").replace("⟧", "")


def test_marks_in_the_text_are_not_taken_for_ours(tmp_path: Path, tokenizer: Tokenizer) -> None:
    made = document(tokenizer, "a⟦b", "c⟧d")
    drawn = "\n".join(draw_bin(bins_of(tmp_path, tokenizer, [[made]]).view(0), MARKS, full=True))
    assert "a⟨U+27E6⟩b⟦c⟨U+27E7⟩d⟧" in drawn


def test_a_long_stretch_loses_its_middle_and_says_so(tmp_path: Path, tokenizer: Tokenizer) -> None:
    ids = [10 + number % 50 for number in range(20 + 1000)]
    made = ids, [place >= 20 for place in range(len(ids))]
    view = bins_of(tmp_path, tokenizer, [[made]]).view(0)
    drawn = list(draw_bin(view, MARKS, full=False))
    count = 1000 - 2 * KEEP
    (gap,) = [line for line in drawn if f"{count} tokens ({count} trained) are left out" in line]
    assert gap.startswith(f"│{20 + KEEP:>7} ")
    assert drawn[drawn.index(gap) + 1].startswith(f"│{1020 - KEEP:>7} ⟦")
    assert not [line for line in draw_bin(view, MARKS, full=True) if "left out" in line]


@given(st.lists(st.integers(1, 400), min_size=1, max_size=20), st.booleans())
def test_what_stays_and_what_goes_is_the_whole(runs: list[int], trained: bool) -> None:
    whole, borders = list[Piece](), [0]
    for length in runs:
        place = len(whole)
        whole += [Piece("x", (1,), place + one, trained) for one in range(length)]
        borders.append(len(whole))
        trained = not trained
    stays, place = set[int](), 0
    for part in abbreviated(whole, KEEP):
        if isinstance(part, Gap):
            gone = whole[place : place + part.tokens]
            assert part.tokens > KEEP
            assert (part.position, part.trained) == (place, sum(one.trained for one in gone))
            place += part.tokens
        else:
            assert part == whole[place : place + len(part)]
            stays.update(range(place, place + len(part)))
            place += len(part)
    assert place == len(whole)
    for border in [*borders[:BORDERS], *borders[-BORDERS:]]:
        assert stays.issuperset(range(max(0, border - KEEP), min(place, border + KEEP)))
    assert len(stays) <= 2 * BORDERS * 3 * KEEP


class Shown(HTMLParser):
    """Tokens that a page shows, and whether its tags are closed in their order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tokens: list[tuple[str, str, str]] = []
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.summaries: list[str] = []
        self.outside: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.outside += [value for name, value in attrs if name in ("src", "srcset")]
        if tag != "meta":
            self.open.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tag, attributes = self.open[-1] if self.open else ("", {})
        if token := attributes.get("data-token"):
            self.tokens.append((tag, token, data))
        elif tag == "summary":
            self.summaries.append(data)


def test_the_page_shows_every_token_with_its_id_and_position(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    hostile = document(tokenizer, "</span><script>alert(1)</script>&amp;\n", "√<b>\"'</b>\n🙂")
    long = document(tokenizer, PROMPT, "step " * 400)
    rows = [{"origin": "<i>a&b"}, {}]
    bins = bins_of(tmp_path, tokenizer, [[hostile, long]], rows=rows)
    view = bins.view(0)
    page = "".join(draw_page(summary(bins), [view]))
    shown = Shown(page)
    expected = [
        (
            "mark" if piece.trained else "span",
            f"id {' '.join(map(str, piece.ids))} · position {piece.position}",
            text,
        )
        for one in view.documents
        for line in lines(one.pieces)
        for text, piece in line.parts
    ]
    assert shown.tokens == expected
    text = "".join(text for _, _, text in shown.tokens)
    stored = "".join(text_of(one.pieces) for one in view.documents)
    assert text == visible(stored.replace("\n", "⏎"))
    assert len(shown.summaries) == 2
    assert "<script" not in page
    assert "<i>a" not in page
    assert shown.outside == []
    assert not re.search(r"https?:|url\(|@import", page)


def test_the_page_is_made_for_phones_and_both_lights(tmp_path: Path, tokenizer: Tokenizer) -> None:
    page = "".join(draw_page([], [bins_of(tmp_path, tokenizer, [[document(tokenizer)]]).view(0)]))
    assert page.startswith("<!doctype html>")
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page
    assert "prefers-color-scheme:dark" in page
    colours = {name: re.findall(rf"--{name}:(#\w+)", page) for name in ("ink", "soft", "learn")}
    papers = re.findall(r"--paper:(#\w+)", page), re.findall(r"--tint2:(#\w+)", page)
    for light in (0, 1):
        for name, on in (("ink", 0), ("soft", 0), ("learn", 1)):
            assert contrast(colours[name][light], papers[on][light]) >= 4.5


def contrast(first: str, second: str) -> float:
    """Contrast ratio of WCAG 2."""

    def luminance(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
        red, green, blue = (
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def test_the_strip_of_a_bin_is_in_proportion(tmp_path: Path, tokenizer: Tokenizer) -> None:
    one, two = ([5] * 60, [False] * 20 + [True] * 40), ([5] * 90, [False] * 89 + [True])
    page = "".join(draw_page([], [bins_of(tmp_path, tokenizer, [[one, two]]).view(0)]))
    (strip,) = re.findall(r'<div class="map">.*', page)
    assert [int(width) for width in re.findall(r"flex:(\d+)", strip)] == [
        60, 20, 40, 90, 89, 1, 50,
    ]  # fmt: skip
    assert [len(list(run)) for _, run in groupby(re.findall(r"<i( class=learn)?", strip))] == [
        1
    ] * 4


@given(st.lists(st.integers(1, 4), min_size=1, max_size=30))
@settings(max_examples=25)
def test_rows_of_any_bin_are_found(
    tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer, counts: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("bins")
    rows = [{"id": "x" * (number * 37 % 90)} for number in range(sum(counts))]
    made = [[([5, 6], [False, True])] * count for count in counts]
    bins = bins_of(folder, tokenizer, made, rows=rows)
    for number, count in enumerate(counts):
        first = sum(counts[:number])
        found = [one.row["id"] for one in bins.view(number).documents]
        assert found == [row["id"] for row in rows[first : first + count]]


def test_bins_are_spread_from_first_to_last(tmp_path: Path, tokenizer: Tokenizer) -> None:
    bins = bins_of(tmp_path, tokenizer, [[document(tokenizer)]] * 11, buckets=[("a", 4), ("b", 7)])
    assert bins.spread(1) == [0]
    assert bins.spread(3) == [0, 5, 10]
    assert bins.spread(99) == list(range(11))
    assert [bins.view(number).tier for number in (0, 3, 4, 10)] == ["a", "a", "b", "b"]
    told = summary(bins)
    assert "11 bins, 11 documents" in told[0]
    assert told[1:] == [
        "4 bins from bin 0 on: tier a, up to 200 tokens, 4 documents",
        "7 bins from bin 4 on: tier b, up to 200 tokens, 7 documents",
    ]


@pytest.mark.parametrize("number", [-1, 2])
def test_a_bin_that_is_not_there_is_named(
    tmp_path: Path, tokenizer: Tokenizer, number: int
) -> None:
    bins = bins_of(tmp_path, tokenizer, [[document(tokenizer)]] * 2)
    with pytest.raises(UserError, match=rf"--bin {number}: .* has bins 0 to 1"):
        bins.view(number)


def test_another_layout_and_lines_of_other_documents_are_refused(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    made = [[document(tokenizer)]]
    with pytest.raises(UserError, match="schema_version is 1"):
        bins_of(tmp_path / "old", tokenizer, made, schema_version=1)
    bins = bins_of(tmp_path / "torn", tokenizer, made)
    path = tmp_path / "torn/documents.jsonl"
    path.write_text(path.read_text().replace('"length": ', '"length": 1'))
    with pytest.raises(UserError, match="do not speak of its 1 documents"):
        bins.view(0)
    path.write_text("{\n")
    with pytest.raises(UserError, match=r"documents\.jsonl: cannot be read"):
        bins.view(0)
    path.unlink()
    with pytest.raises(UserError, match=r"documents\.jsonl: cannot be read"):
        bins.view(0)

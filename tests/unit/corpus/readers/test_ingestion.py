"""From bytes to candidates: any file is read to its end, every line is accounted for."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.base.records import problem_id
from pipeline.corpus.readers.arrays import shape_of
from pipeline.corpus.readers.sources import read_rows_of
from pipeline.corpus.rows.replies import split_reply, worked_solution
from pipeline.corpus.rows.schemas import Candidate, read_candidates, read_question
from pipeline.corpus.rows.strict_json import Row
from pipeline.corpus.rows.text import RowFault
from pipeline.corpus.rows.wrappers import chat_markup_turns, strip_wrapper

Q, SAY = "What is $2 + 2$?", "So \\boxed{4}."
GOOD: dict[str, Any] = {"problem": Q, "solution": f"<think>Add.</think>{SAY}", "answer": "4"}
LINE = json.dumps(GOOD).encode()


def read(folder: Path, content: bytes, name: str = "x.jsonl") -> list[Row]:
    path = folder / name
    path.write_bytes(content)
    return list(read_rows_of(path, "x"))


def outcome(row: Row) -> list[Candidate] | str:
    """The candidates of a row, or the reason why it has none."""
    try:
        if row.fault is not None or row.value is None:
            raise row.fault or RowFault("none", "")
        return read_candidates(row.value)
    except RowFault as fault:
        return fault.reason


def outcomes(folder: Path, content: bytes) -> list[Any]:
    """Reason, or (problem, thinking, solution, gold) of the first trace, of every row."""
    found = [outcome(row) for row in read(folder, content)]
    return [
        one
        if isinstance(one, str)
        else (one[0].problem, one[0].thinking, one[0].solution, one[0].gold)
        for one in found
    ]


KEPT = (Q, "Add.", SAY, "4")


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(
        st.one_of(
            st.binary(max_size=30),
            st.sampled_from(
                [LINE, b"\n", b"\r\n", b" ", b"\xef\xbb\xbf", b"{", b"\xe2\x80\xa8", b"[" * 2000]
            ),
        ),
        max_size=14,
    )
)
def test_every_line_that_is_not_blank_is_one_row(tmp_path: Path, parts: list[bytes]) -> None:
    content = b"".join(parts)
    path = tmp_path / "x.jsonl"
    path.write_bytes(content)
    with path.open("rb") as stream:
        if shape_of(stream) == "array":
            return
    bare = content.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    numbers = [number for number, line in enumerate(bare, start=1) if line.strip()]
    rows = read(tmp_path, content)
    assert [row.origin for row in rows] == [f"x:{number}" for number in numbers]
    for row, number in zip(rows, numbers):
        assert (row.value is None) == (row.fault is not None)
        assert (bare[number - 1].strip() == LINE) <= (row.value == GOOD)
        json.dumps([row.value, row.origin, row.excerpt], allow_nan=False).encode()


SHAPES: list[dict[str, Any]] = [
    GOOD,
    {"messages": [{"role": "user", "content": Q}, {"role": "assistant", "content": SAY}], "gt": 4},
    {"conversations": [{"from": "human", "value": [{"type": "text", "text": Q}]}], "chosen": SAY},
    {"question": Q, "generations": [SAY, "<think>a"], "is_correct": [True, None], "pass_rate": 0.5},
    {"prompt": f"<|im_start|>user\n{Q}<|im_end|>", "completion": "<|channel|>final<|message|>4"},
    {
        "a": [[[[{"b": [None, 1.5, "é😀\u2028"]}]]]],
        "problem": Q,
        "reward_model": {"ground_truth": ["4"]},
    },
]


def mutated(rng: random.Random, line: bytes, other: bytes) -> bytes:
    """A line with some damage: flipped bytes, a cut, a splice, a repeat or a bomb."""
    raw = bytearray(line)
    kind = rng.randrange(6)
    at = rng.randrange(len(raw))
    if kind == 0:
        for _ in range(rng.randrange(1, 6)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
    elif kind == 1:
        del raw[at:]
    elif kind == 2:
        raw[at:] = other[rng.randrange(len(other)) :]
    elif kind == 3:
        raw[at:at] = raw[at : at + rng.randrange(1, 40)] * rng.randrange(1, 4)
    elif kind == 4:
        depth = rng.choice([50, 99, 101, 900, 5000])
        opening, closing = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
        bomb = opening * depth + b"1" + closing * depth
        raw[-1:] = b', "answer": ' + bomb + b"}"
    else:
        odd = [b"\\u0000", b"\\ud83d", b"NaN", b"1e999", b"\\f", b"null", b"<think>", b"</think>"]
        raw[at:at] = rng.choice(odd)
    return bytes(raw).replace(b"\n", b" ")


def test_ten_thousand_damaged_lines_are_each_read_or_refused(tmp_path: Path) -> None:
    rng = random.Random(7)
    valid = [json.dumps(shape).encode() for shape in SHAPES]
    lines = [mutated(rng, rng.choice(valid), rng.choice(valid)) for _ in range(10_000)]
    rows = read(tmp_path, LINE + b"\n" + b"\n".join(lines))
    assert len(rows) == 1 + sum(1 for line in lines if line.strip())
    found = [outcome(row) for row in rows]
    reasons = {one for one in found if isinstance(one, str)}
    assert {"not-json", "not-utf8", "duplicate-key", "not-finite", "nul-character"} <= reasons
    assert {"lone-surrogate", "unfinished-thinking"} <= reasons
    for one in found:
        for candidate in one if isinstance(one, list) else []:
            text = f"{candidate.problem}{candidate.gold}{candidate.thinking}{candidate.solution}"
            assert "\x00" not in text
            json.dumps(candidate.schema + text, allow_nan=False).encode()
    assert sum(isinstance(one, list) for one in found) > 1000


PIECES = st.sampled_from(
    "<think> </think> <thinking> [THINK] \\boxed{ {} } #### 5 Answer: \\boxed{} . \n ? $x$ Solve "
    "the following math problem step by step. <|channel|> final <|message|> <|end|> <|start|> "
    "user assistant analysis Question: assistantfinal <|im_start|> <|im_end|> <answer> </answer> "
    "<|return|> Please reason let's think".split(" ")
)


@settings(max_examples=300)
@given(pieces=st.lists(st.one_of(PIECES, st.text(max_size=5)), max_size=25))
def test_texts_of_any_kind_are_taken_apart_or_refused(pieces: list[str]) -> None:
    text = " ".join(pieces)
    stripped = strip_wrapper(text)
    assert stripped in text
    assert strip_wrapper(stripped) == stripped
    assert problem_id(f" {stripped}\n") == problem_id(stripped)
    chat_markup_turns(text)
    try:
        thinking, visible = split_reply(text, text if len(pieces) % 3 == 0 else "")
    except RowFault:
        return
    assert "</think>" not in visible
    worked_solution(visible)
    assert thinking == thinking.strip()


def test_hostile_texts_take_no_time() -> None:
    tags = "<think>", "</answer>", "<|message|>", "<|end|>", "analysis assistantfinal"
    for unit in (*tags, "####", "\\boxed{", "answer: ", "\n "):
        text = unit * (200_000 // len(unit))
        strip_wrapper(text)
        chat_markup_turns(text)
        worked_solution(text)
        try:
            split_reply(text)
        except RowFault:
            continue


def test_schemas_mixed_in_one_file_keep_their_rows(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": Q}, {"role": "assistant", "content": GOOD["solution"]}]
    said = [{"from": "human", "value": Q}, {"from": "gpt", "value": GOOD["solution"]}]
    rows: list[dict[str, Any]] = [
        {"messages": turns, "conversations": None, "instruction": None, "answer": "4"},
        {"messages": [], "conversations": said, "answer": 4.0},
        {
            "instruction": Q,
            "input": "",
            "output": GOOD["solution"],
            "messages": None,
            "answer": "4",
        },
    ]
    assert outcomes(tmp_path, b"\n".join(json.dumps(row).encode() for row in rows)) == [KEPT] * 3


def test_types_that_change_from_row_to_row_are_converted_or_refused_by_line(tmp_path: Path) -> None:
    nested = [[{"type": "text", "text": {"value": "What is"}}], "$2 + 2$?"]
    rows: list[Any] = [
        GOOD | {"answer": 4},
        GOOD | {"answer": True},
        [GOOD],
        GOOD | {"problem": nested},
        {"prompt": [{"role": "user", "content": [{"type": "image", "image": "x"}]}]},
    ]
    found = outcomes(tmp_path, b"\n".join(json.dumps(row).encode() for row in rows))
    assert found[:3] == [KEPT, "wrong-type", "not-object"]
    assert found[3] == ("What is\n$2 + 2$?", *KEPT[1:])
    assert found[4] == "not-text"


def test_marks_and_line_ends_leave_the_same_text(tmp_path: Path) -> None:
    unix = json.dumps(GOOD | {"problem": "Find\nx."}).encode()
    dos = json.dumps(GOOD | {"problem": "Find\r\nx."}).encode()
    plain = outcomes(tmp_path, unix + b"\n" + unix + b"\n")
    assert outcomes(tmp_path, b"\xef\xbb\xbf" + dos + b"\r\n" + dos + b"\r\n") == plain
    marked = json.dumps(GOOD | {"problem": "\ufeffFind\rx."}, ensure_ascii=False).encode()
    assert outcomes(tmp_path, marked + b"\n" + marked) == plain
    assert problem_id(plain[0][0]) == problem_id("Find\nx.")


def test_characters_that_cannot_be_trained_are_refused_and_counted(tmp_path: Path) -> None:
    lines = [
        LINE,
        LINE.replace(b"Add.", b"A\x00d"),
        LINE.replace(b"Add.", b"A\\u0000d"),
        LINE.replace(b"Add.", b"A\\ud83dd"),
        LINE.replace(b'"4"', b"NaN"),
        LINE.replace(b"Add.", "A\u2028d".encode()),
        b'{"problem": "a", ' + LINE[1:],
        b"",
        LINE[:30],
    ]
    assert outcomes(tmp_path, b"\n".join(lines)) == [
        KEPT,
        *("nul-character", "nul-character", "lone-surrogate", "not-finite"),
        (Q, "A\u2028d", SAY, "4"),
        *("duplicate-key", "not-json"),
    ]


def test_faults_of_traces_have_their_reasons(tmp_path: Path) -> None:
    rows = [
        GOOD | {"solution": "<think>So \\boxed{4}.</think>"},
        GOOD | {"solution": "<think>Add."},
        GOOD | {"solution": SAY, "reasoning": "Add."},
        GOOD | {"solution": "<think>Add.</think>Answer: 4"},
    ]
    found = outcomes(tmp_path, b"\n".join(json.dumps(row).encode() for row in rows))
    assert found == [
        (Q, "So \\boxed{4}.", "", "4"),
        "unfinished-thinking",
        KEPT,
        (Q, "Add.", "Answer: 4", "4"),  # no box is made up
    ]


@given(row=st.sampled_from(SHAPES), name=st.sampled_from(["problem", "question", "x"]))
def test_questions_are_read_from_the_same_rows(row: dict[str, Any], name: str) -> None:
    problem, _ = read_question({name: Q} | row)
    assert problem == Q

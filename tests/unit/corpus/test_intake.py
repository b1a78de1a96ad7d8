"""What only the whole set can show: copies, contradictions, hold-outs, token counts."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.base.chat import Chat
from pipeline.base.progress import Progress
from pipeline.base.records import Trace
from pipeline.corpus.funnel import describe_funnel
from pipeline.corpus.intake import Intake, count_tokens
from pipeline.corpus.rules import settings_for
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_tokenizer

PARAMS = make_params(**{"filter.max_unreadable_share": 1.0})


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Chat:
    folder = tmp_path_factory.mktemp("base")
    write_tiny_tokenizer(folder)
    return Chat(folder, PARAMS.prompt)


def row(
    problem: str, boxed: str, text: str = "It is clearly equal to", **more: Any
) -> dict[str, Any]:
    return {"problem": problem, "solution": f"{text} \\boxed{{{boxed}}}.", **more}


def run(
    chat: Chat, folder: Path, *files: list[Any], holdout: int = 0
) -> tuple[Intake, list[Trace]]:
    paths = []
    for number, rows in enumerate(files):
        path = folder / f"f{number}.jsonl"
        lines = (one if isinstance(one, bytes) else json.dumps(one).encode() for one in rows)
        path.write_bytes(b"\n".join(lines))
        paths.append((path, path.name))
    progress = Progress("filter", "rows", None, stream=io.StringIO())
    intake = Intake(chat, settings_for(chat, PARAMS.filter), progress)
    survivors = list(intake.first_pass(paths))
    kept = list(intake.second_pass(iter(survivors), intake.held_out(holdout, 0)))
    return intake, kept


def reasons(intake: Intake) -> list[tuple[str, str]]:
    return [(one.origin, one.reason) for one in intake.dropped]


def test_copies_go_and_other_traces_of_a_problem_stay(chat: Chat, tmp_path: Path) -> None:
    first = row("What is 2 + 2?", "4", answer="4")
    blanks = row("  what is\n2 + 2 ", "4", answer=4)
    other = row("What is 2 + 2?", "4", "Two and two make", answer="4")
    intake, kept = run(chat, tmp_path, [first, blanks, other], [first])
    assert [one.origin for one in kept] == ["f0.jsonl:1", "f0.jsonl:3"]
    assert len({one.id for one in kept}) == 1
    assert reasons(intake) == [("f0.jsonl:2", "duplicate-row"), ("f1.jsonl:1", "duplicate-row")]
    assert intake.dropped[1].detail == "same as f0.jsonl:1"


def test_contradicting_answers_drop_every_copy(chat: Chat, tmp_path: Path) -> None:
    rows = [
        row("A?", "1/2", answer="1/2"),
        row("A?", "0.5", answer="0.5"),
        row("B?", "7", answer="7"),
    ]
    assert len(run(chat, tmp_path, rows)[1]) == 3
    intake, kept = run(chat, tmp_path, [*rows, row("a", "3", answer="3")])
    assert [one.problem for one in kept] == ["B?"]
    assert [reason for _, reason in reasons(intake)] == ["gold-conflict"] * 3


def test_unproven_traces_are_graded_by_the_answer_of_another_row(
    chat: Chat, tmp_path: Path
) -> None:
    traces = [row("A?", "5"), row("A?", "4.0"), row("B?", "1"), row("B?", "2")]
    intake, kept = run(chat, tmp_path, traces, [{"problem": "A?", "answer": "4"}])
    assert [(one.problem, one.gold) for one in kept] == [("A?", "4")]
    assert sorted(reasons(intake)) == [
        ("f0.jsonl:1", "wrong-answer"),
        ("f0.jsonl:3", "gold-conflict"),
        ("f0.jsonl:4", "gold-conflict"),
        ("f1.jsonl:1", "no-solution"),
    ]


def test_an_id_of_two_problems_is_a_clash_unless_ids_are_no_ids(chat: Chat, tmp_path: Path) -> None:
    rows = [row(f"Problem {n}?", str(n), answer=n, id=n) for n in range(4)]
    clash = row("Another?", "9", answer=9, id=2)
    again = row("Problem 2?", "2", "Once more:", answer=2, id=2)
    intake, kept = run(chat, tmp_path, [*rows, clash, again], [clash])
    assert reasons(intake) == [("f1.jsonl:1", "duplicate-row"), ("f0.jsonl:5", "id-clash")]
    assert len(kept) == 5
    same = [row(f"Problem {n}?", str(n), answer=n, id="math") for n in range(5)]
    assert len(run(chat, tmp_path, same)[1]) == 5


def test_held_out_problems_leave_no_trace_behind(chat: Chat, tmp_path: Path) -> None:
    rows = [
        row(f"Problem {n}?", str(n), text, answer=n) for n in range(9) for text in ("So", "It is")
    ]
    rows = [one | {"solution": one["solution"] + " That is all there is."} for one in rows]
    intake, kept = run(chat, tmp_path, [*rows, row("Unproven?", "3")], holdout=3)
    assert len(intake.panel) == 3
    assert not intake.panel.keys() & {one.id for one in kept}
    assert "Unproven?" not in {one.problem for one in intake.panel.values()}
    funnel = describe_funnel(intake.tallies.values())
    assert (funnel["read"], funnel["kept"], funnel["held_out"]) == (19, 13, 6)


def test_tokens_are_those_of_prompt_reply_and_end(chat: Chat, tmp_path: Path) -> None:
    rows = [row("What is 2 + 2?", "4", "<think>Let me see</think>It is", answer="4")]
    trace = run(chat, tmp_path, rows)[1][0]
    assert trace.thinking == "Let me see"
    encoded = chat.encode(trace.problem, trace.thinking, trace.solution)
    assert trace.tokens == len(encoded.prompt) + len(encoded.reply)
    assert count_tokens(chat, [trace, trace]) == [trace.tokens] * 2


def test_several_generations_are_traces_with_a_place_of_their_own(
    chat: Chat, tmp_path: Path
) -> None:
    texts = ["Surely the answer is \\boxed{4}.", "Surely the answer is \\boxed{5}."]
    rows = [{"problem": "A?", "answer": "4", "generations": texts}]
    intake, kept = run(chat, tmp_path, rows)
    assert [one.origin for one in kept] == ["f0.jsonl:1[0]"]
    assert reasons(intake) == [("f0.jsonl:1[1]", "wrong-answer")]


VALUES = st.one_of(st.text(max_size=12), st.integers(0, 3), st.none(), st.just(["x"]))
ROWS = st.one_of(
    st.binary(max_size=20).map(lambda one: one.replace(b"\n", b" ")),
    st.dictionaries(st.sampled_from(["problem", "solution", "answer", "messages"]), VALUES),
    st.builds(row, st.sampled_from(["A?", "B?"]), st.sampled_from(["1", "2"]), answer=VALUES),
)


@settings(
    max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(st.lists(ROWS, max_size=8))
def test_every_trace_is_kept_held_out_or_dropped(
    chat: Chat, tmp_path: Path, rows: list[Any]
) -> None:
    intake, kept = run(chat, tmp_path, rows)
    funnel = describe_funnel(intake.tallies.values())
    assert funnel["kept"] == len(kept)
    assert funnel["read"] == funnel["kept"] + funnel["held_out"] + len(intake.dropped)
    assert sum(funnel["dropped"].values()) == len(intake.dropped)

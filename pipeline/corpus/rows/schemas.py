"""One parsed row of any accepted schema → problem, gold and its traces.

Called by judge.py and panels.py; reads and writes nothing. The schema is found row by
row from the keys that hold something: null, blank and empty values are absent, so a
file whose rows were forced into one union of columns reads like separate files. A
source's `columns` and `kind` come before what is found. docs/data.md lists the keys.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pipeline.base.grading import last_boxed, unbox
from pipeline.base.params_corpus import SourceParams
from pipeline.corpus.rows.columns import (
    CHAT_KEYS,
    GOLD_KEYS,
    ID_KEYS,
    PROBLEM_KEYS,
    REFERENCE_KEYS,
    first_key,
    mapped,
    places,
    present,
)
from pipeline.corpus.rows.found_replies import Replies, find_replies
from pipeline.corpus.rows.judgements import judgements
from pipeline.corpus.rows.labels import UNLABELLED, tier_of
from pipeline.corpus.rows.replies import split_hashes, worked_solution
from pipeline.corpus.rows.text import RowFault, Value, as_text
from pipeline.corpus.rows.turns import Reply, is_turns, read_turn, single_question
from pipeline.corpus.rows.wrappers import chat_markup_turns, strip_wrapper

PLAIN = SourceParams(path="-")
"""A source of which nothing is declared."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One trace of one row, before any rule has looked at it."""

    problem: str
    gold: str
    """Empty if the row gives none."""
    gold_from: str
    """`stated`, `reference` (another solution's box), `own-box` or `none`."""
    thinking: str
    solution: str
    schema: str
    """The keys that were read, e.g. `question/answer`, then what else was found."""
    row_id: str
    tier: str = "unknown"
    """`easy`, `medium`, `hard` or `unknown`."""
    solve_rate: float | None = None
    """Share of attempts that solved the problem, from 0 to 1."""
    verified: str = "unlabelled"
    """`correct`, `wrong` or `unverifiable` by the labels that count for this source, or
    `unlabelled` where none does: then the answer alone decides."""
    fault: tuple[str, str] | None = None
    """(reason, detail) why this one of several replies cannot be used."""


def _gold_text(value: Value, key: str) -> str:
    """A stated answer as text: boxes and `####` opened, several answers joined by commas."""
    if isinstance(value, str) and re.match(r"\s*\[\s*\"", value):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            pass  # then it is an answer that happens to open with a bracket
    if isinstance(value, list):
        return ", ".join(_gold_text(one, key) for one in value)
    text = as_text(value, key).strip()
    hashed = split_hashes(text)[1]
    return unbox(text if hashed is None else hashed)


def stated_gold(row: dict[str, Value], unless: str) -> tuple[str, str]:
    """(gold, key) that the row states outside the field `unless`; ("", "") if none."""
    for prefix, place in places(row):
        for key in GOLD_KEYS:
            if key in place and prefix + key != unless and place[key] is not None:
                gold = _gold_text(place[key], prefix + key)
                if gold:
                    return gold, prefix + key
    return "", ""


def _problem_text(row: dict[str, Value], key: str) -> str:
    text = as_text(row[key], key)
    if key == "instruction" and "input" in row:
        text = f"{text.strip()}\n\n{as_text(row['input'], 'input').strip()}"
    return text


def _conversation(row: dict[str, Value]) -> tuple[str, Value]:
    """(key, messages) if the row holds a conversation; ("", None) if not."""
    for key in (*CHAT_KEYS, "prompt"):
        if is_turns(row.get(key)):
            return key, row[key]
    for key in ("prompt", "text"):
        rendered = chat_markup_turns(row[key]) if isinstance(row.get(key), str) else None
        if rendered:
            return key, rendered
    return "", None


def _asked(row: dict[str, Value], references_first: bool) -> tuple[str, str, Replies]:
    """(keys, problem, replies) of a row."""
    key, messages = _conversation(row)
    if messages is not None:
        problem, reply = single_question([read_turn(one) for one in messages])
        plain = first_key(row, ("problem", "question"))
        if plain is not None:
            problem = _problem_text(row, plain)
        if reply is not None:
            return key, problem, Replies("", [reply])
    else:
        found = first_key(row, PROBLEM_KEYS)
        if found is None:
            said = ", ".join(list(row)[:8]) or "nothing"
            raise RowFault("no-schema", f"no known key holds a problem; present: {said}")
        key, problem = found, _problem_text(row, found)
    replies = find_replies(row, references_first)
    return f"{key}/{replies.key}" if replies.key else key, problem, replies


def read_candidates(raw: dict[str, Value], source: SourceParams | None = None) -> list[Candidate]:
    """The traces of one row: one, or several where it lists several replies.

    Args:
        raw: the row as its file holds it.
        source: columns, kind and tier that are declared for it; None finds all.

    Raises:
        RowFault: no-schema, multi-turn, tool-use, not-text, wrong-type,
            unfinished-thinking or malformed-thinking. Of several replies, one that has
            such a fault carries it and the others are read.
    """
    source = source or PLAIN
    row, said = mapped(present(raw), source.columns)
    schema, problem, replies = _asked(row, source.kind == "solutions")
    hashed = _hashed_gold(row.get(replies.key))
    gold, gold_key = stated_gold(row, unless=replies.key)
    gold = gold or (hashed or _reference_gold(row, replies.key) if replies.found else "")
    judged = judgements(row, replies, source, proven=bool(gold))
    schema = "; ".join([f"{schema}/{gold_key}" if gold_key else schema, *said, *judged.said])
    key = first_key(row, ID_KEYS)
    row_id = str(row[key]) if key and isinstance(row[key], (str, int)) else ""
    origin = "stated" if gold_key or hashed else "reference"
    question = strip_wrapper(problem)
    found = []
    for reply, verified in zip(replies.found or [Reply("", "")], judged.verified or [UNLABELLED]):
        fault = None
        if isinstance(reply, RowFault):
            fault, reply = (reply.reason, reply.detail), Reply("", "")
        solution = worked_solution(reply.visible)
        own = "" if gold else (last_boxed(solution) or "")
        found.append(
            Candidate(
                problem=question,
                gold=gold or own,
                gold_from=origin if gold else "own-box" if own else "none",
                thinking=reply.thinking,
                solution=solution,
                schema=schema,
                row_id=row_id,
                tier=source.tier or tier_of(judged.rate),
                solve_rate=judged.rate,
                verified=verified,
                fault=fault,
            )
        )
    return found


def _hashed_gold(value: Value) -> str:
    return (split_hashes(value)[1] or "") if isinstance(value, str) else ""


def _reference_gold(row: dict[str, Value], reply_key: str) -> str:
    """The box of a reference solution that is not itself the trained reply."""
    for key in REFERENCE_KEYS:
        if key != reply_key and isinstance(row.get(key), str):
            boxed = last_boxed(row[key])
            if boxed is not None:
                return boxed
    return ""


def read_question(raw: dict[str, Value], source: SourceParams | None = None) -> tuple[str, str]:
    """(problem, gold) of a row for a panel or a protected set; the gold may be empty.

    Raises:
        RowFault: no-schema, multi-turn, not-text or wrong-type.
    """
    row, _ = mapped(present(raw), (source or PLAIN).columns)
    _, messages = _conversation(row)
    key = first_key(row, PROBLEM_KEYS if messages is None else ("problem", "question"))
    if key is not None:
        problem = _problem_text(row, key)
    elif messages is not None:
        asked = [turn for turn in map(read_turn, messages) if turn.role == "user"]
        if len(asked) != 1:
            raise RowFault("multi-turn", f"{len(asked)} questions")
        problem = asked[0].text
    else:
        raise RowFault("no-schema", f"no known key; present: {', '.join(list(row)[:8])}")
    gold = stated_gold(row, unless="")[0] or _reference_gold(row, "")
    return strip_wrapper(problem), gold

"""One parsed row of any accepted schema → problem, gold and its traces.

Called by intake.py and panels.py; reads and writes nothing. The schema is found row
by row from the keys that hold something: null, blank and empty values are absent, so
a file whose rows were forced into one union of columns reads like separate files.
docs/data.md lists the keys.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pipeline.base.grading import last_boxed, unbox
from pipeline.corpus.replies import split_hashes, split_reply, worked_solution
from pipeline.corpus.text import RowFault, Value, as_text
from pipeline.corpus.turns import THINKING_FIELDS, Reply, is_turns, read_turn, single_question
from pipeline.corpus.wrappers import chat_markup_turns, strip_wrapper

CHAT_KEYS = ("messages", "conversations", "conversation", "dialogue", "chat")
PROBLEM_KEYS = ("problem", "question", "query", "instruction", "prompt", "input")
REPLY_KEYS = (
    *("generations", "responses", "completions", "outputs", "traces", "generation", "response"),
    *("completion", "output", "model_output", "trace", "chosen", "solution", "solutions"),
    *("ground_truth_solution", "reference_solution", "gt_cot", "cot", "rationale"),
)
"""Model traces before reference solutions: a row that has both trains the trace."""
REFERENCE_KEYS = ("solution", "ground_truth_solution", "reference_solution", "gt_cot")
PAIRED_SUFFIXES = (
    *(("_thinking_trajectory", "_attempt"), ("_reasoning", "_solution")),
    *(("_thinking", "_content"), ("_thinking", "_answer")),
)
"""`x_thinking` beside `x_content`: two halves of one trace."""
GOLD_KEYS = (
    *("gold", "gold_answer", "expected_answer", "final_answer", "ground_truth_answer"),
    *("gtruth_answer", "gt_answer", "ground_truth", "reference_answer", "correct_answer"),
    *("answer", "gt", "target"),
)
GOLD_PLACES = ("reward_model", "extra_info", "metadata")
"""Objects inside a row in which the gold may lie."""
ID_KEYS = ("id", "unique_id", "problem_id", "uuid")
JUDGEMENT_KEYS = ("correct", "is_correct", "label", "verified")


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
    """The keys that were read, e.g. `question/answer`."""
    row_id: str
    judged_wrong: bool
    """The row itself marks this reply as wrong."""


def _present(row: dict[str, Value]) -> dict[str, Value]:
    """Keys in lower case whose values hold something."""
    found: dict[str, Value] = {}
    for key, value in row.items():
        empty = value in (None, [], {}) or (isinstance(value, str) and not value.strip())
        if not empty:
            found.setdefault(key.lower(), value)
    return found


def _first_key(row: dict[str, Value], keys: tuple[str, ...]) -> str | None:
    return next((key for key in keys if key in row), None)


def _gold_text(value: Value, key: str) -> str:
    """A stated answer as text: boxes and `####` opened, several answers joined by commas."""
    if isinstance(value, str) and re.match(r"\s*\[\s*\"", value):
        try:
            value = json.loads(value)
        except ValueError:
            pass  # then it is an answer that happens to open with a bracket
    if isinstance(value, list):
        return ", ".join(_gold_text(one, key) for one in value)
    text = as_text(value, key).strip()
    hashed = split_hashes(text)[1]
    return unbox(text if hashed is None else hashed)


def stated_gold(row: dict[str, Value], unless: str) -> tuple[str, str]:
    """(gold, key) that the row states outside the field `unless`; ("", "") if none."""
    places: list[tuple[str, Value]] = [("", row)]
    places += [(f"{name}.", row[name]) for name in GOLD_PLACES if isinstance(row.get(name), dict)]
    for prefix, place in places:
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


def _reply_values(row: dict[str, Value]) -> tuple[str, list[Reply]]:
    """(key, replies) of a row without a conversation; ("", []) if it has none."""
    for thought, said in PAIRED_SUFFIXES:
        for key in row:
            other = key.removesuffix(thought) + said
            if key.endswith(thought) and other in row:
                halves = split_reply(as_text(row[other], other), as_text(row[key], key))
                return other, [Reply(*halves)]
    chosen = _first_key(row, REPLY_KEYS) or ("answer" if _is_worked(row.get("answer")) else None)
    if chosen is None:
        return "", []
    field = _first_key(row, THINKING_FIELDS)
    outside = as_text(row[field], field) if field is not None else ""
    return chosen, [_reply(value, chosen, outside) for value in _several(row[chosen])]


def _is_worked(answer: Value) -> bool:
    """Whether an answer is a whole solution: it ends in `####` or holds a box."""
    if not isinstance(answer, str):
        return False
    return split_hashes(answer)[1] is not None or last_boxed(answer) is not None


def _several(value: Value) -> list[Value]:
    """A list of strings or of conversations is several replies; anything else is one."""
    if isinstance(value, list) and all(isinstance(one, str) or is_turns(one) for one in value):
        return value
    return [value]


def _reply(value: Value, key: str, outside: str) -> Reply:
    if isinstance(value, dict):
        value = [value]
    if not is_turns(value):
        return Reply(*split_reply(as_text(value, key), outside))
    turn = read_turn(value[-1])
    if len(value) != 1 or turn.role != "assistant":
        raise RowFault("multi-turn", f"`{key}` holds {len(value)} messages")
    return Reply(*split_reply(turn.text, turn.thinking or outside))


def _conversation(row: dict[str, Value]) -> tuple[str, Value]:
    """(key, messages) if the row holds a conversation; ("", None) if not."""
    for key in CHAT_KEYS:
        if is_turns(row.get(key)):
            return key, row[key]
    prompt = row.get("prompt")
    if is_turns(prompt):
        return "prompt", prompt
    rendered = chat_markup_turns(prompt) if isinstance(prompt, str) else None
    return ("prompt", rendered) if rendered else ("", None)


def _asked(row: dict[str, Value]) -> tuple[str, str, list[Reply]]:
    """(keys, problem, replies) of a row."""
    key, messages = _conversation(row)
    if messages is not None:
        problem, reply = single_question([read_turn(one) for one in messages])
        plain = _first_key(row, ("problem", "question"))
        if plain is not None:
            problem = _problem_text(row, plain)
        if reply is not None:
            return key, problem, [reply]
    else:
        found = _first_key(row, PROBLEM_KEYS)
        if found is None:
            said = ", ".join(list(row)[:8]) or "nothing"
            raise RowFault("no-schema", f"no known key holds a problem; present: {said}")
        key, problem = found, _problem_text(row, found)
    reply_key, replies = _reply_values(row)
    return f"{key}/{reply_key}" if reply_key else key, problem, replies


def read_candidates(raw: dict[str, Value]) -> list[Candidate]:
    """The traces of one row: one, or several where it lists several replies.

    Raises:
        RowFault: no-schema, multi-turn, tool-use, not-text, wrong-type,
            unfinished-thinking or malformed-thinking.
    """
    row = _present(raw)
    schema, problem, replies = _asked(row)
    reply_key = schema.partition("/")[2]
    gold, gold_key = stated_gold(row, unless=reply_key)
    if not gold and replies:
        gold = _hashed_gold(row.get(reply_key)) or _reference_gold(row, reply_key)
    origin = "stated" if gold_key or _hashed_gold(row.get(reply_key)) else "reference"
    key = _first_key(row, ID_KEYS)
    row_id = str(row[key]) if key and isinstance(row[key], (str, int)) else ""
    judged = any(row.get(name) is False for name in JUDGEMENT_KEYS)
    found = []
    for reply in replies or [Reply("", "")]:
        solution = worked_solution(reply.visible)
        own = "" if gold else (last_boxed(solution) or "")
        found.append(
            Candidate(
                problem=strip_wrapper(problem),
                gold=gold or own,
                gold_from=origin if gold else "own-box" if own else "none",
                thinking=reply.thinking,
                solution=solution,
                schema=f"{schema}/{gold_key}" if gold_key else schema,
                row_id=row_id,
                judged_wrong=judged,
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


def read_question(raw: dict[str, Value]) -> tuple[str, str]:
    """(problem, gold) of a row for a panel or a protected set; the gold may be empty.

    Raises:
        RowFault: no-schema, multi-turn, not-text or wrong-type.
    """
    row = _present(raw)
    _, messages = _conversation(row)
    key = _first_key(row, PROBLEM_KEYS if messages is None else ("problem", "question"))
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

"""Names of columns and what they hold; a source's own mapping comes first.

Called by schemas.py and panels.py; reads and writes nothing. docs/data.md lists the names.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.corpus.rows.labels import STRONG_LABELS, WEAK_LABELS, is_rate
from pipeline.corpus.rows.text import RowFault, Value
from pipeline.corpus.rows.turns import THINKING_FIELDS, is_turns

CHAT_KEYS = ("messages", "conversations", "conversation", "dialogue", "chat")
PROBLEM_KEYS = ("problem", "question", "query", "instruction", "prompt", "input")
REPLY_KEYS = (
    *("generations", "responses", "completions", "outputs", "traces", "generation", "response"),
    *("completion", "generated_solution", "output", "model_output", "trace", "chosen"),
    *("solution", "solutions", "ground_truth_solution", "reference_solution"),
    *("gt_cot", "cot", "rationale"),
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
PLACES = ("reward_model", "extra_info", "metadata")
"""Objects inside a row in which gold, labels and solve rate may lie."""
ID_KEYS = ("id", "unique_id", "problem_id", "uuid")

_REPLACED = {
    "problem": (*CHAT_KEYS, *PROBLEM_KEYS),
    "gold": (*GOLD_KEYS, *PLACES),
    "solution": (*REPLY_KEYS, "code"),
    "thinking": THINKING_FIELDS,
    "id": ID_KEYS,
    "verified": (*STRONG_LABELS, *WEAK_LABELS),
}
"""Role → keys that detection would take, and does not once the role is mapped."""


def present(row: Mapping[str, Value]) -> dict[str, Value]:
    """Keys in lower case whose values hold something."""
    found: dict[str, Value] = {}
    for key, value in row.items():
        if isinstance(value, str):
            empty = not value or value.isspace()
        else:
            empty = value is None or value == [] or value == {}
        if not empty:
            found.setdefault(key.lower(), value)
    return found


def mapped(row: dict[str, Value], columns: Mapping[str, str]) -> tuple[dict[str, Value], list[str]]:
    """A row whose mapped columns lie under the keys that detection knows.

    Args:
        row: as `present` gives it.
        columns: role → column; a dot leads into an object.

    Returns:
        the row, and `role=column` of every role that has a value.

    Raises:
        RowFault: no-schema, if the column of the problem is missing.
    """
    if not columns:
        return row, []
    taken = {role: _at(row, column.lower()) for role, column in columns.items()}
    if "problem" in taken and taken["problem"] is None:
        said = ", ".join(list(row)[:8]) or "nothing"
        raise RowFault("no-schema", f"no column `{columns['problem']}`; present: {said}")
    replaced = {key for role in taken for key in _REPLACED.get(role, ())}
    rest = {key: value for key, value in row.items() if key not in replaced}
    if "solution" in taken or "thinking" in taken:
        halves = tuple(half for pair in PAIRED_SUFFIXES for half in pair)
        rest = {key: value for key, value in rest.items() if not key.endswith(halves)}
    if "solve_rate" in taken:
        rest = {key: value for key, value in rest.items() if not is_rate(key)}
    for role, value in taken.items():
        if value is not None:
            rest["messages" if role == "problem" and is_turns(value) else role] = value
    return rest, [f"{role}={columns[role]}" for role, value in taken.items() if value is not None]


def _at(row: dict[str, Value], path: str) -> Value:
    """The value of a column, or of a key inside one; None if it is not there."""
    if path in row:
        return row[path]
    head, dot, tail = path.partition(".")
    inner = row.get(head) if dot else None
    return _at(present(inner), tail) if isinstance(inner, dict) else None


def first_key(row: Mapping[str, Value], keys: tuple[str, ...]) -> str | None:
    """The first of `keys` that the row has."""
    return next((key for key in keys if key in row), None)


def places(row: dict[str, Value]) -> list[tuple[str, dict[str, Value]]]:
    """(prefix, object) of the row itself and of the objects in it that may state facts."""
    inner = [(f"{name}.", row[name]) for name in PLACES if isinstance(row.get(name), dict)]
    return [("", row), *inner]

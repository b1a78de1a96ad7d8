"""The replies that a row without a conversation of its own lists, and their own labels.

Called by schemas.py; reads and writes nothing. A reply lies in a column, in several
numbered ones, in two halves, in an object beside its label, or in a list of these.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from pipeline.base.grading import last_boxed
from pipeline.corpus.rows.columns import PAIRED_SUFFIXES, REFERENCE_KEYS, REPLY_KEYS, first_key
from pipeline.corpus.rows.labels import STRONG_LABELS, UNVERIFIABLE, WEAK_LABELS, label_of
from pipeline.corpus.rows.replies import split_hashes, split_reply
from pipeline.corpus.rows.text import RowFault, Value, as_text
from pipeline.corpus.rows.turns import THINKING_FIELDS, Reply, is_turns, read_turn, single_reply

_NUMBERED = re.compile(r"((?:.+_)?(?:solution|generation|response|completion|trace))_\d+")
_IN_OBJECT = (*REPLY_KEYS, "content", "text", "value", "code", "answer")
_LABELS = (*STRONG_LABELS, *WEAK_LABELS)


@dataclass
class Replies:
    """What a row answers."""

    key: str = ""
    """The column; empty if there is none."""
    found: list[Reply | RowFault] = field(default_factory=list)
    """Each reply, or why it cannot be used."""
    own_labels: list[str] | None = None
    """A label a reply, where it lies beside the reply itself."""


def find_replies(row: dict[str, Value], references_first: bool) -> Replies:
    """The replies of a row.

    Args:
        references_first: take a reference solution before a model's trace.
    """
    column = first_key(row, THINKING_FIELDS)
    outside = as_text(row[column], column) if column is not None else ""
    keys = (*REFERENCE_KEYS, *REPLY_KEYS) if references_first else REPLY_KEYS
    chosen = first_key(row, keys)
    if references_first and chosen is not None:
        return _listed(chosen, row[chosen], outside)
    halves = _halves(row)
    if halves is not None:
        return halves
    numbered = _numbered(row)
    if numbered is not None:
        name, values = numbered
        return _listed(name, values, outside)
    sampled = row.get("code")
    if isinstance(sampled, list) and any(name in row for name in ("score", "pred")):
        return _listed("code", sampled, outside)
    if chosen is not None and chosen not in REFERENCE_KEYS:
        return _listed(chosen, row[chosen], outside)
    objects = {key: value for key, value in row.items() if _is_labelled(value)}
    if objects:
        return _listed("+".join(objects), list(objects.values()), outside)
    if chosen is None and is_worked(row.get("answer")):
        chosen = "answer"
    return Replies() if chosen is None else _listed(chosen, row[chosen], outside)


def is_worked(answer: Value) -> bool:
    """Whether an answer is a whole solution: it ends in `####` or holds a box."""
    if not isinstance(answer, str):
        return False
    return split_hashes(answer)[1] is not None or last_boxed(answer) is not None


def _halves(row: dict[str, Value]) -> Replies | None:
    """`x_thinking` beside `x_content` and the like."""
    for thought, said in PAIRED_SUFFIXES:
        for key in row:
            other = key.removesuffix(thought) + said
            if key.endswith(thought) and other in row:
                halves = split_reply(as_text(row[other], other), as_text(row[key], key))
                return Replies(other, [Reply(*halves)])
    return None


def _numbered(row: dict[str, Value]) -> tuple[str, list[Value]] | None:
    """`solution_1`, `solution_2` … as one list; None unless there are at least two."""
    groups: dict[str, list[str]] = {}
    for key in row:
        found = _NUMBERED.fullmatch(key)
        if found:
            groups.setdefault(found[1], []).append(key)
    for name, keys in groups.items():
        if len(keys) > 1:
            return f"{name}_*", [row[key] for key in keys]
    return None


def _is_labelled(value: Value) -> bool:
    """Whether a column is an object of a reply and its label."""
    return (
        isinstance(value, dict)
        and any(isinstance(value.get(key), (str, list)) for key in REPLY_KEYS)
        and any(key in value for key in STRONG_LABELS)
    )


def _listed(key: str, value: Value, outside: str) -> Replies:
    """Replies of one column: a list of strings, conversations or objects is several."""
    parts = isinstance(value, list) and not is_turns(value) and all(map(_is_reply, value))
    values = value if parts else [value]
    replies = Replies(key)
    for one in values:
        try:
            replies.found.append(_reply(one, key, outside))
        except RowFault as fault:
            if len(values) == 1:
                raise
            replies.found.append(fault)
    labels = [_own_label(one) for one in values]
    if any(label is not None for label in labels):
        replies.own_labels = [label or UNVERIFIABLE for label in labels]
    return replies


def _is_reply(value: Value) -> bool:
    if isinstance(value, dict):
        return first_key(value, _IN_OBJECT) is not None and "type" not in value
    return value is None or isinstance(value, str) or is_turns(value)


def _own_label(value: Value) -> str | None:
    """The label inside a reply that is an object."""
    if not isinstance(value, dict):
        return None
    key = first_key(value, _LABELS)
    return None if key is None else label_of(value[key])


def _reply(value: Value, key: str, outside: str) -> Reply:
    if value is None:
        return Reply("", "")
    if isinstance(value, dict) and not is_turns([value]):
        inner = first_key(value, _IN_OBJECT)
        if inner is not None and "type" not in value:
            thought = first_key(value, THINKING_FIELDS)
            given = as_text(value[thought], thought) if thought else outside
            return _reply(value[inner], f"{key}.{inner}", given)
    if isinstance(value, dict):
        value = [value]
    if not is_turns(value):
        return Reply(*split_reply(as_text(value, key), outside))
    return single_reply([read_turn(one) for one in value], outside)

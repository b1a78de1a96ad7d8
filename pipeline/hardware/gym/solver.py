"""Solves a task from its text alone: reads the numbers, then follows the rules.

It proves that a prompt holds everything that its answer needs. It never sees a gold, a
family name or the case behind the text: it recognises the family by the fields that the
config and the profiler show, and reads what is missing from the log.
"""

from __future__ import annotations

import json
from functools import cache

from pipeline.hardware.gym.cases import Case, Gold, Value, kinds, places
from pipeline.hardware.gym.log_families import EVENTS
from pipeline.hardware.gym.phrases import PHRASES, read
from pipeline.hardware.gym.prompt import Text
from pipeline.hardware.gym.tasks import FAMILIES


def reply(gold: Gold) -> str:
    """A gold as the reply that the text asks for."""
    answer: dict[str, object] = {"diagnosis": list(gold.codes)}
    if gold.intermediates:
        answer["intermediates"] = dict(gold.intermediates)
    return json.dumps(answer | {"fix": dict(gold.fix)})


@cache
def shown(family: type[Case]) -> frozenset[str]:
    """Fields of the config and the profiler's table."""
    return frozenset(name for name, where, _ in places(family) if where in ("config", "profile"))


def recognise(text: Text) -> type[Case] | None:
    """The family whose fields are all there; of two, the one with more of them."""
    names = text.config.keys() | text.profile.keys()
    fitting = [family for family in FAMILIES if shown(family) <= names]
    return max(fitting, key=lambda family: len(shown(family)), default=None)


def first_event(log: str) -> dict[str, Value]:
    """The first line that is an error, as code and number."""
    found = [(hit, code) for code, phrases in EVENTS.items() if (hit := read(phrases, log))]
    if not found:
        return {}
    (_, number), code = min(found)
    return {"event": code, "event_value": int(number)}


def values(family: type[Case], text: Text) -> dict[str, Value]:
    """The numbers of a case, as far as the text has them."""
    found: dict[str, Value] = dict(text.config)
    for name, value in text.profile.items():
        found[name] = kinds(family)[name](value)
    for name, where, _ in places(family):
        if where == "log" and (hit := read(PHRASES[name], text.log)):
            found[name] = kinds(family)[name](hit[1])
    return found | (first_event(text.log) if "event" in kinds(family) else {})


def solve(prompt: str) -> Gold | None:
    """The answer to a prompt; None when the text tells too little."""
    text = Text.of(prompt)
    family = recognise(text)
    if family is None:
        return None
    found = values(family, text)
    names = [name for name, _, _ in places(family)]
    if any(name not in found for name in names):
        return None
    return family(**{name: found[name] for name in names}).gold()


def answer(prompt: str) -> str:
    """The reply to a prompt; empty when the text tells too little."""
    gold = solve(prompt)
    return "" if gold is None else reply(gold)

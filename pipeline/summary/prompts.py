"""The prompts of a run: how each puts a problem, and how base and adapter do under it. Pure.

Used by results.md and adapter_card.md. `main` is the prompt of params.yaml itself, and
choices rest on its figures; a run without `prompt.variants` has no table of prompts.
"""

from __future__ import annotations

from pipeline.base.artifacts import Json
from pipeline.base.params import PromptParams, PromptVariant
from pipeline.base.records import MAIN
from pipeline.summary.comparison import chance, paired
from pipeline.summary.evidence import Evidence
from pipeline.summary.markdown import UNKNOWN, interval, percent, table

VARIANTS = "variants"
"""Key of scores.json and of the packed data's manifest."""


def prompts_section(evidence: Evidence) -> list[str]:
    """Lines of the table with one row a prompt; none without variants."""
    pair = [evidence.baseline, evidence.evaluate]
    names = list(
        dict.fromkeys(name for scores in pair for name in (scores or {}).get(VARIANTS, {}))
    )
    if not names:
        return []
    rows = [_row(evidence, name) for name in (MAIN, *names)]
    return [
        "### Under each prompt",
        "",
        f"Right at the first reply, with its 95 % interval (Wilson). Choices rest on `{MAIN}`;"
        " the others show what another way of asking costs.",
        "",
        *table(
            (
                "prompt",
                "of the trained documents",
                "base",
                "adapter",
                "problem by problem",
                "problems",
            ),
            rows,
            "lrrrlr",
        ),
    ]


def _row(evidence: Evidence, name: str) -> tuple[str, ...]:
    base, adapter = (_scores_of(one, name) for one in (evidence.baseline, evidence.evaluate))
    return (
        f"`{name}`",
        _trained_share(evidence.manifest, name),
        _accuracy(base),
        _accuracy(adapter),
        _one_by_one(evidence, name),
        " and ".join(dict.fromkeys(_problems(one) for one in (base, adapter) if one is not None)),
    )


def _scores_of(scores: Json, name: str) -> Json:
    if scores is None or name == MAIN:
        return scores
    return scores.get(VARIANTS, {}).get(name)


def _trained_share(manifest: Json, name: str) -> str:
    """Share of the trained documents that were put with this prompt."""
    counts: dict[str, int] = (manifest or {}).get(VARIANTS) or {}
    documents = sum(counts.values())
    return percent(counts.get(name, 0) / documents) if documents else UNKNOWN


def _accuracy(scores: Json) -> str:
    if scores is None:
        return "not run"
    if scores["pass_at_1"] is None:
        return percent(None)
    return f"{percent(scores['pass_at_1'])} ({interval(scores['pass_at_1_interval'])})"


def _problems(scores: Json) -> str:
    found, asked = scores["problems"], scores["requested_problems"]
    return f"{found}" if found == asked else f"{found} of {asked}"


def _one_by_one(evidence: Evidence, name: str) -> str:
    found = paired(evidence.before, evidence.after, name)
    if found is None:
        return "–"
    if not found.better + found.worse:
        return f"equal on all {found.same}"
    return f"{found.better} better, {found.worse} worse, {found.same} equal ({chance(found)})"


def asking_table(prompt: PromptParams) -> list[str]:
    """Lines that tell a user how to put a problem: a row a part, or a row a prompt."""
    parts = ("system message", "instruction", "thinking")
    if not prompt.variants:
        system, instruction, thinking = _parts(prompt)
        rows = [
            ("system message", system),
            ("user message", USER_MESSAGE),
            ("instruction", instruction),
            ("thinking", thinking),
        ]
        return table(("part", "text"), rows)
    named = [(MAIN, _parts(prompt)), *((one.name, _parts(one)) for one in prompt.variants)]
    return [
        f"The user message is {USER_MESSAGE}.",
        "",
        *table(("prompt", *parts), [(f"`{name}`", *cells) for name, cells in named]),
    ]


USER_MESSAGE = "the problem, a blank line, the instruction"


def _parts(prompt: PromptParams | PromptVariant) -> tuple[str, str, str]:
    return (
        "none is sent" if prompt.system is None else f"`{prompt.system}`",
        f"`{prompt.instruction}`" if prompt.instruction else "none",
        _thinking(prompt.thinking),
    )


def _thinking(setting: str) -> str:
    if setting == "template":
        return "as the template has it"
    if setting == "empty-prefill":
        return "an empty, closed block before every reply"
    return f"`enable_thinking`: {setting}"

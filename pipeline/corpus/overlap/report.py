"""work/decontaminate/report.json and report.md: what was found, set by set.

Called by `python -m pipeline.decontaminate`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pipeline.base.artifacts import Json
from pipeline.base.params_corpus import DecontaminateParams
from pipeline.base.records import excerpt
from pipeline.corpus.overlap.boilerplate import MIN_BOILERPLATE_PROBLEMS, Boilerplate, Excuses
from pipeline.corpus.overlap.findings import Findings
from pipeline.corpus.overlap.protected import ProtectedSet
from pipeline.corpus.overlap.protected_index import MIN_CONTAINED_TOKENS
from pipeline.corpus.overlap.tally import LIMITS, SetTally, ordered

LISTED_BOILERPLATE = 20
CLASS_NAMES = {
    "copy": "the same problem, or its set-up with another question",
    "edited": "the same wording with other numbers, names or formulas",
    "paraphrase": "the same problem in other words",
    "review": "suspicious, for a person to look at",
}


def describe(
    kept: int,
    dropped: Counter[str],
    hits: Counter[str],
    sets: Sequence[ProtectedSet],
    findings: Findings,
    counts: Boilerplate,
    settings: DecontaminateParams,
) -> dict[str, Json]:
    """report.json.

    Args:
        kept: rows that are kept.
        dropped: reason → dropped rows.
        hits: set → dropped rows that repeat or resemble one of its problems.
    """
    tally = findings.tally
    return {
        "read": kept + dropped.total(),
        "kept": kept,
        "dropped": dict(sorted(dropped.items())),
        "problems": counts.problems,
        "classes": ordered(tally.classes),
        "excused": tally.excused,
        "policy": settings.policy.model_dump(by_alias=True),
        "sets": [_describe_set(one, hits[one.name], tally.of(one.name)) for one in sets],
        "ngram_words": settings.ngram_words,
        "boilerplate_share": settings.boilerplate_share,
        "boilerplate_problems": MIN_BOILERPLATE_PROBLEMS,
        "contained_tokens": MIN_CONTAINED_TOKENS,
        **_describe_boilerplate(findings, counts),
    }


def _describe_set(one: ProtectedSet, hits: int, tally: SetTally) -> dict[str, Json]:
    return {
        **one.summary(),
        "hits": hits,
        "classes": ordered(tally.classes),
        "methods": dict(sorted(tally.methods.items())),
        "protected_found": len(tally.protected),
        "sweep": {
            score: {f"{limit:g}": tally.sweep[score, limit] for limit in limits}
            for score, limits in LIMITS.items()
        },
        "examples": tally.examples,
    }


def _describe_boilerplate(findings: Findings, counts: Boilerplate) -> dict[str, Json]:
    index, excuses = findings.index, Excuses.of(counts)
    tokens = index.alphabet.tokens()
    texts = {
        number: " ".join([tokens[one] for one in run])
        for run, number in index.numbers.items()
        if number in excuses.runs
    }
    runs = sorted(excuses.runs, key=lambda run: (-counts.runs[run], texts[run]))
    genres = sorted(excuses.genres, key=lambda item: (-counts.worded[item], item))
    return {
        "boilerplate": [
            {"words": texts[run], "problems": counts.runs[run]} for run in runs[:LISTED_BOILERPLATE]
        ],
        "genres": [
            {
                "set": index.items[item].source,
                "place": index.items[item].origin,
                "problem": excerpt(index.items[item].problem),
                "problems": counts.worded[item],
            }
            for item in genres[:LISTED_BOILERPLATE]
        ],
    }


def render(report: dict[str, Any]) -> str:
    """report.md: the same for a person, pairs below one another."""
    lines = [
        "# Decontamination",
        "",
        f"{report['read']:,} rows read, {report['kept']:,} kept;"
        f" {report['problems']:,} different problems.",
        "",
        "| class | what it is | problems | policy |",
        "|---|---|---:|---|",
        *(
            f"| {name} | {meaning} | {report['classes'][name]:,} | {report['policy'][name]} |"
            for name, meaning in CLASS_NAMES.items()
        ),
        "",
        f"{report['excused']:,} further problems share only boilerplate with a protected one.",
        "Every pair stands in review.jsonl, every dropped row in dropped.jsonl.",
        "",
    ]
    for one in report["sets"]:
        lines += _render_set(one)
    return "\n".join([*lines, *_render_boilerplate(report)]).rstrip() + "\n"


def _render_set(one: dict[str, Any]) -> list[str]:
    known = "" if one["known_set"] is None else f" = {one['known_set']}, {one['state']}"
    lines = [
        f"## {one['name']}{known}",
        "",
        f"{one['problems']:,} problems ({one['repeated']:,} repeated rows, {one['unreadable']:,}"
        f" unreadable); {one['protected_found']:,} of them found in training; {one['hits']:,} rows"
        " dropped.",
        "",
        "Problems by class: " + ", ".join(f"{k} {v:,}" for k, v in one["classes"].items()) + ".",
    ]
    if one["methods"]:
        lines += ["By method: " + ", ".join(f"{k} {v:,}" for k, v in one["methods"].items()) + "."]
        lines += ["", "| suspects that reach at least | problems at each limit |", "|---|---|"]
        lines += [
            f"| {score} | {', '.join(f'{limit}: {count:,}' for limit, count in row.items())} |"
            for score, row in one["sweep"].items()
            if any(row.values())
        ]
    for pair in one["examples"]:
        cosine = "" if pair["cosine"] is None else f", cosine {pair['cosine']:.2f}"
        lines += [
            "",
            f"**{pair['class']}** ({', '.join(pair['methods'])}; lcs {pair['lcs']:.2f},"
            f" masked {pair['masked']:.2f}{cosine}), {pair['place']}",
            "",
            f"> training: {' '.join(pair['training'].split())}",
            ">",
            f"> protected: {' '.join(pair['protected'].split())}",
        ]
    return [*lines, ""]


def _render_boilerplate(report: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    if report["boilerplate"]:
        lines += ["## Shared wording that is no evidence", ""]
        lines += [f"- {one['problems']:,}: {one['words']}" for one in report["boilerplate"]]
        lines += [""]
    if report["genres"]:
        lines += ["## Protected problems whose wording is a genre", ""]
        lines += [
            f"- {one['problems']:,}: {one['set']}: {one['problem']}" for one in report["genres"]
        ]
    return lines

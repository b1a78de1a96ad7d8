"""The stages of a curriculum: planned and trained, and the passes over each tier and source. Pure.

Used by results.md and adapter_card.md; a run of one plain stage has no table.
"""

from __future__ import annotations

from typing import Any

from pipeline.base.artifacts import Json
from pipeline.summary.evidence import Evidence
from pipeline.summary.markdown import decimal, table, whole

Stages = list[dict[str, Any]]


def stages_section(evidence: Evidence) -> list[str]:
    """Lines of the table of stages and of the passes."""
    planned: Stages = ((evidence.plan or {}).get("training") or {}).get("stages") or []
    if len(planned) < 2 and not any(stage["tiers"] for stage in planned):
        return []
    record = (evidence.train or {}).get("curriculum")
    header = ("stage", "sequences a step", "tiers", "share", "steps planned", "steps", "tokens",
              "loss")  # fmt: skip
    rows = [
        (
            str(number),
            f"{whole(stage['sequences_per_step'])} × {whole(stage['sequence_tokens'])} tokens",
            _tiers(stage["tiers"]),
            f"{stage['share'] * 100:.1f} %",
            *_trained(record, number - 1, stage),
        )
        for number, stage in enumerate(planned, 1)
    ]
    return ["## Stages", "", *table(header, rows, "rllrrrrr"), *_passes(record)]


def _tiers(tiers: dict[str, float] | None) -> str:
    if tiers is None:
        return "as they come"
    total = sum(tiers.values())
    return ", ".join(
        f"{tier} {weight / total * 100:.0f} %" for tier, weight in tiers.items() if weight
    )


def _trained(record: Json, place: int, stage: dict[str, Any]) -> tuple[str, str, str, str]:
    """Steps as planned and as trained, tokens, loss at the first and at the last step."""
    if record is None or place >= len(record["stages"]):
        return whole(stage["steps"]), "did not end", "", ""
    done, planned = record["stages"][place], record["planned"]["stages"][place]
    first, last = done["first_loss"], done["last_loss"]
    known = first is not None and last is not None
    loss = f"{decimal(first, 3)} → {decimal(last, 3)}" if known else "–"
    return whole(planned["steps"]), whole(done["steps"]), whole(done["tokens"]), loss


def _passes(record: Json) -> list[str]:
    if record is None:
        return []
    rows = [
        (kind, f"`{name}`", f"{record['planned'][key].get(name, 0.0):.2f}", f"{count:.2f}")
        for kind, key in (("tier", "passes"), ("source", "sources"))
        for name, count in record[key].items()
    ]
    return ["How often each was seen:", "", *table(("", "", "planned", "actual"), rows, "llrr")]

"""What was run: base, method, devices, clock, plan against actual, stage times. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.base.artifacts import Json
from pipeline.base.params import Params
from pipeline.base.progress import duration
from pipeline.summary.evidence import Evidence
from pipeline.summary.markdown import UNKNOWN, decimal, percent, short, table, whole

STAGES = (
    "prepare", "probe", "filter", "decontaminate", "plan", "select", "tokenize", "baseline",
    "train", "evaluate", "export", "verify", "report",
)  # fmt: skip

ENDINGS = {
    "steps": "the planned number of steps, before the clock",
    "budget": "the clock: the last steps were re-planned to end with the budget",
}


def facts_section(evidence: Evidence, params: Params) -> list[str]:
    """Lines of the table of what was run."""
    rows = [
        ("base", base_name(evidence)),
        ("method", method(evidence)),
        ("devices", devices(evidence)),
        *_training_rows(evidence),
        ("time used of the budget", _time_used(evidence, params)),
        ("contract", contract_line(evidence.contract)),
    ]
    return ["## The run", "", *table(("", ""), rows)]


def base_name(evidence: Evidence) -> str:
    """Folder, architecture, size and fingerprint of the base."""
    base = evidence.base
    if base is None:
        return UNKNOWN
    shape = base["shape"]
    kind = "embedded" if base["kind"] == "embedded" else Path(base["path"]).name
    return (
        f"{kind}: {shape['architecture']}, {shape['layers']} layers,"
        f" {millions(shape['parameters'])} parameters, fingerprint {short(base['fingerprint'])}"
    )


def millions(count: int) -> str:
    """`134515008` → `134.5 M`, `14768307200` → `14.8 B`."""
    return f"{count / 1e9:.1f} B" if count >= 1e9 else f"{count / 1e6:.1f} M"


def method(evidence: Evidence) -> str:
    """Method, rank and targets, as trained."""
    train = evidence.train
    if train is None:
        return str((evidence.published or {}).get("method_name", UNKNOWN))
    recipe = train["recipe"]
    targets = recipe["target_modules"]
    named = targets if isinstance(targets, str) else ", ".join(targets)
    return f"{train['method_name']}, rank {recipe['rank']}, alpha {recipe['alpha']}, on {named}"


def devices(evidence: Evidence) -> str:
    """What trained; equal devices are counted."""
    source = evidence.train or evidence.published
    if source is None:
        return UNKNOWN
    names: list[str] = source["devices"]
    return ", ".join(
        f"{names.count(name)} × {name}" if names.count(name) > 1 else name
        for name in dict.fromkeys(names)
    )


def _training_rows(evidence: Evidence) -> list[tuple[str, str]]:
    train, published = evidence.train, evidence.published
    if train is not None:
        work = f"{whole(train['steps'])} steps, {whole(train['tokens'])} tokens"
        return [
            ("training", f"{work} in {duration(train['seconds'])} ({_attempts(train)})"),
            ("ended by", ENDINGS[train["ended_by"]]),
        ]
    if published is not None:
        steps = f"{whole(published['step'])} of {whole(published['steps_planned'])} steps"
        where = f"`{published['checkpoint_path']}`"
        return [("training", f"cut: {steps} are in the published adapter (from {where})")]
    return [("training", "has not ended")]


def _attempts(train: Json) -> str:
    return "in one go" if train["attempts"] == 1 else f"{train['attempts']} attempts, resumed"


def _time_used(evidence: Evidence, params: Params) -> str:
    budget = params.budget.hours * 3600
    clock = evidence.clock
    if clock is None:
        return f"{UNKNOWN} of {duration(budget)}"
    used = clock["used_before"] + clock["heartbeat"] - clock["session_started"]
    return f"{duration(used)} of {duration(budget)} ({percent(used / budget)})"


def contract_line(contract: Json) -> str:
    """How many checks of the adapter passed."""
    if contract is None:
        return "not checked"
    passed = sum(check["passed"] is True for check in contract["checks"])
    if contract["passed"]:
        return f"kept: {passed} checks passed"
    failed = [check["id"] for check in contract["checks"] if check["passed"] is False]
    return f"**broken**: {', '.join(failed)}"


def plan_section(evidence: Evidence) -> list[str]:
    """Lines of the comparison of what was planned with what happened."""
    plan, train = evidence.plan, evidence.train
    if plan is None:
        return []
    time: dict[str, Any] = plan["time"]
    actual = train or {}
    ended = "did not end" if train is None else UNKNOWN
    rows = [
        ("steps", whole(actual.get("steps_planned")), whole(actual.get("steps"))),
        ("tokens", whole(time.get("tokens")), whole(actual.get("tokens"))),
        ("tokens/s", whole(time.get("tokens_per_second")), whole(actual.get("tokens_per_second"))),
        ("training time", _seconds(time.get("predicted_seconds")), _seconds(actual.get("seconds"))),
        ("… that the clock allows", _seconds(time.get("training_seconds")), ""),
        ("memory a device", _gib(_memory(plan)), _gib(actual.get("peak_memory_gib"))),
    ]
    shown = [(name, planned, ended if done == UNKNOWN else done) for name, planned, done in rows]
    lines = ["## Plan against actual", "", *table(("", "planned", "actual"), shown, "lrr")]
    replans = len(actual.get("journal") or []) - 1
    if replans > 0:
        lines += [f"The remaining steps were re-planned {replans} times on the way.", ""]
    lines += [
        "<details><summary>Memory, part by part, and why the plan is what it is</summary>",
        "",
    ]
    parts = [(one["part"], _gib(one["gib"]), one["formula"]) for one in plan["memory"]]
    lines += table(("part", "predicted", "formula"), parts, "lrl")
    lines += [f"- {reason}" for reason in plan["why"]]
    return [*lines, "", "</details>", ""]


def _memory(plan: Json) -> float:
    """Sum of the parts that count (some are listed for information only)."""
    return float(sum(one["gib"] for one in plan["memory"] if one.get("counted", True)))


def _seconds(value: float | None) -> str:
    return UNKNOWN if value is None else duration(value)


def _gib(value: float | None) -> str:
    return UNKNOWN if value is None else f"{decimal(value, 2)} GiB"


def time_section(evidence: Evidence) -> list[str]:
    """Lines of the time that each stage took when it last ran."""
    taken = evidence.stage_seconds
    names = [name for name in STAGES if name in taken]
    if not names:
        return []
    longest = max(taken[name] for name in names)
    rows = [(name, _brief(taken[name]), _bar(taken[name], longest)) for name in names]
    total = duration(sum(taken[name] for name in names))
    return [
        "## Time by stage",
        "",
        *table(("stage", "time", ""), [*rows, ("**all**", f"**{total}**", "")], "lrl"),
    ]


def _brief(seconds: float) -> str:
    return f"{seconds:.1f}s" if seconds < 10 else duration(seconds)


def _bar(value: float, longest: float) -> str:
    return "█" * max(1, round(24 * value / longest)) if value else ""

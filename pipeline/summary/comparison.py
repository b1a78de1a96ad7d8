"""Base against adapter: accuracy, what the difference means, replies side by side. Pure.

All of it is about the prompt `main`; prompts.py has the table of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.base.artifacts import Json
from pipeline.base.paired import compare_runs, detectable_between, mcnemar_exact
from pipeline.base.records import MAIN, Sample
from pipeline.summary.evidence import Evidence
from pipeline.summary.markdown import (
    clipped,
    decimal,
    fenced,
    interval,
    percent,
    quoted,
    table,
    whole,
)


@dataclass(frozen=True)
class Paired:
    """Problems on which one model has more right replies than the other."""

    better: int
    worse: int
    same: int

    @property
    def p_value(self) -> float:
        """Two-sided sign test: chance of so uneven a split were both equally good."""
        return mcnemar_exact(self.better, self.worse)


def paired(before: list[Sample], after: list[Sample], variant: str = MAIN) -> Paired | None:
    """Compare problem by problem; None when no problem has as many replies from both."""
    verdicts = [_verdicts(samples, variant) for samples in (before, after)]
    gains = [
        sum(verdicts[1][key]) - sum(found)
        for key, found in verdicts[0].items()
        if len(verdicts[1].get(key, [])) == len(found)
    ]
    if not gains:
        return None
    better, worse = sum(gain > 0 for gain in gains), sum(gain < 0 for gain in gains)
    return Paired(better, worse, len(gains) - better - worse)


def _verdicts(samples: list[Sample], variant: str) -> dict[str, list[bool]]:
    found: dict[str, list[bool]] = {}
    for sample in samples:
        if sample.variant == variant:
            found.setdefault(sample.id, []).append(sample.correct)
    return found


def chance(found: Paired) -> str:
    """The sign test's result in words."""
    p = found.p_value
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def measured(scores: Json) -> bool:
    """Whether an evaluation has a figure to show."""
    return scores is not None and scores["pass_at_1"] is not None


def headline(evidence: Evidence) -> list[str]:
    """The result in one bold line, and what it means in one or two sentences."""
    base, adapter = evidence.baseline, evidence.evaluate
    if measured(base) and measured(adapter):
        first, last = base["pass_at_1"], adapter["pass_at_1"]
        return [
            f"**{percent(first)} → {percent(last)} of first answers right**"
            f" (95 % intervals {interval(base['pass_at_1_interval'])}"
            f" and {interval(adapter['pass_at_1_interval'])};"
            f" {' against '.join(dict.fromkeys((_size(base), _size(adapter))))}).",
            "",
            f"{_meaning(base, adapter)} {_paired_sentence(evidence)}".strip(),
            "",
        ]
    for scores, name, other in ((adapter, "adapter", "base"), (base, "base", "adapter")):
        if measured(scores):
            return [
                f"**{percent(scores['pass_at_1'])} of first answers right with the {name}**"
                f" ({interval(scores['pass_at_1_interval'])}; {_size(scores)}).",
                "",
                f"The {other} was not measured, so nothing can be said about a gain.",
                "",
            ]
    return ["**Accuracy was not measured:** no panel problem was evaluated.", ""]


def _size(scores: Json) -> str:
    replies = scores["samples_per_problem"]
    size = f"{scores['problems']} problems × {replies} {'reply' if replies == 1 else 'replies'}"
    if scores.get("variants"):
        size += f", prompt `{MAIN}`"
    wanted = scores.get("requested_problems")
    return f"{size}, {wanted} asked for" if wanted and wanted > scores["problems"] else size


def _meaning(base: Json, adapter: Json) -> str:
    points = (adapter["pass_at_1"] - base["pass_at_1"]) * 100
    low, high = base["pass_at_1_interval"], adapter["pass_at_1_interval"]
    if points == 0:
        return "Base and adapter score the same on this panel."
    change = (
        f"The adapter is {abs(points):.1f} points {'above' if points > 0 else 'below'} the base"
    )
    if low[1] < high[0]:
        return f"{change} and the intervals do not overlap: a real gain on this panel."
    if high[1] < low[0]:
        return f"{change} and the intervals do not overlap: **training has harmed it.**"
    return f"{change}, but the intervals overlap: that alone may be chance."


def _paired_sentence(evidence: Evidence) -> str:
    found = paired(evidence.before, evidence.after)
    if found is None:
        return ""
    if not found.better + found.worse:
        return f"Problem by problem they are equal, on all {found.same}."
    return (
        f"Problem by problem it is better on {found.better}, worse on {found.worse},"
        f" equal on {found.same} (sign test, {chance(found)})."
    )


def comparison_section(evidence: Evidence) -> list[str]:
    """Lines of the table before/after and of how replies were judged."""
    lines = ["## Before and after", ""]
    pair = [evidence.baseline, evidence.evaluate]
    if pair == [None, None]:
        return [*lines, "No evaluation has run.", ""]
    columns = [["not run"] * len(MEASURES) if s is None else _column(s) for s in pair]
    rows = list(zip(MEASURES, *columns, strict=True))
    lines += table(("", "base", "adapter"), rows, "lrr")
    sampling = next(scores for scores in pair if scores is not None)["sampling"]
    settings = ", ".join(f"{key} {value}" for key, value in sampling.items())
    lines += [f"Both are sampled alike: {settings}.", ""]
    lines += [*_detectable(evidence), ""]
    unreadable = max((scores or {}).get("unreadable_golds", 0) for scores in pair)
    if unreadable:
        lines += [f"{unreadable} problems were left out: their answers cannot be read.", ""]
    counts = [(scores or {}).get("reasons") or {} for scores in pair]
    codes = sorted(counts[0].keys() | counts[1].keys(), key=lambda c: (-counts[1].get(c, 0), c))
    if codes:
        lines += ["How the replies were judged:", ""]
        verdicts = [(f"`{code}`", *(whole(c.get(code, 0)) for c in counts)) for code in codes]
        lines += table(("verdict", "base", "adapter"), verdicts, "lrr")
    return lines


def _detectable(evidence: Evidence) -> list[str]:
    """What the table can show: the smallest true difference such a panel would find."""
    found = [_verdicts(samples, MAIN) for samples in (evidence.before, evidence.after)]
    common = [key for key, one in found[0].items() if len(found[1].get(key, [])) == len(one)]
    test = "(at 5 %, found 4 times in 5)"
    if common:
        first, second = ([sum(one[key]) / len(one[key]) for key in common] for one in found)
        gap = compare_runs(first, second)
        low, high = (100 * bound for bound in gap.interval)
        return [
            f"Problem by problem the adapter is {100 * gap.mean:+.1f} points from the base, 95 %"
            f" interval {low:+.1f} to {high:+.1f} (paired bootstrap). A true difference of less"
            f" than {100 * gap.detectable:.1f} points is too small for these {len(common)}"
            f" problems {test}."
        ]
    for scores in (evidence.evaluate, evidence.baseline):
        if measured(scores):
            bound = 100 * detectable_between(scores["pass_at_1"], scores["problems"])
            return [
                f"Between two runs of {scores['problems']} problems a true difference of less"
                f" than {bound:.1f} points is too small to see {test}."
            ]
    return ["Nothing was measured, so no difference can be seen."]


MEASURES = (
    "right at the first reply (pass@1)",
    "… 95 % interval (Wilson)",
    "right in any reply (best of k)",
    "… 95 % interval (Wilson)",
    "replies cut at the token limit",
    "replies without a box",
    "mean tokens a reply",
    "problems × replies",
)


def _column(scores: Json) -> list[str]:
    """The figures of one model, in the order of `MEASURES`."""
    return [
        percent(scores["pass_at_1"]),
        interval(scores["pass_at_1_interval"]),
        f"{percent(scores['best_of_k'])} (k = {scores['k']})",
        interval(scores["best_of_k_interval"]),
        percent(scores["truncation_rate"]),
        percent(scores["no_box_rate"]),
        decimal(scores["mean_tokens"]),
        f"{scores['problems']} × {scores['samples_per_problem']}",
    ]


KINDS = (
    ("Fixed by training", False, True),
    ("Still wrong", False, False),
    ("Broken by training", True, False),
)
"""Heading, right before, right after."""


def samples_section(evidence: Evidence) -> list[str]:
    """Lines with one reply of each kind before and after, the first of the panel."""
    after = {(one.id, one.sample): one for one in evidence.after if one.variant == MAIN}
    before = [one for one in evidence.before if one.variant == MAIN]
    pairs = [(one, after[one.id, one.sample]) for one in before if (one.id, one.sample) in after]
    if not pairs:
        return []
    lines = ["## Replies, before and after", ""]
    for heading, right_before, right_after in KINDS:
        kind = [p for p in pairs if (p[0].correct, p[1].correct) == (right_before, right_after)]
        lines += [f"### {heading} ({whole(len(kind))} of {whole(len(pairs))} replies)", ""]
        if kind:
            lines += _shown(evidence.problems, *kind[0])
        else:
            lines += ["None.", ""]
    return lines


def _shown(problems: dict[str, str], before: Sample, after: Sample) -> list[str]:
    problem = problems.get(before.id, before.prompt)
    lines = [*quoted(clipped(problem)), f"Right answer: `{before.gold}`", ""]
    for name, sample in (("Base", before), ("Adapter", after)):
        answer = f"answer `{sample.answer}`" if sample.answer else "no answer"
        lines += [f"{name}: {answer}, {sample.tokens} tokens, `{sample.reason}`", ""]
        lines += fenced(clipped(sample.reply) or "(empty)")
    return lines

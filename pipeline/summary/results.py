"""results.md: what came of a run, for a person; every figure is a stage's own. Pure.

`python -m pipeline.report` writes it. Sections whose stage has not run say so or
are left out; equal evidence gives equal bytes.
"""

from __future__ import annotations

from pipeline.base.params import Params
from pipeline.summary.charts import smoothed
from pipeline.summary.comparison import comparison_section, headline, samples_section
from pipeline.summary.evidence import Evidence
from pipeline.summary.funnel import funnel_section, tokens_section
from pipeline.summary.markdown import short, table
from pipeline.summary.prompts import prompts_section
from pipeline.summary.run_facts import facts_section, plan_section, time_section
from pipeline.summary.stages import stages_section

CUT_NOTE = "**This run was cut short.**"
LOSS_PICTURE = "work/report/loss.svg"


def results_page(evidence: Evidence, params: Params) -> str:
    """The whole of results.md."""
    lines = [
        f"# {params.report.title}",
        "",
        *headline(evidence),
        *_missing(evidence),
        *facts_section(evidence, params),
        *comparison_section(evidence),
        *prompts_section(evidence),
        *_loss_section(evidence),
        *funnel_section(evidence),
        *tokens_section(evidence),
        *stages_section(evidence),
        *plan_section(evidence),
        *samples_section(evidence),
        *contract_section(evidence),
        *time_section(evidence),
        *_reproduce_section(evidence),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _missing(evidence: Evidence) -> list[str]:
    missing = evidence.missing()
    if not missing:
        return []
    return [
        f"> {CUT_NOTE} What follows is what exists; not there:",
        "> " + ", ".join(f"`{path}`" for path in missing) + ".",
        "",
    ]


def _loss_section(evidence: Evidence) -> list[str]:
    losses = [loss for _, loss in evidence.steps]
    if not losses:
        return []
    ends = smoothed(losses, max(3, len(losses) // 20 | 1))
    return [
        "## Loss",
        "",
        f"![Training loss by step]({LOSS_PICTURE})",
        "",
        f"From {ends[0]:.3f} to {ends[-1]:.3f} nats a trained token (smoothed),"
        f" over {len(losses):,} recorded steps.",
        "",
    ]


def contract_section(evidence: Evidence) -> list[str]:
    """Lines of the table of contract checks; also used by the adapter card."""
    contract = evidence.contract
    lines = ["## Contract", ""]
    if contract is None:
        return [*lines, "The adapter has not been checked; run `dvc repro verify`.", ""]
    rows = [
        (
            check["what"],
            "**failed**" if check["passed"] is False else check["status"],
            _figure(check["figure"]),
            _figure(check["limit"]),
            check["detail"],
        )
        for check in contract["checks"]
    ]
    return [*lines, *table(("check", "verdict", "found", "limit", ""), rows, "llrrl")]


def _figure(value: str | float | None) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else f"{value:,}"


def _reproduce_section(evidence: Evidence) -> list[str]:
    train = evidence.train or {}
    base, manifest = evidence.base or {}, evidence.manifest or {}
    rows = [
        ("base fingerprint", short(base.get("fingerprint"))),
        ("tokenizer and template", short(manifest.get("tokenizer_sha256"))),
        ("packed data (manifest)", short(train.get("manifest_sha256"))),
        ("run key", short(train.get("run_key"))),
    ]
    versions = train.get("versions") or {}
    rows += [(name, f"`{version}`") for name, version in sorted(versions.items())]
    return [
        "## How to reproduce",
        "",
        "With the same `params.yaml`, data and base:",
        "",
        "```sh",
        "make setup",
        "make train      # the whole DAG; what is up to date is skipped",
        "```",
        "",
        "Equal hashes below mean equal inputs. Machines of one kind then agree to the byte as"
        " long as `train.steps` is fixed; a run that ends by the clock depends on its speed.",
        "",
        *table(("input", "value"), rows),
    ]

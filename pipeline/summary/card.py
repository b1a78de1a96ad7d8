"""adapter_card.md: what the adapter is, how to use it, what to expect of it. Pure.

`python -m pipeline.report` writes it beside `adapter/`, which by contract holds
nothing but weights and config.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.base.params import Params
from pipeline.summary.comparison import headline
from pipeline.summary.decoding import decoding_section
from pipeline.summary.evidence import Evidence
from pipeline.summary.funnel import passages
from pipeline.summary.markdown import UNKNOWN, percent, short, table, whole
from pipeline.summary.prompts import asking_table, prompts_section
from pipeline.summary.run_facts import base_name, contract_line, devices, method, millions
from pipeline.summary.stages import stages_section


def adapter_card(evidence: Evidence, params: Params) -> str:
    """The whole of adapter_card.md."""
    lines = [
        *_front_matter(evidence),
        f"# Adapter card: {params.report.title}",
        "",
        f"A PEFT adapter ({method(evidence)}) that teaches a frozen base to reason step by step"
        " and to end with its answer in `\\boxed{}`.",
        "",
        *_base_section(evidence),
        *_use_section(evidence, params),
        *decoding_section(evidence),
        *_data_section(evidence),
        *_recipe_section(evidence),
        *stages_section(evidence),
        "## Evaluation",
        "",
        *headline(evidence),
        *prompts_section(evidence),
        *_limits_section(evidence, params),
        "## Contract",
        "",
        f"{contract_line(evidence.contract)[:1].upper()}{contract_line(evidence.contract)[1:]}."
        " The table of checks is in `results.md`.",
    ]
    return "\n".join(lines).rstrip() + "\n"


def _front_matter(evidence: Evidence) -> list[str]:
    base = evidence.base
    name = [] if base is None else [f"base_model: {Path(base['path']).name}"]
    if base is not None and base["kind"] == "embedded":
        name = ["base_model: SmolLM2-135M-Instruct"]
    tags = ["library_name: peft", "pipeline_tag: text-generation", "tags: [lora, reasoning]"]
    return ["---", *name, *tags, "---", ""]


def _scale(found: float | list[float] | None) -> str:
    """The factor on the update, the least and the largest of several, or that there is none."""
    if found is None:
        return "none"
    return f"{found[0]:g} to {found[1]:g}" if isinstance(found, list) else f"{found:g}"


def _base_section(evidence: Evidence) -> list[str]:
    export = evidence.export
    rows = [("base", base_name(evidence))]
    if export is not None:
        rows += [
            ("trained elements", f"{whole(export['elements'])} in {export['dtype']}"),
            ("size", f"{export['bytes'] / 2**20:.1f} MiB"),
            ("rank, scale", f"{export['rank']}, {_scale(export['scale'])}"),
            ("modules", ", ".join(f"`{name}`" for name in _listed(export["target_modules"]))),
        ]
        rows += [
            (f"`{name}`", f"SHA-256 {short(digest)}") for name, digest in export["files"].items()
        ]
    lines = ["## What it is", "", *table(("", ""), rows)]
    return [*lines, "It fits this base only: check the fingerprint before you load it.", ""]


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _use_section(evidence: Evidence, params: Params) -> list[str]:
    base = "path/to/base" if evidence.base is None else evidence.base["path"]
    return [
        "## How to use it",
        "",
        "```python",
        "from peft import PeftModel",
        "from transformers import AutoModelForCausalLM, AutoTokenizer",
        "",
        f'base = AutoModelForCausalLM.from_pretrained("{base}")',
        'model = PeftModel.from_pretrained(base, "adapter")',
        f'tokenizer = AutoTokenizer.from_pretrained("{base}")',
        "```",
        "",
        "Put problems as in training, or expect less:",
        "",
        *asking_table(params.prompt),
    ]


def _data_section(evidence: Evidence) -> list[str]:
    lines = ["## Training data", ""]
    if evidence.data is not None:
        sources = [
            (f"`{Path(one['path']).name}`", whole(one["bytes"]), short(one["sha256"]))
            for one in evidence.data["sources"]
        ]
        lines += table(("source", "bytes", "SHA-256"), sources, "lrl")
    steps = [
        f"{one.stage} {whole(one.rows_in)} → {whole(one.rows_out)}" for one in passages(evidence)
    ]
    lines += [f"Rows: {', '.join(steps)}.", ""] if steps else [f"Rows: {UNKNOWN}.", ""]
    overlap = evidence.decontaminated
    if overlap is not None:
        sets = ", ".join(f"{one['name']} ({whole(one['problems'])})" for one in overlap["sets"])
        lines += [
            f"Rows that overlap the evaluation panel or a protected set were removed"
            f" ({whole(sum(overlap['dropped'].values()))} of them; sets and their problems:"
            f" {sets or 'none'}).",
            "",
        ]
    return [*lines, "The licences of base and data are those of their publishers.", ""]


def _recipe_section(evidence: Evidence) -> list[str]:
    train = evidence.train
    if train is None:
        return ["## Recipe", "", "Training did not end; no final record of its recipe.", ""]
    # Stages have a table of their own; a single one is plan.sequence_tokens.
    told = {key: value for key, value in train["recipe"].items() if key != "plan.stages"}
    rows = [(f"`{key}`", f"`{_plain(value)}`") for key, value in told.items()]
    summary = (
        f"{whole(train['steps'])} steps, {whole(train['tokens'])} tokens"
        f" ({whole(train['trained_tokens'])} trained), {train['passes']:.2f} passes,"
        f" on {devices(evidence)}."
    )
    return ["## Recipe", "", summary, "", *table(("setting", "value"), rows)]


def _plain(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return (
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    )


def _limits_section(evidence: Evidence, params: Params) -> list[str]:
    scores, base = evidence.evaluate, evidence.base
    lines = ["## Limits", ""]
    if scores is not None and scores["problems"]:
        lines.append(
            f"- Measured on {scores['problems']} problems of one panel; other kinds of problem,"
            " languages and prompts were not measured."
        )
        lines.append(
            f"- {percent(scores['truncation_rate'])} of its replies were cut at the token limit;"
            f" {percent(scores['no_box_rate'])} had no box, which counts as wrong."
        )
    else:
        lines.append("- Its accuracy was not measured.")
    if evidence.manifest is not None:
        limit = evidence.manifest["sequence_tokens"]
        lines.append(f"- No example was longer than {whole(limit)} tokens, prompt included.")
    if base is not None:
        size = millions(base["shape"]["parameters"])
        lines.append(f"- The base of {size} parameters stays as it is, with its gaps and biases.")
    if params.filter.english_only:
        lines.append("- Trained on English only.")
    return [*lines, "- A worked answer that reads well can still be wrong: check it.", ""]

"""What a person must set to decode as the evaluation did: end tokens and sampling. Pure.

An adapter carries no generation config of its own, so its card prints one. The end
tokens are those of `Chat.generation_settings`, as tokenize has recorded them.
"""

from __future__ import annotations

import json
from typing import Any

from pipeline.base.artifacts import Json
from pipeline.summary.evidence import Evidence
from pipeline.summary.markdown import fenced


def decoding_section(evidence: Evidence) -> list[str]:
    """Lines of the card's section on decoding."""
    lines = ["## How to decode", ""]
    manifest = evidence.manifest
    if manifest is None:
        return [*lines, "Not recorded: the data were not tokenised.", ""]
    lines.append(
        f"Every trained reply ends with `{manifest['end_text']}` (id {manifest['end_id']})."
    )
    lines += [_what_the_base_says(manifest), ""]
    settings = generation_settings(manifest, evidence.evaluate or evidence.baseline)
    if not settings:
        return lines
    entries = ",\n".join(f'  "{key}": {json.dumps(value)}' for key, value in settings.items())
    return [
        *lines,
        "The generation config that the figures below were measured with; pass it to"
        " `model.generate(**inputs, **settings)`, or write it into the `generation_config.json`"
        " of the base that you serve:",
        "",
        *fenced(f"{{\n{entries}\n}}", "json"),
    ]


def _what_the_base_says(manifest: Json) -> str:
    declared = manifest["base_end_ids"]
    if manifest["end_id"] in declared:
        return "The base's generation settings stop there already."
    named = ", ".join(map(str, declared)) or "no end token"
    return (
        f"**The base's generation settings name {named}**, and an adapter carries none of its own:"
        " set `eos_token_id`, or replies run on to the token limit."
    )


def generation_settings(manifest: Json, scores: Json) -> dict[str, Any]:
    """Keys of a generation config: where replies end, and how the evaluation sampled.

    Args:
        manifest: of the packed data.
        scores: of an evaluation, or None: then only the end tokens are known.
    """
    found: dict[str, Any] = dict(manifest.get("generation") or {})
    if not found or scores is None:
        return found
    sampling = scores["sampling"]
    if sampling["temperature"] == 0:
        found["do_sample"] = False
    else:
        # Without a word transformers keeps the 50 most likely tokens; evaluation keeps all.
        found |= {"do_sample": True, "temperature": sampling["temperature"]}
        found |= {"top_p": sampling["top_p"], "top_k": 0}
    return found | {"max_new_tokens": sampling["max_new_tokens"]}

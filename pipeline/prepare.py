"""Stage prepare: the frozen base and the data enter as hashes, after a hard look at them.

Reads the base folder, the files of `data`, `holdout.earlier` and `decontaminate.protected`
and the folder of `semantic.model`, wherever params.yaml says they lie; writes to
work/prepare/: base.json, data.json, prompt.json (the file of `prompt.template`),
protected.json and sentence_model.json, the same bytes as long as none of them changes.
They are apart so that a new protected set or sentence model does not filter the data
again. What is `embedded` is made here when it is missing or damaged. Nothing is ever
written beside a base or data of the user's.

    dvc repro prepare        (or: python -m pipeline.prepare)
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pipeline.base.artifacts import Json, user_path, write_json
from pipeline.base.base_checks import check_base
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache, fingerprint
from pipeline.base.params import EMBEDDED, HOLDOUT, Params
from pipeline.base.stage import run_stage
from pipeline.corpus.listing import describe_file, describe_files, describe_sources
from pipeline.corpus.overlap.sentence_model import find_model
from pipeline.embedded.shipped import BASE, ensure_base
from pipeline.embedded.traces import PANEL, TRACES, ensure_material

OUT = Path("work/prepare")


def describe_base(params: Params, cache: HashCache) -> Json:
    """Kind, place, fingerprint and sizes of the base, which is checked on the way."""
    kind, base = "external", user_path(params.base.path)
    if params.base.path == EMBEDDED:
        kind, base = "embedded", BASE
        ensure_base(base, cache)
    shape = check_base(base, params.prompt)
    return {"kind": kind, "path": str(base), **fingerprint(base, cache), "shape": asdict(shape)}


def describe_data(params: Params, cache: HashCache) -> Json:
    """Sources, panel and earlier hold-outs."""
    data = params.data
    given = data.described()
    if EMBEDDED in (data.panel, *(source.path for source in given)):
        ensure_material(data.embedded_rows, data.embedded_seed)
    sources = [
        source.model_copy(update={"path": str(TRACES)}) if source.path == EMBEDDED else source
        for source in given
    ]
    panel = PANEL if data.panel == EMBEDDED else data.panel
    return {
        "sources": describe_sources(sources, cache),
        "panel": None if panel == HOLDOUT else describe_file("data.panel", panel, cache),
        "earlier": describe_files("holdout.earlier", params.holdout.earlier, cache),
    }


def describe_template(given: str, cache: HashCache) -> Json:
    """Path and hash of the chat template that replaces the base's.

    Raises:
        UserError: the file is missing.
    """
    path = user_path(given)
    if not path.is_file():
        raise UserError(f"prompt.template: {path} is not a file", "Correct the path, or set null.")
    return {"path": str(path), "sha256": cache.sha256(path)}


def main(params: Params) -> None:
    """Check and describe data and base; faults of the data come first, they cost less."""
    cache = HashCache()
    write_json(OUT / "data.json", describe_data(params, cache))
    template = params.prompt.template
    described = None if template is None else describe_template(template, cache)
    write_json(OUT / "prompt.json", described)
    protected = params.decontaminate.protected
    write_json(OUT / "protected.json", describe_files("decontaminate.protected", protected, cache))
    given = params.semantic.model
    model = None if given is None else find_model(given, cache).summary()
    write_json(OUT / "sentence_model.json", model)
    write_json(OUT / "base.json", describe_base(params, cache))


if __name__ == "__main__":
    raise SystemExit(run_stage("prepare", main))

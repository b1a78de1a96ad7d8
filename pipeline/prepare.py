"""Stage prepare: the frozen base and the data enter as hashes, after a hard look at them.

Reads the base folder and the files of `data` and `decontaminate.protected`, wherever
params.yaml says they lie; writes work/prepare/base.json and work/prepare/data.json,
the same bytes as long as none of them changes. What is `embedded` is made here when
it is missing or damaged. Nothing is ever written beside a base or data of the user's.

    dvc repro prepare        (or: python -m pipeline.prepare)
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from pipeline.base.artifacts import Json, user_path, write_json
from pipeline.base.base_checks import check_base
from pipeline.base.fingerprint import HashCache, fingerprint
from pipeline.base.params import EMBEDDED, HOLDOUT, Params
from pipeline.base.stage import run_stage
from pipeline.corpus.listing import describe_file, describe_files
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
    """Kind, sources, panel and protected files of the data."""
    data = params.data
    if EMBEDDED in (data.path, data.panel):
        ensure_material(data.embedded_rows, data.embedded_seed)
    kind, source = ("embedded", TRACES) if data.path == EMBEDDED else ("external", data.path)
    panel = PANEL if data.panel == EMBEDDED else data.panel
    return {
        "kind": kind,
        "sources": describe_files("data.path", [source], cache),
        "panel": None if panel == HOLDOUT else describe_file("data.panel", panel, cache),
        "protected": describe_files(
            "decontaminate.protected", params.decontaminate.protected, cache
        ),
    }


def main(params: Params) -> None:
    """Check and describe data and base; faults of the data come first, they cost less."""
    cache = HashCache()
    write_json(OUT / "data.json", describe_data(params, cache))
    write_json(OUT / "base.json", describe_base(params, cache))


if __name__ == "__main__":
    raise SystemExit(run_stage("prepare", main))

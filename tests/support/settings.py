"""Params for tests: the shipped params.yaml with dotted overrides."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipeline.base.params import Params, load_params

SHIPPED = Path(__file__).resolve().parents[2] / "presets/demo.yaml"
"""Equals params.yaml as shipped; a user may have edited the latter."""


def write_params(folder: Path, **overrides: Any) -> Path:
    """Write params.yaml into `folder`; `**{"train.steps": 4}` changes one key."""
    yaml = YAML()
    tree = yaml.load(SHIPPED.read_text(encoding="utf-8"))
    for dotted, value in overrides.items():
        section, _, key = dotted.partition(".")
        if key not in tree[section]:
            raise KeyError(f"params.yaml has no {dotted}")
        tree[section][key] = value
    path = folder / "params.yaml"
    with path.open("w", encoding="utf-8") as stream:
        yaml.dump(tree, stream)
    return path


def make_params(folder: Path | None = None, **overrides: Any) -> Params:
    """The same as a `Params` object; `folder` keeps the file, else it is thrown away."""
    if folder is not None:
        return load_params(write_params(folder, **overrides))
    with tempfile.TemporaryDirectory() as temporary:
        return load_params(write_params(Path(temporary), **overrides))

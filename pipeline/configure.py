"""Change params.yaml without losing its comments; not a stage.

    python -m pipeline.configure --preset NAME [--force]    make use PRESET=NAME
    python -m pipeline.configure --auto [--base FOLDER] [--data PATH] [--panel FILE]

Reads presets/*.yaml, writes params.yaml. `--auto` is what train.sh runs: while
params.yaml is as shipped and the machine holds the inputs of a known job, that
job's preset is taken, and said.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from pipeline.base.artifacts import write_text, writing_text
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_OK, UserError
from pipeline.base.params import EMBEDDED, HOLDOUT, load_params

PARAMS = Path("params.yaml")
PRESETS = Path("presets")
SHIPPED = "demo"
"""The preset that equals params.yaml as shipped."""

HUB = "hub:"
"""Begins a data set that is fetched by name and commit."""
JOB_BASE, JOB_DATA = Path("/models/qwen3-14b"), Path("/app/data/train.jsonl")
"""Inputs of the known job, at the places where its machine holds them."""
JOB_PRESETS = (
    ("qwen3-14b-h100x8", 8, 70.0),
    ("qwen3-14b-h200x1", 1, 70.0),
    ("qwen3-14b-t4x2", 0, 0.0),
)
"""Preset, fewest GPUs and least memory of each in GiB; the first that fits is taken."""


def preset_names(folder: Path = PRESETS) -> list[str]:
    """Names that `make use` knows."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


def values(path: Path) -> Any:
    """The file's values without its comments; None when it is missing or broken YAML."""
    try:
        return load_params(path).model_dump()
    except UserError:
        return None


def use_preset(name: str, *, force: bool) -> str:
    """Copy a preset over params.yaml; return what was done.

    Raises:
        UserError: the name is unknown, or params.yaml differs from every preset.
    """
    names = preset_names()
    if name not in names:
        raise UserError(f"PRESET={name}: unknown preset", f"Choose one of: {', '.join(names)}.")
    unedited = not PARAMS.exists() or any(
        values(PARAMS) == values(PRESETS / f"{known}.yaml") for known in names
    )
    if not unedited and not force:
        raise UserError(
            f"{PARAMS}: differs from every preset, so it holds changes of yours",
            f"Keep a copy if you need it, then: make use PRESET={name} FORCE=1.",
        )
    load_params(PRESETS / f"{name}.yaml")
    write_text(PARAMS, (PRESETS / f"{name}.yaml").read_text(encoding="utf-8"))
    return f"{PARAMS} is now presets/{name}.yaml"


def gpu_memories() -> list[float]:
    """Memory of every visible GPU in GiB; empty without nvidia-smi."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = done.stdout.split() if done.returncode == 0 else []
    return [float(line) / 1024 for line in lines if line.isdigit()]


def job_preset(memories: list[float], names: list[str]) -> str | None:
    """The preset of the known job that these GPUs can carry, among those that there are."""
    for name, count, gib in JOB_PRESETS:
        fits = len(memories) >= count and all(memory >= gib for memory in memories)
        if fits and name in names:
            return name
    return None


def is_as_shipped() -> bool:
    """Whether nobody has chosen or changed anything yet."""
    return values(PARAMS) is not None and values(PARAMS) == values(PRESETS / f"{SHIPPED}.yaml")


def take_job_preset() -> str | None:
    """Take the known job's preset when its inputs are here; None when there is no reason to."""
    if not (is_as_shipped() and JOB_BASE.is_dir() and JOB_DATA.is_file()):
        return None
    name = job_preset(gpu_memories(), preset_names())
    if name is None:
        return None
    use_preset(name, force=False)
    return f"found {JOB_BASE} and {JOB_DATA}, and {PARAMS} as shipped: took presets/{name}.yaml"


def round_trip() -> YAML:
    """A reader and writer that gives back what it was not asked to change."""
    yaml = YAML()
    yaml.preserve_quotes = True
    yaml.width = 200
    yaml.representer.add_representer(
        type(None), lambda writer, _: writer.represent_scalar("tag:yaml.org,2002:null", "null")
    )
    return yaml


def _shown(source: Any) -> str:
    """A source of data.sources, which may be a path or a mapping, as its path."""
    return str(source["path"] if isinstance(source, dict) else source)


def override(changes: dict[tuple[str, str], str]) -> list[str]:
    """Set keys of params.yaml in place, comments kept; return a line for each that changed."""
    load_params(PARAMS)
    yaml = round_trip()
    tree = yaml.load(PARAMS.read_text(encoding="utf-8"))
    said = []
    for (section, key), value in changes.items():
        old = tree[section][key]
        if isinstance(old, list):
            changed, shown = old != [value], ", ".join(map(_shown, old))
        else:
            changed, shown = old != value, old
        if changed:
            said.append(f"{PARAMS}: {section}.{key}: {shown} -> {value}")
            if isinstance(old, list):
                old[:] = [value]
            else:
                tree[section][key] = value
    if said:
        with writing_text(PARAMS) as stream:
            yaml.dump(tree, stream)
    return said


def located(name: str, value: str, caller: Path) -> str:
    """A path as given from the caller's folder, made absolute; special words stay.

    Raises:
        UserError: nothing is there.
    """
    if value in (EMBEDDED, HOLDOUT) or value.startswith(HUB):
        return value
    path = (caller / value).absolute()
    if not path.exists() and not any(Path("/").glob(str(path.relative_to("/")))):
        raise UserError(
            f"{name.upper()}={value}: no such file or folder",
            f"Correct the path; {PARAMS} is unchanged.",
        )
    return str(path)


def run(chosen: argparse.Namespace) -> list[str]:
    """Do what the options say; return the lines to print."""
    if chosen.preset is not None:
        return [use_preset(chosen.preset, force=chosen.force)]
    keys = {"base": ("base", "path"), "data": ("data", "sources"), "panel": ("data", "panel")}
    changes = {
        key: located(name, value, chosen.caller)
        for name, key in keys.items()
        if (value := getattr(chosen, name))
    }
    said = []
    if chosen.auto and not changes and (taken := take_job_preset()):
        said.append(taken)
    return said + override(changes)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m pipeline.configure", description=__doc__)
    parser.add_argument("--preset", help="name of a file in presets/")
    parser.add_argument("--force", action="store_true", help="also over an edited params.yaml")
    parser.add_argument("--auto", action="store_true", help="recognise a known job")
    parser.add_argument("--base", help="base.path")
    parser.add_argument("--data", help="data.sources, as its only entry")
    parser.add_argument("--panel", help="data.panel")
    parser.add_argument("--caller", type=Path, default=Path(), help="where paths start")
    try:
        for line in run(parser.parse_args(arguments)):
            print(f"configure: {line}")
    except UserError as error:
        print(f"configure: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(main())

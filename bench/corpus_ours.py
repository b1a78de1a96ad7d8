"""The corpus stages of this project on the rows of `bench.corpus`, one core, measured.

A run folder holds params.yaml (the shipped one with a few keys changed), what `prepare` would
have written, and what the stages write. Called by `bench.corpus`.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from bench.corpus_process import ROOT, Run, run_watched
from pipeline.base.artifacts import read_json, write_json
from pipeline.base.fingerprint import HashCache
from pipeline.base.params_corpus import SourceParams
from pipeline.base.records import read_lines
from pipeline.corpus.listing import describe_file, describe_files, describe_sources

STAGES = ("filter", "semantic", "decontaminate", "select")
SEQUENCE_TOKENS = 16_384
TOKENS = re.compile(rb',"tokens":(\d+),"group":')
BUDGET_SHARE = 0.5
"""Token budget of the selection, as a share of what was kept."""
PANEL = '{"problem": "What is one and one?", "answer": "2"}\n'
"""A panel of one problem, so that all protected problems meet the decontamination alone."""


@dataclass(frozen=True, slots=True)
class StageRun:
    """One stage on one folder."""

    run: Run
    processor_seconds: float
    """Of the stage and its workers, without the start of Python and the stage's imports; what
    others do meanwhile adds nothing."""
    seconds: float
    """The same, by the clock."""
    peak_bytes: int
    """Of the stage's own process."""
    spread: dict[str, float]
    """Seconds of its passes over the shards, which workers share."""
    serial: dict[str, float]
    """Seconds of what its own process does."""


def write_params(folder: Path, changes: dict[str, dict[str, Any]]) -> None:
    """The shipped params.yaml with other values of some keys."""
    yaml = YAML()
    tree = yaml.load((ROOT / "presets/demo.yaml").read_text(encoding="utf-8"))
    for section, values in changes.items():
        tree[section] |= values
    with (folder / "params.yaml").open("w", encoding="utf-8") as stream:
        yaml.dump(tree, stream)


def make_folder(folder: Path, rows: Path, tokenizer: Path, protected: Path) -> Path:
    """A run folder for a file of rows."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "panel.jsonl").write_text(PANEL)
    files = sorted(map(str, protected.glob("*.jsonl")))
    data = {"sources": [str(rows)], "panel": str(folder / "panel.jsonl")}
    write_params(
        folder,
        {
            "base": {"path": str(tokenizer)},
            "data": data,
            "executor": {"workers": 1},
            "decontaminate": {"protected": files},
        },
    )
    cache = HashCache(folder / "hashes.json")
    listed = {
        "sources": describe_sources([SourceParams(path=str(rows))], cache),
        "panel": describe_file("data.panel", folder / "panel.jsonl", cache),
        "earlier": [],
    }
    write_json(folder / "work/prepare/data.json", listed)
    protected_files = describe_files("decontaminate.protected", files, cache)
    write_json(folder / "work/prepare/protected.json", protected_files)
    write_json(folder / "work/prepare/sentence_model.json", None)
    write_json(folder / "work/prepare/base.json", {"kind": "external", "path": str(tokenizer)})
    return folder


def first_rows(rows: Path, count: int, out: Path) -> Path:
    """The first rows of a file as a file."""
    with rows.open("rb") as stream, out.open("wb") as target:
        target.writelines(islice(stream, count))
    return out


def tokens_of(kept: Path) -> int:
    """Tokens of all rows of a file of traces."""
    return sum(int(TOKENS.findall(line)[-1]) for line in read_lines(kept))


def run_stage(name: str, folder: Path, core: int) -> StageRun:
    """Run one stage in a fresh process."""
    if name == "select":
        tokens = tokens_of(folder / "work/decontaminate/kept.jsonl")
        plan = {"sequence_tokens": SEQUENCE_TOKENS, "token_budget": int(tokens * BUDGET_SHARE)}
        write_json(folder / "work/plan/corpus.json", plan)
    command = [sys.executable, "-m", "bench.corpus_stage", name]
    run = run_watched(command, folder, core, folder / f"{name}.log")
    noted = read_json(folder / f"steps-{name}.json")
    return StageRun(run, run.processor_seconds - noted.pop("start_seconds"), **noted)


def run_all(folder: Path, core: int) -> dict[str, StageRun]:
    """All corpus stages, one after another."""
    return {name: run_stage(name, folder, core) for name in STAGES}


def cut_kept(folder: Path, parts: int, out: Path) -> list[Path]:
    """Run folders that share what `filter` kept, for the decontamination side by side."""
    kept = folder / "work/filter/kept.jsonl"
    with kept.open("rb") as stream:
        total = sum(1 for _ in stream)
    made = []
    with kept.open("rb") as stream:
        for part in range(parts):
            target = out / f"part-{part}"
            (target / "work/filter").mkdir(parents=True, exist_ok=True)
            for name in ("params.yaml", "work/filter/panel.jsonl"):
                (target / name).write_bytes((folder / name).read_bytes())
            for name in ("work/prepare", "work/semantic"):
                if not (target / name).exists():
                    (target / name).symlink_to((folder / name).resolve())
            with (target / "work/filter/kept.jsonl").open("wb") as wanted:
                end = total * (part + 1) // parts - total * part // parts
                wanted.writelines(islice(stream, end))
            made.append(target)
    return made

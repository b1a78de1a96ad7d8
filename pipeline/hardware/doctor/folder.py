"""Reads a run's folder into a record: one of ours (runs/<key>) or another trainer's.

Called by the diagnose command and, through it, when training fails. Of our runs it reads
job.json, steps.jsonl, journal.jsonl, hangs.jsonl, the logs and the stacks, and beside
them the packed data's manifest and the base's config.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipeline.base.errors import UserError
from pipeline.hardware.doctor.files import LOG_ENDINGS, read_file, read_log, read_text
from pipeline.hardware.doctor.names import keep_settings, line_of
from pipeline.hardware.doctor.record import Line, Record, Setting

FIELDS = {
    "micro_batch": "plan.micro_batch_sequences",
    "recompute": "plan.gradient_checkpointing",
    "sequence_tokens": "plan.sequence_tokens",
    "compute_dtype": "train.precision",
    "max_steps": "train.steps",
    "quantization": "train.base_quantization",
}
"""Our settings whose value stands in job.json and whose field stands in params.yaml."""

OTHERS = ("trainer_state.json", "trainer_log.jsonl", "config.json", "params.yaml")
"""Files of other trainers, read wherever they lie in the folder."""


def read_folder(folder: Path) -> Record:
    """Everything that a folder tells.

    Raises:
        UserError: it holds no file that the doctor knows.
    """
    record = Record()
    if (folder / "job.json").is_file():
        _read_ours(record, folder)
    else:
        for path in _theirs(folder):
            read_file(record, path, str(path.relative_to(folder)))
    if not record.kinds:
        raise UserError(
            f"{folder}: no job.json, trainer_state.json, log or table of figures",
            "Name the folder of a run (runs/<key>), or a file with LOG=.",
        )
    return record


def _theirs(folder: Path) -> Iterator[Path]:
    known = [path for name in OTHERS for path in sorted(folder.rglob(name))]
    state = [path for path in known if path.name == "trainer_state.json"][-1:]
    yield from (path for path in known if path.name != "trainer_state.json")
    yield from state
    listed = sorted(folder.iterdir()) if folder.is_dir() else []
    for path in listed:
        ending = path.suffix.lower()
        if path not in known and ending in LOG_ENDINGS | {".csv", ".json", ".yaml", ".yml"}:
            yield path


def _read_ours(record: Record, run: Path) -> None:
    text = read_text(run / "job.json")
    try:
        job = json.loads(text)
        training, recipe = dict(job["training"]), dict(job["train"])
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{run / 'job.json'}: damaged, or of another version",
            "Run `python -m pipeline.train` again: it writes the file anew.",
        ) from None
    record.kinds.append("run of this project")
    lines = text.split("\n")
    for name in ("rank", "stages"):
        training.pop(name, None)
    keep_settings(record, "job.json", lines, training, "plan.")
    keep_settings(record, "job.json", lines, {"first_total": job.get("first_total")})
    keep_settings(record, "job.json", lines, recipe, "train.")
    for name, key in FIELDS.items():
        if name in record.settings:
            found = record.settings[name]
            record.settings[name] = Setting(key, found.value, found.line)
    for name in ("steps.jsonl", "trainer_log.jsonl"):
        if (run / name).is_file():
            read_file(record, run / name, name)
    _read_events(record, run)
    _read_beside(record, run, job)


def _read_events(record: Record, run: Path) -> None:
    """Journal, hangs, rejected checkpoints, logs and stacks, as lines of text."""
    for name in ("journal.jsonl", "hangs.jsonl"):
        if (run / name).is_file():
            read_log(record, name, read_text(run / name))
    for path in sorted(run.glob("checkpoint-*/COMPLETE.rejected")):
        record.lines.append(Line(str(path.relative_to(run)), 1, "checkpoint rejected"))
    for path in sorted(run.glob("checkpoint-*/state.json")):
        keep_loss_scale(record, path, str(path.relative_to(run)))
    logs = [path for path in run.rglob("*") if path.suffix.lower() in LOG_ENDINGS]
    for path in sorted(path for path in logs if path.is_file() and "profile" not in path.parts):
        read_file(record, path, str(path.relative_to(run)))


def keep_loss_scale(record: Record, path: Path, name: str) -> None:
    """The fp16 loss scale of a checkpoint; the newest one stays."""
    text = read_text(path)
    try:
        scale = json.loads(text).get("loss_scale")
    except (ValueError, AttributeError):
        return
    if isinstance(scale, int | float):
        place = line_of(name, text.split("\n"), "loss_scale")
        record.settings["loss_scale"] = Setting("loss_scale", float(scale), place)


def _read_beside(record: Record, run: Path, job: dict[str, object]) -> None:
    """The manifest of the packed data and the base's config.json, if they are still there."""
    root = run.absolute().parent.parent
    data, base = root / str(job.get("data")), root / str(job.get("base"))
    for file in (data / "manifest.json", base / "config.json"):
        if not file.is_file():
            continue
        name = f"{file.parent.name}/{file.name}"
        text = read_text(file)
        try:
            tree = json.loads(text)
        except ValueError:
            continue
        lines = text.split("\n")
        keep_settings(record, name, lines, tree)
        if file.name == "manifest.json":
            _keep_arrays(record, name, lines, data)
        elif "rope_theta" not in text:
            record.put(
                "rope_theta", Setting("rope_theta", None, line_of(name, lines, "model_type"))
            )


def _keep_arrays(record: Record, name: str, lines: list[str], folder: Path) -> None:
    """What the packed arrays really hold, to compare with what the manifest says."""
    place = line_of(name, lines, "documents")
    lengths, trained = folder / "document_lengths.npy", folder / "trained.npy"
    try:
        count = float(len(np.load(lengths, mmap_mode="r", allow_pickle=False)))
        with_loss = float(np.load(trained, mmap_mode="r", allow_pickle=False).sum())
    except (OSError, ValueError):
        # Not there any more, or torn: then the manifest alone speaks.
        return
    record.put("stored_documents", Setting("document_lengths", count, place))
    place = line_of(name, lines, "trained_tokens")
    record.settings["trained_tokens"] = Setting("trained_tokens", with_loss, place)

"""Reads any one file of a training run into a record, whoever wrote it.

Called by folder.py and by the diagnose command. Knows trainer_state.json and other JSON
results, JSON lines, CSV, YAML and plain text; what it does not know is read as text.
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from pipeline.base.errors import UserError
from pipeline.hardware.doctor.names import figures_of, keep_settings, line_of
from pipeline.hardware.doctor.record import Line, Record, Row, Setting
from pipeline.hardware.doctor.text import rows_of

MOST_BYTES = 256 * 2**20
"""Of one file; a larger log is read from its end, where it tells what went wrong."""

LOG_ENDINGS = frozenset({".log", ".txt", ".out", ".err"})


def read_text(path: Path) -> str:
    """A file's text; bytes that are no UTF-8 are replaced.

    Raises:
        UserError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, io.SEEK_END)
            stream.seek(max(0, size - MOST_BYTES))
            return stream.read().decode("utf-8", errors="replace")
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror})", "Name a log, a config or a run's folder."
        ) from None


def read_file(record: Record, path: Path, name: str) -> None:
    """Add one file to a record.

    Args:
        name: what the file is called in evidence.
    """
    text = read_text(path)
    ending = path.suffix.lower()
    if ending == ".json":
        _read_json(record, name, text)
    elif ending == ".jsonl":
        read_json_lines(record, name, text)
    elif ending == ".csv":
        _read_csv(record, name, text)
    elif ending in (".yaml", ".yml"):
        _read_yaml(record, name, text)
    else:
        read_log(record, name, text)


def read_log(record: Record, name: str, text: str) -> None:
    """Add a plain text log; a progress bar's carriage returns begin lines of their own."""
    lines = [
        Line(name, number, part)
        for number, whole in enumerate(text.split("\n"), start=1)
        for part in whole.split("\r")
        if part.strip()
    ]
    record.kinds.append("text log")
    record.lines.extend(lines)
    record.rows.extend(rows_of(lines))


def read_json_lines(record: Record, name: str, text: str) -> None:
    """Add a file of one JSON object a line; a torn last line is passed over."""
    record.kinds.append("JSON lines")
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            tree = json.loads(line)
        except ValueError:
            continue
        if isinstance(tree, dict) and (values := figures_of(tree)):
            record.rows.append(Row(values, Line(name, number, line)))


def _read_json(record: Record, name: str, text: str) -> None:
    try:
        tree = json.loads(text)
    except ValueError:
        # Cut off while it was written, or no JSON at all.
        read_log(record, name, text)
        return
    lines = text.split("\n")
    if not isinstance(tree, dict):
        read_log(record, name, text)
    elif isinstance(tree.get("log_history"), list):
        record.kinds.append("trainer_state.json")
        _state(record, name, lines, tree)
    elif isinstance(tree.get("train_info"), dict):
        record.kinds.append("result of a PEFT comparison")
        keep_settings(record, name, lines, tree.get("run_info"))
        keep_settings(record, name, lines, tree["train_info"])
        _history(record, name, lines, tree["train_info"].get("metrics"))
        _reason(record, name, lines, tree.get("run_info"))
    elif isinstance(tree.get("metrics"), dict):
        record.kinds.append("result of a benchmark")
        keep_settings(record, name, lines, tree)
        _measured(record, name, lines, tree["metrics"])
        _reason(record, name, lines, tree.get("config"))
    else:
        record.kinds.append("configuration")
        keep_settings(record, name, lines, tree)


def _state(record: Record, name: str, lines: list[str], tree: dict[str, object]) -> None:
    """The Trainer's state: train_batch_size there is that of one device."""
    keep_settings(record, name, lines, {k: v for k, v in tree.items() if k != "log_history"})
    _history(record, name, lines, tree["log_history"])
    for key in ("global_step", "epoch"):
        value = tree.get(key)
        if isinstance(value, int | float):
            record.put(f"done_{key}", Setting(key, float(value), line_of(name, lines, key)))


def _history(record: Record, name: str, lines: list[str], history: object) -> None:
    """Rows of a list of objects, each placed at the line of its step."""
    at, group = 0, ""
    for tree in history if isinstance(history, list) else []:
        if not isinstance(tree, dict):
            continue
        place = line_of(name, lines, f'"step": {tree.get("step")}', at)
        at = place.number
        short = {k: v for k, v in tree.items() if isinstance(v, int | float | str)}
        where = Line(name, place.number, json.dumps(short))
        values = figures_of(tree)
        # Of several evaluation sets the first one is followed: their losses do not compare.
        group = group or next(filter(_is_group_loss, tree), "")
        held = tree.get(group)
        if isinstance(held, int | float):
            values.setdefault("eval_loss", float(held))
        if values.keys() - {"step", "epoch"}:
            record.rows.append(Row(values, where))


def _is_group_loss(key: str) -> bool:
    """`eval_<set>_loss`: the Trainer's name when it evaluates several sets."""
    return key.startswith("eval_") and key.endswith("_loss") and key != "eval_loss"


def _measured(record: Record, name: str, lines: list[str], metrics: dict[str, object]) -> None:
    """Means of a benchmark: {"mfu": {"mean": 31.0}, …}, MFU in per cent."""
    for key, tree in metrics.items():
        mean = tree.get("mean") if isinstance(tree, dict) else None
        if isinstance(mean, int | float):
            record.put(f"mean_{key}", Setting(key, float(mean), line_of(name, lines, key)))


def _reason(record: Record, name: str, lines: list[str], about: object) -> None:
    """The error that a result file tells of, as a line of a log."""
    for key in ("error_reason", "error_msg"):
        said = about.get(key) if isinstance(about, dict) else None
        if isinstance(said, str) and said:
            record.lines.append(Line(name, line_of(name, lines, key).number, said))


def _read_csv(record: Record, name: str, text: str) -> None:
    """A table with a header; `total_steps` without a `step` counts the steps so far."""
    record.kinds.append("table of figures")
    reader = csv.DictReader(io.StringIO(text))
    counted = "step" not in (reader.fieldnames or ())
    raw = text.split("\n")
    for number, tree in enumerate(reader, start=2):
        values = figures_of({key: value for key, value in tree.items() if key and value})
        if counted and "total_steps" in values:
            values["step"] = values.pop("total_steps")
        if values:
            record.rows.append(Row(values, Line(name, number, raw[number - 1])))


def _read_yaml(record: Record, name: str, text: str) -> None:
    try:
        tree = YAML(typ="safe").load(text)
    except YAMLError:
        read_log(record, name, text)
        return
    record.kinds.append("configuration")
    keep_settings(record, name, text.split("\n"), tree)

"""Contract terms on the folder and on adapter_config.json."""

from __future__ import annotations

import stat
import unicodedata
from pathlib import Path

from pipeline.base.adapter_format import ADAPTER_FILES, CONFIG_FILE, CONFIG_KEYS, COVERED
from pipeline.base.safetensors_file import told
from pipeline.release.adapter_config import largest_rank, value_fault
from pipeline.release.case import Broken, Case, Finding, Rule, not_applicable

PICKLE_SUFFIXES = frozenset(
    ".bin .pt .pth .pkl .pickle .ckpt .joblib .dill .npy .npz .t7 .mar .zip".split()
)
"""Suffixes of formats that can run code when they are opened."""

SPECIAL_BITS = {stat.S_ISUID: "set-user-ID", stat.S_ISGID: "set-group-ID", stat.S_ISVTX: "sticky"}
"""Permission bits that mean nothing on data and something to a system that unpacks it."""


def folder(case: Case) -> Finding:
    """The adapter is a folder itself, not a link to one."""
    if case.folder.is_symlink() and not case.links_allowed:
        raise Broken(f"{case.folder} is a symbolic link to {case.folder.readlink()}")
    if not case.folder.is_dir():
        raise Broken(f"{case.folder} is not a folder")
    return Finding()


def file_kinds(case: Case) -> Finding:
    """Only readable regular files, each with one name."""
    for path in sorted(case.folder.iterdir()):
        _refuse_kind(path, case.links_allowed)
        try:
            path.open("rb").close()
        except PermissionError:
            raise Broken(f"{path.name!r} cannot be read") from None
    note = "links to the DVC cache allowed here" if case.links_allowed else ""
    return Finding(detail=note)


def _refuse_kind(path: Path, links_allowed: bool) -> None:
    if path.is_symlink():
        if not links_allowed or not path.is_file():
            raise Broken(f"{path.name!r} is a symbolic link to {str(path.readlink())!r}")
        return
    status = path.lstat()
    if stat.S_ISDIR(status.st_mode):
        raise Broken(f"{path.name!r} is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise Broken(f"{path.name!r} is not a regular file")
    if status.st_nlink != 1 and not links_allowed:
        raise Broken(f"{path.name!r} has {status.st_nlink} hard links", status.st_nlink, 1)
    special = [name for bit, name in SPECIAL_BITS.items() if status.st_mode & bit]
    if special:
        raise Broken(f"{path.name!r} has the {special[0]} bit")
    if not status.st_mode & stat.S_IRUSR:
        raise Broken(f"{path.name!r} cannot be read by its owner", oct(status.st_mode & 0o777))


def no_pickle(case: Case) -> Finding:
    """No file of a format that can run code."""
    for path in sorted(case.folder.iterdir()):
        if path.suffix.lower() in PICKLE_SUFFIXES:
            raise Broken(f"{path.name!r} is of a format that can run code when opened")
    return Finding()


def file_set(case: Case) -> Finding:
    """Exactly the two files."""
    found = {path.name for path in case.folder.iterdir()}
    same = _same_but_for_case(found)
    if same:
        raise Broken(f"{same[0]!r} and {same[1]!r} are one file where names have no case")
    missing, surprise = sorted(set(ADAPTER_FILES) - found), sorted(found - set(ADAPTER_FILES))
    if missing:
        raise Broken(f"{missing[0]} is missing", len(found), len(ADAPTER_FILES))
    if surprise:
        raise Broken(
            f"{', '.join(map(repr, surprise))}: surprise file", len(found), len(ADAPTER_FILES)
        )
    return Finding(len(found), len(ADAPTER_FILES))


def _same_but_for_case(names: set[str]) -> tuple[str, str] | None:
    """Two names that a file system without case, or one that normalises, would merge."""
    seen: dict[str, str] = {}
    for name in sorted(names):
        key = unicodedata.normalize("NFKC", name).casefold()
        if key in seen:
            return seen[key], name
        seen[key] = name
    return None


def size(case: Case) -> Finding:
    """Bytes of the folder."""
    gib = sum((case.folder / name).stat().st_size for name in ADAPTER_FILES) / 2**30
    if gib > case.limits.max_gib:
        raise Broken(f"{gib:.3f} GiB in all", round(gib, 3), case.limits.max_gib)
    return Finding(round(gib, 6), case.limits.max_gib)


def config_json(case: Case) -> Finding:
    """adapter_config.json is one strict JSON object."""
    return Finding(len(case.config))


def peft_type(case: Case) -> Finding:
    """The adapter is of a type that the contract covers."""
    found = case.config.get("peft_type")
    if found not in COVERED:
        raise Broken(f"`peft_type` = {told(found)} is not covered, only {', '.join(COVERED)} are")
    return Finding(found)


def config_keys(case: Case) -> Finding:
    """Every key is one that PEFT 0.9.0 accepts."""
    unknown = sorted(case.config.keys() - CONFIG_KEYS[case.config["peft_type"]])
    if unknown:
        key = unknown[0]
        more = f" (and {len(unknown) - 1} more)" if len(unknown) > 1 else ""
        detail = f"PEFT 0.9.0 does not know {told(key)} = {told(case.config[key])}{more}"
        raise Broken(detail, len(unknown), 0)
    return Finding(0, 0)


def config_values(case: Case) -> Finding:
    """Every value is one that the contract allows."""
    fault = value_fault(case.config)
    if fault:
        raise Broken(fault)
    return Finding(detail="DoRA" if case.config.get("use_dora") else "")


def config_rank(case: Case) -> Finding:
    """The largest rank that the config names."""
    if case.config["peft_type"] == "IA3":
        return not_applicable("IA3 has no rank")
    rank, limit = largest_rank(case.config), case.limits.max_rank
    if rank > limit:
        raise Broken(f"rank {rank} in {CONFIG_FILE}", rank, limit)
    return Finding(rank, limit)


FILE_RULES = (
    Rule("folder", "adapter is a real folder", (), folder),
    Rule("file-kinds", "only readable regular files, one link each", ("folder",), file_kinds),
    Rule("no-pickle", "no file that can run code", ("file-kinds",), no_pickle),
    Rule("file-set", "exactly the two files", ("no-pickle",), file_set),
    Rule("size", "GiB of the folder", ("file-set",), size),
    Rule("config-json", "config is one strict JSON object", ("file-set",), config_json),
    Rule("peft-type", "a native type that is covered", ("config-json",), peft_type),
    Rule("config-keys", "only keys of PEFT 0.9.0", ("peft-type",), config_keys),
    Rule("config-values", "only allowed values", ("config-keys",), config_values),
    Rule("config-rank", "largest rank in the config", ("config-values",), config_rank),
)

"""Adapters that must not pass, each made from a good one by one change. No torch.

`ATTACKS` names them with the term of the contract that must refuse them and a part of
what it must say. Tests and bench/contract.py judge them; a change gets the folder of a
good adapter of rank 4 (tests.support.adapters) and spoils it.
"""

from __future__ import annotations

import json
import math
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import load_file, save_file

from pipeline.base.adapter_format import CONFIG_FILE, KEY_PREFIX, WEIGHTS_FILE, lora_key
from pipeline.base.safetensors_file import BYTES_PER_ELEMENT

Change = Callable[[Path], object]
Tree = dict[str, Any]

Q0 = "model.layers.0.self_attn.q_proj"
A, B = lora_key(Q0, "A"), lora_key(Q0, "B")


class Attack(NamedTuple):
    """One bad adapter and the one right reason against it."""

    apply: Change
    rule: str
    reason: str


def raw(text: bytes, data: bytes = b"", length: int | None = None) -> Change:
    """Weights of this header, this data and, if given, a false length."""
    size = (len(text) if length is None else length).to_bytes(8, "little")
    return lambda folder: (folder / WEIGHTS_FILE).write_bytes(size + text + data)


def parts(folder: Path) -> tuple[Tree, bytes]:
    """Header and data of an adapter's weights."""
    whole = (folder / WEIGHTS_FILE).read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    return json.loads(whole[8:end]), whole[end:]


def header(change: Callable[[Tree], object], more: bytes = b"") -> Change:
    """A header that lies about its data."""

    def apply(folder: Path) -> None:
        tree, data = parts(folder)
        change(tree)
        raw(json.dumps(tree).encode(), data + more)(folder)

    return apply


def header_text(change: Callable[[bytes], bytes]) -> Change:
    """A header whose text JSON libraries would not write."""

    def apply(folder: Path) -> None:
        tree, data = parts(folder)
        raw(change(json.dumps(tree).encode()), data)(folder)

    return apply


def retyped(code: str) -> Change:
    """A well-formed file in which every tensor is of another type."""

    def apply(folder: Path) -> None:
        tree, _ = parts(folder)
        end = 0
        for info in tree.values():
            begin, end = end, end + math.prod(info["shape"]) * BYTES_PER_ELEMENT[code]
            info.update(dtype=code, data_offsets=[begin, end])
        raw(json.dumps(tree).encode(), bytes(end))(folder)

    return apply


def entry(**fields: Any) -> Change:
    """The first A of the file, described otherwise."""
    return header(lambda tree: tree[A].update(fields))


def tensors(change: Callable[[Tree], object]) -> Change:
    """A well-formed file of other tensors."""

    def apply(folder: Path) -> None:
        found = load_file(folder / WEIGHTS_FILE)
        change(found)
        save_file(found, folder / WEIGHTS_FILE)

    return apply


def put(name: str, value: Any) -> Change:
    return tensors(lambda found: found.update({name: np.asarray(value, np.float32)}))


def rename(old: str, new: str) -> Change:
    return tensors(
        lambda found: [found.update({n.replace(old, new): found.pop(n)}) for n in list(found)]
    )


def config(**changes: Any) -> Change:
    """Other values in adapter_config.json."""

    def apply(folder: Path) -> None:
        found = json.loads((folder / CONFIG_FILE).read_text())
        (folder / CONFIG_FILE).write_text(json.dumps({**found, **changes}))

    return apply


def config_without(key: str) -> Change:
    def apply(folder: Path) -> None:
        found = json.loads((folder / CONFIG_FILE).read_text())
        del found[key]
        (folder / CONFIG_FILE).write_text(json.dumps(found))

    return apply


def config_text(text: bytes) -> Change:
    return lambda folder: (folder / CONFIG_FILE).write_bytes(text)


def beside(name: str | bytes) -> Change:
    """One more file."""
    return lambda folder: (folder / os.fsdecode(name)).touch()


def linked(name: str) -> Change:
    def apply(folder: Path) -> None:
        (folder / name).rename(folder.parent / f"{folder.name}-elsewhere")
        (folder / name).symlink_to(folder.parent / f"{folder.name}-elsewhere")

    return apply


def folder_linked(folder: Path) -> None:
    folder.rename(folder.parent / f"{folder.name}-real")
    folder.symlink_to(folder.parent / f"{folder.name}-real")


def hard_linked(folder: Path) -> None:
    (folder.parent / f"{folder.name}-second").hardlink_to(folder / WEIGHTS_FILE)


def listening(folder: Path) -> None:
    """A socket; by its name alone, because paths of sockets are short."""
    here = Path.cwd()
    os.chdir(folder)
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind("s")
    finally:
        os.chdir(here)


def device(folder: Path) -> None:
    """A device file; where making one is not permitted, a pipe stands for it."""
    try:
        os.mknod(folder / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        os.mkfifo(folder / "null")


def sparse(size: int) -> Change:
    return lambda folder: os.truncate(folder / WEIGHTS_FILE, size)


def mode(bits: int) -> Change:
    return lambda folder: (folder / WEIGHTS_FILE).chmod(bits)


def twice(field: bytes) -> Callable[[bytes], bytes]:
    return lambda text: text[:-1] + b"," + field + b"}"


ONE = b'{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'

FILES: dict[str, Attack] = {
    "one more file": Attack(beside("README.md"), "file-set", "README.md"),
    "hidden file": Attack(beside(".DS_Store"), "file-set", ".DS_Store"),
    "name that is no text": Attack(beside(b"\xff\xfe"), "file-set", "udcff"),
    "name with an escape": Attack(beside("a\x1b[2J"), "file-set", r"\x1b[2J"),
    "config missing": Attack(lambda f: (f / CONFIG_FILE).unlink(), "file-set", "is missing"),
    "weights missing": Attack(lambda f: (f / WEIGHTS_FILE).unlink(), "file-set", "is missing"),
    "name in Cyrillic": Attack(
        lambda f: (f / CONFIG_FILE).rename(f / "аdapter_config.json"), "file-set", "is missing"),
    "names but for case": Attack(beside("Adapter_Config.json"), "file-set", "no case"),
    "names but for width": Attack(beside("ａdapter_config.json"), "file-set", "no case"),
    "config a link": Attack(linked(CONFIG_FILE), "file-kinds", "symbolic link"),
    "weights a link": Attack(linked(WEIGHTS_FILE), "file-kinds", "symbolic link"),
    "folder a link": Attack(folder_linked, "folder", "symbolic link"),
    "hard link": Attack(hard_linked, "file-kinds", "2 hard links"),
    "sub-folder": Attack(lambda f: (f / "default").mkdir(), "file-kinds", "is a folder"),
    "pipe": Attack(lambda f: os.mkfifo(f / "pipe"), "file-kinds", "not a regular file"),
    "socket": Attack(listening, "file-kinds", "not a regular file"),
    "device": Attack(device, "file-kinds", "not a regular file"),
    "set-user-ID": Attack(mode(0o4644), "file-kinds", "set-user-ID"),
    "set-group-ID": Attack(mode(0o2644), "file-kinds", "set-group-ID"),
    "unreadable": Attack(mode(0), "file-kinds", "cannot be read"),
    "pickle beside": Attack(beside("adapter_model.bin"), "no-pickle", "run code"),
    "pickle in capitals": Attack(beside("optimizer.PT"), "no-pickle", "run code"),
    "sparse file of 3 GiB": Attack(sparse(3 << 30), "size", "3.000 GiB"),
    "sparse tail": Attack(sparse(1 << 30), "tensor-file", "after the last tensor"),
}  # fmt: skip

HEADERS: dict[str, Attack] = {
    "empty file": Attack(sparse(0), "tensor-file", "header of 0 bytes"),
    "length of 2^63": Attack(raw(b"{}", length=2**63), "tensor-file", "header of"),
    "length of 2^64 - 1": Attack(raw(b"{}", length=2**64 - 1), "tensor-file", "header of"),
    "length beyond the file": Attack(raw(b"{}", length=3), "tensor-file", "header of 3"),
    "header of zero bytes": Attack(raw(b""), "tensor-file", "not JSON"),
    "huge header": Attack(
        lambda f: (raw(b"{", length=9 << 20)(f), sparse(10 << 20)(f)),
        "tensor-file", "header of 9437184"),
    "no tensor": Attack(raw(b"{}"), "tensor-file", "no tensor"),
    "a list": Attack(raw(b"[]"), "tensor-file", "not an object"),
    "a pickle": Attack(raw(b"PK\x03\x04", length=0x04034B50), "tensor-file", "header of"),
    "cut JSON": Attack(header_text(lambda t: t[:-9]), "tensor-file", "not JSON"),
    "byte-order mark": Attack(header_text(lambda t: b"\xef\xbb\xbf" + t), "tensor-file", "JSON"),
    "blank before": Attack(header_text(lambda t: b" " + t), "tensor-file", "does not begin"),
    "not UTF-8": Attack(header_text(lambda t: t.replace(b"q", b"\xff")), "tensor-file", "JSON"),
    "half a character": Attack(
        header_text(twice(b'"\\ud800":' + ONE)), "tensor-file", "not Unicode"),
    "too deep": Attack(raw(b'{"a":' + b"[" * 100_000), "tensor-file", "not JSON"),
    "name twice": Attack(
        header_text(twice(f'"{A}":'.encode() + ONE)), "tensor-file", "occurs twice"),
    "name twice by an escape": Attack(
        header_text(twice(f'"\\u0062{A[1:]}":'.encode() + ONE)), "tensor-file", "occurs twice"),
    "field twice": Attack(
        header_text(lambda t: t.replace(b'"dtype"', b'"dtype": "I8", "dtype"')),
        "tensor-file", "'dtype' occurs twice"),
    "field more": Attack(entry(code="x"), "tensor-file", "fields"),
    "field less": Attack(header(lambda t: t[A].pop("shape")), "tensor-file", "fields"),
    "tensor is a number": Attack(header(lambda t: t.update(x=1)), "tensor-file", "fields"),
    "unknown type": Attack(entry(dtype="F33"), "tensor-file", "dtype 'F33'"),
    "float8 scale type": Attack(entry(dtype="F8_E8M0"), "tensor-file", "F8_E8M0"),
    "four bits": Attack(entry(dtype="F4"), "tensor-file", "dtype 'F4'"),
    "type is a list": Attack(entry(dtype=["F32"]), "tensor-file", "dtype ['F32']"),
    "float8": Attack(retyped("F8_E4M3"), "tensor-type", "F8_E4M3"),
    "float64": Attack(retyped("F64"), "tensor-type", "F64"),
    "integers": Attack(entry(dtype="I32"), "tensor-type", "I32"),
    "booleans": Attack(retyped("BOOL"), "tensor-type", "BOOL"),
    "shape of 2^63": Attack(entry(shape=[2**63]), "tensor-file", "no shape and no offset"),
    "product overflows": Attack(entry(shape=[2**32, 2**32]), "tensor-file", "does not fill"),
    "product wraps to its size": Attack(
        entry(shape=[2**62 + 64, 4]), "tensor-file", "does not fill"),
    "number of 4000 digits": Attack(entry(shape=[10**3999]), "tensor-file", "no shape"),
    "negative sides": Attack(entry(shape=[-4, -64]), "tensor-file", "no shape"),
    "fractions": Attack(entry(shape=[4.0, 64]), "tensor-file", "shape"),
    "truth as a number": Attack(entry(shape=[4, True]), "tensor-file", "shape"),
    "shape is a text": Attack(entry(shape="4x64"), "tensor-file", "shape"),
    "empty tensor": Attack(
        header(lambda t: t.update({"x": {**t[A], "shape": [0], "data_offsets": [0, 0]}})),
        "tensor-file", "is empty"),
    "offsets reversed": Attack(
        header(lambda t: t[A]["data_offsets"].reverse()), "tensor-file", "data_offsets"),
    "three offsets": Attack(
        header(lambda t: t[A]["data_offsets"].append(9)), "tensor-file", "data_offsets"),
    "offsets beyond the file": Attack(
        entry(data_offsets=[2**40, 2**40 + 1024]), "tensor-file", "data_offsets"),
    "two tensors in one place": Attack(
        header(lambda t: t.update({"x": t[A]})), "tensor-file", "expected"),
    "hole": Attack(header(lambda t: t.pop(A)), "tensor-file", "expected"),
    "data after the end": Attack(header(lambda t: None, b"extra"), "tensor-file", "5 bytes after"),
    "metadata no text": Attack(
        header(lambda t: t.update(__metadata__={"a": [1]})), "tensor-file", "__metadata__"),
    "metadata as a store": Attack(
        header(lambda t: t.update(__metadata__={"a": "x" * 5000})), "tensor-file", "__metadata__"),
}  # fmt: skip

CONFIGS: dict[str, Attack] = {
    "not JSON": Attack(config_text(b"{"), "config-json", "not JSON"),
    "not UTF-8": Attack(config_text(b'{"r": "\xff"}'), "config-json", "not JSON"),
    "a list": Attack(config_text(b"[]"), "config-json", "not an object"),
    "NaN": Attack(config_text(b'{"r": NaN}'), "config-json", "NaN"),
    "key twice": Attack(config_text(b'{"r": 1, "r": 2}'), "config-json", "occurs twice"),
    "too deep": Attack(config_text(b"[" * 100_000), "config-json", "not JSON"),
    "2 MB": Attack(config_text(b" " * 2_000_000), "config-json", "2000000 bytes"),
    "number of 5000 digits": Attack(
        config_text(b'{"r": ' + b"9" * 5000 + b"}"), "config-json", "not JSON"),
    "type of prompts": Attack(config(peft_type="PROMPT_TUNING"), "peft-type", "PROMPT_TUNING"),
    "type in lower case": Attack(config(peft_type="lora"), "peft-type", "'lora'"),
    "type is a list": Attack(config(peft_type=["LORA"]), "peft-type", "LORA"),
    "no type": Attack(config_without("peft_type"), "peft-type", "None"),
    "remote code": Attack(config(trust_remote_code=True), "config-keys", "trust_remote_code"),
    "automatic mapping": Attack(config(auto_map={"A": "x.A"}), "config-keys", "auto_map"),
    "newer key": Attack(config(layer_replication=[[0, 2]]), "config-keys", "layer_replication"),
    "newer key at null": Attack(config(eva_config=None), "config-keys", "eva_config"),
    "key of another type": Attack(config(init_r=4), "config-keys", "init_r"),
    "key in capitals": Attack(config(R=4), "config-keys", "'R'"),
    "dotted mapping": Attack(
        config(auto_mapping={"base_model_class": "os.system", "parent_library": "os"}),
        "config-values", "auto_mapping"),
    "library to import": Attack(config(megatron_core="evil.core"), "config-values", "imported"),
    "settings of Megatron": Attack(
        config(megatron_config={"a": 1}), "config-values", "megatron_config"),
    "address as base": Attack(
        config(base_model_name_or_path="https://evil.example/m"), "config-values", "address"),
    "share as base": Attack(
        config(base_model_name_or_path="\\\\evil\\share"), "config-values", "address"),
    "line break in base": Attack(
        config(base_model_name_or_path="a\nb"), "config-values", "base_model_name_or_path"),
    "NUL in base": Attack(
        config(base_model_name_or_path="a\0b"), "config-values", "base_model_name_or_path"),
    "no base": Attack(
        config_without("base_model_name_or_path"), "config-values", "is missing"),
    "base of 1 MB": Attack(
        config(base_model_name_or_path="a" * 999_000), "config-values", "999002 characters"),
    "revision of options": Attack(config(revision="--upload-pack=x"), "config-values", "revision"),
    "other task": Attack(config(task_type="SEQ_CLS"), "config-values", "task_type"),
    "full modules": Attack(
        config(modules_to_save=["lm_head"]), "config-values", "modules_to_save"),
    "biases": Attack(config(bias="all"), "config-values", "bias"),
    "biases of LoRA": Attack(config(bias="lora_only"), "config-values", "bias"),
    "weights lying down": Attack(config(fan_in_fan_out=True), "config-values", "fan_in_fan_out"),
    "changed base": Attack(config(init_lora_weights="loftq"), "config-values", "init_lora"),
    "all-linear": Attack(config(target_modules="all-linear"), "config-values", "all-linear"),
    "no target": Attack(config(target_modules=[]), "config-values", "target_modules"),
    "pattern for ever": Attack(config(target_modules="(a+)+b"), "config-values", "repeats"),
    "broken pattern": Attack(config(target_modules="(q"), "config-values", "not a regular"),
    "broken rank pattern": Attack(
        config(rank_pattern={"(": 4}), "config-values", "not a regular"),
    "5000 patterns": Attack(
        config(rank_pattern={f"m{i}": 4 for i in range(5000)}), "config-values", "5000 patterns"),
    "rank zero": Attack(config(r=0), "config-values", "`r` = 0"),
    "rank is true": Attack(config(r=True), "config-values", "`r` = true"),
    "rank is a text": Attack(config(r="4"), "config-values", '`r` = "4"'),
    "alpha zero": Attack(config(lora_alpha=0), "config-values", "lora_alpha"),
    "alpha without end": Attack(config(lora_alpha=10**400), "config-values", "lora_alpha"),
    "dropout of one": Attack(config(lora_dropout=1.0), "config-values", "lora_dropout"),
    "patterns null": Attack(config(rank_pattern=None), "config-values", "rank_pattern"),
    "rank 65": Attack(config(r=65), "config-rank", "rank 65"),
    "rank 65 by a pattern": Attack(
        config(rank_pattern={"nowhere": 65}), "config-rank", "rank 65"),
}  # fmt: skip

TENSORS: dict[str, Attack] = {
    "name of another script": Attack(rename("q_proj", "q_рroj"), "tensor-modules", "no module"),
    "name with a line break": Attack(put(f"{KEY_PREFIX}a\nb.lora_A.weight", [1]),
        "tensor-names", "lora_A.weight or"),
    "long name": Attack(put("x" * 5000, [1]), "tensor-names", "5002 characters"),
    "full weight": Attack(
        put(f"{KEY_PREFIX}{Q0}.weight", np.ones((64, 64))), "tensor-names", "q_proj.weight"),
    "bias": Attack(put(f"{KEY_PREFIX}{Q0}.bias", np.ones(64)), "tensor-names", "q_proj.bias"),
    "embedding": Attack(
        put(f"{KEY_PREFIX}model.embed_tokens.weight", np.ones((8, 8))),
        "tensor-names", "embed_tokens.weight"),
    "embedding update": Attack(
        put(f"{KEY_PREFIX}model.embed_tokens.lora_embedding_A", np.ones((4, 8))),
        "tensor-names", "lora_embedding_A"),
    "embedding as linear": Attack(
        put(f"{KEY_PREFIX}model.embed_tokens.lora_A.weight", np.ones((4, 8))),
        "no-embeddings", "the embedding"),
    "tied head": Attack(
        config(target_modules=["q_proj", "down_proj", "lm_head"]), "no-embeddings", "tied"),
    "adapter's own name": Attack(
        rename("lora_A.weight", "lora_A.default.weight"), "tensor-names", "default"),
    "wrapper's name": Attack(
        rename("layers.", "layers._orig_mod."), "tensor-modules", "_orig_mod"),
    "no prefix": Attack(rename(KEY_PREFIX, ""), "tensor-names", "start with"),
    "module that is none": Attack(rename("layers.1", "layers.7"), "tensor-modules", "layers.7"),
    "norm": Attack(put(f"{KEY_PREFIX}model.norm.lora_A.weight", np.ones((4, 64))),
        "tensor-modules", "not a linear"),
    "A alone": Attack(tensors(lambda t: t.pop(B)), "pairs", "lacks lora_B"),
    "B alone": Attack(tensors(lambda t: t.pop(A)), "pairs", "lacks lora_A"),
    "magnitude without DoRA": Attack(
        put(f"{KEY_PREFIX}{Q0}.lora_magnitude_vector", np.ones(64)), "pairs", "must not have"),
    "DoRA without magnitude": Attack(config(use_dora=True), "pairs", "lacks"),
    "A lying down": Attack(
        tensors(lambda t: t.update({A: np.ascontiguousarray(t[A].T)})), "tensor-shapes", "wants"),
    "A of another base": Attack(put(A, np.ones((4, 63))), "tensor-shapes", "wants [4, 64]"),
    "three sides": Attack(put(A, np.ones((4, 64, 1))), "tensor-shapes", "wants"),
    "rank unlike the config": Attack(config(r=8), "tensor-ranks", "rank 4, the config says 8"),
    "one rank unlike": Attack(
        tensors(lambda t: t.update({
            A: np.ones((2, 64), np.float32), B: np.ones((64, 2), np.float32)})),
        "tensor-ranks", "rank 2"),
    "target without tensors": Attack(
        config(target_modules=["q_proj", "down_proj", "v_proj"]), "selection", "'v_proj'"),
    "tensors without target": Attack(
        config(target_modules=["q_proj"]), "selection", "does not select"),
    "layer left out": Attack(
        tensors(lambda t: [t.pop(name) for name in (A, B)]), "selection", "no tensor for it"),
    "layers restricted": Attack(
        config(layers_to_transform=[0]), "selection", "does not select"),
    "no update": Attack(
        tensors(lambda t: [t[n].fill(0) for n in t if "lora_B" in n]), "not-zero", "zero in every"),
    "minus zero": Attack(
        tensors(lambda t: [t[n].fill(-0.0) for n in t if "lora_A" in n]), "not-zero", "zero"),
    "not a number": Attack(tensors(lambda t: t[B].fill(np.nan)), "finite", "not finite"),
    "infinity": Attack(tensors(lambda t: t[A].fill(-np.inf)), "finite", "not finite"),
    "two types": Attack(
        tensors(lambda t: t.update({A: t[A].astype(np.float16)})), "tensor-type", "F16, F32"),
}  # fmt: skip

ATTACKS: dict[str, Attack] = {
    f"{group}: {name}": attack
    for group, attacks in (
        ("files", FILES), ("header", HEADERS), ("config", CONFIGS), ("tensors", TENSORS),
    )
    for name, attack in attacks.items()
}  # fmt: skip

GOOD: dict[str, Change] = {
    "as it is": lambda folder: None,
    "rank stabilisation": config(use_rslora=True),
    "names as a pattern": config(target_modules=r".*\.(q_proj|down_proj)"),
    "alpha by patterns": config(alpha_pattern={"q_proj": 4, r"layers\.1\.mlp\.down_proj": 2.5}),
    "layers written out": config(layers_to_transform=[0, 1], layers_pattern="layers"),
    "half precision": tensors(
        lambda t: t.update({name: value.astype(np.float16) for name, value in t.items()})
    ),
    "ranks by patterns": lambda folder: (
        config(rank_pattern={r"0\.self_attn\.q_proj": 2})(folder),
        tensors(lambda t: t.update({A: t[A][:2].copy(), B: t[B][:, :2].copy()}))(folder),
    ),
    "modules written out": config(
        target_modules=[
            f"model.layers.{layer}.{name}"
            for layer in range(2)
            for name in ("self_attn.q_proj", "mlp.down_proj")
        ]
    ),
    "metadata": header(lambda tree: tree.update(__metadata__={"format": "pt"})),
    "header in another order": header(
        lambda tree: [tree.update({name: tree.pop(name)}) for name in sorted(tree, reverse=True)]
    ),
    "keys with defaults left out": lambda folder: [
        config_without(key)(folder)
        for key in ("megatron_core", "loftq_config", "layers_pattern", "revision", "alpha_pattern")
    ],
    "some B of zeros": tensors(lambda t: t[B].fill(0)),
    "name of a hub": config(base_model_name_or_path="owner/model-1.5B", revision="refs/pr/1"),
    "read-only": mode(0o444),
}

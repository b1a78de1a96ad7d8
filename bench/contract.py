"""What the contract costs, and whether anything gets past it.

    python -m bench.contract hostile FOLDER          every hostile adapter and good variant
    python -m bench.contract fuzz FOLDER [COUNT]     headers against the reference reader
    python -m bench.contract large FOLDER [--values] the static tier at Qwen3-14B's shapes

FOLDER takes what is made; `large` writes sparse files, of 30 GB by name and some MB in
truth, and `--values` also compares the adapter with every value of that base. Each
figure is of a process of its own that judges and does nothing else.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import run
from typing import Any

import numpy as np

from pipeline.base.adapter_format import CONFIG_FILE, WEIGHTS_FILE, lora_config, lora_key
from pipeline.base.params import load_params
from pipeline.release.base_values import no_base_values
from pipeline.release.case import Case
from pipeline.release.contract import STATIC_RULES, faults, judge
from tests.support.adapters import write_adapter
from tests.support.headers import accepted
from tests.support.hostile import ATTACKS, GOOD

Shapes = dict[str, tuple[int, ...]]

HIDDEN, INTERMEDIATE, LAYERS, KEYS, VOCABULARY, RANK = 5120, 17408, 40, 1024, 151936, 64
MODULES = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (KEYS, HIDDEN),
    "self_attn.v_proj": (KEYS, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (INTERMEDIATE, HIDDEN),
    "mlp.up_proj": (INTERMEDIATE, HIDDEN),
    "mlp.down_proj": (HIDDEN, INTERMEDIATE),
}
"""Linear layers of a Qwen3-14B block as [outputs, inputs]."""


def large_shapes() -> tuple[Shapes, Shapes]:
    """Tensors of the base and of an adapter of rank 64 on all its linear layers."""
    base: Shapes = {
        "model.embed_tokens.weight": (VOCABULARY, HIDDEN),
        "lm_head.weight": (VOCABULARY, HIDDEN),
        "model.norm.weight": (HIDDEN,),
    }
    adapter: Shapes = {}
    for layer in range(LAYERS):
        for name, (rows, columns) in MODULES.items():
            module = f"model.layers.{layer}.{name}"
            base[f"{module}.weight"] = (rows, columns)
            adapter[lora_key(module, "A")] = (RANK, columns)
            adapter[lora_key(module, "B")] = (rows, RANK)
    return base, adapter


def write_sparse(path: Path, shapes: Shapes) -> Iterator[tuple[str, int, int]]:
    """A BF16 file of holes; yields the name, first byte and elements of each tensor."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    raw = json.dumps(header).encode()
    with path.open("wb") as stream:
        stream.write(len(raw).to_bytes(8, "little") + raw)
        stream.truncate(8 + len(raw) + end)
    for name, info in header.items():
        begin, end = info["data_offsets"]
        yield name, 8 + len(raw) + begin, (end - begin) // 2


def make_large(folder: Path) -> tuple[Path, Path]:
    """A base and an adapter at Qwen3-14B's shapes: holes, and some values in each A and B."""
    base, adapter = folder / "base", folder / "adapter"
    for path in (base, adapter):
        path.mkdir(parents=True, exist_ok=True)
    of_base, of_adapter = large_shapes()
    (base / "config.json").write_text(json.dumps({"tie_word_embeddings": False}))
    list(write_sparse(base / "model.safetensors", of_base))
    chance = np.random.default_rng(0)
    weights = adapter / WEIGHTS_FILE
    places = list(write_sparse(weights, of_adapter))
    with weights.open("r+b") as stream:
        for name, start, _ in places:
            for row in range(8):
                stream.seek(start + 2 * row * of_adapter[name][1])
                stream.write(chance.integers(0x3C00, 0x3D00, 64, dtype=np.uint16).tobytes())
    config = lora_config(
        base_path=str(base), rank=RANK, alpha=RANK, dropout=0.0, rslora=False,
        target_modules=[name.rpartition(".")[2] for name in MODULES],
    )  # fmt: skip
    (adapter / CONFIG_FILE).write_text(json.dumps(config))
    return base, adapter


def make_hostile(folder: Path) -> Path:
    """Every attack and good variant in a folder of its own; returns their base."""
    # Only this step needs torch; the judging process never imports it.
    from tests.support.tiny import write_tiny_base

    base = write_tiny_base(folder / "base")
    good = write_adapter(folder / "good", base)
    changes = {**{name: attack.apply for name, attack in ATTACKS.items()}, **GOOD}
    for number, apply in enumerate(changes.values()):
        copy = folder / "all" / f"{number:03d}"
        shutil.copytree(good, copy)
        apply(copy)
    return base


def peak_mib() -> float:
    """Largest resident memory of this process so far."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def judge_folders(base: Path, folders: list[Path], *, values: bool) -> dict[str, Any]:
    """Verdicts, seconds, and peak memory of the static tier on some adapters."""
    limits = load_params(Path("params.yaml")).verify
    start = time.perf_counter()
    cases = {folder.name: Case(folder, base, limits) for folder in folders}
    found = {n: [c.id for c in faults(judge(case, STATIC_RULES))] for n, case in cases.items()}
    report: dict[str, Any] = {
        "found": found,
        "seconds": time.perf_counter() - start,
        "peak_mib": peak_mib(),
        "torch": bool({"torch", "peft"} & sys.modules.keys()),
    }
    if values:
        start = time.perf_counter()
        report["values"] = no_base_values(next(iter(cases.values()))).detail
        report["values_seconds"] = time.perf_counter() - start
        report["values_peak_mib"] = peak_mib()
    return report


def in_a_process(base: Path, folders: list[Path], *, values: bool = False) -> dict[str, Any]:
    """`judge_folders` in a fresh process."""
    command = [sys.executable, "-m", "bench.contract", "judge", base, *folders]
    done = run([*command, "--values"] if values else command, capture_output=True, check=True)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def told(report: dict[str, Any]) -> str:
    """The figures of a report."""
    text = f"{report['seconds']:.2f} s, {report['peak_mib']:.0f} MiB, torch: {report['torch']}"
    if "values" in report:
        text += f"\n{report['values']}: {report['values_seconds']:.0f} s, "
        text += f"{report['values_peak_mib']:.0f} MiB (mapped pages of both files included)"
    return text


def hostile(folder: Path) -> int:
    """Judge all, print what was accepted or refused for another reason."""
    base = make_hostile(folder)
    report = in_a_process(
        base, [p for p in sorted((folder / "all").iterdir()) if p.name.isdecimal()]
    )
    wanted = {**{name: [a.rule] for name, a in ATTACKS.items()}, **{name: [] for name in GOOD}}
    wrong = [
        f"{name}: {found}, expected {rule}"
        for (name, rule), found in zip(wanted.items(), report["found"].values(), strict=True)
        if found != rule
    ]
    print(f"{len(ATTACKS)} attacks, {len(GOOD)} good variants: {told(report)}")
    print("\n".join(wrong) or "each with its one reason")
    return len(wrong)


def fuzz(folder: Path, count: int) -> int:
    """Print every header on which this reader and the reference disagree."""
    folder.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    sound = accepted(folder, 1, count, wrong.append)
    print(
        f"{count:,} headers, {sound:,} of them sound for the reference; {len(wrong)} disagreements"
    )
    print("\n".join(wrong[:20]))
    return len(wrong)


def large(folder: Path, *, values: bool) -> int:
    """Print time and memory at Qwen3-14B's shapes."""
    base, adapter = make_large(folder)
    report = in_a_process(base, [adapter], values=values)
    size = (adapter / WEIGHTS_FILE).stat().st_size / 2**20
    print(f"Qwen3-14B, rank {RANK}, {size:.0f} MiB: {told(report)}\n{report['found']}")
    return len(report["found"]["adapter"])


def main() -> int:
    """Exit code 1 when anything was judged wrongly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["hostile", "fuzz", "large", "judge"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("more", nargs="*")
    parser.add_argument("--values", action="store_true")
    asked = parser.parse_args()
    if asked.what == "judge":
        folders = [Path(name) for name in asked.more]
        print(json.dumps(judge_folders(asked.folder, folders, values=asked.values)))
        return 0
    if asked.what == "hostile":
        return min(1, hostile(asked.folder))
    if asked.what == "fuzz":
        return min(1, fuzz(asked.folder, int(asked.more[0]) if asked.more else 100_000))
    return min(1, large(asked.folder, values=asked.values))


if __name__ == "__main__":
    raise SystemExit(main())

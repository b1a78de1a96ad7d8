"""Files of other trainers: short ones of the same forms, and what must be said of each."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pipeline.hardware.doctor.diagnosis import Diagnosis, diagnose
from pipeline.hardware.doctor.files import read_file
from pipeline.hardware.doctor.record import Record

Rows = list[dict[str, Any]]


def state(rows: Rows, **changes: Any) -> str:
    """A trainer_state.json."""
    last = rows[-1]["step"]
    about = {"global_step": last, "max_steps": last, "num_train_epochs": 1, "epoch": 1.0}
    about |= {"train_batch_size": 2, "num_input_tokens_seen": 0, **changes}
    return json.dumps({**about, "log_history": rows}, indent=2)


def falling(count: int, low: float = 1.0, high: float = 3.0, **more: Any) -> Rows:
    """Rows whose loss falls from `high` towards `low`."""
    fall = [low + (high - low) * math.exp(-5 * n / count) for n in range(count)]
    return [
        {"step": n + 1, "epoch": (n + 1) / count, "loss": loss, "learning_rate": 1e-4 * (count - n)}
        | more
        for n, loss in enumerate(fall)
    ]


def with_norms(norms: dict[int, float], rows: Rows) -> Rows:
    return [{**row, "grad_norm": norms.get(row["step"], 0.4)} for row in rows]


def staircase() -> Rows:
    """Three passes, each of a constant loss well below the one before."""
    levels = (2.0, 1.2, 0.6)
    return [
        {"step": n + 1, "epoch": (n + 0.5) / 40, "loss": levels[n // 40], "learning_rate": 1e-5}
        for n in range(120)
    ]


def overfitted() -> Rows:
    rows = falling(40, low=0.05, high=1.2)
    held = [1.9, 1.4, 1.3, 1.6, 2.1, 2.6, 3.0, 3.3]
    two = [
        {"step": 5 * (n + 1), "epoch": 1, "eval_a_loss": loss, "eval_b_loss": 9.0}
        for n, loss in enumerate(held)
    ]
    return [*rows, *two]


def sampled(steps: int) -> Rows:
    one = {"loss": 0.0, "reward": 0.3, "kl": 0.01, "grad_norm": 0.5, "learning_rate": 1e-6}
    more = {"completions/clipped_ratio": 0.93, "frac_reward_zero_std": 0.5, "num_tokens": 5000.0}
    return [{"step": steps - 2, "epoch": 2.0, **one, **more}]


def compared(losses: list[float], accuracy: float, forgetting: float = 0.1) -> str:
    """A result of PEFT's comparison of methods."""
    info = {"model_id": "m", "batch_size": 4, "max_steps": 2000, "max_seq_length": 700}
    rows = [
        {"step": 100 * (n + 1), "train loss": loss, "valid accuracy": accuracy}
        for n, loss in enumerate(losses)
    ]
    last = {"step": 2000, "train loss": losses[-1], "test accuracy": accuracy}
    last |= {"forgetting": forgetting, "train total tokens": 123456}
    train = {"status": "success", "num_trainable_params": 4_000_000, "metrics": [*rows, last]}
    train |= {"num_total_params": 2_000_000_000}
    return json.dumps({"run_info": {"train_config": info}, "train_info": train}, indent=2)


def benchmark(mfu: float, reason: str | None = None) -> str:
    config = {"num_gpus": 4, "seq_len": 4096, "success": reason is None, "error_reason": reason}
    metrics = {"mfu": {"mean": mfu}, "throughput": {"mean": 31000.0}, "peak_memory": {"gib": 40.5}}
    return json.dumps({"config": config, "metrics": metrics}, indent=2)


def table(header: str, rows: list[str]) -> str:
    return "\n".join([header, *rows]) + "\n"


def factory(total_tokens: int) -> str:
    rows = [
        {"current_steps": 10 * n, "total_steps": 400, "loss": 3.0 * 0.93**n, "percentage": n,
         "learning_rate": 2e-5, "epoch": n / 40, "throughput": "0.00", "total_tokens": total_tokens}
        for n in range(1, 41)
    ]  # fmt: skip
    return "\n".join(json.dumps(row) for row in rows) + '\n{"current_ste'


MEGATRON = "\n".join(
    f" iteration {10 * n:8d}/     300 | consumed samples: {80 * n} | elapsed time per iteration "
    f"(ms): 410.5 | learning rate: {1e-4 * (30 - n) / 30:.3E} | global batch size: 8 | lm loss: "
    f"{4.0 * 0.95**n:.6E} | loss scale: 4096.0 | grad norm: 0.7{n % 10} | number of skipped "
    "iterations: 0 | number of nan iterations: 0 |"
    for n in range(1, 31)
)
FLAT = [2.0 + 0.03 * (-1) ** n for n in range(24)]
HACKED = [
    f"{n},300,0.0,0.0,1.0,{n / 150},{40.0},{60 if n == 1 else 41 if n == 300 else ''}"
    for n in range(1, 301)
]

CASES: dict[str, tuple[str, str, str, list[str]]] = {
    "six steps, one row": ("s.json", state([{"step": 5, "epoch": 2.5, "loss": 8.9}], max_steps=6),
                           "warning", ["too_few_steps"]),
    "first rate zero": ("s.json", state([{**row, "learning_rate": 1e-4 * (row["step"] - 1)}
                                         for row in falling(24)][:24]),
                        "fault", ["warmup_too_long", "first_update_wasted"]),
    "gradient spikes": ("s.json", state(with_norms({4: 31.0, 22: 66.0}, falling(60))),
                        "warning", ["gradient_spikes"]),
    "sampled training": ("s.json", state(sampled(12)), "warning",
                         ["too_few_steps", "replies_cut_off", "no_advantage"]),
    "flat loss": ("s.json", state([{**r, "loss": v} for r, v in zip(falling(24), FLAT)]),
                  "warning", ["little_progress"]),
    "part of a pass": ("s.json", state([{**r, "epoch": r["epoch"] / 50} for r in falling(40)],
                                       epoch=0.02), "sound", ["small_share_of_data"]),
    "two evaluation sets": ("s.json", state(overfitted(), max_steps=40), "warning",
                            ["overfitting"]),
    "staircase": ("s.json", state(staircase(), num_train_epochs=3), "warning", ["memorising"]),
    "mean of the run in the last row": (
        "s.json",
        state([*falling(40), {"step": 40, "epoch": 1.0, "train_loss": 9.9, "train_runtime": 3.1}]),
        "sound", []),
    "LLaMA-Factory": ("trainer_log.jsonl", factory(0), "sound", ["tokens_not_counted"]),
    "Megatron": ("train.log", MEGATRON, "sound", []),
    "Megatron with a bad step": (
        "train.log", MEGATRON.replace("lm loss: 8.5", "lm loss: nan | x: 8.5").replace(
            "nan iterations: 0 |", "nan iterations: 1 |"), "fault", ["not_finite"]),
    "Trainer's dictionaries": (
        "train.log", "\n".join(f"{{'loss': {3 * 0.9**n:.4f}, 'grad_norm': 0.5, 'learning_rate': "
                               f"{(30 - n) * 1e-5}, 'epoch': {n / 30:.2f}}}" for n in range(30)),
        "sound", []),
    "evaluation loss alone": ("main.log", "\n".join(f"s:{250 * n} tel:{3 + 7 / (n + 1):.4f}"
                                                    for n in range(30)), "sound", []),
    "two columns": ("losses.txt", "\n".join(f"{n} {2.5 + 5 * 0.8**n}" for n in range(1, 60)),
                    "sound", []),
    "progress bar": ("train.log", "\r".join(f"step {n}/60 · loss {2 * 0.95**n:.4f} · ETA 3 s"
                                            for n in range(1, 61)), "sound", []),
    "accuracy stays zero": ("r.json", compared(FLAT, 0.0), "warning",
                            ["accuracy_zero", "little_progress"]),
    "forgetting": ("r.json", compared([3 * 0.9**n for n in range(20)], 0.4, 0.5), "warning",
                   ["forgetting"]),
    "sound comparison": ("r.json", compared([3 * 0.9**n for n in range(20)], 0.4), "sound", []),
    "benchmark": ("b.json", benchmark(34.0), "unknown", []),
    "idle benchmark": ("b.json", benchmark(12.0), "unknown", ["low_utilisation"]),
    "failed benchmark": ("b.json", benchmark(34.0, "CUDA out of memory"), "fault", ["oom"]),
    "reward up, accuracy down": ("m.csv", table(
        "step,total_steps,loss,kl_loss,policy_ratio,reward_avg,tokens_per_sec,eval_acc", HACKED),
        "warning", ["reward_hacking"]),
    "distillation": ("m.csv", table("epoch,total_steps,train_loss,val_loss", [
        f"1,{50 * n},{0.6 + 0.1 * (-1) ** n},{0.5 + 0.3 / n}" for n in range(1, 60)]),
        "sound", []),
    "empty log": ("x.log", "", "unknown", []),
    "chatter": ("x.log", "Loading checkpoint shards: 100%\nbuilding model\n", "unknown", []),
    "torn JSON": ("x.json", '{"log_history": [{"step": 1, "loss"', "unknown", []),
    "a list": ("x.json", "[1, 2]", "unknown", []),
    "bad YAML": ("x.yaml", "a: [1\nb: }", "unknown", []),
    "leaking packs": ("t.yaml", "packing: true\nneat_packing: false\nlearning_rate: 1.0e-4\n",
                      "fault", ["leaking_packs"]),
    "packs with lengths": ("t.yaml", "packing: true\nflash_attn: fa2\n", "unknown", []),
    "packs of which nothing is known": ("t.yaml", "packing: true\n", "unknown", []),
}  # fmt: skip


def told(tmp_path: Path, name: str, text: str) -> Diagnosis:
    path, record = tmp_path / name, Record()
    path.write_text(text)
    read_file(record, path, name)
    return diagnose(record)


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_of_each(case: str, tmp_path: Path) -> None:
    name, text, verdict, codes = CASES[case]
    found = told(tmp_path, name, text)
    assert (found.verdict, found.codes) == (verdict, codes)


def test_figures_are_computed_by_hand(tmp_path: Path) -> None:
    found = told(tmp_path, "r.json", compared([2.0, 1.0], 0.4)).figures
    # 2 bytes frozen and 16 for the 4 of 2,000 million that are trained.
    assert found["bytes_per_parameter"].value == pytest.approx(2.032)
    assert found["fixed_memory_gib"].value == pytest.approx(2e9 * 2.032 / 2**30)
    assert found["trainable_share"].value == pytest.approx(0.002)
    assert found["total_tokens"].value == 123456


@pytest.mark.parametrize(("stage", "expected"), [(0, 16.0), (1, 5.5), (2, 3.75), (3, 2.0)], ids=str)
def test_bytes_of_a_parameter_by_what_is_sharded(
    tmp_path: Path, stage: int, expected: float
) -> None:
    text = f"model_parameters: 7.0e9\nworld_size: 8\nzero_stage: {stage}\nbf16: true\n"
    found = told(tmp_path, "c.yaml", text).figures
    assert found["bytes_per_parameter"].value == pytest.approx(expected)
    assert found["fixed_memory_gib"].value == pytest.approx(7e9 * expected / 2**30)


def test_an_adapter_of_unknown_size_costs_its_base(tmp_path: Path) -> None:
    text = "model_parameters: 7.0e9\nfinetuning_type: lora\nquantization: nf4\n"
    assert told(tmp_path, "c.yaml", text).figures["bytes_per_parameter"].value == 0.516


def test_overfitting_ends_where_the_held_out_loss_was_lowest(tmp_path: Path) -> None:
    found = told(tmp_path, "s.json", state(overfitted(), max_steps=40, num_train_epochs=10))
    assert found.findings[0].fix == {"num_train_epochs": 3.75}
    assert found.figures["steps_per_epoch"].value == 40

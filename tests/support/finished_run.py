"""The files that a finished run leaves for its report, with figures that fit together."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import write_json, write_text
from pipeline.base.records import Problem, Sample, write_rows
from pipeline.summary.evidence import Evidence

HASH = "0123456789abcdef" * 4
VERDICTS = [(False, True)] * 5 + [(True, True)] * 2 + [(False, False)] * 2 + [(True, False)]
"""Right before, right after, of ten problems with one reply each."""


def scores(label: str, right: int, interval: list[float]) -> dict[str, Any]:
    """scores.json of ten problems."""
    return {
        "label": label,
        "problems": 10,
        "samples_per_problem": 1,
        "pass_at_1": right / 10,
        "best_of_k": right / 10,
        "k": 1,
        "pass_at_1_interval": interval,
        "best_of_k_interval": interval,
        "truncation_rate": 0.1,
        "no_box_rate": 0.2,
        "mean_tokens": 63.4,
        "reasons": {"match-exact": right, "mismatch": 10 - right},
        "seconds": 9.5,
        "tokens_per_second": 66.7,
        "sampling": {"temperature": 0.7, "top_p": 0.95, "seed": 0, "max_new_tokens": 128},
        "requested_problems": 64,
    }


def sample(number: int, who: str, correct: bool, variant: str = "main") -> Sample:
    answer = str(number + 1) if correct else "0"
    return Sample(
        id=f"p{number}",
        sample=0,
        variant=variant,
        prompt=f"<|im_start|>user\nWhat is {number} + 1?",
        reply=f"The {who} adds 1 to {number}.\n\\boxed{{{answer}}}",
        tokens=20,
        truncated=False,
        gold=str(number + 1),
        answer=answer,
        correct=correct,
        reason="match-exact" if correct else "mismatch",
    )


BASE = {
    "kind": "external",
    "path": "models/Tiny-Llama",
    "fingerprint": HASH,
    "files": [{"name": "config.json", "bytes": 700, "sha256": HASH}],
    "shape": {
        "architecture": "LlamaForCausalLM", "model_type": "llama", "layers": 30, "hidden": 576,
        "intermediate": 1536, "heads": 9, "kv_heads": 3, "head_dim": 64, "vocabulary": 49152,
        "tied_embeddings": True, "max_positions": 8192, "parameters": 134515008,
        "weight_bytes": 269060552,
    },
}  # fmt: skip

PLAN: dict[str, Any] = {
    "schema_version": 1,
    "machine": {},
    "training": {"device": "cpu", "ranks": 1, "sequence_tokens": 512, "sequences_per_step": 2},
    "memory": [
        {"part": "base weights", "gib": 0.25, "formula": "134,515,008 × 2 B"},
        {"part": "loss chunk", "gib": 0.5, "formula": "1,024 × 49,152 × 12 B"},
        {"part": "full logits", "gib": 9.0, "formula": "for information", "counted": False},
    ],
    "time": {"tokens_per_second": 500.0, "source": "probe", "predicted_seconds": 328.0,
             "training_seconds": 1500.0, "tokens": 163840},
    "why": ["One CPU: no GPU was found.", "The base fits, so nothing is quantised."],
}  # fmt: skip

MANIFEST = {
    "schema_version": 1,
    "sequence_tokens": 512,
    "sequences": 320,
    "documents": 1700,
    "tokens": 156000,
    "trained_tokens": 91000,
    "fill": 0.952148,
    "dropped": {"too-long": 12},
    "dropped_tokens": 9000,
    "proven_documents": 340,
    "tokenizer_sha256": HASH,
    "end_id": 2,
    "end_text": "<|im_end|>",
    "base_end_ids": [0],
    "pad_id": 2,
    "generation": {"eos_token_id": [2, 0], "pad_token_id": 2},
    "variants": {"main": 1700},
    "arrays": {},
}

TRAIN = {
    "run_key": HASH[:16],
    "status": "complete",
    "ended_by": "steps",
    "steps": 160,
    "steps_planned": 160,
    "tokens": 155900,
    "trained_tokens": 90900,
    "passes": 0.999,
    "final_loss": 0.25,
    "learning_rate_end": 0.0,
    "seconds": 301.5,
    "tokens_per_second": 517.1,
    "devices": ["AMD EPYC"],
    "attempts": 2,
    "base_fingerprint": HASH,
    "manifest_sha256": HASH,
    "recipe": {"rank": 16, "alpha": 32, "target_modules": "all-linear", "rslora": False,
               "learning_rate": 0.001, "steps": 160},
    "method_name": "lora",
    "journal": [{"step": 0, "total": 160, "reason": "plan"}],
    "versions": {"torch": "2.13.0", "peft": "0.9.0"},
}  # fmt: skip

EXPORT = {
    "dtype": "bfloat16", "rank": 16, "elements": 4884480, "bytes": 9784904,
    "max_rounding_error": 0.001, "files": {"adapter_model.safetensors": HASH}, "scale": 2.0,
    "target_modules": ["down_proj", "q_proj"], "dropped_config_keys": [],
}  # fmt: skip

CONTRACT = {
    "schema_version": 1,
    "passed": True,
    "checks": [
        {"id": "rank", "what": "rank within the limit", "status": "passed", "passed": True,
         "figure": 16, "limit": 64, "detail": ""},
        {"id": "elements", "what": "elements within the limit", "status": "passed",
         "passed": True, "figure": 4884480, "limit": 300000000, "detail": ""},
        {"id": "run-summary", "what": "run_summary.json speaks of these files",
         "status": "not applicable", "passed": None, "figure": None, "limit": None,
         "detail": "no run_summary.json beside the adapter"},
    ],
}  # fmt: skip

PASSAGES = {
    "work/filter/funnel.json": {
        "read": 3000, "kept": 2400, "held_out": 100,
        "dropped": {"wrong-answer": 300, "duplicate": 150, "not-english": 50}, "sources": [],
    },
    "work/decontaminate/report.json": {
        "read": 2400, "kept": 2350, "dropped": {"overlap": 50},
        "sets": [{"name": "panel", "problems": 64, "hits": 50}],
    },
    "work/select/report.json": {
        "read": 2350, "kept": 1712, "dropped": {"over-budget": 638},
    },
}  # fmt: skip


STAGE_ROWS = [
    {"sequence_tokens": length, "share": share, "tiers": tiers, "steps": steps,
     "tokens": steps * 1024, "micro_batch_sequences": 1, "accumulation": 1024 // length,
     "sequences_per_step": 1024 // length}
    for length, share, tiers, steps in (
        (256, 0.25, {"easy": 3.0, "hard": 1.0}, 40), (512, 0.75, None, 120),
    )
]  # fmt: skip
DONE = [
    {"sequence_tokens": 256, "share": 0.25, "steps": 38, "tokens": 37000, "first_loss": 2.25,
     "last_loss": 1.5},
    {"sequence_tokens": 512, "share": 0.75, "steps": 112, "tokens": 111000, "first_loss": 1.4,
     "last_loss": 0.25},
]  # fmt: skip
CURRICULUM = {
    "stages": DONE,
    "passes": {"easy": 1.5, "hard": 0.9},
    "sources": {"sums.jsonl": 1.1},
    "planned": {
        "stages": [{**one, "steps": steps} for one, steps in zip(DONE, (40, 120), strict=True)],
        "passes": {"easy": 1.6, "hard": 1.0},
        "sources": {"sums.jsonl": 1.2},
    },
}


def with_stages(evidence: Evidence) -> Evidence:
    """The same run with a curriculum of two stages that the clock has shortened."""
    plan = {**PLAN, "training": {**PLAN["training"], "stages": STAGE_ROWS}}
    return replace(evidence, plan=plan, train={**TRAIN, "curriculum": CURRICULUM})


def write_finished_run(root: Path) -> None:
    """Write every file that the report stage reads below `root`."""
    files: dict[str, Any] = {
        "work/prepare/base.json": BASE,
        "work/prepare/data.json": {
            "kind": "external",
            "sources": [{"path": "traces/sums.jsonl", "bytes": 1234567, "sha256": HASH}],
            "panel": {"path": "panel.jsonl", "bytes": 99, "sha256": HASH},
            "protected": [],
        },
        "work/probe/machine.json": {"schema_version": 1, "gpus": []},
        "work/plan/plan.json": PLAN,
        "work/plan/evaluation.json": {"problems": 10},
        **PASSAGES,
        "work/tokenize/manifest.json": MANIFEST,
        "work/baseline/scores.json": scores("base", 3, [0.108, 0.603]),
        "work/train/train.json": TRAIN,
        "work/evaluate/scores.json": scores("adapter", 7, [0.397, 0.892]),
        "work/export/export.json": EXPORT,
        "work/verify/contract.json": CONTRACT,
        "runs/clock.json": {"total_seconds": 3600.0, "used_before": 60.0, "session_started": 0.0,
                            "heartbeat": 480.0, "finished": False},
        "runs/stages/train.json": {"stage": "train", "seconds": 310.2},
        "runs/stages/filter.json": {"stage": "filter", "seconds": 4.0},
        "run_summary.json": {"status": "complete", "run_key": HASH[:16]},
    }  # fmt: skip
    for path, value in files.items():
        write_json(root / path, value)
    losses = [0.25 + 2 * math.exp(-step / 25) for step in range(160)]
    rows = "".join(f"{n},{loss:.6f},0.5,0.001,1.0,1024,2.0,9\n" for n, loss in enumerate(losses, 1))
    header = "step,loss,token_accuracy,learning_rate,grad_norm,tokens,seconds,budget_left_seconds\n"
    write_text(root / "work/train/steps.csv", header + rows)
    for folder, who, index in (("baseline", "base", 0), ("evaluate", "adapter", 1)):
        write_rows(
            root / f"work/{folder}/samples.jsonl",
            (sample(n, who, verdict[index]) for n, verdict in enumerate(VERDICTS)),
        )
    problems = (
        Problem(f"p{n}", f"What is {n} + 1?", str(n + 1), "panel", f"panel.jsonl:{n + 1}")
        for n in range(len(VERDICTS))
    )
    write_rows(root / "work/filter/panel.jsonl", problems)

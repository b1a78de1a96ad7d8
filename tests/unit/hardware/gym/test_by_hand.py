"""Golds against a second script, and against sums done by hand in comments.

`by_hand` imports nothing of the pipeline. The cases below are written out, so that each
expected number can be checked with a calculator.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from pipeline.hardware.gym.cases import Case, Gold
from pipeline.hardware.gym.disk_family import CheckpointDisk
from pipeline.hardware.gym.environment import Environment
from pipeline.hardware.gym.footprint_families import Logits, OptimizerMemory
from pipeline.hardware.gym.machine_families import EvaluationMemory, ParallelMemory
from pipeline.hardware.gym.memory_families import Checkpointing, ZeroMemory
from pipeline.hardware.gym.packing_family import PackingTime
from pipeline.hardware.gym.schedule_families import Schedule, Warmup
from tests.unit.hardware.gym import by_hand
from tests.unit.hardware.gym.by_hand import WORK, read


def gold_of(case: Case) -> Gold:
    gold = case.gold()
    assert gold is not None
    return gold


@pytest.mark.parametrize("name", ["train", "hard", "test"])
def test_a_second_script_finds_every_gold(gyms: dict[str, Environment], name: str) -> None:
    seen: Counter[str] = Counter()
    for task in gyms[name].tasks:
        family = str(task.metadata["family"])
        codes, numbers, fix = WORK[family](read(task.prompt))
        assert codes == set(task.gold.codes), task.id
        assert numbers == pytest.approx(dict(task.gold.intermediates), rel=1e-4), task.id
        words = {k: v for k, v in fix.items() if isinstance(v, str | bool)}
        gold = dict(task.gold.fix)
        assert words == {k: v for k, v in gold.items() if isinstance(v, str | bool)}, task.id
        rest = {k: v for k, v in gold.items() if k not in words}
        assert {k: fix[k] for k in fix if k not in words} == pytest.approx(rest, rel=1e-3), task.id
        seen[family] += 1
    assert min(seen[family] for family in WORK if family != "named_fault") >= 15
    assert seen.total() == len(gyms[name].tasks)


def test_the_second_script_stands_alone() -> None:
    tree = ast.parse(Path(by_hand.__file__).read_text(encoding="utf-8"))
    names = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert names == ["__future__", "collections.abc", "typing"]


def test_zero_memory_by_hand() -> None:
    # 8·10⁹ bytes a byte each = 7.4506 GiB. Stage 1 on 4 ranks: 4 + 12/4 = 7 bytes = 52.154 GiB;
    # with 1.5 + 2.0 GiB: 55.654, over 39.4. Stage 2: 2 + 14/4 = 5.5 = 40.978, over. Stage 3:
    # 4 bytes = 29.802, + 3.5 + 1.0 gathered = 34.302; room 5.098, 3 sequences of 1.6 (4.8).
    # Micro-batch 4 of 8 a rank does not fit; the largest divisor of 8 below 3.19 is 2, so 4 steps.
    case = ZeroMemory(8.0, 4, 1, 4, 4, 32, 39.4, 1.5, 1.0, 1.6, 2.0)
    gold = gold_of(case)
    assert gold.codes == ("batch_off_target", "micro_batch_too_large", "states_over_budget")
    assert gold.fix == {"zero_stage": 3, "micro_batch": 2}
    assert gold.intermediates == pytest.approx(
        {"state_bytes_per_parameter": 7, "fixed_gib": 55.654, "activation_room_gib": 5.098,
         "effective_batch": 64}, rel=1e-3,
    )  # fmt: skip


def test_checkpointing_by_hand() -> None:
    # s·h = 2048 × 4096 = 2²³; 5as/h = 5·32·2048/4096 = 80. A layer: 114 × 8 MiB = 912 MiB,
    # 32 of them 28.5 GiB; selective 34 × 8 × 32 MiB = 8.5 GiB; full (64 + 34) × 8 MiB = 0.766.
    # Room 39.4 - 18 - 1.4 = 20: selective, 2 sequences (17); of 8 a rank 2 at a time, 4 steps.
    case = Checkpointing(32, 4096, 32, 2048, "none", 4, 1, 2, 2, 16, 39.4, 18.0, 1.4)
    gold = gold_of(case)
    assert gold.codes == ("checkpointing_too_weak", "micro_batch_too_large")
    assert gold.fix == {
        "checkpointing": "selective", "micro_batch": 2, "gradient_accumulation_steps": 4,
    }  # fmt: skip
    assert gold.intermediates == pytest.approx(
        {"sequence_activation_gib": 28.5, "activation_room_gib": 20.0, "fitting_sequences": 2,
         "effective_batch": 16}
    )  # fmt: skip


def test_optimizer_by_hand() -> None:
    # Embeddings 2 × 100,000 × 5,000 = 10⁹, layers 10 × 100·10⁶ = 10⁹. 10⁹ bytes = 0.931323 GiB.
    # Given: weights 2 × 4 = 8, gradients 2 × 2 = 4, states 12 × 2 = 24: 36 → 33.528 + 2 GiB.
    # No token added: embeddings off: 8 + 2 + 12 = 22 → 20.489 + 2 = 22.489; room 1.611 < 2.
    # adamw_8bit: 8 + 2 + 6 = 16 → 14.901 + 2; room 7.199, 3 sequences; 2 of 2 fit. 8 / 2 = 4.
    case = OptimizerMemory(
        4.0, 10, True, 100_000, 5_000, "adamw", 2, 8, 1, 8, 24.1, 1.0, 100.0, 2.0, 1.0, 0
    )
    gold = gold_of(case)
    assert gold.codes == (
        "batch_off_target", "embeddings_trained_needlessly", "optimizer_over_budget",
    )  # fmt: skip
    assert gold.fix == {
        "train_embeddings": False, "optimizer": "adamw_8bit", "gradient_accumulation_steps": 4,
    }  # fmt: skip
    assert gold.intermediates == pytest.approx(
        {"trained_parameters_million": 2000, "optimizer_gib": 22.352, "fixed_gib": 35.528,
         "effective_batch": 16}, rel=1e-4,
    )  # fmt: skip


def test_logits_by_hand() -> None:
    # 8,192 tokens × 131,072 × 10 bytes = 10 GiB. Room 22 - 9 - 1 = 12, a quarter 3: chunks of
    # 2,048 (2.5 GiB). Left 9.5: 2 sequences of 4 GiB fit, 4 do not. 4 a rank: 2 steps of 2.
    case = Logits(131_072, 2048, 0, 4, 1, 2, 8, 22.0, 9.0, 4.0, 1.0)
    gold = gold_of(case)
    assert gold.codes == ("logits_over_budget", "micro_batch_too_large")
    assert gold.fix == {
        "loss_chunk_tokens": 2048, "micro_batch": 2, "gradient_accumulation_steps": 2,
    }  # fmt: skip
    assert gold.intermediates == pytest.approx(
        {"logits_gib": 10, "room_gib": 12, "chunk_gib": 2.5, "effective_batch": 8}
    )


def test_parallel_by_hand() -> None:
    # A stage: 16 layers × 12 × 4096² = 3.2212·10⁹ and the embedding 131,072 × 4096 = 0.53687·10⁹.
    # Together 3.7581·10⁹ = 3.5 × 2³⁰, × 18 bytes = 63 GiB on one rank, 31.5 on two, 15.75 on four.
    # s·h = 2²⁴; 2 in flight × 16 layers: t = 2: × 34/2 = 17 × 0.5 GiB = 8.5, without the split
    # (10 + 12) × 0.5 = 11. 31.5 + 8.5 + 2 = 42 over 39.4; t = 4: 15.75 + 8 (10 + 6 = 16) + 2 fits.
    # d = 16 / 8 = 2; bubble 1 / (8 / 2) = 0.25 over 0.2: 5 a rank, target 10. Given 8 × 4 = 32.
    case = ParallelMemory(16, 8, 2, 2, False, 8, 8, 0.2, 32, 4096, 131_072, 4096, 39.4, 1.0, 1.0)
    gold = gold_of(case)
    assert gold.codes == ("batch_off_target", "bubble_over_limit", "tensor_split_too_small")
    assert gold.fix == {
        "tensor_parallel": 4, "target_batch": 10, "gradient_accumulation_steps": 5,
    }  # fmt: skip
    assert gold.intermediates == pytest.approx(
        {"rank_parameters_billion": 1.87905, "rank_states_gib": 31.5,
         "rank_activations_gib": 11.0, "bubble_share": 0.125}, rel=1e-4,
    )  # fmt: skip


def test_evaluation_by_hand() -> None:
    # 4 × 32 × 8 × 128 = 131,072 bytes a token, 8,192 tokens: 1 GiB. Free 22 - 8 - 1 - 1 = 12,
    # minus 11.5 of training states: 0.5, none fits. Released: 12 of 16. 60 problems × 4 / 12 = 20
    # rounds × 8,000 × 45 ms = 2.0 h; 1.6 h allow 16 rounds: 3 samples take 15, 1.5 h.
    case = EvaluationMemory(
        32, 8, 128, 192, 8000, 16, 60, 4, False, 1.6, 22.0, 8.0, 11.5, 1.0, 1.0, 45.0
    )
    gold = gold_of(case)
    assert gold.codes == ("evaluation_over_time", "kv_cache_over_budget", "training_states_kept")
    assert gold.fix == {
        "release_training_states": True, "eval_batch_size": 12, "samples_per_problem": 3,
    }  # fmt: skip
    assert gold.intermediates == pytest.approx(
        {"kv_gib_per_sequence": 1, "free_gib": 12, "fitting_sequences": 12,
         "evaluation_hours": 1.5}
    )  # fmt: skip


def test_disk_by_hand() -> None:
    # 2 × 5 + 12 × 1 = 22·10⁹ bytes = 20.489 GiB; each of 4 ranks all: 10 + 48 = 58 = 54.017.
    # 100 GiB hold 4 of them, one being written: keep 3. 20.489 / 0.5 = 40.98 s, at most 2 % of
    # steps of 10 s: 40.98 / 0.2 = 204.9, so 205.
    gold = gold_of(CheckpointDisk(5.0, 1.0, 4, False, 5, 100, 0.02, 100.0, 0.5, 10.0))
    assert gold.codes == ("checkpoints_over_disk", "every_rank_saves_all", "saving_over_time")
    assert gold.fix == {"save_sharded": True, "save_total_limit": 3, "save_steps": 205}
    assert gold.intermediates == pytest.approx(
        {"checkpoint_gib": 54.017, "fixed_checkpoint_gib": 20.489, "save_seconds": 40.98}, rel=1e-3
    )


def test_packing_by_hand() -> None:
    # Unpacked: 6·10⁹ + 12·10·1000·10,000 = 7.2·10⁹ a token; 2 × 100 × 0.36 = 72·10¹² a second:
    # 10,000 tokens/s. 7,200 examples × 10,000 = 72·10⁶ tokens: 2 h. 6 epochs need 12 of 11 - 1 h.
    # Packed: 6·10⁹ + 12·10·1000·2,500 = 6.3·10⁹: 11,429 tokens/s; 7,200 × 2,500 / 0.9 = 20·10⁶:
    # 0.4861 h, all 6 fit. 0.9 × 10,000 / 2,500 = 3.6 examples; 36 / (2 × 3.6) = 5. Given 18 right.
    case = PackingTime(
        1.0, 10, 1000, 2, 10_000, False, 6, 1, 9, 36, 11.0, 100.0, 0.36, 0.9, 2500, 7200, 1.0
    )
    gold = gold_of(case)
    assert gold.codes == ("batch_off_target", "padding_not_packed")
    assert gold.fix == {"packing": True, "gradient_accumulation_steps": 5}
    assert gold.intermediates == pytest.approx(
        {"tokens_per_second": 10_000, "epoch_tokens_million": 72, "epoch_hours": 2,
         "fixed_epoch_hours": 0.48611}, rel=1e-4,
    )  # fmt: skip


def test_schedule_by_hand() -> None:
    # 2 × 8 × 4 = 64; ceil(10,000 / 64) = 157 steps, 3 epochs 471. 471 × 8 = 3,768 counts
    # micro-batches. Warm-up ceil(0.1 × 471) = 48, × 8 = 384. Rate 10⁻⁴ × sqrt(64 / 16) = 2·10⁻⁴.
    # At step 235.5 the rate is 10⁻⁴ × 235.5 / 384 = 6.1328·10⁻⁵.
    gold = gold_of(Schedule(2, 8, 3, 1e-4, 1e-4, 16, 3768, 384, 0.1, 4, 10_000))
    assert gold.codes == (
        "learning_rate_off_scale", "schedule_counts_micro_steps", "warmup_counts_micro_steps",
    )  # fmt: skip
    assert gold.fix == {"schedule_steps": 471, "warmup_steps": 48, "learning_rate": 2e-4}
    assert gold.intermediates == pytest.approx(
        {"effective_batch": 64, "steps_per_epoch": 157, "total_steps": 471,
         "half_way_rate": 6.1328e-5}, rel=1e-4,
    )  # fmt: skip


def test_warmup_by_hand() -> None:
    # 2 × 6 × 2 = 24 instead of 12 (3 steps): ceil(12,000 / 24) × 2 = 1,000 given, 2,000 right.
    # Warm-up 0.05 × 1,000 = 50, × 6 = 300 counts micro-batches; right 100. After 20 steps the rate
    # is 4·10⁻⁵ = 10⁻⁴ × 120 / 300: 6 advances a step; the peak comes after 50 steps, 5 %, as if
    # nothing were wrong.
    gold = gold_of(Warmup(2, 6, 2, 12, 2, 1e-4, 300, 0.05, 0, 12_000, 20, 4e-5))
    assert gold.codes == (
        "batch_off_target", "scheduler_per_micro_batch", "warmup_counts_micro_steps",
    )  # fmt: skip
    assert gold.fix == {
        "gradient_accumulation_steps": 3, "warmup_steps": 100, "scheduler_pace": 1,
    }  # fmt: skip
    assert gold.intermediates == pytest.approx(
        {"schedule_steps_per_step": 6, "total_steps": 2000, "given_total_steps": 1000,
         "real_warmup_share": 0.05}
    )  # fmt: skip

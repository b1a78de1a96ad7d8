"""The gym's golds worked out a second time, from the text, with formulas of its own.

Imports nothing of the pipeline: the doctor, the solver and the gym share their formulas,
so that their agreement proves nothing. Formulas are written here as the papers have them:
arXiv 1910.02054 (ZeRO), 2205.05198 (activations), 2204.02311 (operations).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

Numbers = dict[str, Any]
Worked = tuple[set[str], dict[str, float], dict[str, Any]]

G = 1024.0**3
LOGGED = {
    "fragmentation_gib": r"(?:split blocks \| |allocated = )([\d.]+) GiB|([\d.]+) GiB is reserved",
    "added_tokens": r"tokenizer: (\d+) tokens|added_tokens=(\d+)",
    "decode_step_ms": r"(?:decode: |step \| )([\d.]+) ms",
    "disk_write_gib_per_s": r"written at ([\d.]+) GiB/s|\(GiB/s\): ([\d.]+)",
    "seconds_per_step": r"(?:'step_time'|iteration \(s\)): ([\d.]+)",
    "mean_example_tokens": r"mean tokens per example: (\d+)|mean length \| (\d+)",
    "examples": r"Num examples = (\d+)|loaded (\d+) examples|examples \| (\d+)",
    "reserved_hours": r"clock: ([\d.]+) h reserved|reserved_hours=([\d.]+)",
    "logged_step": r"optimizer step (\d+) done|global_step=(\d+)",
    "logged_rate": r"learning rate: ([\d.e-]+)|'learning_rate': ([\d.e-]+)",
}
NAMED = (
    ("disk_full", r"No space left"),
    ("loss_scale_collapse", r"loss scale"),
    ("no_trained_tokens", r"trained tokens|labels are -100"),
    ("vocabulary_mismatch", r"index out of range in self|device-side assert"),
    ("positions_exceeded", r"longer than the positions|rotary table"),
    ("collective_timeout", r"collective operation timeout|NCCL timeout"),
    ("host_memory", r"oom-killer|is killed by signal"),
    ("data_starved", r"waiting for data|data loader is the bottleneck"),
    ("adapter_rank_mismatch", r"size mismatch|loading state_dict"),
)


def read(prompt: str) -> Numbers:
    """All numbers of a prompt, and the log itself."""
    part = {}
    for piece in prompt.split("## ")[1:]:
        title, _, body = piece.partition("\n")
        part[title] = body
    found: Numbers = json.loads(part["Config"])
    for line in part["Profiler"].strip().splitlines():
        name, value = line.split()
        found[name] = float(value)
    for name, pattern in LOGGED.items():
        if hit := re.search(pattern, part["Log"]):
            found[name] = float(next(group for group in hit.groups() if group))
    found["log"] = part["Log"]
    return found


def changes(n: Numbers, **wanted: Any) -> dict[str, Any]:
    """Only what differs from the config."""
    return {name: value for name, value in wanted.items() if n.get(name) != value}


def batch(n: Numbers, fits: Callable[[int], bool]) -> tuple[set[str], int, int]:
    """Codes, micro-batch and accumulation; tries all micro-batches downwards."""
    codes, per_rank, micro = set(), n["target_batch"] // n["gpus"], n["micro_batch"]
    if n["micro_batch"] * n["gradient_accumulation_steps"] * n["gpus"] != n["target_batch"]:
        codes.add("batch_off_target")
    if not fits(micro):
        codes.add("micro_batch_too_large")
        micro = per_rank
        while per_rank % micro or not fits(micro):
            micro -= 1
    return codes, micro, per_rank // micro


def effective(n: Numbers) -> int:
    return int(n["micro_batch"] * n["gradient_accumulation_steps"] * n["gpus"])


def zero_memory(n: Numbers) -> Worked:
    d = n["gpus"]
    per = [2 + 2 + 12, 2 + 2 + 12 / d, 2 + (2 + 12) / d, (2 + 2 + 12) / d]

    def fixed(stage: int) -> float:
        extra = n["gathered_gib"] * (stage == 3)
        rest = n["context_gib"] + n["fragmentation_gib"] + extra
        return float(per[stage] * n["params_billion"] * 1e9 / G + rest)

    each, stage = n["activation_gib_per_sequence"], n["zero_stage"]
    while fixed(stage) + each > n["memory_gib"]:
        stage += 1
    room = n["memory_gib"] - fixed(stage)
    codes, micro, steps = batch(n, lambda m: m * each <= room)
    if stage > n["zero_stage"]:
        codes.add("states_over_budget")
    numbers = {
        "state_bytes_per_parameter": per[n["zero_stage"]],
        "fixed_gib": fixed(n["zero_stage"]),
        "activation_room_gib": room,
        "effective_batch": effective(n),
    }
    fix = changes(n, zero_stage=stage, micro_batch=micro, gradient_accumulation_steps=steps)
    return codes, numbers, fix


def checkpointing_accumulation(n: Numbers) -> Worked:
    s, h, a, layers = n["max_seq_len"], n["hidden"], n["heads"], n["layers"]
    # 34·s·h and 5·a·s² a layer; only the layer's input with `full`, and one layer again.
    need = {
        "none": layers * (34 * s * h + 5 * a * s * s) / G,
        "selective": layers * 34 * s * h / G,
        "full": (layers * 2 + 34) * s * h / G,
    }
    room = n["memory_gib"] - n["fixed_gib"] - n["fragmentation_gib"]
    names = list(need)
    best = next(name for name in names if n["min_micro_batch"] * need[name] <= room)
    codes, micro, steps = batch(n, lambda m: m * need[best] <= room)
    if names.index(best) > names.index(n["checkpointing"]):
        codes.add("checkpointing_too_weak")
    if names.index(best) < names.index(n["checkpointing"]):
        codes.add("checkpointing_excessive")
    numbers = {
        "sequence_activation_gib": need[n["checkpointing"]],
        "activation_room_gib": room,
        "fitting_sequences": room // need[best],
        "effective_batch": effective(n),
    }
    fix = changes(n, checkpointing=best, micro_batch=micro, gradient_accumulation_steps=steps)
    return codes, numbers, fix


def optimizer_memory(n: Numbers) -> Worked:
    size = {"adamw": 4 + 8, "adamw_8bit": 4 + 2, "adafactor": 4}
    body = n["trained_layers"] * n["layer_params_million"] / 1e3
    tables = 2 * n["vocabulary"] * n["hidden"] / 1e9

    def fixed(name: str, trained: float) -> float:
        billions = 2 * n["params_billion"] + 2 * trained + size[name] * trained
        return float(billions * 1e9 / G + n["context_gib"] + n["fragmentation_gib"])

    codes = set()
    given = body + tables * n["train_embeddings"]
    keeps = n["train_embeddings"] and n["added_tokens"] > 0
    if n["train_embeddings"] and not keeps:
        codes.add("embeddings_trained_needlessly")
    trained, each = body + tables * keeps, n["activation_gib_per_sequence"]
    name = n["optimizer"]
    while fixed(name, trained) + each > n["memory_gib"]:
        name = {"adamw": "adamw_8bit", "adamw_8bit": "adafactor"}[name]
        codes.add("optimizer_over_budget")
    room = n["memory_gib"] - fixed(name, trained)
    more, micro, steps = batch(n, lambda m: m * each <= room)
    numbers = {
        "trained_parameters_million": given * 1e3,
        "optimizer_gib": size[n["optimizer"]] * given * 1e9 / G,
        "fixed_gib": fixed(n["optimizer"], given),
        "effective_batch": effective(n),
    }
    fix = changes(
        n,
        train_embeddings=keeps,
        optimizer=name,
        micro_batch=micro,
        gradient_accumulation_steps=steps,
    )
    return codes | more, numbers, fix


def logits_chunk(n: Numbers) -> Worked:
    room = n["memory_gib"] - n["fixed_gib"] - n["fragmentation_gib"]
    each = n["vocabulary"] * (2 + 4 + 4) / G
    tokens, chunk, codes = n["micro_batch"] * n["max_seq_len"], n["loss_chunk_tokens"], set()
    given = tokens if chunk == 0 else min(chunk, tokens)
    if given * each > room / 4:
        codes.add("logits_over_budget")
        chunk = 1
        while 2 * chunk * each <= room / 4:
            chunk *= 2
    held = (chunk or tokens) * each
    more, micro, steps = batch(
        n, lambda m: m * n["activation_gib_per_sequence"] + held <= room + 1e-12
    )
    numbers = {
        "logits_gib": given * each,
        "room_gib": room,
        "chunk_gib": held,
        "effective_batch": effective(n),
    }
    fix = changes(n, loss_chunk_tokens=chunk, micro_batch=micro, gradient_accumulation_steps=steps)
    return codes | more, numbers, fix


def parallel_memory(n: Numbers) -> Worked:
    p, t, m = n["pipeline_parallel"], n["tensor_parallel"], n["gradient_accumulation_steps"]
    owned = n["layers"] // p

    def parameters(size: int) -> float:
        return float((owned * 12 * n["hidden"] ** 2 + n["vocabulary"] * n["hidden"]) / size)

    def active(size: int, flights: int, split: bool) -> float:
        wide = n["max_seq_len"] * n["hidden"]
        layer = wide * 34 / size if split else wide * 10 + wide * 24 / size
        return float(flights * owned * layer / G)

    def over(size: int, split: bool) -> bool:
        total = 18 * parameters(size) / G + active(size, p, split)
        return bool(total + n["context_gib"] + n["fragmentation_gib"] > n["memory_gib"])

    codes, size = set(), t
    while over(size, True):
        size *= 2
        codes.add("tensor_split_too_small")
    split = n["sequence_parallel"]
    if not split and over(size, False):
        split = True
        codes.add("sequence_not_split")
    data, target = n["gpus"] // (size * p), n["target_batch"]
    if (p - 1) * data / target > n["bubble_limit"]:
        codes.add("bubble_over_limit")
        target = data
        while (p - 1) * data / target > n["bubble_limit"] + 1e-9:
            target += data
    if n["gpus"] // (t * p) * m != n["target_batch"]:
        codes.add("batch_off_target")
    numbers = {
        "rank_parameters_billion": parameters(t) / 1e9,
        "rank_states_gib": parameters(t) * 18 / G,
        "rank_activations_gib": active(t, min(p, m), n["sequence_parallel"]),
        "bubble_share": (p - 1) / m,
    }
    fix = changes(
        n,
        tensor_parallel=size,
        sequence_parallel=split,
        target_batch=target,
        gradient_accumulation_steps=target // data,
    )
    return codes, numbers, fix


def kv_evaluation(n: Numbers) -> Worked:
    length = n["prompt_tokens"] + n["max_new_tokens"]
    # Keys and values, 2 bytes each.
    each = 2 * n["layers"] * n["kv_heads"] * n["head_width"] * 2 * length / G
    free = n["memory_gib"] - n["weights_gib"] - n["context_gib"] - n["fragmentation_gib"]
    codes, release = set(), n["release_training_states"]
    if not release:
        if free - n["training_states_gib"] >= each:
            free -= n["training_states_gib"]
        else:
            codes.add("training_states_kept")
            release = True
    size, samples = n["eval_batch_size"], n["samples_per_problem"]
    if size * each > free:
        codes.add("kv_cache_over_budget")
        size = math.floor(free / each)

    def hours() -> float:
        seconds = n["max_new_tokens"] * n["decode_step_ms"] / 1000
        return float(-(-n["problems"] * samples // size) * seconds / 3600)

    while hours() > n["evaluation_budget_hours"]:
        codes.add("evaluation_over_time")
        samples -= 1
    numbers = {
        "kv_gib_per_sequence": each,
        "free_gib": free,
        "fitting_sequences": math.floor(free / each),
        "evaluation_hours": hours(),
    }
    fix = changes(
        n, release_training_states=release, eval_batch_size=size, samples_per_problem=samples
    )
    return codes, numbers, fix


def checkpoint_disk(n: Numbers) -> Worked:
    def size(copies: int) -> float:
        return float((2 * n["params_billion"] + copies * 12 * n["trained_billion"]) * 1e9 / G)

    codes, one = set(), size(1)
    if not n["save_sharded"]:
        codes.add("every_rank_saves_all")
    keep, every, seconds = n["save_total_limit"], n["save_steps"], one / n["disk_write_gib_per_s"]
    while (keep + 1) * one > n["disk_free_gib"]:
        codes.add("checkpoints_over_disk")
        keep -= 1
    while seconds > n["save_share"] * every * n["seconds_per_step"]:
        codes.add("saving_over_time")
        every += 1
    numbers = {
        "checkpoint_gib": one if n["save_sharded"] else size(n["gpus"]),
        "fixed_checkpoint_gib": one,
        "save_seconds": seconds,
    }
    return codes, numbers, changes(n, save_sharded=True, save_total_limit=keep, save_steps=every)


def packing_time(n: Numbers) -> Worked:
    def speed(packed: bool) -> float:
        seen = n["mean_example_tokens"] if packed else n["max_seq_len"]
        work = 6e9 * n["params_billion"] + 12 * n["layers"] * n["hidden"] * seen
        return float(n["gpus"] * n["peak_tflops"] * n["mfu"] * 1e12 / work)

    def tokens(packed: bool) -> float:
        each = n["mean_example_tokens"] / n["fill"] if packed else n["max_seq_len"]
        return float(n["examples"] * each)

    def hours(packed: bool) -> float:
        return tokens(packed) / speed(packed) / 3600

    def steps(packed: bool) -> int:
        held = n["fill"] * n["max_seq_len"] / n["mean_example_tokens"] if packed else 1
        exact = n["target_examples"] / n["micro_batch"] / n["gpus"] / held
        return max(1, int(exact + 0.5))

    codes, given, packed, epochs = set(), n["packing"], n["packing"], n["epochs"]
    if steps(given) != n["gradient_accumulation_steps"]:
        codes.add("batch_off_target")
    limit = n["budget_hours"] - n["reserved_hours"]
    if epochs * hours(packed) > limit and not packed:
        codes.add("padding_not_packed")
        packed = True
    while epochs * hours(packed) > limit:
        codes.add("epochs_over_budget")
        epochs -= 1
    numbers = {
        "tokens_per_second": speed(given),
        "epoch_tokens_million": tokens(given) / 1e6,
        "epoch_hours": hours(given),
        "fixed_epoch_hours": hours(packed),
    }
    fix = changes(n, packing=packed, epochs=epochs, gradient_accumulation_steps=steps(packed))
    return codes, numbers, fix


def up(value: float) -> int:
    """Next whole number; a product such as 0.1 × 30 is 3, not a little more."""
    return math.ceil(value - 1e-9)


def accumulation_schedule(n: Numbers) -> Worked:
    gpus, accumulation, schedule = int(n["gpus"]), n["gradient_accumulation_steps"], 0
    size = n["micro_batch"] * accumulation * gpus
    epoch = -(-int(n["examples"]) // size)
    total, schedule, codes = epoch * n["epochs"], n["schedule_steps"], set()
    if schedule != total:
        for code, wrong in (
            ("schedule_counts_micro_steps", total * accumulation),
            ("schedule_ignores_ranks", total * gpus),
            ("schedule_ignores_epochs", epoch),
        ):
            if schedule == wrong:
                codes.add(code)
    warmup = up(n["warmup_share"] * total)
    if n["warmup_steps"] != warmup:
        codes.add("warmup_counts_micro_steps")
    rate = n["reference_rate"] * (size / n["reference_batch"]) ** 0.5
    fix = changes(n, schedule_steps=total, warmup_steps=warmup)
    if abs(n["learning_rate"] - rate) > 0.01 * rate:
        codes.add("learning_rate_off_scale")
        fix["learning_rate"] = rate
    half, w = total / 2, n["warmup_steps"]
    height = half / w if half < w else max(0.0, (schedule - half) / (schedule - w))
    numbers = {
        "effective_batch": size,
        "steps_per_epoch": epoch,
        "total_steps": total,
        "half_way_rate": n["learning_rate"] * height,
    }
    return codes, numbers, fix


def warmup_micro_steps(n: Numbers) -> Worked:
    given, gpus = n["gradient_accumulation_steps"], n["gpus"]

    def total(accumulation: int) -> int:
        size = n["micro_batch"] * accumulation * gpus
        return int(n["epochs"] * -(-int(n["examples"]) // size))

    right = n["target_batch"] // (n["micro_batch"] * gpus)
    one = n["learning_rate"] * n["logged_step"] / n["warmup_steps"]
    pace = given if abs(n["logged_rate"] - one * given) < abs(n["logged_rate"] - one) else 1
    codes, due = set(), up(n["warmup_share"] * total(given))
    if pace != 1:
        codes.add("scheduler_per_micro_batch")
    if right != given:
        codes.add("batch_off_target")
    if n["warmup_steps"] == due * given:
        codes.add("warmup_counts_micro_steps")
    if n["warmup_steps"] == due * gpus:
        codes.add("warmup_ignores_ranks")
    numbers = {
        "schedule_steps_per_step": pace,
        "total_steps": total(right),
        "given_total_steps": total(given),
        "real_warmup_share": n["warmup_steps"] / pace / total(given),
    }
    warmup = up(n["warmup_share"] * total(right))
    fix = changes(n, gradient_accumulation_steps=right, warmup_steps=warmup)
    return codes, numbers, fix | ({"scheduler_pace": 1} if pace != 1 else {})


def named_cure(n: Numbers, code: str, value: int) -> dict[str, Any]:
    """The field that cures a named fault; found by counting up where that is possible."""
    if code == "disk_full":
        return {"save_total_limit": int(n["disk_gib"] // n["checkpoint_gib"]) - 1}
    if code == "loss_scale_collapse":
        return {"precision": "fp32" if n["capability"] < 8 else "bf16"}
    if code == "host_memory":
        return {"num_workers": int((n["host_gib"] - n["process_gib"]) // n["worker_gib"])}
    if code == "data_starved":
        return {"num_workers": -int(-n["load_ms"] // n["step_ms"])}
    if code == "adapter_rank_mismatch":
        return {"lora_rank": value, "lora_alpha": n["lora_alpha"] * value // n["lora_rank"]}
    if code == "positions_exceeded":
        factor = 1
        while n["model_positions"] * factor < value:
            factor *= 2
        return {"rope_factor": factor}
    least, step, field = {
        "no_trained_tokens": (value, 256, "max_seq_len"),
        "vocabulary_mismatch": (value + 1, 128, "vocab_size"),
        "collective_timeout": (2 * value, 60, "collective_timeout_s"),
    }[code]
    return {field: least + -least % step}


def named_fault(n: Numbers) -> Worked:
    code, line = next(
        (code, line)
        for line in n["log"].splitlines()
        for code, pattern in NAMED
        if re.search(pattern, line)
    )
    found = re.search(
        r"\((\d+) of the file|checkpoint (\d+) not|scale (\d+) after|minimum (\d+):"
        r"|has (\d+) tokens|up to (\d+) tokens|id (\d+)\)?$|model: (\d+)|length (\d+)$"
        r"|busy for (\d+)|away for (\d+)|process (\d+)|pid (\d+)|data: (\d+)|utilization (\d+)"
        r"|rank (\d+)$",
        line,
    )
    assert found is not None, line
    value = int(next(group for group in found.groups() if group))
    codes, fix = {code}, named_cure(n, code, value)
    total = n["epochs"] * math.ceil(n["examples"] / n["target_batch"])
    accumulation = n["target_batch"] // n["micro_batch"] // n["gpus"]
    for name, right, silent in (
        ("gradient_accumulation_steps", accumulation, "batch_off_target"),
        ("schedule_steps", total, "schedule_ignores_epochs"),
        ("warmup_steps", up(n["warmup_share"] * total), "warmup_counts_micro_steps"),
    ):
        if n[name] != right:
            codes.add(silent)
            fix[name] = right
    return codes, {}, fix


WORK: dict[str, Callable[[Numbers], Worked]] = {
    "zero_memory": zero_memory,
    "checkpointing_accumulation": checkpointing_accumulation,
    "optimizer_memory": optimizer_memory,
    "logits_chunk": logits_chunk,
    "parallel_memory": parallel_memory,
    "kv_evaluation": kv_evaluation,
    "checkpoint_disk": checkpoint_disk,
    "packing_time": packing_time,
    "accumulation_schedule": accumulation_schedule,
    "warmup_micro_steps": warmup_micro_steps,
    "named_fault": named_fault,
    "named_and_silent_fault": named_fault,
}

"""What players that understand nothing can win; `python -m pipeline.gym audit` runs it.

A player gets the prompt alone and replies in the right form. The limits are those that
the gym promises; a change of families or weights that breaks one is seen here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from statistics import fmean

from pipeline.hardware.gym import solver
from pipeline.hardware.gym.cases import Value
from pipeline.hardware.gym.codes import CODES
from pipeline.hardware.gym.environment import Environment
from pipeline.hardware.gym.grader import Grade
from pipeline.hardware.gym.prompt import Text

Player = Callable[[str, Random], str]

KEYWORDS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (r"No space left|quota exceeded", "disk_full", ("save_total_limit",)),
    (r"oom-killer|killed by signal", "host_memory", ("num_workers",)),
    (r"size mismatch|loading state_dict", "adapter_rank_mismatch", ("lora_rank", "lora_alpha")),
    (r"loss scale", "loss_scale_collapse", ("precision",)),
    (r"trained tokens|labels are -100", "no_trained_tokens", ("max_seq_len",)),
    (r"longer than the positions|rotary", "positions_exceeded", ("rope_factor",)),
    (r"index out of range|device-side assert", "vocabulary_mismatch", ("vocab_size",)),
    (r"out of memory", "micro_batch_too_large", ("micro_batch", "gradient_accumulation_steps")),
    (r"waiting for data|data loader|queue empty", "data_starved", ("num_workers",)),
    (r"NCCL|collective", "collective_timeout", ("collective_timeout_s",)),
    (r"evaluation stopped by the clock", "evaluation_over_time", ("samples_per_problem",)),
    (r"stopped by the clock", "epochs_over_budget", ("epochs",)),
    (r"writer: queue full", "saving_over_time", ("save_steps",)),
    (r"throughput|step time", "checkpointing_excessive", ("checkpointing",)),
    (r"stage 0 idle", "bubble_over_limit", ("gradient_accumulation_steps",)),
    (r"learning rate 0\.0|loss flat", "schedule_ignores_epochs", ("schedule_steps",)),
    (r"nan|spikes|above the clip|rises", "learning_rate_off_scale", ("learning_rate",)),
)
"""Pattern in the log → code and the fields that people change then; the first match counts."""

WORDS: dict[str, Value] = {
    "precision": "bf16", "checkpointing": "none", "optimizer": "adamw_8bit", "zero_stage": 3,
}  # fmt: skip
RAISED = frozenset({
    "gradient_accumulation_steps", "max_seq_len", "vocab_size", "rope_factor", "save_steps",
    "collective_timeout_s", "schedule_steps", "tensor_parallel", "target_batch",
})  # fmt: skip
"""Fields whose usual remedy is a doubling; others are halved."""


def usual(name: str, text: Text) -> Value:
    """The value that people try first."""
    now = text.config.get(name, 2)
    if name in WORDS:
        return WORDS[name]
    if isinstance(now, bool):
        return not now
    if isinstance(now, str):
        return now
    if isinstance(now, float):
        return now / 2
    return 2 * now if name in RAISED else max(1, now // 2)


def form(text: Text, codes: Sequence[str], fields: Sequence[str], number: float | None) -> str:
    """A reply of the right form."""
    allowed = [name for name in fields if name in text.fields]
    reply: dict[str, object] = {
        "diagnosis": list(codes),
        "fix": {name: usual(name, text) for name in allowed},
    }
    if text.quantities:
        reply["intermediates"] = dict.fromkeys(text.quantities, number)
    return json.dumps(reply)


def keyword(prompt: str, rng: Random) -> str:
    """Reads the log's words and replies with the usual remedy."""
    text = Text.of(prompt)
    for pattern, code, fields in KEYWORDS:
        if re.search(pattern, text.log):
            return form(text, [code], fields, None)
    return form(text, ["batch_off_target"], ["gradient_accumulation_steps"], None)


def chance(prompt: str, rng: Random) -> str:
    """Random codes, fields and numbers."""
    text = Text.of(prompt)
    codes = rng.sample(list(CODES), rng.randint(1, 3))
    fields = rng.sample(text.fields, rng.randint(1, 3))
    return form(text, codes, fields, round(10 ** rng.uniform(-2, 4), 2))


def dump(prompt: str, rng: Random) -> str:
    """Every code, and every field with its usual remedy."""
    text = Text.of(prompt)
    return form(text, list(CODES), text.fields, 1.0)


def dump_fields(prompt: str, rng: Random) -> str:
    """The keyword's code, and every field with its usual remedy."""
    text = Text.of(prompt)
    reply: dict[str, object] = json.loads(keyword(prompt, rng))
    return json.dumps(reply | {"fix": {name: usual(name, text) for name in text.fields}})


def echo(prompt: str, rng: Random) -> str:
    """The prompt itself."""
    return prompt


def solve(prompt: str, rng: Random) -> str:
    """The solver, which follows the rules of the text."""
    return solver.answer(prompt)


PLAYERS: dict[str, Player] = {
    "keyword": keyword, "random": chance, "dump-all": dump, "dump-fields": dump_fields,
    "echo": echo, "solver": solve,
}  # fmt: skip
MOST = {"keyword": 0.15, "random": 0.13, "dump-all": 0.30, "dump-fields": 0.30, "echo": 0.0}
LEAST = {"solver": 0.95, "gold": 1.0}
"""Limits of the mean score on each split."""


def play(environment: Environment, name: str, seed: int = 0) -> list[Grade]:
    """Grades of a player, or of `gold`, on all tasks."""
    rng = Random(seed)
    prompts = [task.prompt for task in environment.tasks]
    if name == "gold":
        replies = [solver.reply(task.gold) for task in environment.tasks]
    else:
        replies = [PLAYERS[name](prompt, rng) for prompt in prompts]
    return environment.evaluate(prompts, replies)


def mean_scores(environment: Environment, seed: int = 0) -> dict[str, float]:
    """Player → mean score."""
    return {
        name: fmean(grade.score for grade in play(environment, name, seed))
        for name in (*PLAYERS, "gold")
    }


def broken(scores: dict[str, float]) -> list[str]:
    """Players that win too much or too little."""
    rich = [name for name, most in MOST.items() if scores[name] > most]
    return rich + [name for name, least in LEAST.items() if scores[name] < least]

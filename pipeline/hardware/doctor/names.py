"""One name for each figure and each setting, whatever a trainer calls it.

Used by the readers of this folder. The left side of each table is what rules ask for.
"""

from __future__ import annotations

import re

from pipeline.hardware.doctor.record import Line, Record, Setting, Value

FIGURES = {
    "step": "step iteration iter current_steps global_step s",
    "total_steps": "total_steps",
    "epoch": "epoch",
    "loss": "loss train_loss train/loss lm_loss training_loss",
    "eval_loss": "eval_loss val_loss eval/loss validation_loss test_loss tel",
    "learning_rate": "learning_rate lr train/learning_rate",
    "grad_norm": "grad_norm gnorm gradient_norm train/grad_norm",
    "token_accuracy": "token_accuracy mean_token_accuracy",
    "eval_accuracy": "eval_acc valid_accuracy test_accuracy eval_accuracy",
    "reward": "reward reward_avg reward_mean",
    "zero_advantage": "frac_reward_zero_std",
    "clipped_replies": "completions/clipped_ratio",
    "forgetting": "forgetting",
    "tokens": "tokens total_tokens num_tokens num_input_tokens_seen train_total_tokens",
    "tokens_per_second": "tokens_per_second tokens_per_sec tps tokens_/_sec throughput",
    "memory_gib": "memory_gib",
    "loss_scale": "loss_scale",
    "skipped": "number_of_skipped_iterations",
    "nan_steps": "number_of_nan_iterations",
    "policy_ratio": "policy_ratio kl kl_loss",
}
SETTINGS = {
    "learning_rate": "learning_rate lr",
    "micro_batch": "micro_batch_sequences per_device_train_batch_size train_batch_size "
    "micro_batch_size train_micro_batch_size_per_gpu batch_size",
    "accumulation": "accumulation gradient_accumulation_steps grad_accum",
    "ranks": "ranks num_gpus world_size n_gpu data_parallel_size gpus",
    "warmup_share": "warmup_share warmup_ratio",
    "warmup_steps": "warmup_steps lr_warmup_iters warmup_iters",
    "max_steps": "max_steps train_iters total_steps first_total",
    "epochs": "epochs num_train_epochs",
    "sequence_tokens": "sequence_tokens cutoff_len max_seq_length seq_len seq_length max_length",
    "parameters": "parameters num_total_params total_params model_parameters num_parameters",
    "trainable": "trainable num_trainable_params trainable_params trainable_parameters",
    "compute_dtype": "compute_dtype dtype torch_dtype precision",
    "optimizer": "optimizer optim optimizer_type",
    "clip_norm": "clip_norm max_grad_norm gradient_clipping grad_norm_clip clip_grad",
    "recompute": "gradient_checkpointing use_gc recompute ac activation_checkpointing",
    "zero_stage": "stage zero_stage",
    "packing": "packing",
    "neat_packing": "neat_packing padding_free",
    "attention": "attention attn_implementation flash_attn",
    "quantization": "quantization quantization_bit base_quantization load_in_4bit",
    "vocabulary": "vocab_size padded_vocab_size vocabulary",
    "rope_theta": "rope_theta",
    "model_type": "model_type",
    "max_positions": "max_position_embeddings",
    "gpu_gib": "gpu_memory_gib gpu_gib memory_gib_per_gpu",
    "peak_gib": "gib peak_gib peak_memory_gib",
    "trained_tokens": "trained_tokens",
    "documents": "documents",
    "method": "method peft_type finetuning_type",
    "hours": "hours",
    "success": "success status",
    "loss_reduction": "loss_reduction",
}


END_OF_RUN = "train_runtime"
"""Stands in the Trainer's last row, whose loss is the mean of the whole run."""


def _turned(table: dict[str, str]) -> dict[str, str]:
    return {alias: name for name, aliases in table.items() for alias in aliases.split()}


FIGURE_OF, SETTING_OF = _turned(FIGURES), _turned(SETTINGS)


def figures_of(tree: dict[str, object]) -> dict[str, float]:
    """The known figures of a JSON object; a value that is no number is left out."""
    found: dict[str, float] = {}
    for key, value in tree.items():
        name = FIGURE_OF.get(key.lower().replace(" ", "_"))
        if name is None or isinstance(value, bool):
            continue
        if isinstance(value, (int, float, str)):
            try:
                found.setdefault(name, float(value))
            except ValueError:
                continue
    if END_OF_RUN in tree:
        found.pop("loss", None)
    return found


def line_of(file: str, lines: list[str], key: str, start: int = 0) -> Line:
    """The first line from `start` (0-based) that holds a key; the first line without one."""
    wanted = re.compile(rf"(?<![\w.]){re.escape(key)}(?!\w)")
    for number in range(start, len(lines)):
        if wanted.search(lines[number]):
            return Line(file, number + 1, lines[number])
    return Line(file, 1, lines[0] if lines else "")


def keep_settings(
    record: Record, file: str, lines: list[str], tree: object, prefix: str = ""
) -> None:
    """Keep every known setting of a tree of mappings, under its dotted key."""
    if not isinstance(tree, dict):
        return
    for raw, value in tree.items():
        key = str(raw)
        if isinstance(value, dict):
            keep_settings(record, file, lines, value, f"{prefix}{key}.")
            continue
        name = SETTING_OF.get(key.lower().replace("-", "_"))
        if name and _is_plain(value):
            record.put(name, Setting(prefix + key, _plain(value), line_of(file, lines, key)))


def _is_plain(value: object) -> bool:
    return value is not None and isinstance(value, (str, int, float, bool))


def _plain(value: object) -> Value:
    if isinstance(value, bool | str):
        return value
    return float(str(value)) if isinstance(value, int | float) else str(value)

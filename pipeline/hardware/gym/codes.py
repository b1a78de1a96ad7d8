"""The diagnosis codes of the gym, each with its meaning; every prompt lists them all.

Read by the prompt writer, the grader (a code outside this table is no valid answer) and
the players of the audit.
"""

from __future__ import annotations

FITS_NOT = frozenset({
    "states_over_budget", "micro_batch_too_large", "checkpointing_too_weak",
    "optimizer_over_budget", "logits_over_budget", "tensor_split_too_small",
    "sequence_not_split", "training_states_kept", "kv_cache_over_budget",
    "checkpoints_over_disk",
})  # fmt: skip
"""Codes with which the run does not fit, so that its log ends with an error."""

CODES = {
    "states_over_budget": "weights, gradients and optimizer states leave no room for a sequence",
    "micro_batch_too_large": "the activations of the micro-batch do not fit beside the rest",
    "batch_off_target": "the configured effective batch is not the target batch",
    "checkpointing_too_weak": "kept activations leave no room for even one sequence",
    "checkpointing_excessive": "a milder checkpointing level would fit",
    "optimizer_over_budget": "the optimizer's states leave no room for a sequence",
    "embeddings_trained_needlessly": "embeddings are trained though no token was added",
    "logits_over_budget": "the logits of a loss chunk do not fit",
    "tensor_split_too_small": "a rank's share of the states leaves no room for activations",
    "sequence_not_split": "activations fit only with sequence parallelism",
    "bubble_over_limit": "too few micro-batches for the pipeline",
    "training_states_kept": "training states leave the evaluation no room for one sequence",
    "kv_cache_over_budget": "the key-value cache of the evaluation batch does not fit",
    "evaluation_over_time": "the evaluation takes longer than its budget",
    "padding_not_packed": "padding makes the epochs longer than the budget",
    "epochs_over_budget": "the epochs do not fit the budget, whatever the packing",
    "schedule_counts_micro_steps": "the schedule's length counts micro-batches",
    "schedule_ignores_ranks": "the schedule's length counts the examples of one rank's batch",
    "schedule_ignores_epochs": "the schedule's length is that of one epoch",
    "learning_rate_off_scale": "the learning rate does not follow the batch",
    "scheduler_per_micro_batch": "the scheduler advances with every micro-batch",
    "warmup_counts_micro_steps": "the warm-up's length counts micro-batches",
    "warmup_ignores_ranks": "the warm-up's length counts the examples of one rank's batch",
    "every_rank_saves_all": "each rank writes the whole optimizer state",
    "checkpoints_over_disk": "the kept checkpoints do not fit the disk",
    "saving_over_time": "saving takes more than its share of the time",
    "disk_full": "the disk is full",
    "loss_scale_collapse": "fp16 overflows at every loss scale",
    "no_trained_tokens": "truncation leaves no reply to learn from",
    "vocabulary_mismatch": "a token id lies beyond the embedding",
    "positions_exceeded": "a sequence is longer than the positions of the model",
    "collective_timeout": "a collective waits for a rank that is busy",
    "host_memory": "the loader's processes use up the host's memory",
    "data_starved": "the device waits for data",
    "adapter_rank_mismatch": "the checkpoint holds adapters of another rank",
}

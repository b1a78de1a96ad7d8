"""The diagnosis codes: how grave each is, what it says, what to do where no field cures it.

Used by the rules, the page and docs/diagnosis.md; a test keeps the table there the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Grade = Literal["fault", "warning", "note"]


@dataclass(frozen=True)
class Code:
    """A diagnosis.

    Attributes:
        grade: a fault ended or spoilt the run; a warning costs quality or time; a note is
            only worth knowing.
        remedy: what to do when no field of the configuration follows from the files.
    """

    grade: Grade
    meaning: str
    remedy: str


FREE = "Free memory of the device, halve the micro-batch or recompute activations."

CODES: dict[str, Code] = {
    "oom": Code("fault", "out of device memory; the log does not tell where", FREE),
    "oom_load": Code(
        "fault", "out of device memory while the base was loaded",
        "Store the base in fewer bits or spread it over more devices.",
    ),
    "oom_step": Code("fault", "out of device memory in the forward or backward pass", FREE),
    "oom_logits": Code("fault", "out of device memory at the logits or the loss", FREE),
    "oom_optimizer": Code(
        "fault", "out of device memory at the optimizer step",
        "Use an optimizer with a smaller state, or shard it over more devices.",
    ),
    "oom_evaluation": Code(
        "fault", "out of device memory while texts were generated",
        "Generate fewer texts at once, or shorter ones.",
    ),
    "memory_fragmented": Code(
        "fault", "memory was reserved but in pieces too small",
        "Let the allocator's pieces grow.",
    ),
    "device_shared": Code(
        "fault", "other processes hold memory of the same device",
        "End those processes or take another device.",
    ),
    "host_memory": Code(
        "fault", "out of host memory, or the system ended the process for it",
        "Start fewer ranks or workers on this machine, or give it more memory.",
    ),
    "disk_full": Code(
        "fault", "no space left for a file", "Free space for the run's folder and run again.",
    ),
    "collective_timeout": Code(
        "fault", "ranks waited in a collective for one that never came",
        "Look at the rank that reports no timeout: it left or hangs elsewhere.",
    ),
    "rank_hung": Code(
        "fault", "a rank made no progress and was ended",
        "Look at the rank whose stack (stacks-<rank>.txt) is in no collective.",
    ),
    "device_lost": Code(
        "fault", "the driver lost the device",
        "Leave this device out, run again, and look at the system's log.",
    ),
    "token_out_of_range": Code(
        "fault", "a token id beyond the rows of the embedding",
        "Tokenize again with the tokenizer of this base.",
    ),
    "port_in_use": Code(
        "fault", "the address for the ranks to meet is taken",
        "End the other run or choose another port.",
    ),
    "package_missing": Code("fault", "a package is not installed", "Run `make setup`."),
    "shapes_differ": Code(
        "fault", "weights and model have other shapes",
        "Use the base and the settings that the weights were made with.",
    ),
    "permission": Code(
        "fault", "a file may not be read or written", "Give this user the right to it.",
    ),
    "interrupted": Code("note", "stopped by a signal with its state saved", "Run again."),
    "not_finite": Code(
        "fault", "the loss or a gradient became infinite or not a number",
        "Lower the learning rate, or compute in bfloat16 or float32.",
    ),
    "loss_scale_collapsed": Code(
        "fault", "fp16 overflows however small the loss scale", "Compute in bfloat16 or float32.",
    ),
    "rate_too_high": Code(
        "fault", "the loss rose and stayed high: the rate is too high",
        "Divide the learning rate by ten.",
    ),
    "rate_zero": Code(
        "fault", "the learning rate is zero at every logged step",
        "Look at the schedule: total steps, warm-up, and who calls it.",
    ),
    "no_gradient": Code(
        "fault", "gradients are zero: nothing can be learnt",
        "Look at which parameters are trained and whether the loss reaches them.",
    ),
    "nothing_trained": Code(
        "fault", "no token carries loss",
        "Look at the mask with `make inspect`; make the data again.",
    ),
    "warmup_in_micro_steps": Code(
        "fault", "the warm-up was counted in micro-steps",
        "Count the schedule in optimizer steps.",
    ),
    "warmup_too_long": Code(
        "fault", "most of the run lies in the warm-up", "Warm up over 5 % of the steps.",
    ),
    "loss_scaled_by_accumulation": Code(
        "fault", "the loss is a sum over the micro-batches",
        "Divide by the trained tokens of the whole step.",
    ),
    "wrong_rope": Code(
        "fault", "the base's rotary frequency is not that of its model family",
        "Take config.json from the base's release.",
    ),
    "positions_beyond_base": Code(
        "fault", "sequences are longer than the base's positions", "Shorten the sequences.",
    ),
    "leaking_packs": Code(
        "fault", "packed documents can attend to each other",
        "Pack with document lengths, or not at all.",
    ),
    "clock_cut": Code(
        "warning", "the time allowed less than half of the planned steps",
        "Raise budget.hours, or select fewer tokens: the rate falls to zero either way.",
    ),
    "checkpoint_damaged": Code(
        "warning", "a checkpoint was passed over as damaged", "Check the disk; the run goes on.",
    ),
    "slowed_down": Code(
        "warning", "the speed fell for good while the memory stood still",
        "Look at the machine: heat, power, other work, the disk.",
    ),
    "always_clipped": Code(
        "warning", "nearly every update is scaled down by clipping",
        "Raise the clip norm to the usual gradient.",
    ),
    "gradient_spikes": Code(
        "warning", "single gradients far above the others",
        "Look at the rows of that step; clipping limits the harm.",
    ),
    "overfitting": Code(
        "warning", "the evaluation loss rises while the training loss falls",
        "Stop at its lowest, or train on more data.",
    ),
    "memorising": Code(
        "warning", "the loss falls at each pass's end: rows are known by heart",
        "Fewer passes or more data.",
    ),
    "little_progress": Code(
        "warning", "the loss hardly fell; the files do not tell why",
        "Compare with the loss of the untrained base, another rate, and the mask.",
    ),
    "accuracy_zero": Code(
        "warning", "the measured accuracy is zero throughout",
        "Read some replies: the answer may not be found rather than wrong.",
    ),
    "forgetting": Code(
        "warning", "the loss on unrelated text rose much",
        "Lower the rate, or train fewer steps.",
    ),
    "reward_hacking": Code(
        "warning", "the reward rose while the measured accuracy fell",
        "Read replies with a high reward, and reward only what is checked.",
    ),
    "replies_cut_off": Code(
        "warning", "most sampled replies ended at the length limit",
        "Allow longer replies: what is cut off earns nothing.",
    ),
    "no_advantage": Code(
        "warning", "many groups have equal rewards and teach nothing",
        "Leave out problems that are always or never solved; sample more replies each.",
    ),
    "too_few_steps": Code(
        "warning", "fewer than 20 updates in all",
        "Smaller steps or more passes; so few updates tell nothing of the recipe.",
    ),
    "small_share_of_data": Code(
        "note", "the run ended after less than a tenth of one pass", "More steps, if time allows.",
    ),
    "first_update_wasted": Code(
        "note", "the first update has a rate of zero",
        "Take the rate at the middle of the step; it matters in short runs alone.",
    ),
    "tokens_not_counted": Code(
        "note", "the trainer did not count tokens: no throughput", "Switch the counting on.",
    ),
    "low_utilisation": Code(
        "note", "less than a fifth of the device's peak is used",
        "Longer or more sequences a micro-batch, while memory allows.",
    ),
}  # fmt: skip

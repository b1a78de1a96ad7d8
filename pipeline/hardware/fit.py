"""The largest and fastest way to train that fits the memory.

Order of what is given up: unquantised storage last but one, sequence length
last; before them, in this order, larger micro-batches, large loss chunks and
kept activations, none of which changes what is learnt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import ModelShape
from pipeline.base.params import Params
from pipeline.base.stage_table import largest_micro_batch, sequences_per_step
from pipeline.hardware.choices import Devices
from pipeline.hardware.memory import OPTIMIZER_BYTES, Setting, needed_gib, training_parts
from pipeline.hardware.stages import longest_stage

LENGTHS = (
    16384, 12288, 8192, 6144, 5120, 4096, 3584, 3072, 2560, 2048, 1536, 1024, 768, 512, 256,
)  # fmt: skip
"""Sequence lengths that `plan.sequence_tokens: null` chooses among."""

RECOMPUTED = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Shares of the layers that are recomputed, the fastest first."""

LOSS_CHUNKS = (2048, 1024, 512, 256)

COMPILED_CAPABILITY = (7, 0)
"""First CUDA capability for which torch's compiler makes kernels."""

MOST_TOKENS = {"cuda": 16384, "cpu": 1024}
"""Tokens of one forward pass beyond which it gets no faster (on a CPU slower: 575
tokens/s at 1,024 and 513 at 2,048), while a signal has to wait for its end."""

LONG_ENOUGH = 4096
"""An unquantised base is kept only if sequences may be at least so long (or as
long as wanted): dropping most traces would cost more than nf4's rounding."""


@dataclass(frozen=True)
class Fit:
    """A setting that fits and how many sequences make one step."""

    setting: Setting
    sequences_per_step: int

    @property
    def accumulation(self) -> int:
        """Forward passes of each rank in one step."""
        return self.sequences_per_step // (self.setting.ranks * self.setting.micro_batch_sequences)

    @property
    def tokens_per_step(self) -> int:
        """Packed tokens of one step over all ranks."""
        return self.sequences_per_step * self.setting.sequence_tokens


def candidate_lengths(params: Params, shape: ModelShape) -> list[int]:
    """Lengths to try, longest first; of a curriculum its longest stage alone.

    Raises:
        UserError: the asked length is more than the model's positions, or the
            curriculum contradicts itself.
    """
    longest, most = longest_stage(params), shape.max_positions
    asked = longest or params.plan.sequence_tokens
    if asked is not None:
        if most and asked > most:
            key = "plan.sequence_tokens" if longest is None else "curriculum.stages"
            raise UserError(
                f"{key}: {asked} is more than the base's {most} positions",
                f"Set it to at most {most}{', or to null' if longest is None else ''}.",
            )
        return [asked]
    limit = min(params.train.tokens_per_step, most or LENGTHS[0])
    return [length for length in LENGTHS if length <= limit] or [limit]


def compiles(params: Params, devices: Devices) -> bool:
    """Whether layers are compiled: by choice, else on GPUs for which Triton has code."""
    asked = params.train.compile
    if asked != "auto":
        return asked == "on"
    own = params.train.method == "lora"
    return own and devices.device == "cuda" and devices.capability >= COMPILED_CAPABILITY


class Fitter:
    """Searches settings of one model on one kind of device."""

    def __init__(self, shape: ModelShape, params: Params, devices: Devices, dtype: str) -> None:
        self.shape, self.params, self.devices = shape, params, devices
        self.lengths = candidate_lengths(params, shape)
        self.first = Setting(
            device=devices.device,
            ranks=devices.ranks,
            compute_dtype=dtype,
            quantization="none",
            sequence_tokens=self.lengths[0],
            micro_batch_sequences=params.plan.micro_batch_sequences or 1,
            recompute=0.0,
            loss_chunk_positions=LOSS_CHUNKS[0],
            rank=params.train.rank,
            targets=params.train.target_modules,
            grouped_attention=devices.native_bf16 and devices.device == "cuda",
            compiled=compiles(params, devices),
            own_layers=params.train.method == "lora",
            state_bytes=OPTIMIZER_BYTES[params.train.optimizer] + 4 * (params.train.ema_decay > 0),
        )

    def need(self, setting: Setting) -> float:
        """GiB of one rank."""
        return needed_gib(training_parts(self.shape, setting))

    def fits(self, setting: Setting) -> bool:
        """Whether one rank can hold it."""
        return self.need(setting) <= self.devices.capacity_gib

    def at(self, quantization: str, length: int, *, sharded: bool = False) -> list[Setting]:
        """Settings with this storage and length, fastest first."""
        asked = self.params.plan.gradient_checkpointing
        first = replace(
            self.first, quantization=quantization, sequence_tokens=length, sharded=sharded
        )
        shares = RECOMPUTED if asked is None else (float(asked),)
        ways = [replace(first, recompute=share) for share in shares]
        if first.device == "cuda" and first.own_layers and not sharded and shares[-1] == 1:
            ways.append(replace(first, recompute=1.0, offload=True))
        return [replace(way, loss_chunk_positions=chunk) for way in ways for chunk in LOSS_CHUNKS]

    def longest(self, quantization: str, *, sharded: bool = False) -> Setting | None:
        """The fastest setting of the longest length that fits."""
        for length in self.lengths:
            for setting in self.at(quantization, length, sharded=sharded):
                if self.fits(setting):
                    return setting
        return None

    def widened(self, setting: Setting) -> Fit:
        """The same with the largest micro-batch that fits and divides a rank's share.

        Raises:
            UserError: the asked micro-batch does not divide it.
        """
        total = sequences_per_step(
            self.params.train.tokens_per_step, setting.sequence_tokens, setting.ranks
        )
        share = total // setting.ranks
        asked = self.params.plan.micro_batch_sequences
        if asked is not None:
            if share % asked:
                raise UserError(
                    f"plan.micro_batch_sequences: {asked} does not divide the {share} sequences"
                    " that each rank trains in a step",
                    f"Choose a divisor of {share}, or null.",
                )
            return Fit(setting, total)
        most = MOST_TOKENS[setting.device] // setting.sequence_tokens
        while (size := largest_micro_batch(share, most)) > 1:
            wide = replace(setting, micro_batch_sequences=size)
            if self.fits(wide):
                return Fit(wide, total)
            most = size - 1
        return Fit(setting, total)


Way = tuple[str, bool]
"""Storage of the base, and whether it is spread over the ranks."""


def ways_to_hold(options: list[str], spread: Sequence[bool]) -> list[Way]:
    """All that may be tried, in order of preference; only an unquantised base is spread."""
    return [(o, shared) for shared in spread for o in options if not shared or o == "none"]


def _ways_out(fitter: Fitter, smallest: Setting, ways: list[Way]) -> list[str]:
    """Changes that would make `smallest` fit, each tried before it is named."""
    length_key = "plan.sequence_tokens"
    if fitter.params.curriculum.stages:
        length_key = "curriculum.stages with sequences of at most"
    trials = [
        (
            "train.base_quantization: nf4",
            replace(smallest, quantization="nf4", sharded=False),
        ),
        ("plan.gradient_checkpointing: null", replace(smallest, recompute=1.0)),
        ("plan.micro_batch_sequences: null", replace(smallest, micro_batch_sequences=1)),
        *(
            (f"{length_key}: {length}", replace(smallest, sequence_tokens=length))
            for length in LENGTHS
        ),
        *((f"train.rank: {rank}", replace(smallest, rank=rank)) for rank in (32, 16, 8, 4)),
    ]
    whole = [storage for storage, shared in ways if not shared]
    if fitter.devices.device == "cpu" or "nf4" in whole or not whole:
        trials = trials[1:]
    together = [
        (
            f"train.rank: {rank} with {length_key}: {length}",
            replace(smallest, rank=rank, sequence_tokens=length, micro_batch_sequences=1),
        )
        for rank in (32, 16, 8, 4)
        for length in LENGTHS
    ]
    found: dict[str, str] = {}
    for change, trial in [*trials, *together]:
        less = trial.rank <= smallest.rank and trial.sequence_tokens <= smallest.sequence_tokens
        if less and fitter.fits(trial):
            # The first of its kind gives up least.
            found.setdefault(change.partition(":")[0], change)
    return [*found.values(), _larger(fitter, ways), "a smaller base"]


def _larger(fitter: Fitter, ways: list[Way]) -> str:
    """What hardware would help."""
    if fitter.devices.device == "cpu":
        return "a machine with a GPU or more memory"
    if any(shared for _, shared in ways):
        return "GPUs with more memory, or more of them"
    return "GPUs with more memory (each holds a whole copy, so more of the same do not help)"


def _refuse(fitter: Fitter, ways: list[Way]) -> UserError:
    """Nothing fits: how much is missing and every way out."""
    shortest = fitter.lengths[-1]
    smallest = min(
        (s for storage, shared in ways for s in fitter.at(storage, shortest, sharded=shared)),
        key=lambda setting: (fitter.need(setting), setting.loss_chunk_positions),
    )
    stored = smallest.quantization if smallest.quantization != "none" else smallest.compute_dtype
    if smallest.sharded:
        stored += f" spread over {smallest.ranks} ranks"
    return UserError(
        f"{fitter.shape.architecture} ({fitter.shape.parameters / 1e9:.2f} G parameters) in "
        f"{stored} with rank {smallest.rank} and {smallest.tokens:,} tokens in a pass needs "
        f"{fitter.need(smallest):.1f} GiB; {fitter.devices.offer}",
        f"Ways out: {'; '.join(_ways_out(fitter, smallest, ways))}.",
    )


def choose_fit(
    fitter: Fitter, options: list[str], spread: Sequence[bool] = (False,)
) -> tuple[Fit, list[Setting]]:
    """Storage, length, recomputation, loss chunk, micro-batch, and what a rank holds.

    Args:
        options: ways to store the base, in order of preference.
        spread: whether it is spread over the ranks, in order of preference.

    Returns:
        What was chosen, and the best setting of every way that fits at all.

    Raises:
        UserError: nothing fits; the message lists the ways out.
    """
    ways = ways_to_hold(options, spread)
    tried = [fitter.longest(storage, sharded=shared) for storage, shared in ways]
    found = [setting for setting in tried if setting is not None]
    if not found:
        raise _refuse(fitter, ways)
    enough = min(LONG_ENOUGH, fitter.lengths[0])
    chosen = found[0]
    if len(found) > 1 and chosen.sequence_tokens < enough:
        chosen = max(found, key=lambda setting: setting.sequence_tokens)
    return fitter.widened(chosen), found

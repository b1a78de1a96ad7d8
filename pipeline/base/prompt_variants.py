"""Several ways of putting a problem, where the scorer's own is not known.

The prompt of params.yaml is `main`, with weight 1; `prompt.variants` adds others. Every
training row is encoded under one of them, chosen by a hash of its problem; evaluation
asks each apart. Reads the base's tokenizer once; writes nothing. Used by the stages
tokenize, baseline and evaluate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path

from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from pipeline.base.params import PromptParams
from pipeline.base.records import MAIN


class Prompts:
    """One `Chat` for every variant of a run.

    Attributes:
        chats: name → chat, `main` first, the others in the order of params.yaml.
        weights: name → share of the training rows, relative to the others.
    """

    def __init__(self, base: Path, prompt: PromptParams) -> None:
        """Read the base's tokenizer and check every variant against its template.

        Raises:
            UserError: as `Chat`, with the variant's name; or two variants share a name or
                end their replies differently.
        """
        self.main = Chat(base, prompt)
        self.chats = {MAIN: self.main}
        self.weights = {MAIN: 1.0}
        _require_distinct([MAIN, *(variant.name for variant in prompt.variants)])
        for variant in prompt.variants:
            style = variant.model_dump(exclude={"name", "weight"})
            try:
                chat = Chat(base, prompt.model_copy(update=style), self.main.files)
            except UserError as error:
                raise UserError(
                    f"prompt.variants: {variant.name}: {error.problem}", error.remedy
                ) from None
            if chat.end_id != self.main.end_id:
                raise UserError(
                    f"prompt.variants: {variant.name}: replies would end with"
                    f" {chat.end_text!r}, those of {MAIN} with {self.main.end_text!r}",
                    "Leave the variant out, or name another template in `prompt.template`.",
                )
            self.chats[variant.name] = chat
            self.weights[variant.name] = variant.weight

    def variant_of(self, problem_id: str, seed: int) -> str:
        """Name of the variant under which a problem is trained.

        A pure function of seed, id, names and weights (`choose`).
        """
        return choose(self.weights, problem_id, seed)

    def chat_of(self, problem_id: str, seed: int) -> Chat:
        """The chat under which a problem is trained."""
        return self.chats[self.variant_of(problem_id, seed)]

    def ask(self, problem: str) -> Iterator[tuple[str, list[int]]]:
        """Name and prompt ids of every variant, for an evaluation of each apart."""
        for name, chat in self.chats.items():
            yield name, chat.prompt_ids(problem)


def choose(weights: dict[str, float], key: str, seed: int) -> str:
    """One of the names, each with a probability proportional to its weight.

    Weighted rendezvous hashing (Schindelhauer and Schomaker 2005, the logarithmic method):
    the name with the smallest -ln(u)/weight, u being a hash of seed, key and name in (0, 1).
    The order of the names changes nothing, and a further name takes keys from the others
    without moving any between them.
    """
    if len(weights) == 1:
        return next(iter(weights))

    def distance(name: str) -> tuple[float, str]:
        digest = blake2b(f"{seed}\0{name}\0{key}".encode(), digest_size=8).digest()
        share = ((int.from_bytes(digest) >> 11) + 0.5) * 2.0**-53
        return -math.log(share) / weights[name], name

    return min(weights, key=distance)


def _require_distinct(names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise UserError(
                f"prompt.variants: the name {name!r} is used {count} times"
                + (" (the prompt itself has it)" if name == MAIN else ""),
                "Give every variant a name of its own.",
            )

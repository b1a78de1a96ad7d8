"""The one way a problem becomes a prompt: training, evaluation and panel use it.

Works on the files of a base folder with `tokenizers` and `jinja2` alone, so that
stages that only count tokens never import torch. docs/prompts.md says what is
promised and what is refused.

A prompt is rendered up to where generation starts and encoded by itself; a reply
is encoded by itself and closed by the template's end token. Because the two are
never encoded together, the boundary of the loss mask is exact, and the ids that
training sees are the ids that decoding starts from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.constant_prompt import find_constant
from pipeline.base.end_tokens import end_token_warning, find_end_text, stopping_ids
from pipeline.base.errors import UserError
from pipeline.base.params import PromptParams
from pipeline.base.templates import Message
from pipeline.base.tokenizer_files import TokenizerFiles, read_tokenizer_files

THINK_OPEN, THINK_CLOSE = "<think>", "</think>"

SENTINEL = "\u2063reply\u2063"
"""Stands for a reply when the text around it in a template is looked for."""

_BLOCK = re.compile(rf"\s*(?:{THINK_OPEN}\s*(?:{THINK_CLOSE}\s*)?)?")
"""Blanks, and a thinking block that is opened or empty."""
_CONTINUED = "\n"


@dataclass(frozen=True)
class Encoded:
    """Token ids of a prompt and of the reply to be learnt, end token included."""

    prompt: list[int]
    reply: list[int]


class Chat:
    """Prompt and reply text, and their token ids, for one base and one prompt style.

    Attributes:
        tokenizer: the base's tokenizer.
        end_id: id of the token that ends a reply; it is trained.
        end_text: its text.
        end_ids: every id that decoding stops at, `end_id` first; what belongs into
            `eos_token_id` of a generation config.
        pad_id: id that fills unused places; never trained, never attended to.
    """

    def __init__(
        self, base: Path, prompt: PromptParams, files: TokenizerFiles | None = None
    ) -> None:
        """Read the base's tokenizer, or take one that was read before.

        Raises:
            UserError: files are missing or do not fit together, or the template cannot
                put problems the way that `prompt` asks for.
        """
        self.base, self.prompt = base, prompt
        self.files = files or read_tokenizer_files(base, prompt.template)
        self.tokenizer, self._template = self.files.tokenizer, self.files.template
        switch = {"on": True, "off": False, "empty-prefill": False}.get(prompt.thinking)
        self._options: dict[str, Any] = {} if switch is None else {"enable_thinking": switch}
        self._constant = find_constant(self._template, self._render_unguarded)
        rendered = self.rendered("1")
        self._prefill = _prefill(rendered) if prompt.thinking == "empty-prefill" else ""
        self._opening = rendered + self._prefill
        self._require_mode()
        self._require_system()
        self.end_text = find_end_text(self.files, self._after_reply(rendered))
        self.end_id = self.files.id_of(self.end_text)
        self.end_ids = stopping_ids(self.files, self.end_id)
        pad = self.files.special.get("pad_token")
        self.pad_id = self.files.id_of(pad) if pad else self.end_id
        self._lead = self._find_lead()

    def user_text(self, problem: str) -> str:
        """The user's message: the problem, a blank line, the instruction."""
        instruction = self.prompt.instruction.strip()
        return f"{problem.strip()}\n\n{instruction}" if instruction else problem.strip()

    def prompt_text(self, problem: str) -> str:
        """The prompt up to the first character that the model must write."""
        text = None
        if self._constant is not None:
            text = self._constant.around(self.user_text(problem))
        return (self.rendered(problem) if text is None else text) + self._prefill

    def rendered(self, problem: str) -> str:
        """What the template prints for a problem, without the block of `empty-prefill`."""
        messages = self._messages(self.user_text(problem))
        return self._template.render(messages, self._options, add_generation_prompt=True)

    def reply_text(self, thinking: str, solution: str) -> str:
        """What the model must write, without the end token.

        Where the prompt has closed an empty thinking block, or thinking is off, the
        reasoning becomes part of the visible reply. Where the prompt ends inside an open
        block, the opening tag is left out; a trace without thinking closes it at once.
        """
        thinking, solution = thinking.strip(), solution.strip()
        block = _block_at_end(self._opening)
        if block == "open":
            start = "" if self._opening.endswith("\n") else "\n"
            return f"{start}{thinking}\n{THINK_CLOSE}\n\n{solution}"
        if not thinking:
            return solution
        if block == "closed" or self.prompt.thinking == "off":
            return f"{thinking}\n\n{solution}"
        return f"{THINK_OPEN}\n{thinking}\n{THINK_CLOSE}\n\n{solution}"

    def prompt_ids(self, problem: str) -> list[int]:
        """Token ids of `prompt_text`: what decoding starts from."""
        return self.encode_prompts([problem])[0]

    def encode(self, problem: str, thinking: str, solution: str) -> Encoded:
        """Token ids to learn from; only `reply` carries loss."""
        (reply,) = self.encode_replies([self.reply_text(thinking, solution)])
        return Encoded(self.prompt_ids(problem), [*reply, self.end_id])

    def encode_prompts(self, problems: Sequence[str]) -> list[list[int]]:
        """Token ids of the prompts of many problems."""
        return self._encode([self.prompt_text(problem) for problem in problems])

    def encode_replies(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of many reply texts, without the end token."""
        if not self._lead:
            return self._encode(texts)
        lead = len(self._lead)
        return [
            # A piece of the vocabulary may span the line end; then the two stay apart.
            ids[lead:] if ids[:lead] == self._lead else self._encode([text])[0]
            for text, ids in zip(
                texts, self._encode([_CONTINUED + text for text in texts]), strict=True
            )
        ]

    def decode(self, ids: list[int]) -> str:
        """Text of generated ids, special tokens left out."""
        return str(self.tokenizer.decode(ids, skip_special_tokens=True))

    def tokenizer_sha256(self) -> str:
        """Hash over the bytes of every file that decides ids, the template included."""
        return self.files.sha256()

    def end_warning(self) -> str | None:
        """A sentence for the plan if the base names other end tokens; else None."""
        return end_token_warning(self.files, self.end_text, self.end_id)

    def generation_settings(self) -> dict[str, Any]:
        """What a generation config must say for replies to end: for the card."""
        return {"eos_token_id": list(self.end_ids), "pad_token_id": self.pad_id}

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        # The template prints its own special tokens; adding more would double them.
        encoded = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [list(one.ids) for one in encoded]

    def _messages(self, user: str) -> list[Message]:
        messages = [{"role": "user", "content": user}]
        if self.prompt.system is not None:
            messages.insert(0, {"role": "system", "content": self.prompt.system})
        return messages

    def _render_unguarded(self, user: str) -> str:
        return self._template.render_unguarded(self._messages(user), self._options, True)

    def _require_mode(self) -> None:
        wanted, block = self.prompt.thinking, _block_at_end(self._opening)
        if (wanted, block) in (("on", "closed"), ("off", "open")):
            raise UserError(
                f"{self._template.path}: prompt.thinking is {wanted}, but the chat template"
                f" leaves the thinking block {block}",
                "Set `prompt.thinking` to template"
                + (" or empty-prefill." if wanted == "off" else "."),
            )

    def _require_system(self) -> None:
        system = (self.prompt.system or "").strip()
        if system not in self._opening:
            raise UserError(
                f"{self._template.path}: the chat template leaves out the system message",
                "Set `prompt.system` to null and put the text into `prompt.instruction`.",
            )

    def _after_reply(self, prompt: str) -> str:
        """What the template prints after a reply; it must open the assistant's turn too."""
        messages = [
            *self._messages(self.user_text("1")),
            {"role": "assistant", "content": SENTINEL},
        ]
        whole = self._template.render(messages, self._options, add_generation_prompt=False)
        before, printed, after = whole.rpartition(SENTINEL)
        if not printed:
            return ""
        missing = before.removeprefix(prompt)
        if prompt and before.startswith(prompt) and not _BLOCK.fullmatch(missing):
            raise UserError(
                f"{self._template.path}: the chat template does not open the assistant's turn,"
                f" the model would have to write {missing!r} itself",
                "Name a template that prints it under `add_generation_prompt` in"
                " `prompt.template`.",
            )
        return after

    def _find_lead(self) -> list[int]:
        """Ids of a line end before a reply, where the reply's own depend on one.

        SentencePiece vocabularies put a space before every text. Behind a line end no
        such space belongs there; it is avoided by encoding the line end too.
        """
        line, plain, behind = self._encode([_CONTINUED, "a", _CONTINUED + "a"])
        apart = behind[: len(line)] == line and behind[len(line) :] != plain
        return line if apart and self._opening.endswith(_CONTINUED) else []


def _block_at_end(text: str) -> str:
    """Whether a prompt ends with a thinking block: `open`, `closed` or `none`."""
    text = text.rstrip()
    if text.endswith(THINK_OPEN):
        return "open"
    return "closed" if text.endswith(THINK_CLOSE) else "none"


def _prefill(rendered: str) -> str:
    """What is missing from an empty closed thinking block at the end of a prompt."""
    block = _block_at_end(rendered)
    if block == "closed":
        return ""
    start = f"{THINK_OPEN}\n" if block == "none" else ""
    if block == "open" and not rendered.endswith("\n"):
        start = "\n"
    return f"{start}\n{THINK_CLOSE}\n\n"

"""Which tokens end a reply: the one that is trained, and those that the base names.

Reads generation_config.json and config.json of a base folder; writes nothing. Used by
pipeline/base/chat.py, by planning (the warning) and by the card (the settings).
"""

from __future__ import annotations

from pathlib import Path

from pipeline.base.artifacts import read_json
from pipeline.base.errors import UserError
from pipeline.base.tokenizer_files import TokenizerFiles


def declared_end_ids(base: Path) -> list[int]:
    """End tokens that the base's generation settings name; empty if they name none."""
    for name in ("generation_config.json", "config.json"):
        path = base / name
        value = read_json(path, broken="Copy the base again.") if path.is_file() else {}
        found = value.get("eos_token_id")
        if found is not None:
            return [int(one) for one in (found if isinstance(found, list) else [found])]
    return []


def find_end_text(files: TokenizerFiles, after: str) -> str:
    """The token that the template prints after a reply, else the tokenizer's end token.

    Args:
        after: what the template prints between a reply and the end of the conversation.

    Raises:
        UserError: there is no such token, or other text would stand before it.
    """
    added = [token.content for token in files.tokenizer.get_added_tokens_decoder().values()]
    found = [(after.find(text), -len(text), text) for text in added if text.strip()]
    found = [one for one in found if one[0] >= 0]
    if found:
        place, _, end = min(found)
        if after[:place].strip():
            raise UserError(
                f"{files.template.path}: the chat template prints {after[:place]!r} between a"
                f" reply and its end token {end!r}",
                "Name a copy without that text in `prompt.template`.",
            )
        return str(end)
    named = files.special.get("eos_token")
    if not named:
        raise UserError(
            f"{files.base}: neither chat template nor tokenizer_config.json names an end token",
            "Set `eos_token` in tokenizer_config.json.",
        )
    return named


def stopping_ids(files: TokenizerFiles, end_id: int) -> tuple[int, ...]:
    """Every id at which decoding stops, the trained one first, the others ascending.

    The others are those of the base's generation settings and its tokenizer's end token:
    engines stop at both, and a base that has learnt to end with them may still do so.
    """
    others = set(declared_end_ids(files.base))
    named = files.tokenizer.token_to_id(files.special.get("eos_token", ""))
    if named is not None:
        others.add(int(named))
    return (end_id, *sorted(others - {end_id}))


def end_token_warning(files: TokenizerFiles, end_text: str, end_id: int) -> str | None:
    """A sentence for the plan if the base, as it is, would not stop where replies end.

    None when the base's generation settings name the trained end token.
    """
    declared = declared_end_ids(files.base)
    if end_id in declared:
        return None
    texts = [files.tokenizer.id_to_token(one) or str(one) for one in declared]
    named = " and ".join(map(repr, texts)) or "no end token"
    return (
        f"replies end with {end_text!r} (id {end_id}), but the base's generation settings name"
        f" {named}: whoever decodes must set eos_token_id to {[end_id, *declared]}, and if the"
        " base was never trained to write that token, only `train.target_modules: all-linear`"
        " gives its frozen head a fair chance to learn it"
    )

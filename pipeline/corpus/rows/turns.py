"""Conversations → one question and one reply, or the reason why not.

Called by schemas.py; reads and writes nothing. Turns come as `role`/`content` or
`from`/`value`, content as a string or as parts, reasoning in the text, in a part, in a
field of its own or in a turn of its own (harmony channels). System messages are left
out: a run sends its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.corpus.rows.harmony import is_call
from pipeline.corpus.rows.replies import split_reply
from pipeline.corpus.rows.text import RowFault, Value, as_parts, as_text

ROLES = {
    **dict.fromkeys(("user", "human", "question", "prompter"), "user"),
    **dict.fromkeys(("assistant", "gpt", "model", "bot", "chatgpt", "ai"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
}
THINKING_FIELDS = ("reasoning_content", "thinking", "reasoning", "thought", "thoughts")


@dataclass(frozen=True, slots=True)
class Reply:
    """What answers a problem; `visible` is empty if the row has no reply."""

    thinking: str
    visible: str


@dataclass(frozen=True, slots=True)
class Turn:
    """One message: its role (user, assistant, system or tool), text and reasoning."""

    role: str
    text: str
    thinking: str
    channel: str = ""
    """`analysis`, `commentary` or `final` where turns are marked so."""


def _first(turn: dict[str, Value], names: tuple[str, ...]) -> Value:
    return next((turn[name] for name in names if name in turn), None)


def read_turn(turn: Value) -> Turn:
    """One message of a conversation.

    Raises:
        RowFault: wrong-type, or not-text for images and the like.
    """
    if not isinstance(turn, dict):
        raise RowFault("wrong-type", f"a message is {type(turn).__name__}")
    said = str(_first(turn, ("role", "from", "speaker")) or "nobody").lower()
    role = ROLES.get(said, "tool")
    content = _first(turn, ("content", "value", "text"))
    channel = str(turn.get("channel") or "")
    called = turn.get("tool_calls") or turn.get("function_call") or turn.get("recipient")
    if role == "tool" or (called and called != "all") or is_call(channel):
        return Turn("tool", "", "")
    text, inside = as_parts("" if content is None else content, f"{said}'s message")
    field = _first(turn, THINKING_FIELDS)
    thinking = inside if field is None else as_text(field, "reasoning")
    return Turn(role, text, thinking, channel.lower())


def is_turns(value: Value) -> bool:
    """Whether a value is a list of messages."""
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(one, dict) and ("role" in one or "from" in one) for one in value)
    )


def _joined(turns: list[Turn]) -> list[Turn]:
    """Turns with those of one reply, an analysis and a final one, made one."""
    found: list[Turn] = []
    for turn in turns:
        if turn.channel in ("analysis", "commentary"):
            turn = replace(turn, text="", thinking=f"{turn.thinking}\n\n{turn.text}".strip())
        last = found[-1] if found else None
        if last and last.channel and turn.channel and last.role == turn.role == "assistant":
            both = (f"{last.thinking}\n\n{turn.thinking}", f"{last.text}\n\n{turn.text}")
            found[-1] = Turn("assistant", both[1].strip(), both[0].strip(), turn.channel)
        else:
            found.append(turn)
    return found


def _spoken(turns: list[Turn]) -> tuple[list[Turn], list[str]]:
    """(turns without system messages, their roles).

    Raises:
        RowFault: tool-use when a tool is called or answers.
    """
    spoken = _joined([turn for turn in turns if turn.role != "system"])
    roles = [turn.role for turn in spoken]
    if "tool" in roles:
        raise RowFault("tool-use", " ".join(roles[:8]))
    return spoken, roles


def single_question(turns: list[Turn]) -> tuple[str, Reply | None]:
    """(question, reply) of a conversation that has one question; no reply is None.

    Raises:
        RowFault: multi-turn, or tool-use when a tool is called or answers.
    """
    spoken, roles = _spoken(turns)
    if roles not in (["user"], ["user", "assistant"]):
        raise RowFault("multi-turn", " ".join(roles[:8]) or "no message")
    if len(spoken) == 1:
        return spoken[0].text, None
    return spoken[0].text, Reply(*split_reply(spoken[1].text, spoken[1].thinking))


def single_reply(turns: list[Turn], outside: str) -> Reply:
    """The reply of turns that hold nothing but one.

    Args:
        outside: reasoning that lies elsewhere in the row.

    Raises:
        RowFault: multi-turn or tool-use.
    """
    spoken, roles = _spoken(turns)
    if roles != ["assistant"]:
        raise RowFault("multi-turn", f"a reply of {len(turns)} messages: {' '.join(roles[:8])}")
    return Reply(*split_reply(spoken[0].text, spoken[0].thinking or outside))

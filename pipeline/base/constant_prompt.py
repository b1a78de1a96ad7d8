"""Prompts without rendering the template, where that provably gives the same text.

Rendering takes some 20 µs, on one core however many encode. Most templates only print
the user's message between two constant texts, after a few questions about it (Qwen3's
asks whether it begins with `<tool_response>`). Two equal renderings would not show
that. So the template is rendered once with a text that notes what is asked of it:

- the text is printed once, as it is;
- each question is one of a few kinds (`_ASKED`), and its answer is noted;
- nothing in the template could look at the text unnoticed: its syntax tree holds only
  constructs in which every access goes through a method of the text's own type.

Then any text that answers the questions alike takes the same path through the template
and comes out between the same two constants. Reads and writes nothing; used by
pipeline/base/chat.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from jinja2 import nodes

from pipeline.base.templates import FAULTS, PROBE, ChatTemplate

_PLAIN = (
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.For, nodes.If, nodes.Assign, nodes.Name,
    nodes.NSRef, nodes.Const, nodes.Getattr, nodes.Getitem, nodes.Slice, nodes.Operand,
    nodes.CondExpr, nodes.And, nodes.Or, nodes.Not, nodes.Add, nodes.Sub, nodes.Neg, nodes.Keyword,
    nodes.List, nodes.Tuple, nodes.Dict, nodes.Pair, nodes.Scope, nodes.Break, nodes.Continue,
)  # fmt: skip
"""Syntax that reaches a text through its type's own methods or prints it.

Missing on purpose is what copies a text inside the interpreter: `~`, `%`, macros, blocks
that are kept in a variable, most filters.
"""
_FILTERS = frozenset("length count tojson trim default d".split())
_TESTS = frozenset("string defined undefined none mapping true false boolean number".split())
_FUNCTIONS = frozenset("namespace range raise_exception strftime_now".split())

_ASKED: dict[str, Callable[[str, Any], bool]] = {
    "startswith": lambda text, part: text.startswith(part),
    "endswith": lambda text, part: text.endswith(part),
    "contains": lambda text, part: part in text,
    "equals": lambda text, other: text == other,
    "filled": lambda text, _: bool(text),
    "strip": lambda text, characters: text.strip(characters) == text,
    "lstrip": lambda text, characters: text.lstrip(characters) == text,
    "rstrip": lambda text, characters: text.rstrip(characters) == text,
}


@dataclass
class _Log:
    """What a template asked of a text."""

    answers: list[tuple[str, Any, bool]] = field(default_factory=list)
    opaque: bool = False
    """Something was done that no noted question covers."""


class _Probe(str):
    """A text that notes what is asked of it; joined to others, it may only be printed."""

    log: _Log
    joined: bool

    def __new__(cls, text: str, log: _Log, joined: bool = False) -> _Probe:
        probe = super().__new__(cls, text)
        probe.log, probe.joined = log, joined
        return probe

    def __add__(self, other: Any) -> Any:
        return self._join(str.__str__(self), other, after=True)

    def __radd__(self, other: Any) -> Any:
        return self._join(str.__str__(self), other, after=False)

    def _join(self, own: str, other: Any, after: bool) -> Any:
        if not isinstance(other, str):
            return NotImplemented
        text = str.__add__(own, other) if after else str.__add__(other, own)
        return _Probe(text, self.log, joined=True)

    def ask(self, kind: str, argument: Any, allowed: tuple[type, ...] = (str,)) -> bool:
        """Answer a question and note it."""
        if self.joined or type(argument) not in allowed:
            self.log.opaque = True
        answer = _ASKED[kind](str.__str__(self), argument)
        self.log.answers.append((kind, argument, answer))
        return answer

    def cut(self, kind: str, characters: Any) -> Any:
        """Strip characters: noted as the question whether there are any."""
        if self.ask(kind, characters, (str, type(None))):
            return self
        self.log.opaque = True
        return getattr(str.__str__(self), kind)(characters)

    def startswith(self, *given: Any) -> bool:
        return self.ask("startswith", given[0] if len(given) == 1 else given)

    def endswith(self, *given: Any) -> bool:
        return self.ask("endswith", given[0] if len(given) == 1 else given)

    def __contains__(self, part: Any) -> bool:
        return self.ask("contains", part)

    def __eq__(self, other: object) -> bool:
        return self.ask("equals", other)

    def __ne__(self, other: object) -> bool:
        return not self.ask("equals", other)

    def __bool__(self) -> bool:
        return self.ask("filled", None, (type(None),))

    def strip(self, characters: Any = None) -> Any:
        return self.cut("strip", characters)

    def lstrip(self, characters: Any = None) -> Any:
        return self.cut("lstrip", characters)

    def rstrip(self, characters: Any = None) -> Any:
        return self.cut("rstrip", characters)


def _opaque(name: str) -> Callable[..., Any]:
    plain = getattr(str, name)

    def method(self: _Probe, *given: Any, **named: Any) -> Any:
        self.log.opaque = True
        return plain(str.__str__(self), *given, **named)

    return method


_SILENT = set(dir(object)) - {"__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__format__"}
for _name in [*(set(dir(str)) - _SILENT - set(vars(_Probe))), "__hash__"]:
    setattr(_Probe, _name, _opaque(_name))


@dataclass(frozen=True)
class ConstantPrompt:
    """Two constant texts around the user's message, for texts that answer alike."""

    before: str
    after: str
    answers: tuple[tuple[Callable[[str, Any], bool], Any, bool], ...]

    def around(self, text: str) -> str | None:
        """The prompt of a user's message; None if the template must be rendered for it."""
        for question, argument, answer in self.answers:
            if question(text, argument) is not answer:
                return None
        return f"{self.before}{text}{self.after}"


def find_constant(template: ChatTemplate, render: Callable[[str], str]) -> ConstantPrompt | None:
    """The constants of a template, or None if it may look at the message in other ways.

    Args:
        template: whose syntax is examined.
        render: renders the prompt with a given text as the user's message.
    """
    if not _shows_every_access(template):
        return None
    log = _Log()
    try:
        parts = render(_Probe(PROBE, log)).split(PROBE)
    except FAULTS:
        return None
    if log.opaque or len(parts) != 2:
        return None
    asked = dict.fromkeys(
        (_ASKED[kind], argument, answer) for kind, argument, answer in log.answers
    )
    return ConstantPrompt(parts[0], parts[1], tuple(asked))


def _shows_every_access(template: ChatTemplate) -> bool:
    return all(map(_is_open, _walk(template.environment.parse(template.source))))


def _walk(node: nodes.Node) -> Iterator[nodes.Node]:
    yield node
    for child in node.iter_child_nodes():
        yield from _walk(child)


def _is_open(node: nodes.Node) -> bool:
    """Whether a text of our own type would notice all that this construct does to it."""
    if isinstance(node, nodes.Filter):
        return node.name in _FILTERS
    if isinstance(node, nodes.Test):
        return node.name in _TESTS
    if isinstance(node, nodes.Mod):  # on a text it would format
        return isinstance(node.right, nodes.Const) and isinstance(node.right.value, int)
    if isinstance(node, nodes.Compare):
        # `text in other` asks the other one.
        return all(
            operand.op not in ("in", "notin")
            or isinstance(node.expr, nodes.Const)
            or isinstance(operand.expr, nodes.List | nodes.Tuple)
            for operand in node.ops
        )
    if isinstance(node, nodes.Call):
        if isinstance(node.node, nodes.Name):
            return node.node.name in _FUNCTIONS
        given = [*node.args, *(keyword.value for keyword in node.kwargs)]
        constant = all(isinstance(one, nodes.Const) for one in given)
        return constant and not node.dyn_args and not node.dyn_kwargs
    return isinstance(node, _PLAIN)

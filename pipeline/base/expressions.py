r"""LaTeX of a short answer as a sympy expression, with every size bounded.

Called by algebra.py inside a worker process only, since sympy can hang or eat memory.
Reads text that latex.py has cleaned; writes nothing. A small grammar of its own stands in
for a general LaTeX parser: what is not in it is refused instead of guessed at, which is
how other parsers come to call different answers equal. Decimals are exact fractions.
`e` and `i` are the constants; other letters are complex variables.
"""

from __future__ import annotations

import re

import sympy
from sympy import Expr, Integer, Rational, Symbol

MAX_CHARACTERS = 300
"""A longer expression is refused."""
MAX_POWER = 1000
"""Largest exponent of a number; `(x+1)^n` is bounded by `MAX_EXPANSION`."""
MAX_EXPANSION = 40
MAX_BITS = 20_000
"""Largest size of a power of an integer."""
MAX_FACTORIAL = 300
MAX_WORD = 3
"""More letters in a row are a word, not a product."""
MAX_DEPTH = 40

_TOKEN = re.compile(r"\d+(?:\.\d*)?|\.\d+|\\[A-Za-z]+|\\.|[A-Za-z]+|\S")
_FUNCTIONS = {
    name: getattr(sympy, name)
    for name in "sin cos tan cot sec csc asin acos atan sinh cosh tanh exp log".split()
} | {
    "ln": sympy.log, "arcsin": sympy.asin, "arccos": sympy.acos, "arctan": sympy.atan,
}  # fmt: skip
_GREEK = frozenset(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta iota kappa lambda mu nu xi rho"
    " sigma tau phi varphi chi psi omega Gamma Delta Theta Lambda Sigma Phi Psi Omega"
    " emptyset varnothing ell".split()
)
_CONSTANTS = {"e": sympy.E, "i": sympy.I}
_PAIRS = {"(": ")", "[": "]", "{": "}", "|": "|", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}
_WRAPPERS = {"|": sympy.Abs, "\\lfloor": sympy.floor, "\\lceil": sympy.ceiling}


class Unreadable(Exception):
    """The text is not in the grammar."""


class TooLarge(Exception):
    """The expression would be too large to work with."""


def parse(text: str) -> Expr:
    """The expression that a cleaned text stands for.

    Raises:
        Unreadable: it is not in the grammar.
        TooLarge: a power, a factorial, the nesting or the text is beyond the limits.
    """
    if len(text) > MAX_CHARACTERS:
        raise TooLarge
    parser = _Parser([piece for token in _TOKEN.findall(text) for piece in _letters(token)])
    value = parser.sum()
    if parser.look:
        raise Unreadable(parser.look)
    return value


def _letters(token: str) -> list[str]:
    r"""A run of letters as single ones, unless it names a function; `\cotx` as `\cot x`."""
    if token[0] == "\\" and token[1:-1] in _FUNCTIONS and token[1:] not in _FUNCTIONS:
        return [token[:-1], token[-1]]
    if not token.isalpha() or token in _FUNCTIONS:
        return [token]
    if len(token) > MAX_WORD:
        raise Unreadable(token)
    return list(token)


class _Parser:
    """Recursive descent over tokens; `look` is the next one, empty at the end."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._place, self._depth = tokens, 0, 0
        self._bars = 0

    @property
    def look(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _next(self) -> str:
        token = self.look
        self._place += 1
        return token

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise Unreadable(token)

    def sum(self) -> Expr:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooLarge
        value = self._signed()
        while self.look in ("+", "-"):
            value = value + self._signed()
        self._depth -= 1
        return value

    def _signed(self) -> Expr:
        sign = 1
        while self.look in ("+", "-"):
            sign = -sign if self._next() == "-" else sign
        return sign * self._product()

    def _product(self) -> Expr:
        value = self._power()
        divided = False
        while self.look:
            if self.look in ("*", "/"):
                divided = self._next() == "/"
                sign = -1 if self.look == "-" else 1
                self._place += self.look == "-"
                factor = sign * self._power()
                value = value / factor if divided else value * factor
            elif self._starts_factor():
                if divided:
                    raise Unreadable("1/2x may mean two things")
                value = value * self._power()
            else:
                break
        return value

    def _starts_factor(self) -> bool:
        token = self.look
        if token == "|":
            return self._bars == 0
        if token[0].isdigit() or token[0] == ".":
            if self._tokens[self._place - 1][-1] not in ")}]":
                raise Unreadable("two numbers side by side")
            return True
        return token.isalpha() or token in _PAIRS or (token[0] == "\\" and token[1:].isalpha()
            and token not in _PAIRS.values())  # fmt: skip

    def _power(self) -> Expr:
        value = self._atom()
        while self.look in ("^", "!"):
            if self._next() == "!":
                value = _factorial(value)
            else:
                value = _raised(value, self._argument())
        return value

    def _argument(self) -> Expr:
        """What follows `^`: a group, or one sign, digit run, letter or command."""
        sign = -1 if self.look == "-" else 1
        self._place += self.look == "-"
        return sign * (self._group() if self.look in ("{", "(") else self._atom())

    def _group(self) -> Expr:
        opener = self._next()
        if opener not in _PAIRS:
            raise Unreadable(opener)
        bars, self._bars = self._bars, int(opener == "|")
        value = self.sum()
        self._expect(_PAIRS[opener])
        self._bars = bars
        return _WRAPPERS[opener](value) if opener in _WRAPPERS else value

    def _atom(self) -> Expr:
        token = self.look
        if token in _PAIRS:
            return self._group()
        self._place += 1
        if token[:1].isdigit() or token[:1] == ".":
            return self._number(token)
        name = token.lstrip("\\")
        if name in _FUNCTIONS:
            return self._function(name)
        if token[:1] == "\\":
            return self._command(name)
        if token.isalpha() and token.isascii():
            return self._variable(token)
        raise Unreadable(token)

    def _number(self, token: str) -> Expr:
        value = Rational(token if token[-1] != "." else token[:-1])
        if self.look == "\\frac" and token.isdigit():
            part = self._atom()
            mixed = isinstance(part, Rational) and part > 0
            return value + part if mixed else value * part
        return value

    def _variable(self, name: str) -> Expr:
        if self.look == "_":
            self._next()
            return Symbol(f"{name}_{self._subscript()}")
        return _CONSTANTS.get(name) or Symbol(name)

    def _subscript(self) -> str:
        token = self._next()
        if token != "{":
            return token
        parts = []
        while self.look not in ("}", ""):
            parts.append(self._next())
        self._expect("}")
        return "".join(parts)

    def _command(self, name: str) -> Expr:
        if name in ("frac", "binom"):
            top, low = self._group(), self._group()
            return _ratio(top, low) if name == "frac" else _binomial(top, low)
        if name == "sqrt":
            index = self._group() if self.look == "[" else Integer(2)
            return _raised(self._group(), _ratio(Integer(1), index))
        if name in ("pi", "infty"):
            return sympy.pi if name == "pi" else sympy.oo
        if name in _GREEK:
            return self._variable(name)
        raise Unreadable(name)

    def _function(self, name: str) -> Expr:
        base = power = None
        while self.look in ("_", "^"):
            if self._next() == "_" and name == "log":
                base = self._argument()
            else:
                power = self._argument()
        value = self._group() if self.look in ("(", "{") else self._bare_argument()
        if power is not None and power.is_negative:
            raise Unreadable("inverse or reciprocal")
        if name == "exp":
            result = _raised(sympy.E, value)
        else:
            result = _FUNCTIONS[name](value) if base is None else sympy.log(value, base)
        return result if power is None else _raised(result, power)

    def _bare_argument(self) -> Expr:
        r"""`2x` of `\sin 2x`: factors up to the next sign or function."""
        value = self._power()
        while self.look and self.look.lstrip("\\") not in _FUNCTIONS and self._starts_factor():
            value = value * self._power()
        return value


def _ratio(top: Expr, low: Expr) -> Expr:
    if low == 0:
        raise Unreadable("division by zero")
    return top / low


def _raised(base: Expr, power: Expr) -> Expr:
    if base == 0 and not power.is_positive:
        raise Unreadable("power of zero")
    if isinstance(power, Rational):
        size = abs(power.p)
        if base in (0, 1, -1) or base.is_Symbol or base.is_NumberSymbol:
            bounded = size <= MAX_BITS
        elif isinstance(base, Rational):
            bits = max(abs(base.p), base.q).bit_length()
            bounded = size <= MAX_POWER and size * bits <= MAX_BITS
        else:
            bounded = size <= MAX_EXPANSION
        if not bounded:
            raise TooLarge
    return base**power


def _factorial(value: Expr) -> Expr:
    if isinstance(value, Rational) and not (value.is_integer and 0 <= value <= MAX_FACTORIAL):
        raise TooLarge
    return sympy.factorial(value)


def _binomial(top: Expr, low: Expr) -> Expr:
    if any(isinstance(side, Rational) and abs(side) > MAX_POWER for side in (top, low)):
        raise TooLarge
    return sympy.binomial(top, low)

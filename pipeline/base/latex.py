r"""The same LaTeX written in one way: the textual half of comparing answers.

`clean` folds what does not change a short answer: spacing, sizing and font
commands, ways to brace `\frac` and `\sqrt`, thousands separators, Unicode signs.
It works on text alone, keeps meaning apart (`\frac{1}{23}` stays unlike
`\frac{12}{3}`) and is applied to answers of bounded length only.
"""

from __future__ import annotations

import re

_SIGNS = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "×": r"\times ",
        "·": r"\cdot ",
        "⋅": r"\cdot ",
        "÷": "/",
        "π": r"\pi ",
        "θ": r"\theta ",
        "∞": r"\infty ",
        "√": r"\sqrt ",
        "°": r"^{\circ}",
        "±": r"\pm ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "∪": r"\cup ",
        "∈": r"\in ",
        "½": r"\frac{1}{2}",
        "¼": r"\frac{1}{4}",
        "¾": r"\frac{3}{4}",
        "²": "^2",
        "³": "^3",
        "\u00a0": " ",
        "\u2009": " ",
        "\u202f": " ",
    }
)

_REWRITES: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\\\$", ""),
        (r"\$|(?<!\\)\\[()\[\]]", ""),
        (r"\\%", "%"),
        (r"(?<=\d)(?:\{,\}\s?|,\\!\s?|\\,)(?=\d{3}(?!\d))", ""),
        (r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|textstyle)(?![A-Za-z])\.?", ""),
        (r"(?<!\\)\\[!,;:>/]|\\(?:q?quad|thinspace)(?![A-Za-z])|~", " "),
        (r"(?<!\\)\\ ", " "),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\(?:cdot|times|ast)(?![A-Za-z])", "*"),
        (r"\\(?:leq|leqslant)(?![A-Za-z])|<=", r"\\le "),
        (r"\\(?:geq|geqslant)(?![A-Za-z])|>=", r"\\ge "),
        (r"\\neq(?![A-Za-z])|!=", r"\\ne "),
        (r"\\(?:degrees?)(?![A-Za-z])|\^\{?\s*\\circ\s*\}?", r"^{\\circ}"),
        (r"\\(?:mathrm|operatorname|mathit|mathbf|boldsymbol)\s*\{\s*([A-Za-z])\s*\}", r"\1"),
        (
            r"\\(?:mbox|text(?:rm|bf|it|sf|tt|normal)|math(?:rm|bf|sf)|operatorname)(?=\s*\{)",
            r"\\text",
        ),
        (r"\\text\s+\{", r"\\text{"),
        (r"\\text\{\s*(?:,\s*)?(and|or)\s*\}", r" \1 "),
        (r",?\s(?:and|or)\s", ", "),
        (r"(?<![A-Za-z\\])sqrt(?![A-Za-z])", r"\\sqrt"),
        (r"(?<![A-Za-z\\])pi(?![A-Za-z])", r"\\pi "),
        (r"(?<![A-Za-z\\])(?:infinity|infty|oo)(?![A-Za-z])", r"\\infty "),
        (r"\*\*", "^"),
    )
)

_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?!\d|,\d)")
_KEPT_BLANK = re.compile(r"(?<=[A-Za-z]) (?=[A-Za-z])|(?<=\d) (?=\d)")
_SINGLE_LETTERS = re.compile(r"(?<![A-Za-z\\])([A-Za-z]) (?=[A-Za-z](?![A-Za-z]))")
_ENVIRONMENT = re.compile(r"\\begin\{([a-z]*)(?:matrix|array)\}(?:\{[lcr|]*\})?")

_SIDE = r"(?:\d+(?:\.\d+)?|\d*(?:[A-Za-z]|\\pi|\\sqrt\{[^{}]*\})(?:\^\d)?)"
_BELOW = r"(?:\d+(?:\.\d+)?|[A-Za-z]|\\pi|\\sqrt\{[^{}]*\})"
_SLASH = re.compile(r"(?<![\w/^.})])(?P<top>" + _SIDE + ")/(?P<low>" + _BELOW + r")(?![\w/^.(\\{])")
_SLASH_BRACKETS = re.compile(
    r"\((?P<top>[^()]*)\)/(?:\((?P<low>[^()]*)\)|(?P<one>\d+|[A-Za-z]))(?![\w/^.(\\{])"
)


def matching_brace(text: str, start: int) -> int:
    """Position of the brace that closes the one at `start`; -1 if none does."""
    depth = 0
    for token in re.compile(r"\\.|[{}]", re.DOTALL).finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        if depth == 0:
            return token.start()
    return -1


def _argument(text: str, start: int) -> tuple[str, int]:
    """The TeX argument that begins at `start`, without braces, and where it ends."""
    while start < len(text) and text[start] == " ":
        start += 1
    if text.startswith("{", start):
        end = matching_brace(text, start)
        return (text[start + 1 : end], end + 1) if end > 0 else ("", start)
    token = re.compile(r"\\[A-Za-z]+|[A-Za-z0-9]").match(text, start)
    return (token.group(), token.end()) if token else ("", start)


def _brace_fractions(text: str) -> str:
    r"""`\frac12`, `\frac1{2}` and `\frac{1}2` as `\frac{1}{2}`; innermost first."""
    place = text.rfind(r"\frac")
    while place >= 0:
        top, middle = _argument(text, place + 5)
        bottom, end = _argument(text, middle)
        if top.strip() and bottom.strip():
            fraction = rf"\frac{{{top.strip()}}}{{{bottom.strip()}}}"
            text = text[:place] + fraction + text[end:]
        place = text.rfind(r"\frac", 0, place)
    return text


def _brace_roots(text: str) -> str:
    r"""`\sqrt3`, `\sqrt 3` and `\sqrt(3)` as `\sqrt{3}`; an index stays."""
    place = text.rfind(r"\sqrt")
    while place >= 0:
        start = place + 5
        index = re.compile(r"\s*\[([^\[\]{}]*)\]").match(text, start)
        start = index.end() if index else start
        inner = re.compile(r"\s*\(([^()]*)\)").match(text, start)
        radicand, end = (inner.group(1), inner.end()) if inner else _argument(text, start)
        if radicand.strip():
            order = f"[{index.group(1).strip()}]" if index and index.group(1) != "2" else ""
            text = rf"{text[:place]}\sqrt{order}{{{radicand.strip()}}}{text[end:]}"
        place = text.rfind(r"\sqrt", 0, place)
    return text


def _squeeze(text: str) -> str:
    """Drop blanks, but keep words, neighbouring numbers and command names apart."""
    text = " ".join(text.split())
    text = _SINGLE_LETTERS.sub(r"\1", text)
    return _KEPT_BLANK.sub("\0", text).replace(" ", "").replace("\0", " ")


def _unwrap_whole_text(text: str) -> str:
    r"""`\text{Sunday}` as `Sunday`, when that is the whole answer."""
    while text.startswith(r"\text{") and matching_brace(text, 5) == len(text) - 1:
        text = text[6:-1].strip()
    return text


def _drop_products(text: str) -> str:
    """`3*x` as `3x`, but neither `2*3` as 23 nor `2*\\frac{1}{2}` as a mixed number."""
    return re.sub(r"(?<!\d)\*(?=\S)|(?<=\d)\*(?!\d|\\frac|\.)(?!10\^)", "", text)


def _slash_fractions(text: str) -> str:
    r"""`a/b` of two simple sides as `\frac{a}{b}`; anything ambiguous stays as it is."""
    if "/" not in text:
        return text
    text = _SLASH_BRACKETS.sub(lambda m: rf"\frac{{{m['top']}}}{{{m['low'] or m['one']}}}", text)
    text = _SLASH.sub(r"\\frac{\g<top>}{\g<low>}", text)
    return re.sub(r"(?<=\d) (?=\\frac)", "", text)


def clean(text: str) -> str:
    r"""One spelling of an answer: `\dfrac 12 \,` becomes `\frac{1}{2}`."""
    text = text.translate(_SIGNS).replace("\0", "")
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    if not re.search(r"[(\[]|\\\{", text):
        text = _THOUSANDS.sub(lambda number: number.group().replace(",", ""), text)
    text = _unwrap_whole_text(text.strip())
    text = _ENVIRONMENT.sub(r"\\begin{\1matrix}", text)
    text = re.sub(r"\\end\{([a-z]*)(?:matrix|array)\}", r"\\end{\1matrix}", text)
    text = _brace_roots(_brace_fractions(text))
    text = re.sub(r"([\^_])\{([A-Za-z0-9])\}", r"\1\2", _squeeze(text))
    text = _drop_products(text)
    return _slash_fractions(text.rstrip(".,;: "))

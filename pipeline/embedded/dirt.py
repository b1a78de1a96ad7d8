r"""Faults of real trace files, made on purpose, so that the demonstration filters something.

Every kind is a function from one clean sum to the line of a JSONL file that has
this one fault and no other. `pipeline.embedded.traces` mixes them in; nothing here
reads or writes files. What becomes of each kind is in docs/embedded.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random

from pipeline.embedded.sums import Sum

Maker = Callable[[Sum, Random], str]


def line(problem: str, solution: str, answer: str) -> str:
    """One row of the file."""
    row = {"problem": problem, "solution": solution, "answer": answer}
    return json.dumps(row, ensure_ascii=False)


def clean(item: Sum, _: Random) -> str:
    """A right solution to an English problem."""
    return line(item.question, item.solution, str(item.answer))


def wrong_answer(item: Sum, random: Random) -> str:
    """The last step is miscalculated, and the box with it."""
    off = item.answer + random.choice((-10, -2, -1, 1, 2, 10))
    wrong = item.solution.replace(f"= {item.answer}.\nThe", f"= {off}.\nThe")
    wrong = wrong.replace(f"\\boxed{{{item.answer}}}", f"\\boxed{{{off}}}")
    return line(item.question, wrong, str(item.answer))


def no_box(item: Sum, _: Random) -> str:
    """The answer is right but stands in no box."""
    bare = item.solution.replace(f"\\boxed{{{item.answer}}}", str(item.answer))
    return line(item.question, bare, str(item.answer))


def two_boxes(item: Sum, random: Random) -> str:
    """Another answer is boxed before the right one."""
    other = item.answer + random.choice((-3, 3, 20))
    doubtful = f"At first sight it is \\boxed{{{other}}}.\n{item.solution}"
    return line(item.question, doubtful, str(item.answer))


def truncated(item: Sum, random: Random) -> str:
    """The text ends somewhere between its middle and the closing brace."""
    brace = item.solution.rindex("}")
    cut = item.solution[: random.randint(brace // 2, brace)]
    return line(item.question, cut, str(item.answer))


def german(item: Sum, _: Random) -> str:
    """Solved in German."""
    steps = ". Das ist noch nicht alles, und danach gilt ".join(item.steps)
    text = f"Wir rechnen der Reihe nach. Zuerst ist {steps}. "
    closing = f"Die Lösung der Aufgabe ist also \\boxed{{{item.answer}}}."
    return line(item.question, text + closing, str(item.answer))


def french(item: Sum, _: Random) -> str:
    """Solved in French."""
    steps = ". Ce n'est pas tout, et ensuite nous avons ".join(item.steps)
    text = "Nous cherchons le nombre qui est égal à cette somme, et nous faisons les calculs "
    text += f"dans l'ordre. D'abord nous avons {steps}. "
    closing = f"La réponse est donc \\boxed{{{item.answer}}}."
    return line(item.question, text + closing, str(item.answer))


def chinese(item: Sum, _: Random) -> str:
    """Solved in Chinese."""
    steps = "。接下来计算 ".join(item.steps)
    text = f"我们从左到右一步一步地计算。首先计算 {steps}。"
    return line(item.question, f"{text}所以答案是 \\boxed{{{item.answer}}}。", str(item.answer))


def broken_line(item: Sum, random: Random) -> str:
    """Not JSON: a cut line, or a line of something else."""
    whole = clean(item, random)
    if random.random() < 0.5:
        return whole[: random.randint(10, len(whole) - 2)]
    return f"[worker {random.randint(0, 7)}] wrote shard of {item.answer} rows"


def not_a_number(item: Sum, random: Random) -> str:
    """The answer is NaN, as data frames write a missing one."""
    return clean(item, random).replace(f'"answer": "{item.answer}"', '"answer": NaN')


def lone_surrogate(item: Sum, random: Random) -> str:
    """Half of a character, as a cut in UTF-16 leaves it."""
    return clean(item, random).replace("Step 1:", r"\ud83d Step 1:")


SHARES: dict[str, tuple[Maker, float]] = {
    "wrong_answer": (wrong_answer, 0.03),
    "no_box": (no_box, 0.02),
    "two_boxes": (two_boxes, 0.02),
    "truncated": (truncated, 0.02),
    "german": (german, 0.01),
    "french": (french, 0.01),
    "chinese": (chinese, 0.01),
    "broken_line": (broken_line, 0.01),
    "not_a_number": (not_a_number, 0.005),
    "lone_surrogate": (lone_surrogate, 0.005),
}
"""Kind → how it is made, and its share of all rows; the unreadable ones are 2 %."""


def panel_copies(panel: list[Sum]) -> list[str]:
    """Every disguise of every panel problem, each with a right solution.

    Three kinds: other case and blanks; wrapped in chatter; another ending of a
    problem that is long enough for a run of 13 words to stay.
    """
    copies: list[str] = []
    for item in panel:
        shouted = "  ".join(item.question.upper().split())
        chatter = f"Here is one from my homework. {item.question} Please show me how it is done!"
        edited = item.question.replace("What is the result?", "What is the answer then?")
        copies += [
            line(question, item.solution, str(item.answer))
            for question in (shouted, chatter, edited)
            if question != item.question
        ]
    return copies

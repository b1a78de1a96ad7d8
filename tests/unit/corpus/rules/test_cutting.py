r"""What may go behind an answer, and what must stay."""

from __future__ import annotations

import pytest

from pipeline.corpus.rules.cutting import after_answer


@pytest.mark.parametrize(
    ("kept", "rest"),
    [
        ("So it is \\boxed{4}.", " I hope this helps!"),
        ("So it is $\\boxed{4}$ pears per day.", " Let me know if you need more."),
        ("We get $$x = \\boxed{4}$$.", "\n\nTo check, put it in: it fits."),
        ("\\[ x = \\boxed{4} \\quad \\text{(as x > 0)}. \\]", "\nThis was a fine problem."),
        ("\\[\nx = \\boxed{4}\n\\]", "\n\nNote that it is even."),
        ("\\begin{align*}\nx &= 2y \\\\\n&= \\boxed{4}.\n\\end{align*}", "\n ~ a reader"),
        ("\\(\\boxed{4}\\).", "\n\n---\nAnswer: 4"),
        ("**Answer: \\boxed{4}**", "\n\nIs there anything else?"),
        ("Hence the answer is (\\boxed{\\frac{1}{2}}).", " Q.E.D. by the way, well done."),
        ("It is \\boxed{4} by e.g. counting them, i.e. by hand!", "\nThanks."),
        ("It costs $120 + $36 = $156.\n\n\\boxed{156}", "\n\nI hope this helps!"),
        ("He pays $5, and \\boxed{4} are left.", " That was easy."),
        ("Thus $m + n = \\boxed{97}.$", " I hope this helps!"),
        ("That is \\boxed{4} more than Mrs. Cruz and Dr. Lee have.", " Nice."),
        ("\\[m = \\boxed{97}.\\]", "Note that it is odd."),
        ("Thus \\[m = \\boxed{97}. \\]", " Is it clear?"),
        ("It costs $5.\n\nThus $x = \\boxed{4}. But y = 2$ holds.", " So much for it."),
        ("It is $x =\n\\boxed{4}$.", " Done, I think."),
        ("```\nprint('\\boxed{4}')\n```", "\nThe program prints it."),
    ],
)
def test_prose_behind_the_sentence_or_display_goes(kept: str, rest: str) -> None:
    place = after_answer(kept + rest)
    assert place is not None
    assert (kept + rest)[:place].rstrip() == kept


@pytest.mark.parametrize(
    "reply",
    [
        "So it is \\boxed{4}.",
        "So it is $\\boxed{4}$ pears per day",
        "\\[ \\boxed{4} \\]\n\n---",
        "First \\boxed{3}. Then we see that \\boxed is wrong.",
        "It is \\boxed{4}. So the boxed number is even.",
        "It is \\boxed{4}. </think> Now the reply.",
        "It is \\boxed{4}. And \\fbox{4} too.",
        "\\[ x = \\boxed{4}. We never close this display.",
        "\\begin{align} x = \\boxed{4} are left open. So nothing goes.",
        "\\boxed 4. So it is, as they say.",
        "It is \\boxed{4. The brace is missing.",
        "There is no box. Nothing goes.",
        "",
    ],
)
def test_everything_else_stays(reply: str) -> None:
    assert after_answer(reply) is None


def test_a_sign_behind_the_answer_is_no_half_formula() -> None:
    reply = "So we have \\boxed{4}. $\\square$ It is proven."
    place = after_answer(reply)
    assert place is not None
    assert reply[:place].count("$") % 2 == 0

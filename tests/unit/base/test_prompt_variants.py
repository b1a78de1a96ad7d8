"""Which variant a row is trained under, and that each is asked apart."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.errors import UserError
from pipeline.base.prompt_variants import Prompts, choose
from tests.support.prompts import OPENS_BLOCK, PROBLEM, SOLUTION, THINKING, chat_of, make_base
from tests.support.settings import make_params

CLOSED: dict[str, Any] = {
    "name": "closed", "weight": 3, "system": None, "instruction": "Box it.",
    "thinking": "empty-prefill",
}  # fmt: skip
STRICT = {**CLOSED, "name": "strict", "weight": 1, "system": "Be exact.", "thinking": "on"}
IDS = [f"problem-{number}" for number in range(4000)]


def prompts_of(base: Path, *variants: dict[str, Any], **prompt: Any) -> Prompts:
    changed = {f"prompt.{key}": value for key, value in prompt.items()}
    return Prompts(base, make_params(**changed, **{"prompt.variants": list(variants)}).prompt)


def test_without_variants_every_problem_is_put_the_plain_way(tmp_path: Path) -> None:
    base = make_base(tmp_path)
    prompts = prompts_of(base)
    assert {prompts.variant_of(one, 0) for one in IDS[:50]} == {"main"}
    assert list(prompts.ask(PROBLEM)) == [("main", chat_of(base).prompt_ids(PROBLEM))]


def test_each_variant_is_a_chat_of_its_own_settings(tmp_path: Path) -> None:
    base = make_base(tmp_path, THINKING)
    prompts = prompts_of(base, CLOSED, STRICT, thinking="off")
    wanted = {
        "main": chat_of(base, thinking="off"),
        "closed": chat_of(base, instruction="Box it.", thinking="empty-prefill"),
        "strict": chat_of(base, system="Be exact.", instruction="Box it.", thinking="on"),
    }
    assert list(prompts.ask(PROBLEM)) == [
        (name, chat.prompt_ids(PROBLEM)) for name, chat in wanted.items()
    ]
    for one in IDS[:20]:
        name = prompts.variant_of(one, 0)
        said = prompts.chat_of(one, 0).encode(PROBLEM, "Add.", SOLUTION)
        assert said == wanted[name].encode(PROBLEM, "Add.", SOLUTION)


def test_the_tokenizer_is_read_once(tmp_path: Path) -> None:
    prompts = prompts_of(make_base(tmp_path), CLOSED)
    assert prompts.chats["closed"].tokenizer is prompts.main.tokenizer


def test_shares_follow_the_weights() -> None:
    counts = Counter(choose({"main": 1, "closed": 3}, one, 7) for one in IDS)
    # 4000 draws of 3/4: five standard deviations are 137.
    assert abs(counts["closed"] - 3000) < 137


def test_the_choice_depends_on_seed_and_problem_alone() -> None:
    weights = {"main": 1.0, "closed": 1.0}
    first = [choose(weights, one, 0) for one in IDS]
    assert [choose(dict(reversed(weights.items())), one, 0) for one in IDS] == first
    assert [choose(weights, one, 1) for one in IDS] != first
    assert [choose(weights, one, 0) for one in ("a", "b", "c", "d")] == FIRST_FOUR


FIRST_FOUR = ["main", "closed", "closed", "closed"]
"""Written down once: another machine or release must choose the same."""


def test_a_further_variant_moves_problems_to_itself_only() -> None:
    before = {one: choose({"main": 1.0, "closed": 3.0}, one, 0) for one in IDS}
    after = {one: choose({"main": 1.0, "closed": 3.0, "new": 1.0}, one, 0) for one in IDS}
    moved = {after[one] for one in IDS if after[one] != before[one]}
    assert moved == {"new"}


@pytest.mark.parametrize("name", ["main", "closed"])
def test_two_variants_of_one_name_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=f"the name '{name}' is used 2 times"):
        prompts_of(make_base(tmp_path), CLOSED, {**STRICT, "name": name})


def test_a_variant_that_the_template_cannot_put_is_named(tmp_path: Path) -> None:
    base = make_base(tmp_path, OPENS_BLOCK)
    with pytest.raises(UserError, match=r"prompt\.variants: quick: .* leaves the thinking block"):
        prompts_of(base, {**CLOSED, "name": "quick", "thinking": "off"})


def test_variants_must_end_alike(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{{ m.content }}"
        "{{ '<|endoftext|>' if messages[0].role == 'system' else '<|im_end|>' }}{% endfor %}"
    )
    with pytest.raises(UserError, match=r"replies would end with '<\|endoftext\|>', those of main"):
        prompts_of(make_base(tmp_path, template), {**STRICT, "thinking": "template"})

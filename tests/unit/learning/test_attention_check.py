"""The judge of backends: it finds faults of each kind, and lets the right ones pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from pipeline.base.errors import UserError
from pipeline.learning.attention import Choice, check, verified
from pipeline.learning.attention.check import (
    EXTREME,
    Case,
    by_backend,
    cases_for,
    error_of,
    make_inputs,
    reference,
    residues,
    verify_backend,
)
from pipeline.learning.attention.table import BACKENDS
from tests.support.attention_ops import stand_in

CPU = torch.device("cpu")
FEW = [Case("few", (33, 1, 64)), Case("extreme", (20, 31), EXTREME), Case("zeros", (9, 9), 1, True)]
EVEN = [Case("even", (128, 128))]


def verdict(backend: str, cases: list[Case] = FEW) -> check.Verdict:
    return verify_backend(backend, CPU, torch.float32, head_dim=16, cases=cases)


def spoil(
    monkeypatch: pytest.MonkeyPatch, backend: str, direction: int, change: Callable[[Any], Any]
) -> None:
    """Change what a kernel returns: direction 0 is forward, 1 backward."""
    entry = BACKENDS[backend]
    assert entry.kernel is not None
    kernel: list[Any] = list(entry.kernel)
    right = kernel[direction]
    kernel[direction] = lambda *arguments: change(right(*arguments))
    monkeypatch.setitem(BACKENDS, backend, replace(entry, kernel=tuple(kernel)))


def test_rows_hold_every_residue_below_and_above_a_block() -> None:
    rows = list(residues())
    assert {sum(row) for row in rows} == {check.TOKENS}
    assert min(min(row) for row in rows) == 1
    lengths = [n for row in rows for n in row]
    assert {n % 128 for n in lengths} == set(range(128))
    assert max(lengths) > 128


def test_each_backend_is_asked_only_for_what_it_takes() -> None:
    for name, backend in BACKENDS.items():
        cases = cases_for(name)
        assert all(backend.takes(case.lengths) for case in cases)
        assert any(len(case.lengths) == 1 for case in cases)
        assert any(case.zeros for case in cases)
        assert any(case.factor == EXTREME for case in cases)
    assert {sum(case.lengths) for case in cases_for("flex")} == {check.TOKENS}


def test_a_right_backend_passes_with_its_error() -> None:
    found = verdict("sdpa")
    assert found.reason is None
    assert 0 < found.error < 1e-4


def test_zero_rows_and_extreme_scores_are_what_they_say() -> None:
    q, k, v, grad = make_inputs(Case("z", (4, 6), 30.0, True), 2, 1, 8, torch.float32, CPU)
    for tensor in (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), grad):
        assert tensor[:, :4].count_nonzero() == 0
        assert tensor[:, 5].count_nonzero() > 0
        assert tensor[:, 6].count_nonzero() == 0
    assert q.std() > 10 * k.std()


def test_the_reference_is_causal_attention_inside_each_document() -> None:
    case = Case("one", (4, 3))
    q, k, v, grad = make_inputs(case, 2, 2, 8, torch.float64, CPU)
    number = torch.tensor([0] * 4 + [1] * 3)
    seen = (number[:, None] == number) & torch.ones(7, 7, dtype=torch.bool).tril()
    leaves = [x.clone().requires_grad_() for x in (q, k, v)]
    out = torch.nn.functional.scaled_dot_product_attention(*leaves, attn_mask=seen)
    wanted = check.gradients(out.transpose(1, 2), leaves, grad)
    for found, exact in zip(reference((q, k, v), grad, case.lengths), wanted, strict=True):
        torch.testing.assert_close(found, exact)


def test_a_fault_in_a_small_document_is_not_hidden_by_a_large_entry() -> None:
    exact = torch.ones(1, 203, 4, 8, dtype=torch.float64)
    exact[0, 100, 0, 0] = 100
    found = exact.clone()
    assert error_of((found,) * 4, (exact,) * 4, (3, 200)) == 0
    found[0, 1] *= 0.9
    assert error_of((found,) * 4, (exact,) * 4, (3, 200)) > 0.05
    assert error_of((found,) * 4, (exact,) * 4, (203,)) < 0.002


@pytest.mark.parametrize("entry", [0, 1, 2])
def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch, entry: int) -> None:
    def change(gradients: Any) -> Any:
        changed = list(gradients)
        changed[entry] = changed[entry] * 1.01
        return tuple(changed)

    spoil(monkeypatch, "sdpa", 1, change)
    found = verdict("sdpa")
    assert found.reason == f"is off by {found.error:.2g} on few"
    assert found.error == pytest.approx(0.01, rel=0.2)


def test_a_gradient_that_is_no_number_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(gradients: Any) -> Any:
        gradients[1][0, 0, -1, 0] = float("nan")
        return gradients

    spoil(monkeypatch, "sdpa", 1, change)
    found = verdict("sdpa")
    assert found.reason == "is not finite on few"
    assert found.error == float("inf")


def test_a_wrong_output_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    spoil(monkeypatch, "sdpa", 0, lambda result: (result[0] + 0.01, result[1]))
    assert (verdict("sdpa").reason or "").startswith("is off by")


def test_a_leak_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    one_document = BACKENDS["sdpa"].kernel
    assert one_document is not None
    forward, backward = one_document

    def leaking(q: Any, k: Any, v: Any, documents: Any, scale: float) -> Any:
        return forward(q, k, v, documents._replace(lengths=(q.shape[2],)), scale)

    leak = replace(BACKENDS["sdpa"], kernel=(leaking, backward))
    monkeypatch.setitem(BACKENDS, "sdpa", leak)
    assert (verdict("sdpa").reason or "").startswith("is off by")


def test_a_kernel_that_refuses_is_named_with_its_words() -> None:
    found = verdict("varlen")  # there is none for the CPU
    assert (found.reason or "").startswith("failed on few: ")
    assert "_flash_attention_forward" in (found.reason or "")
    assert "\n" not in (found.reason or "")


def choice_of(names: tuple[str, ...]) -> tuple[Choice, tuple[check.Verdict, ...]]:
    choice = Choice(names, (("flex", "is not here"),))
    return verified(choice, CPU, torch.float32, head_dim=8, grouped=True)


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "cases_for", lambda name: EVEN if name == "cudnn" else FEW)


def test_a_wrong_backend_is_left_out_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    stand_in(monkeypatch)
    spoil(monkeypatch, "varlen", 1, lambda gradients: tuple(g * 2 for g in gradients))
    choice, verdicts = choice_of(("cudnn", "varlen", "sdpa"))
    assert choice.names == ("cudnn", "sdpa")
    assert [name for name, _ in choice.refused] == ["flex", "varlen"]
    assert "off by" in choice.refused[1][1]
    assert [v.backend for v in verdicts] == ["cudnn", "varlen", "sdpa"]


def test_what_would_never_be_called_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    stand_in(monkeypatch)
    choice, verdicts = choice_of(("cudnn", "varlen", "sdpa"))
    assert choice.names == ("cudnn", "varlen")
    assert len(verdicts) == 2


def test_no_training_where_no_backend_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    spoil(monkeypatch, "sdpa", 0, lambda result: (result[0] * 2, result[1]))
    with pytest.raises(UserError, match=r"varlen failed on few.*sdpa is off by"):
        choice_of(("varlen", "sdpa"))


def test_checking_needs_no_gradients_to_be_on() -> None:
    case = FEW[0]
    q, k, v, grad = make_inputs(case, 2, 1, 8, torch.float32, CPU)
    with torch.no_grad():
        found = by_backend("sdpa", (q, k, v), grad, case.lengths)
        exact = reference((q, k, v), grad, case.lengths)
    assert error_of(found, exact, case.lengths) < 1e-5

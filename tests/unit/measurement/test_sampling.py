"""Token choice: greedy, nucleus, and streams that know nothing of their neighbours."""

from __future__ import annotations

import torch

from pipeline.measurement import sampling
from pipeline.measurement.sampling import BLOCK_STEPS, Streams, choose_tokens

CPU = torch.device("cpu")
PROBABILITIES = torch.tensor([0.1, 0.5, 0.05, 0.3, 0.05])


def choose(uniform: float, top_p: float, temperature: float = 1.0) -> int:
    logits = PROBABILITIES.log().unsqueeze(0)
    return int(choose_tokens(logits, torch.tensor([uniform]), temperature, top_p))


def test_greedy_takes_the_largest() -> None:
    logits = torch.tensor([[0.0, 3.0, 1.0], [2.0, -1.0, 0.0]], dtype=torch.bfloat16)
    assert choose_tokens(logits, None, 0.0, 1.0).tolist() == [1, 0]
    assert choose_tokens(logits, torch.tensor([0.99, 0.99]), 0.0, 1.0).tolist() == [1, 0]


def test_nucleus_keeps_the_smallest_sufficient_set() -> None:
    # 0.5 + 0.3 reach 0.75, so only tokens 1 and 3 remain, in shares 5/8 and 3/8.
    assert {choose(step / 100, 0.75) for step in range(100)} == {1, 3}
    assert choose(0.62, 0.75) == 1
    assert choose(0.63, 0.75) == 3
    assert choose(0.9999999, 0.4) == 1


def test_full_mass_follows_the_distribution() -> None:
    drawn = [choose((step + 0.5) / 1000, 1.0) for step in range(1000)]
    assert [drawn.count(token) for token in range(5)] == [100, 500, 50, 300, 50]


def test_temperature_sharpens() -> None:
    assert {choose((step + 0.5) / 50, 1.0, temperature=0.05) for step in range(50)} == {1}


def test_no_choice_without_mass_at_the_edges() -> None:
    logits = torch.tensor([[float("-inf"), 0.0, 0.0, float("-inf")]])
    for uniform in (0.0, 0.5, 1.0 - 2**-24, 1.0):
        for top_p in (0.9, 1.0):
            assert int(choose_tokens(logits, torch.tensor([uniform]), 1.0, top_p)) in {1, 2}


def test_flat_rows_beyond_the_head_are_sorted_whole(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    logits = torch.randn(6, 300, generator=torch.Generator().manual_seed(0))
    logits[3:] *= 20
    uniforms = torch.linspace(0.0, 0.999, 6)
    expected = choose_tokens(logits, uniforms, 1.0, 0.95)
    monkeypatch.setattr(sampling, "HEAD_TOKENS", 8)
    assert choose_tokens(logits, uniforms, 1.0, 0.95).tolist() == expected.tolist()


def test_streams_do_not_depend_on_neighbours() -> None:
    names = ["a/0", "a/1", "b/0"]
    steps = BLOCK_STEPS + 3
    together = Streams(5, names, CPU)
    block = torch.stack([together.next() for _ in range(steps)])
    for row, name in enumerate(names):
        alone = Streams(5, [name], CPU)
        assert torch.equal(torch.cat([alone.next() for _ in range(steps)]), block[:, row])
    assert len({tuple(block[:, row].tolist()) for row in range(3)}) == 3
    assert not torch.equal(Streams(6, names, CPU).next(), block[0])


def test_streams_go_on_after_rows_leave() -> None:
    whole, shrunk = Streams(1, ["a", "b", "c"], CPU), Streams(1, ["a", "b", "c"], CPU)
    whole.next(), shrunk.next()
    shrunk.keep(torch.tensor([2, 0]))
    for _ in range(BLOCK_STEPS + 2):
        assert shrunk.next().tolist() == whole.next()[[2, 0]].tolist()

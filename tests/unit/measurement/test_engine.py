"""Batched decoding gives what one-by-one decoding without a cache gives."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from pipeline.base.errors import UserError
from pipeline.base.loading import load_base
from pipeline.measurement import engine
from pipeline.measurement.engine import Reply, Request, Sampling, decode
from tests.support.tiny import write_tiny_base

VOCABULARY = 300
NEVER = frozenset({10**6})


@pytest.fixture(scope="module", params=["llama", "qwen3"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write_tiny_base(tmp_path_factory.mktemp("base"), request.param)
    return load_base(folder, dtype="float32", device="cpu")


def make_requests(count: int = 6, samples: int = 1) -> list[Request]:
    """Prompts of 3, 8, 13 ... tokens."""
    stream = torch.Generator().manual_seed(0)
    prompts = [
        tuple(torch.randint(5, VOCABULARY, (3 + 5 * number,), generator=stream).tolist())
        for number in range(count)
    ]
    return [
        Request(f"p{number}", sample, prompt)
        for number, prompt in enumerate(prompts)
        for sample in range(samples)
    ]


def make_sampling(**changes: Any) -> Sampling:
    values: dict[str, Any] = {
        "temperature": 0.0, "top_p": 1.0, "max_new_tokens": 20, "seed": 0,
        "end_ids": NEVER, "pad_id": 2,
    }  # fmt: skip
    return Sampling(**{**values, **changes})


def greedy_alone(model: Any, prompt: tuple[int, ...], steps: int) -> list[int]:
    """Whole sequence again at every step: no cache, no padding, no batch."""
    ids = list(prompt)
    with torch.inference_mode():
        for _ in range(steps):
            ids.append(int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


def test_greedy_batch_equals_one_by_one(model: Any) -> None:
    requests = make_requests()
    for reply, request in zip(decode(model, requests, make_sampling(), 4), requests, strict=True):
        assert reply.problem == request.problem
        assert list(reply.ids) == greedy_alone(model, request.prompt, 20)
        assert reply.truncated


def test_end_token_stops_and_rows_leave_the_batch(model: Any) -> None:
    requests = make_requests()
    free = {reply.problem: reply.ids for reply in decode(model, requests, make_sampling(), 6)}
    ends = frozenset({free["p1"][4], free["p4"][9]})
    widths: list[int] = []
    hook = model.register_forward_pre_hook(
        lambda module, args, kwargs: widths.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    replies = decode(model, requests, make_sampling(end_ids=ends), 6)
    hook.remove()
    for reply in replies:
        whole = free[reply.problem]
        stop = next((place for place, token in enumerate(whole) if token in ends), None)
        assert reply.ids == (whole if stop is None else whole[: stop + 1])
        assert reply.truncated is (stop is None)
    assert widths[0] == 6
    assert widths == sorted(widths, reverse=True)
    assert sum(widths) == sum(len(reply.ids) for reply in replies)


def test_sampled_reply_is_the_same_alone_and_in_a_batch(model: Any) -> None:
    requests = make_requests(count=4, samples=3)
    sampling = make_sampling(temperature=0.9, top_p=0.9, end_ids=frozenset(range(40)))
    together = decode(model, requests, sampling, 12)
    alone = [decode(model, [request], sampling, 1)[0] for request in requests]
    assert together == alone
    for number in range(4):
        assert len({reply.ids for reply in together[3 * number : 3 * number + 3]}) == 3
    assert decode(model, requests, make_sampling(temperature=0.9, seed=1), 12) != together


def test_the_context_bounds_a_reply(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model.config, "max_position_embeddings", 14)
    replies = decode(model, make_requests(count=4), make_sampling(), 4)
    # Prompts of 3, 8, 13 and 18 tokens.
    assert [len(reply.ids) for reply in replies] == [11, 6, 1, 0]
    assert all(reply.truncated for reply in replies)


def test_out_of_time_returns_what_is_finished(model: Any) -> None:
    requests = make_requests(count=6)
    calls = iter(range(10**6))
    # 2 batches of 3: one call before each, one after each of 20 steps but the last.
    replies = decode(model, requests, make_sampling(), 3, time_left=lambda: 30.0 - next(calls))
    assert len(replies) == 3
    assert decode(model, requests, make_sampling(), 3, time_left=lambda: 0.0) == []


def test_a_batch_beyond_the_memory_is_halved(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = make_requests(count=5)
    expected = decode(model, requests, make_sampling(), 5)
    original = engine._Run._decode_rows

    def small_memory(run: Any, rows: list[Request]) -> None:
        if len(rows) > 2:
            original(run, rows[:1])  # one row ended before the memory did
            raise torch.OutOfMemoryError
        original(run, rows)

    monkeypatch.setattr(engine._Run, "_decode_rows", small_memory)
    assert decode(model, requests, make_sampling(), 5) == expected


def test_one_row_beyond_the_memory_is_refused(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(run: Any, rows: list[Request]) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(engine._Run, "_decode_rows", no_memory)
    with pytest.raises(UserError, match="max_new_tokens"):
        decode(model, make_requests(count=3), make_sampling(), 3)


def test_a_broken_base_is_refused(tmp_path: Path) -> None:
    broken = load_base(write_tiny_base(tmp_path), dtype="float32", device="cpu")
    broken.model.norm.weight.data.fill_(float("nan"))
    with pytest.raises(UserError, match="not finite"):
        decode(broken, make_requests(count=1), make_sampling(), 1)


def test_an_older_cache_is_reordered() -> None:
    class Older:
        def reorder_cache(self, rows: torch.Tensor) -> None:
            self.rows = rows.tolist()

    cache = Older()
    engine._select_rows(cache, torch.tensor([0, 2]))
    assert cache.rows == [0, 2]


def test_the_cache_goes_by_the_name_that_forward_has() -> None:
    class Renamed(torch.nn.Module):
        """Writes how many tokens its cache holds."""

        config = SimpleNamespace(max_position_embeddings=None)

        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))

        def forward(self, input_ids: Any, attention_mask: Any, position_ids: Any,
                    use_cache: bool, cache: int | None = None) -> Any:  # fmt: skip
            held = (cache or 0) + input_ids.shape[1]
            logits = torch.nn.functional.one_hot(torch.tensor([[held]]), 50).float()
            return SimpleNamespace(logits=logits, cache=held)

    request = Request("p", 0, (1, 2, 3))
    reply = decode(Renamed(), [request], make_sampling(max_new_tokens=4), 1)[0]
    assert reply.ids == (3, 4, 5, 6)


def with_variants(requests: list[Request], *names: str) -> list[Request]:
    """All requests under `main`, then under each of the names with a prompt of its own."""
    return requests + [
        Request(one.problem, one.sample, (7, *one.prompt[1:]), name)
        for name in names
        for one in requests
    ]


def test_further_variants_leave_the_replies_to_main_as_they_are(model: Any) -> None:
    requests = make_requests(count=5, samples=2)
    sampling = make_sampling(temperature=0.9, top_p=0.9, end_ids=frozenset(range(40)))
    alone = decode(model, requests, sampling, 4)
    batches: list[int] = []
    hook = model.register_forward_pre_hook(
        lambda module, args, kwargs: batches.append(len(kwargs["input_ids"])), with_kwargs=True
    )
    replies = decode(model, with_variants(requests, "zeta", "bare"), sampling, 4)
    hook.remove()
    assert replies[:10] == alone
    assert [one.variant for one in replies] == ["main"] * 10 + ["zeta"] * 10 + ["bare"] * 10
    places = [(one.problem, one.sample) for one in replies]
    assert places[:10] == places[10:20] == places[20:]
    assert max(batches) == 4


def test_variants_have_streams_of_their_own_and_main_the_old_one(model: Any) -> None:
    # The same prompt under three names: what differs is the stream alone.
    prompt = make_requests(count=1)[0].prompt
    requests = [Request("p", 0, prompt, name) for name in ("main", "bare", "closed")]
    sampling = make_sampling(temperature=1.5)
    replies = decode(model, requests, sampling, 3)
    assert len({reply.ids for reply in replies}) == 3
    assert [request.name for request in requests] == ["p/0", "p/0/bare", "p/0/closed"]
    one = decode(model, [requests[1]], sampling, 1)
    assert one == [replies[1]]


def test_main_is_finished_before_a_variant_begins(model: Any) -> None:
    requests = with_variants(make_requests(count=4), "bare")
    calls = iter(range(10**6))
    # Batches of two take a call before and one after each of 20 steps but the last.
    replies = decode(model, requests, make_sampling(), 2, time_left=lambda: 50.0 - next(calls))
    assert {reply.variant for reply in replies} == {"main"}
    assert len(replies) == 4


def test_out_of_memory_keeps_variants_apart(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = with_variants(make_requests(count=3), "bare")
    expected = decode(model, requests, make_sampling(), 3)
    original = engine._Run._decode_rows

    def small_memory(run: Any, rows: list[Request]) -> None:
        original(run, rows[:1])
        if len(rows) > 1:
            raise torch.OutOfMemoryError

    monkeypatch.setattr(engine._Run, "_decode_rows", small_memory)
    assert decode(model, requests, make_sampling(), 3) == expected


def test_replies_come_in_order(model: Any) -> None:
    requests = make_requests(count=3, samples=2)
    replies = decode(model, requests[::-1], make_sampling(max_new_tokens=1), 2)
    assert [(reply.problem, reply.sample) for reply in replies] == [
        (f"p{number}", sample) for number in range(3) for sample in range(2)
    ]
    assert isinstance(replies[0], Reply)

"""Decoding on a CUDA device: greedy replies are those of the CPU reference.

make test MARKERS=gpu TESTS=tests/gpu
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pipeline.base.loading import load_base
from pipeline.measurement.engine import Reply, Request, Sampling, decode
from tests.support.tiny import write_tiny_base

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["llama", "qwen3"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return write_tiny_base(tmp_path / "base", request.param)


def requests(samples: int) -> list[Request]:
    stream = torch.Generator().manual_seed(0)
    prompts = [
        tuple(torch.randint(5, 300, (3 + 4 * n,), generator=stream).tolist()) for n in range(6)
    ]
    return [Request(f"p{n}", s, prompt) for n, prompt in enumerate(prompts) for s in range(samples)]


def sampling(temperature: float) -> Sampling:
    return Sampling(
        temperature=temperature, top_p=0.95, max_new_tokens=20, seed=0,
        end_ids=frozenset({2}), pad_id=2,
    )  # fmt: skip


def replies(base: Path, device: str, temperature: float, batch: int) -> list[Reply]:
    model = load_base(base, dtype="float32", device=device)
    return decode(model, requests(3), sampling(temperature), batch)


@pytest.mark.parametrize("temperature", [0.0, 0.7])
def test_a_card_writes_what_the_cpu_writes(base: Path, temperature: float) -> None:
    reference = replies(base, "cpu", temperature, 4)
    assert replies(base, "cuda", temperature, 4) == reference
    assert replies(base, "cuda", temperature, 18) == reference

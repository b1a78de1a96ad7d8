"""The contract on a config against PEFT 0.9.0 on the same file: never the looser of both."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.adapter_format import PEFT_TYPES, adapter_config
from pipeline.base.loading import load_base
from tests.support.peft_verdict import contract_says, peft_says, write_config
from tests.unit.release.breaking import LIMITS

OLD = version("peft") == "0.9.0"
CHANGES: dict[str, tuple[dict[str, Any], str, str]] = {
    "newer key at null": ({"layer_replication": None}, "config-keys", "unexpected keyword"),
    "newer key": ({"eva_config": {"rho": 2}}, "config-keys", "unexpected keyword"),
    "remote code": ({"trust_remote_code": True}, "config-keys", "unexpected keyword"),
    "unknown type": ({"peft_type": "VERA"}, "peft-type", "VERA"),
    "null pattern": ({"rank_pattern": None}, "config-values", "NoneType"),
    "rank zero": ({"r": 0}, "config-values", "r"),
}


@pytest.mark.parametrize("method", PEFT_TYPES)
def test_both_take_what_training_writes(method: str, base: Path, tmp_path: Path) -> None:
    config = adapter_config(
        method, base_path=str(base), rank=4, alpha=4, dropout=0.0, rslora=False,
        target_modules=["down_proj", "q_proj"],
    )  # fmt: skip
    folder = write_config(tmp_path / "a", config)
    assert contract_says(folder, LIMITS) == ""
    assert peft_says(folder, load_base(base, dtype="float32", device="cpu")) == "read"


@pytest.mark.stack
@pytest.mark.parametrize(("changes", "rule", "told"), CHANGES.values(), ids=CHANGES)
def test_what_peft_cannot_read_is_refused(
    changes: dict[str, Any], rule: str, told: str, base: Path, tmp_path: Path
) -> None:
    config = adapter_config(
        "lora", base_path=str(base), rank=4, alpha=4, dropout=0.0, rslora=False,
        target_modules=["down_proj", "q_proj"],
    )  # fmt: skip
    folder = write_config(tmp_path / "a", config | changes)
    assert contract_says(folder, LIMITS).startswith(f"{rule}: ")
    answer = peft_says(folder, load_base(base, dtype="float32", device="cpu"))
    if OLD:  # later versions read some of these; the contract is that of 0.9.0
        assert answer != "read"
        assert told in answer

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pipeline.base.adapter_format import CONFIG_FILE, LORA_CONFIG_KEYS
from pipeline.release.case import Case
from pipeline.release.contract import faults, table, verify_adapter
from tests.support.adapters import write_adapter
from tests.unit.release.breaking import (
    LIMITS,
    Break,
    checks_of,
    hard_link,
    in_config,
    only_fault,
    rank_65,
    raw_config,
    symlink,
)

BROKEN: dict[str, tuple[Break, str, str]] = {
    "extra file": (lambda f, b: (f / "README.md").touch(), "file-set", "README.md"),
    "missing file": (lambda f, b: (f / CONFIG_FILE).unlink(), "file-set", "is missing"),
    "symlink": (symlink, "file-kinds", "symbolic link"),
    "hard link": (hard_link, "file-kinds", "2 hard links"),
    "sub-folder": (lambda f, b: (f / "default").mkdir(), "file-kinds", "is a folder"),
    "fifo": (lambda f, b: os.mkfifo(f / "pipe"), "file-kinds", "not a regular file"),
    ".bin": (lambda f, b: (f / "adapter_model.bin").touch(), "no-pickle", "run code"),
    "rank 65": (rank_65, "config-rank", "rank 65"),
    "rank 65 by a pattern": (in_config(rank_pattern={"q_proj": 65}), "config-rank", "rank 65"),
    "unknown key": (in_config(lora_magic=None), "config-keys", "'lora_magic' = None"),
    "newer key": (in_config(layer_replication=None), "config-keys", "layer_replication"),
    "other type": (in_config(peft_type="VERA"), "peft-type", "'VERA'"),
    "custom mapping": (in_config(auto_mapping={"x": 1}), "config-values", "auto_mapping"),
    "full modules": (in_config(modules_to_save=["lm_head"]), "config-values", "modules_to_save"),
    "all-linear": (in_config(target_modules="all-linear"), "config-values", "all-linear"),
    "key twice": (raw_config('{"r": 1, "r": 2}'), "config-json", "'r' occurs twice"),
    "NaN in the config": (raw_config('{"r": NaN}'), "config-json", "NaN"),
    "a list": (raw_config("[]"), "config-json", "not an object"),
    "not JSON": (raw_config("{"), "config-json", "not JSON"),
    "nested too deep": (raw_config("[" * 100_000), "config-json", "not JSON"),
    "huge config": (raw_config(" " * 2_000_000), "config-json", "2000000 bytes"),
}  # fmt: skip


@pytest.mark.parametrize(("apply", "rule", "reason"), BROKEN.values(), ids=BROKEN)
def test_one_fault_gives_one_reason(
    apply: Break, rule: str, reason: str, base: Path, tmp_path: Path
) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    apply(folder, base)
    fault = only_fault(folder, base)
    assert fault.id == rule
    assert reason in fault.detail


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=4,
)


@given(st.dictionaries(st.sampled_from(sorted(LORA_CONFIG_KEYS)), JSON_VALUES, min_size=1))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@example({"lora_alpha": 10**400})
@example({"layers_pattern": "(layers)", "layers_to_transform": 0})
@example({"rank_pattern": {"(?i)q_proj": 4}})
@example({"revision": "\ud800"})
def test_no_config_makes_the_contract_stumble(
    base: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    config = json.loads((folder / CONFIG_FILE).read_text())
    (folder / CONFIG_FILE).write_text(json.dumps({**config, **changes}))
    table(verify_adapter(Case(folder, base, LIMITS), loading=False)).encode()


def test_links_to_a_cache_are_allowed_where_it_is_said(base: Path, tmp_path: Path) -> None:
    folder = write_adapter(tmp_path / "adapter", base)
    hard_link(folder, base)
    symlink(folder, base)
    assert not faults(list(checks_of(folder, base, links_allowed=True).values()))
    (folder / CONFIG_FILE).resolve().unlink()
    assert only_fault(folder, base, links_allowed=True).id == "file-kinds"


def test_a_link_to_the_folder_and_a_missing_folder(base: Path, tmp_path: Path) -> None:
    write_adapter(tmp_path / "real", base)
    (tmp_path / "adapter").symlink_to(tmp_path / "real")
    assert only_fault(tmp_path / "adapter", base).id == "folder"
    assert only_fault(tmp_path / "nowhere", base).id == "folder"

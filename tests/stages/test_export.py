from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipeline.base.adapter_format import ADAPTER_FILES, WEIGHTS_FILE
from pipeline.base.artifacts import sha256_file, write_json
from pipeline.base.errors import UserError
from pipeline.base.safetensors_file import read_header
from pipeline.export import main
from tests.support.adapters import write_adapter
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base


@pytest.fixture
def trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in which training has ended."""
    monkeypatch.chdir(tmp_path)
    base = write_tiny_base(tmp_path / "base")
    write_adapter(tmp_path / "work/train/adapter", base, peft_version="0.21.2")
    write_json(tmp_path / "work/train/train.json", {"run_key": "k", "base_fingerprint": "f"})
    return tmp_path


def test_the_stage_writes_an_adapter_and_its_record(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(make_params())
    out = trained / "work/export"
    record = json.loads((out / "export.json").read_text())
    assert sorted(path.name for path in (out / "adapter").iterdir()) == sorted(ADAPTER_FILES)
    assert record["files"] == {n: sha256_file(out / "adapter" / n) for n in ADAPTER_FILES}
    assert record["source_sha256"] == sha256_file(trained / "work/train/adapter" / WEIGHTS_FILE)
    assert (record["dtype"], record["rank"], record["run_key"]) == ("bfloat16", 4, "k")
    assert record["dropped_config_keys"] == ["peft_version"]
    header = read_header(out / "adapter" / WEIGHTS_FILE)
    assert {info.dtype for info in header.tensors.values()} == {"BF16"}
    assert "rank 4" in capsys.readouterr().out


def test_the_type_is_a_setting(trained: Path) -> None:
    main(make_params(**{"export.dtype": "float32"}))
    record = json.loads((trained / "work/export/export.json").read_text())
    assert (record["dtype"], record["max_rounding_error"]) == ("float32", 0.0)


def test_nothing_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=r"train\.json: file not found"):
        main(make_params())

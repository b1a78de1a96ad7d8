"""params.yaml and the presets load; faults are told all at once; every key is described."""

from __future__ import annotations

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from pipeline.base.errors import UserError
from pipeline.base.params import EMBEDDED, Params, Section, load_params
from tests.support.closure import ROOT

PRESETS = sorted((ROOT / "presets").glob("*.yaml"))
DEMO = ROOT / "presets/demo.yaml"


def edited(folder: Path, *changes: tuple[str, str]) -> Path:
    """The demo's params with lines replaced."""
    text = DEMO.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / "params.yaml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", [ROOT / "params.yaml", *PRESETS], ids=lambda path: path.name)
def test_loads_and_is_in_the_declared_order(path: Path) -> None:
    load_params(path)
    tree = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
    assert list(tree) == list(Params.model_fields)
    for name, field in Params.model_fields.items():
        section = field.annotation
        assert isinstance(section, type)
        assert issubclass(section, Section)
        assert list(tree[name]) == list(section.model_fields), name


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.name)
def test_preset_says_what_it_is_for(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("path", PRESETS, ids=lambda path: path.name)
def test_preset_keeps_the_contract(path: Path) -> None:
    params = load_params(path)
    assert params.train.rank <= params.verify.max_rank <= 64
    assert params.verify.max_elements <= 300_000_000
    assert params.verify.max_gib <= 1.25


def test_the_demo_needs_nothing_but_the_project() -> None:
    params = load_params(DEMO)
    assert (params.base.path, *params.data.sources, params.data.panel) == (EMBEDDED,) * 3
    assert params.train.steps is not None  # fixed, so that runs agree to the byte


def test_every_key_is_described() -> None:
    bare = [
        f"{name}.{key}"
        for name, field in Params.model_fields.items()
        for key, setting in field.annotation.model_fields.items()  # type: ignore[union-attr]
        if not setting.description
    ]
    assert bare == []


def test_three_faults_are_told_in_one_message(tmp_path: Path) -> None:
    path = edited(
        tmp_path,
        ("learning_rate: 0.001", "learning_rat: 0.001"),
        ("rank: 16", "rank: sixteen"),
        ("top_p: 0.95", "top_p: 1.5"),
    )
    with pytest.raises(UserError) as caught:
        load_params(path)
    message = str(caught.value)
    for part in ("`train.learning_rat`", "`train.rank` = 'sixteen'", "`evaluation.top_p` = 1.5"):
        assert part in message
    assert "missing key `train.learning_rate`" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("written", "value"), [("1.0e-4", 1e-4), ("1e-4", 1e-4), ("0.0001", 1e-4), ("1", 1.0)]
)
def test_floats_may_be_written_in_any_way(tmp_path: Path, written: str, value: float) -> None:
    path = edited(tmp_path, ("learning_rate: 0.001", f"learning_rate: {written}"))
    assert load_params(path).train.learning_rate == value


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rank: 16", "rank: 16.0"),
        ("rank: 16", 'rank: "16"'),
        ("rslora: false", 'rslora: "no"'),
        ("english_only: true", "english_only: 1"),
        ("hours: 1.0", "hours: 0"),
        ("hours: 1.0", "hours: .nan"),
        ("method: lora", "method: pissa"),
        ("checkpoint_every_minutes: 10", "checkpoint_every_minutes: 11"),
    ],
)
def test_no_value_is_converted_in_silence(tmp_path: Path, old: str, new: str) -> None:
    key = old.split(":", maxsplit=1)[0]
    with pytest.raises(UserError, match=rf"\.{key}`"):
        load_params(edited(tmp_path, (old, new)))


def test_params_cannot_be_changed_by_code() -> None:
    params = load_params(DEMO)
    with pytest.raises(ValueError, match="frozen"):
        params.train.rank = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("train: [", "not valid YAML"),
        ("", "params.yaml"),
        ("- a\n- b\n", "params.yaml"),
        ("train:\n  rank: 1\n  rank: 2\n", "rank"),
    ],
)
def test_a_file_that_is_no_params_file_is_refused(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "params.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=told):
        load_params(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"params\.yaml: file not found"):
        load_params(tmp_path / "params.yaml")

"""Stage prepare: base and data enter as hashes; the embedded ones are made on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipeline import prepare
from pipeline.base.artifacts import sha256_file
from pipeline.base.errors import UserError
from pipeline.embedded.traces import generate
from tests.support.sentences import write_tiny_sentence_model
from tests.support.settings import make_params
from tests.support.tiny import write_tiny_base

ROW = '{"problem": "What is 1 + 1?", "solution": "\\\\boxed{2}", "answer": "2"}\n'
FILES = (Path("work/prepare/base.json"), Path("work/prepare/data.json"))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_base(tmp_path_factory.mktemp("read-only") / "base")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("traces.jsonl", "panel.jsonl", "bench.jsonl"):
        (tmp_path / name).write_text(ROW)
    return tmp_path


def run(base: Path, **overrides: Any) -> tuple[Any, Any]:
    settings = {"data.sources": ["traces.jsonl"], "data.panel": "panel.jsonl", **overrides}
    prepare.main(make_params(**{"base.path": str(base), **settings}))
    described, data = (json.loads(path.read_text()) for path in FILES)
    return described, data


def test_given_base_and_data_are_described(base: Path) -> None:
    described, data = run(base, **{"decontaminate.protected": ["bench.jsonl"]})
    assert (described["kind"], described["path"]) == ("external", str(base))
    assert described["shape"]["layers"] == 2
    hashes = {file["name"]: file["sha256"] for file in described["files"]}
    assert hashes["model.safetensors"] == sha256_file(base / "model.safetensors")
    assert data["sources"] == [{"source": 0, **data["panel"], "path": "traces.jsonl"}]
    protected = json.loads(Path("work/prepare/protected.json").read_text())
    assert [file["path"] for file in protected] == ["bench.jsonl"]


def test_output_is_stable_to_the_byte_and_follows_the_inputs(base: Path) -> None:
    run(base)
    first = [path.read_bytes() for path in FILES]
    run(base)
    assert [path.read_bytes() for path in FILES] == first
    Path("traces.jsonl").write_text(ROW * 2)
    run(base)
    again = [path.read_bytes() for path in FILES]
    assert (again[0] == first[0], again[1] == first[1]) == (True, False)


def test_nothing_is_written_beside_the_base(base: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in base.parent.rglob("*")}
    base.chmod(0o555)
    try:
        run(base)
    finally:
        base.chmod(0o755)
    assert {path: path.stat().st_mtime_ns for path in base.parent.rglob("*")} == before


def test_a_protected_set_or_a_sentence_model_leaves_the_data_as_they_are(base: Path) -> None:
    _, before = run(base)
    assert json.loads(Path("work/prepare/sentence_model.json").read_text()) is None
    write_tiny_sentence_model(Path("sentences"))
    changed = {"decontaminate.protected": ["bench.jsonl"], "semantic.model": "sentences"}
    assert run(base, **changed)[1] == before
    model = json.loads(Path("work/prepare/sentence_model.json").read_text())
    assert model["dimensions"] > 0


def test_an_edited_template_is_noticed_and_a_missing_one_refused(base: Path) -> None:
    run(base)
    described = Path("work/prepare/prompt.json")
    assert json.loads(described.read_text()) is None
    template = (
        (base / "chat_template.jinja").read_text()
        if (base / "chat_template.jinja").is_file()
        else json.loads((base / "tokenizer_config.json").read_text())["chat_template"]
    )
    seen = set()
    for text in (template, template + "{# edited #}"):
        Path("mine.jinja").write_text(text)
        run(base, **{"prompt.template": "mine.jinja"})
        seen.add(described.read_text())
    assert len(seen) == 2
    with pytest.raises(UserError, match=r"gone\.jinja"):
        run(base, **{"prompt.template": "gone.jinja"})


def test_earlier_hold_outs_are_described(base: Path) -> None:
    _, data = run(base, **{"holdout.earlier": ["bench.jsonl"]})
    assert [file["path"] for file in data["earlier"]] == ["bench.jsonl"]


def test_a_held_out_panel_is_no_file(base: Path) -> None:
    assert run(base, **{"data.panel": "holdout"})[1]["panel"] is None


def test_embedded_data_are_made_and_mended(base: Path) -> None:
    embedded = {"data.sources": ["embedded"], "data.panel": "embedded", "data.embedded_rows": 60}
    _, data = run(base, **embedded)
    traces = Path("work/embedded/traces.jsonl")
    assert data["sources"][0]["path"] == str(traces)
    assert data["panel"]["path"] == "work/embedded/panel.jsonl"
    assert traces.read_text(encoding="utf-8").splitlines() == generate(60, 0).traces
    traces.write_text("damage")
    assert run(base, **embedded)[1] == data


@pytest.mark.parametrize(
    ("path", "panel", "source"),
    [
        ("embedded", "holdout", "work/embedded/traces.jsonl"),
        ("traces.jsonl", "embedded", "traces.jsonl"),
    ],
)
def test_embedded_and_given_files_mix(base: Path, path: str, panel: str, source: str) -> None:
    _, data = run(base, **{"data.sources": [path], "data.panel": panel, "data.embedded_rows": 60})
    assert data["sources"][0]["path"] == source
    assert (data["panel"] is None) == (panel == "holdout")


def test_the_embedded_base_is_asked_for(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def ensure(folder: Path, _: Any) -> None:
        asked.append(folder)
        folder.parent.mkdir(parents=True)
        folder.symlink_to(base)

    monkeypatch.setattr(prepare, "ensure_base", ensure)
    described, _ = run(base, **{"base.path": "embedded"})
    assert asked == [Path("work/embedded/base")]
    assert (described["kind"], described["path"]) == ("embedded", "work/embedded/base")


def test_a_fault_names_the_key(base: Path) -> None:
    with pytest.raises(UserError, match=r"gone\.jsonl: no such file.*`data\.sources`"):
        run(base, **{"data.sources": ["gone.jsonl"]})
    with pytest.raises(UserError, match=r"base\.path: nowhere is not a folder"):
        run(Path("nowhere"))


def test_importing_the_stage_stays_light() -> None:
    heavy = ["torch", "transformers", "peft", "datasets", "gguf", "reasoning_gym"]
    program = f"import sys, pipeline.prepare; print([m for m in {heavy} if m in sys.modules])"
    root = Path(prepare.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"

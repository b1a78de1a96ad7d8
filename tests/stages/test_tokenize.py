"""Stage tokenize on twenty rows."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline import tokenize
from pipeline.base.artifacts import read_json, read_jsonl, sha256_file, write_json
from pipeline.base.errors import UserError
from pipeline.base.records import Trace, write_rows
from tests.support.settings import make_params
from tests.support.tiny import CHATML, write_tiny_tokenizer
from tests.support.traces import make_trace

ROOT = Path(__file__).resolve().parents[2]


def trace(number: int) -> Trace:
    problem = f"What is {number} + {number}?"
    solution = f"{number} twice " + "and again " * (number % 5) + f"is \\boxed{{{2 * number}}}."
    where = f"sums.jsonl:{number}"
    gold = str(2 * number)
    return make_trace(problem, gold, solution=solution, source="sums", origin=where, tokens=0)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_tiny_tokenizer(tmp_path / "base")
    write_json(tmp_path / "work/prepare/base.json", {"path": "base"})
    write_json(tmp_path / "work/plan/corpus.json", {"sequence_tokens": 200, "token_budget": None})
    write_rows(tmp_path / "work/select/traces.jsonl", (trace(n) for n in range(1, 21)))
    return tmp_path


def run() -> dict[str, Any]:
    tokenize.main(make_params())
    return dict(read_json(Path("work/tokenize/manifest.json")))


def test_every_row_is_packed_once_and_the_figures_agree(project: Path) -> None:
    manifest = run()
    out = project / "work/tokenize"
    origins = sorted(row["origin"] for row in read_jsonl(out / "documents.jsonl"))
    assert origins == sorted(trace(n).origin for n in range(1, 21))
    assert manifest["documents"] == 20
    assert manifest["dropped"] == {}
    assert manifest["proven_documents"] == 20
    tokens, trained = np.load(out / "tokens.npy"), np.load(out / "trained.npy")
    assert manifest["tokens"] == len(tokens)
    assert manifest["trained_tokens"] == trained.sum()
    assert manifest["fill"] == round(len(tokens) / (manifest["sequences"] * 200), 6)
    for name, entry in manifest["arrays"].items():
        array = np.load(out / f"{name}.npy")
        assert entry == {
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "sha256": sha256_file(out / f"{name}.npy"),
        }


def test_too_long_row_is_counted_in_the_manifest(project: Path) -> None:
    long = trace(99).solution + " and on" * 300
    rows = [trace(1), trace(2), replace(trace(3), solution=long, origin="sums.jsonl:99")]
    write_rows(project / "work/select/traces.jsonl", rows)
    manifest = run()
    assert manifest["dropped"] == {"too-long": 1}
    assert manifest["documents"] == 2


def test_running_again_changes_nothing_and_another_template_does(project: Path) -> None:
    first = run()
    assert run() == first
    (project / "base/chat_template.jinja").write_text(CHATML + "!")
    assert run()["tokenizer_sha256"] != first["tokenizer_sha256"]


def test_missing_input_names_the_file(project: Path) -> None:
    (project / "work/plan/corpus.json").unlink()
    with pytest.raises(UserError, match=r"work/plan/corpus\.json: file not found"):
        tokenize.main(make_params())


def test_no_manifest_stands_beside_arrays_that_failed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> int:
        raise UserError("mask", "Mend it.")

    monkeypatch.setattr(tokenize, "prove_masks", failing)
    with pytest.raises(UserError):
        tokenize.main(make_params())
    assert not (project / "work/tokenize/manifest.json").exists()


def test_documented_script_opens_the_arrays(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = run()
    text = (ROOT / "docs/packing.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(# Show.*?)```", text, flags=re.DOTALL)
    assert len(script.splitlines()) <= 20
    (project / "show.py").write_text(script)
    capsys.readouterr()
    runpy.run_path("show.py")
    shown = capsys.readouterr().out
    assert f"{manifest['sequences']} sequences, {manifest['tokens']} tokens" in shown
    assert shown.count("learns") == np.load("work/tokenize/sequence_documents.npy")[0]


def test_stage_leaves_torch_out() -> None:
    check = "import sys, pipeline.tokenize; raise SystemExit(int('torch' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0

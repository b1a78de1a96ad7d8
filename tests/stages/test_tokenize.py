"""Stage tokenize on some twenty rows."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from pipeline import tokenize
from pipeline.base.artifacts import read_json, read_jsonl, sha256_file, write_json
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import SMALL_FILES
from pipeline.base.params import Params
from pipeline.base.records import write_rows
from tests.support.packing import sum_trace
from tests.support.settings import make_params, write_params
from tests.support.tiny import CHATML, write_tiny_tokenizer

ROOT = Path(__file__).resolve().parents[2]
ROWS = [sum_trace(n, "Carry. " * (n % 5)) for n in range(1, 21)]
ONE_STAGE = {"sequence_tokens": 200, "token_budget": None, "bands": [200], "stages": []}
STAGES = [
    {"sequence_tokens": 80, "share": 0.5, "tiers": None},
    {"sequence_tokens": 400, "share": 0.5, "tiers": None},
]
STAGED = ONE_STAGE | {"sequence_tokens": 400, "bands": [80, 400], "stages": STAGES}
OUT = Path("work/tokenize")
BARE = {"name": "bare", "weight": 1, "system": None, "instruction": "", "thinking": "template"}
VARIANTS = {"prompt.variants": [BARE]}


def write_project(folder: Path, corpus: dict[str, Any]) -> None:
    write_tiny_tokenizer(folder / "base")
    write_json(folder / "work/prepare/base.json", {"path": "base"})
    write_json(folder / "work/plan/corpus.json", corpus)
    write_rows(folder / "work/select/traces.jsonl", ROWS)


def params(**given: Any) -> Params:
    return make_params(**{"executor.workers": 1} | given)


def run(**given: Any) -> dict[str, Any]:
    tokenize.main(params(**given))
    return dict(read_json(OUT / "manifest.json"))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_project(tmp_path, ONE_STAGE)
    return tmp_path


@pytest.fixture(scope="module", params=["one stage", "stages"])
def finished(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which the stage has run."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        write_project(folder, STAGED if request.param == "stages" else ONE_STAGE)
        run(**VARIANTS)
    return folder


@pytest.fixture
def copied(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of it that may be spoilt."""
    shutil.copytree(finished, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    return tmp_path / "copy"


def test_every_row_is_packed_once_and_the_figures_agree(copied: Path) -> None:
    manifest = read_json(OUT / "manifest.json")
    rows = list(read_jsonl(OUT / "documents.jsonl"))
    assert sorted(row["origin"] for row in rows) == sorted(row.origin for row in ROWS)
    assert sorted(row["line"] for row in rows) == list(range(1, 21))
    assert (manifest["documents"], manifest["dropped"]) == (20, {})
    assert manifest["proven_documents"] == 20
    assert set(manifest["variants"]) == {"main", "bare"}
    assert manifest["generation"] == {"eos_token_id": [2], "pad_token_id": 2}
    assert manifest["variants"]["bare"] == sum(row["variant"] == "bare" for row in rows)
    tokens, trained = np.load(OUT / "tokens.npy"), np.load(OUT / "trained.npy")
    assert manifest["tokens"] == len(tokens) == sum(row["length"] for row in rows)
    assert manifest["trained_tokens"] == trained.sum() == sum(row["trained"] for row in rows)
    buckets = manifest["buckets"]
    for name in ("documents", "tokens", "trained_tokens"):
        assert sum(bucket[name] for bucket in buckets) == manifest[name]
    room = sum(bucket["bins"] * bucket["band"] for bucket in buckets)
    assert manifest["fill"] == round(len(tokens) / room, 6)
    tiers = manifest["sources"]["sums"]
    assert sum(one["documents"] for one in tiers.values()) == 20
    assert sum(one["tokens"] for one in tiers.values()) == len(tokens)
    for name, entry in manifest["arrays"].items():
        assert entry["sha256"] == sha256_file(OUT / f"{name}.npy")
    assert not Path("runs/corpus").is_dir() or not list(Path("runs/corpus").iterdir())


def test_buckets_are_those_of_the_plan(copied: Path) -> None:
    manifest = read_json(OUT / "manifest.json")
    found = {(bucket["tier"], bucket["band"]) for bucket in manifest["buckets"]}
    if manifest["bands"] == [200]:
        assert found == {("all", 200)}
    else:
        assert {band for _, band in found} == {80, 400}
        assert {tier for tier, _ in found} == {"easy", "medium", "hard", "unknown"}


def test_sum_of_documents_over_bins_is_every_row(copied: Path) -> None:  # C04
    counts = np.load(OUT / "sequence_documents.npy")
    homes = [row["sequence"] for row in read_jsonl(OUT / "documents.jsonl")]
    assert np.bincount(homes).tolist() == counts.tolist()
    assert counts.sum() == len(ROWS)


def test_documented_script_opens_the_arrays(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = read_json(OUT / "manifest.json")
    text = (ROOT / "docs/packing.md").read_text(encoding="utf-8")
    (script,) = re.findall(r"```python\n(# Show.*?)```", text, flags=re.DOTALL)
    assert len(script.splitlines()) <= 20
    Path("show.py").write_text(script)
    capsys.readouterr()
    runpy.run_path("show.py")
    shown = capsys.readouterr().out
    counts = np.load(OUT / "sequence_documents.npy")
    for bucket in manifest["buckets"]:
        assert f"{bucket['tier']}, {bucket['band']}: {bucket['bins']} bins" in shown
    assert shown.count("learns") == sum(counts[b["first"]] for b in manifest["buckets"])


def test_rows_and_bins_are_printed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = run()
    said = capsys.readouterr().err
    assert f"20 documents in {manifest['sequences']} sequences" in said
    assert "0 rows dropped" in said


def test_row_that_is_too_long_is_dropped_whole_and_counted(project: Path) -> None:  # B08, C03
    long = sum_trace(99, solution="carry " * 300)
    write_rows(project / "work/select/traces.jsonl", [*ROWS[:2], long])
    manifest = run()
    assert manifest["dropped"] == {"too-long": 1}
    assert manifest["documents"] == 2
    (gone,) = read_jsonl(OUT / "dropped.jsonl")
    assert (gone["origin"], gone["reason"]) == ("sums.jsonl:99", "too-long")
    assert manifest["dropped_tokens"] == int(gone["detail"].split()[0])
    write_json(Path("work/plan/corpus.json"), ONE_STAGE | {"bands": [2048]})
    whole = run()
    assert manifest["tokens"] + manifest["dropped_tokens"] == whole["tokens"]
    lengths, trained = np.load(OUT / "document_lengths.npy"), np.load(OUT / "trained.npy")
    assert np.add.reduceat(trained, np.cumsum(lengths) - lengths, dtype=int).min() > 0


def test_most_rows_too_long_stop_the_run(project: Path) -> None:  # B08
    write_json(Path("work/plan/corpus.json"), ONE_STAGE | {"bands": [20]})
    with pytest.raises(UserError, match=r"20 of 20 rows are longer than a sequence of 20"):
        run()
    assert not (OUT / "manifest.json").exists()


def test_bytes_do_not_depend_on_parts_and_workers(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run()
    files = {path.name: path.read_bytes() for path in OUT.iterdir()}
    monkeypatch.setattr(tokenize, "SMALLEST_PART", 1)
    assert len(tokenize.plan_parts(64)) > 4
    assert run(**{"executor.workers": 2}) == first
    assert {path.name: path.read_bytes() for path in OUT.iterdir()} == files


def test_a_large_file_has_parts_of_the_size_of_the_settings(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "work/select/traces.jsonl").write_bytes(b"0123456789abcde\n" * 1024)
    assert len(tokenize.plan_parts(64)) == 1
    monkeypatch.setattr(tokenize, "SMALLEST_PART", 16)
    assert len(tokenize.plan_parts(64)) == 32
    assert len(tokenize.plan_parts(256 / 2**20)) == 64


def test_one_character_of_the_template_changes_the_output(project: Path) -> None:  # B09
    first = run()
    before = sha256_file(OUT / "manifest.json")
    assert run() == first
    assert sha256_file(OUT / "manifest.json") == before
    changed = CHATML.replace("'<|im_end|>' + '\n'", "'<|im_end|>' + ' '")
    (project / "base/chat_template.jinja").write_text(changed)
    again = run()
    assert sha256_file(OUT / "manifest.json") != before
    assert again["tokenizer_sha256"] != first["tokenizer_sha256"]
    assert again["arrays"]["tokens"] != first["arrays"]["tokens"]


def test_a_changed_tokenizer_or_template_makes_the_stage_run_again() -> None:  # B09
    stages = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
    assert "work/prepare/base.json" in stages["tokenize"]["deps"]
    assert {"chat_template.jinja", "tokenizer.json", "tokenizer_config.json"} <= set(SMALL_FILES)


def test_missing_input_names_the_file(project: Path) -> None:
    (project / "work/plan/corpus.json").unlink()
    with pytest.raises(UserError, match=r"work/plan/corpus\.json: file not found"):
        run()


def test_no_manifest_stands_beside_arrays_that_failed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> int:
        raise UserError("mask", "Mend it.")

    monkeypatch.setattr(tokenize, "prove_sample", failing)
    with pytest.raises(UserError, match="mask"):
        run()
    assert not (OUT / "manifest.json").exists()


def prove(capfd: pytest.CaptureFixture[str]) -> tuple[int, str]:
    write_params(Path(), **{"executor.workers": 1} | VARIANTS)
    code = tokenize.command(["--prove"])
    shown = capfd.readouterr()
    return code, shown.out + shown.err


def test_proof_of_all_reads_everything_back(
    copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = sha256_file(OUT / "manifest.json")
    code, said = prove(capfd)
    assert code == 0
    assert re.search(r"tokenize: 20 documents with [\d,]+ trained tokens in \d+ sequences", said)
    assert sha256_file(OUT / "manifest.json") == before


def test_proof_of_all_names_what_is_wrong(copied: Path, capfd: pytest.CaptureFixture[str]) -> None:
    trained = np.load(OUT / "trained.npy")
    np.save(OUT / "trained.npy", np.roll(trained, 1))
    code, said = prove(capfd)
    assert code == 2
    assert "trained.npy does not have the bytes" in said


def test_proof_with_another_tokenizer_is_refused(
    copied: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (copied / "base/chat_template.jinja").write_text(CHATML + " ")
    code, said = prove(capfd)
    assert code == 2
    assert "another tokenizer" in said


def test_stage_leaves_torch_out() -> None:
    check = "import sys, pipeline.tokenize; raise SystemExit(int('torch' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("declared", [None, "another"])
def test_a_base_that_would_not_stop_where_replies_end_is_said(
    project: Path, capsys: pytest.CaptureFixture[str], declared: str | None
) -> None:
    run()
    end = read_json(project / "work/tokenize/manifest.json")["end_id"]
    base = Path(read_json(project / "work/prepare/base.json")["path"])
    write_json(base / "generation_config.json", {"eos_token_id": end if declared is None else 0})
    capsys.readouterr()
    run()
    said = "set eos_token_id to" in capsys.readouterr().err
    assert said == (declared is not None)

"""results.md as a whole: every section, in order, from the records alone."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from pipeline.summary.evidence import Evidence, collect
from pipeline.summary.results import contract_section, results_page
from tests.support.finished_run import CONTRACT
from tests.support.settings import make_params

PARAMS = make_params(None, **{"report.title": "Sums at night"})


def test_sections_in_order_and_equal_input_gives_equal_bytes(evidence: Evidence) -> None:
    page = results_page(evidence, PARAMS)
    assert page.startswith("# Sums at night\n\n**30.0 % → 70.0 %")
    assert re.findall(r"^## (.+)$", page, flags=re.MULTILINE) == [
        "The run", "Before and after", "Loss", "From rows to training data", "Tokens",
        "Plan against actual", "Replies, before and after", "Contract", "Time by stage",
        "How to reproduce",
    ]  # fmt: skip
    assert results_page(evidence, PARAMS) == page
    assert "cut short" not in page
    assert "None" not in page
    assert "nan" not in page


def test_loss_is_shown_and_told(evidence: Evidence) -> None:
    page = results_page(evidence, PARAMS)
    assert "![Training loss by step](work/report/loss.svg)" in page
    assert "From 2.099 to 0.254 nats" in page
    assert "160 recorded steps" in page
    assert "## Loss" not in results_page(replace(evidence, steps=[]), PARAMS)


def test_tables_have_as_many_cells_as_their_headers(evidence: Evidence) -> None:
    width = 0
    for line in results_page(evidence, PARAMS).splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (width and cells) or cells == width, line
        width = cells


def test_contract_table_marks_what_failed() -> None:
    failing = {**CONTRACT["checks"][0], "passed": False, "status": "failed", "figure": 80}  # type: ignore[index]
    evidence = collect(Path("/nowhere"), partial=True)
    lines = contract_section(replace(evidence, contract={"checks": [failing]}))
    assert "| rank within the limit | **failed** | 80 | 64 |  |" in lines
    lines = contract_section(replace(evidence, contract=CONTRACT))
    assert "| elements within the limit | passed | 4,884,480 | 300,000,000 |  |" in lines
    assert any("| not applicable |  |  | no run_summary.json" in line for line in lines)
    assert "The adapter has not been checked; run `dvc repro verify`." in contract_section(evidence)


def test_cut_run_lists_what_is_not_there(evidence: Evidence) -> None:
    page = results_page(replace(evidence, evaluate=None, contract=None), PARAMS)
    assert "**This run was cut short.**" in page
    assert "`work/evaluate/scores.json`, `work/verify/contract.json`." in page


def test_page_about_nothing_still_reads(tmp_path: Path) -> None:
    page = results_page(collect(tmp_path, partial=True), PARAMS)
    assert "**Accuracy was not measured:**" in page
    assert "No data stage has run." in page
    assert not re.search(r"\bNone\b|\bnan\b", page)


def test_hashes_for_reproduction(evidence: Evidence) -> None:
    page = results_page(evidence, PARAMS)
    assert "| run key | `0123456789ab` |" in page
    assert "| torch | `2.13.0` |" in page

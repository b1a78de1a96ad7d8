"""dvc.yaml says what the code does: deps, params, order, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.base.params import Params
from pipeline.learning.record import COLUMNS
from tests.support import closure as closure_tool
from tests.support.closure import ROOT, code_deps, is_code, read_dvc_yaml
from tests.support.params_used import SECTIONS, declared_keys, used_keys

FLOW = [
    "prepare", "probe", "filter", "semantic", "decontaminate", "plan", "select", "tokenize",
    "baseline", "train", "evaluate", "export", "verify", "report",
]  # fmt: skip

NO_INPUT = {
    # In a module that it shares with filter, in a function that filter alone calls.
    "semantic": {"data.panel", "holdout.problems"},
    "decontaminate": {"data.panel", "holdout.problems"},
    # Time ends a stage and is recorded; if it were an input, a longer budget would retrain.
    "baseline": {"budget.hours", "budget.evaluation_share", "budget.reserve_minutes"},
    "evaluate": {"budget.hours", "budget.evaluation_share", "budget.reserve_minutes"},
    # export.dtype: checkpoints are published on the way; the result is export's.
    "train": {
        "budget.hours", "budget.evaluation_share", "budget.reserve_minutes", "export.dtype",
    },
}  # fmt: skip
"""Keys that a stage reads and that do not change its outs."""

LIVE_FIGURES = "plots/training.csv"
"""What the trainer writes while it runs, for `dvc plots show`."""

DVC_YAML: Any = read_dvc_yaml()
STAGES: dict[str, Any] = DVC_YAML["stages"]


def data_deps(stage: str) -> list[str]:
    return [dep for dep in STAGES[stage].get("deps", []) if not is_code(dep)]


def test_stages_stand_in_the_order_of_the_flow() -> None:
    assert list(STAGES) == FLOW


def test_every_stage_file_is_a_stage() -> None:
    commands = {"blend", "clock", "configure", "diagnose", "gym", "inspect", "publish", "unlock"}
    files = {path.stem for path in (ROOT / "pipeline").glob("*.py")} - {"__init__"} - commands
    assert files == set(FLOW)


@pytest.mark.parametrize("stage", FLOW)
def test_stage_is_described_and_run_by_its_name(stage: str) -> None:
    assert STAGES[stage]["cmd"] == f"python -m pipeline.{stage}"
    assert len(STAGES[stage]["desc"]) > 20


@pytest.mark.parametrize("stage", FLOW)
def test_code_deps_are_the_import_closure(stage: str) -> None:
    declared = [dep for dep in STAGES[stage]["deps"] if is_code(dep)]
    assert declared == code_deps(stage), "run: python -m tests.support.closure --write"


@pytest.mark.parametrize("stage", FLOW)
def test_data_deps_are_outs_of_earlier_stages(stage: str) -> None:
    earlier = {out for name in FLOW[: FLOW.index(stage)] for out in STAGES[name]["outs"]}
    assert set(data_deps(stage)) <= earlier


@pytest.mark.parametrize("stage", FLOW)
def test_params_are_those_that_the_code_reads(stage: str) -> None:
    declared = declared_keys(STAGES[stage].get("params", []))
    spread = {key for key in used_keys(stage) if key.startswith("executor.")}
    assert declared == used_keys(stage) - spread - NO_INPUT.get(stage, set())


@pytest.mark.parametrize("stage", FLOW)
def test_outs_lie_in_the_folder_of_the_stage(stage: str) -> None:
    pages = {"results.md", "adapter_card.md"} if stage == "report" else set()
    assert all(out.startswith(f"work/{stage}/") for out in set(STAGES[stage]["outs"]) - pages)


def test_published_results_and_training_state_are_no_outs() -> None:
    outs = {out for stage in STAGES.values() for out in stage["outs"]}
    assert not [out for out in outs if out.startswith(("runs", "adapter/", "run_summary"))]


def test_every_setting_belongs_to_some_stage() -> None:
    declared = {key for name in FLOW for key in declared_keys(STAGES[name].get("params", []))}
    # The executor changes no result, so no stage depends on it.
    wanted = {name: keys for name, keys in SECTIONS.items() if name != "executor"}
    assert declared == {f"{section}.{key}" for section, keys in wanted.items() for key in keys}


@pytest.mark.parametrize(
    ("changed", "runs", "rests"),
    [
        ("train.learning_rate", {"train"}, {"plan", "tokenize", "baseline"}),
        ("evaluation.seed", {"baseline", "evaluate"}, {"plan", "train"}),
        ("report.title", {"report"}, {"train", "evaluate", "verify"}),
        ("budget.hours", {"plan"}, {"train", "evaluate", "filter", "tokenize"}),
        ("export.dtype", {"export"}, {"train", "evaluate"}),
        ("select.seed", {"select"}, {"filter", "decontaminate", "plan", "baseline"}),
    ],
)
def test_an_edit_repeats_only_what_depends_on_it(
    changed: str, runs: set[str], rests: set[str]
) -> None:
    direct = {n for n in FLOW if changed in declared_keys(STAGES[n].get("params", []))}
    assert runs <= direct
    assert not rests & direct


def test_an_edit_of_the_report_repeats_nothing_else() -> None:
    summaries = [stage for stage in FLOW if any("summary/" in dep for dep in STAGES[stage]["deps"])]
    assert summaries == ["report"]


def test_the_recipe_does_not_reach_the_baseline() -> None:
    upstream, waiting = set(), ["baseline"]
    makers = {out: name for name in FLOW for out in STAGES[name]["outs"]}
    while waiting:
        stage = waiting.pop()
        upstream.add(stage)
        waiting += [makers[dep] for dep in data_deps(stage)]
    keys = {key for name in upstream for key in declared_keys(STAGES[name].get("params", []))}
    assert "train.learning_rate" not in keys
    assert "train" not in upstream


def test_metrics_and_plots_are_outs_or_training_records() -> None:
    outs = {out for stage in STAGES.values() for out in stage["outs"]}
    plots = {path for entry in DVC_YAML["plots"] for path in entry if "/" in path}
    assert set(DVC_YAML["metrics"]) | plots <= outs


def test_plots_of_a_run_under_way_show_figures_that_it_writes() -> None:
    live = [body for entry in DVC_YAML["plots"] for name, body in entry.items() if "/" not in name]
    shown = {column for body in live for column in body["y"].values()}
    assert {path for body in live for axis in "xy" for path in body[axis]} == {LIVE_FIGURES}
    assert shown < set(COLUMNS)
    assert {"loss", "token_accuracy", "learning_rate", "mfu", "budget_left_seconds"} < shown
    outs = {out for stage in STAGES.values() for out in stage["outs"]}
    assert LIVE_FIGURES not in outs


def test_sections_are_in_the_order_of_the_flow() -> None:
    order = {"evaluation": "evaluate", "prompt": "tokenize"}
    stages = [order.get(name, name) for name in Params.model_fields]
    places = [FLOW.index(name) for name in stages if name in FLOW]
    assert places == sorted(places)


# The tool itself: a guard that sees nothing guards nothing.


def test_closure_follows_imports_and_started_modules(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "pipeline/room"
    package.mkdir(parents=True)
    (tmp_path / "pipeline/__init__.py").write_text('"""Only words."""\n')
    (package / "__init__.py").write_text("import os\n")
    (tmp_path / "pipeline/one.py").write_text(
        '"""Not pipeline.room.worded."""\nfrom typing import TYPE_CHECKING\n'
        "from pipeline.room import direct\nif TYPE_CHECKING:\n    import pipeline.room.typed\n"
    )
    (package / "direct.py").write_text('CHILD = ["-m", "pipeline.room.child"]\n')
    for name in ("child", "typed", "worded", "unrelated"):
        (package / f"{name}.py").write_text('"""pipeline.room.worded"""\n')
    monkeypatch.setattr(closure_tool, "ROOT", tmp_path)
    assert code_deps("one") == [
        "pipeline/one.py",
        "pipeline/room/__init__.py",
        "pipeline/room/child.py",
        "pipeline/room/direct.py",
    ]

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Literal

import pytest

from pipeline.base.adapter_format import ADAPTER_FILES, CONFIG_FILE, WEIGHTS_FILE
from pipeline.base.artifacts import sha256_file, write_json
from pipeline.base.errors import UserError
from pipeline.release.publish import publish, published_summary, recover
from pipeline.release.run_summary import summary_fault
from tests.support.publishing import summary_of, write_source


def step_in_place(root: Path) -> int:
    return int(json.loads((root / "adapter" / CONFIG_FILE).read_text())["step"])


def test_a_first_and_a_second_publication(tmp_path: Path) -> None:
    for step in (1, 2):
        source = write_source(tmp_path, step)
        assert publish(tmp_path, source, summary_of(step), "partial")
        summary = published_summary(tmp_path)
        assert summary is not None
        assert summary == json.loads((tmp_path / "run_summary.json").read_text())
        assert summary_fault(summary, tmp_path) is None
        assert (summary["step"], summary["status"], summary["ended_by"]) == (step, "partial", None)
        assert summary["contract"] == "not run"
        assert step_in_place(tmp_path) == step
        assert summary["adapter"]["files"] == {
            name: sha256_file(source / name) for name in ADAPTER_FILES
        }
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "adapter", "run_summary.json", "runs",
    ]  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "adapter").iterdir()) == sorted(ADAPTER_FILES)


def test_published_files_have_bytes_of_their_own(tmp_path: Path) -> None:
    source = write_source(tmp_path, 1)
    (source / WEIGHTS_FILE).rename(tmp_path / "cache")
    (source / WEIGHTS_FILE).symlink_to(tmp_path / "cache")
    (tmp_path / "cached.json").hardlink_to(source / CONFIG_FILE)
    publish(tmp_path, source, summary_of(1), "partial")
    for name in ADAPTER_FILES:
        status = (tmp_path / "adapter" / name).lstat()
        assert not (tmp_path / "adapter" / name).is_symlink()
        assert status.st_nlink == 1


@pytest.mark.parametrize("run_key", ["k", "another"])
def test_a_partial_adapter_never_replaces_a_finished_one(tmp_path: Path, run_key: str) -> None:
    publish(tmp_path, write_source(tmp_path, 9), summary_of(9), "complete")
    later = summary_of(6, run_key)
    assert publish(tmp_path, write_source(tmp_path, 6), later, "partial") is False
    summary = published_summary(tmp_path)
    assert summary is not None
    assert (summary["step"], summary["status"]) == (9, "complete")
    assert publish(tmp_path, write_source(tmp_path, 10), summary_of(10, run_key), "complete")
    assert step_in_place(tmp_path) == 10


def test_a_finished_adapter_for_another_base_gives_way_at_once(tmp_path: Path) -> None:
    publish(tmp_path, write_source(tmp_path, 9), summary_of(9), "complete")
    other = {**summary_of(1, "other"), "base_fingerprint": "e" * 64}
    assert publish(tmp_path, write_source(tmp_path, 1), other, "partial")
    summary = published_summary(tmp_path)
    assert summary is not None
    assert (summary["run_key"], summary["status"]) == ("other", "partial")


def test_without_an_exchange_the_old_folder_is_renamed_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.release.swap.exchange", lambda first, second: False)
    for step in (1, 2):
        publish(tmp_path, write_source(tmp_path, step), summary_of(step), "partial")
        assert step_in_place(tmp_path) == step
    assert not (tmp_path / ".publishing").exists()


def test_damage_never_takes_the_place_of_a_good_adapter(tmp_path: Path) -> None:
    publish(tmp_path, write_source(tmp_path, 1), summary_of(1), "partial")
    torn = write_source(tmp_path, 2)
    os.truncate(torn / WEIGHTS_FILE, 20)
    with pytest.raises(UserError, match="damaged"):
        publish(tmp_path, torn, summary_of(2), "partial")
    (torn / WEIGHTS_FILE).unlink()
    with pytest.raises(UserError, match="is missing"):
        publish(tmp_path, torn, summary_of(2), "partial")
    assert step_in_place(tmp_path) == 1


def test_an_incomplete_summary_is_refused_before_anything_moves(tmp_path: Path) -> None:
    source = write_source(tmp_path, 1)
    for change, fault in (
        ({"devices": []}, "`devices`"),
        ({"checkpoint_path": "runs/gone"}, "does not exist"),
        ({"total_elapsed_seconds": float("nan")}, "`total_elapsed_seconds`"),
    ):
        with pytest.raises(UserError, match=fault):
            publish(tmp_path, source, {**summary_of(1), **change}, "partial")
    without = {k: v for k, v in summary_of(1).items() if k != "run_key"}
    with pytest.raises(UserError, match="`run_key` is missing"):
        publish(tmp_path, source, without, "partial")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_recover_has_nothing_to_do(tmp_path: Path) -> None:
    assert recover(tmp_path) == ""
    publish(tmp_path, write_source(tmp_path, 1), summary_of(1), "partial")
    before = (tmp_path / "run_summary.json").stat().st_mtime_ns
    assert recover(tmp_path) == ""
    assert (tmp_path / "run_summary.json").stat().st_mtime_ns == before


def test_recover_takes_the_summary_that_speaks_of_the_files(tmp_path: Path) -> None:
    publish(tmp_path, write_source(tmp_path, 1), summary_of(1), "partial")
    old = json.loads((tmp_path / "run_summary.json").read_text())
    publish(tmp_path, write_source(tmp_path, 2), summary_of(2), "partial")
    new = json.loads((tmp_path / "run_summary.json").read_text())
    write_json(tmp_path / "run_summary.json", {**old, "incoming": new})
    assert published_summary(tmp_path) == new
    assert "now speaks" in recover(tmp_path)
    assert json.loads((tmp_path / "run_summary.json").read_text()) == new
    write_json(tmp_path / "run_summary.json", {**new, "incoming": old})
    recover(tmp_path)
    assert json.loads((tmp_path / "run_summary.json").read_text()) == new


def test_a_summary_of_other_files_is_no_valid_pair(tmp_path: Path) -> None:
    publish(tmp_path, write_source(tmp_path, 1), summary_of(1), "partial")
    write_json(tmp_path / "adapter" / CONFIG_FILE, {"step": 99})
    assert published_summary(tmp_path) is None
    (tmp_path / "run_summary.json").write_text("torn")
    assert published_summary(tmp_path) is None
    assert publish(tmp_path, write_source(tmp_path, 2), summary_of(2), "partial")
    assert published_summary(tmp_path) is not None


@pytest.mark.parametrize("status", ["partial", "complete"])
def test_an_adapter_of_somebody_else_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: Literal["partial", "complete"]
) -> None:
    for step, name in ((1, "adapter.replaced"), (2, "adapter.replaced-2")):
        own = tmp_path / "adapter"
        own.mkdir()
        (own / "mine.bin").write_text(name)
        publish(tmp_path, write_source(tmp_path, step), summary_of(step), status)
        assert step_in_place(tmp_path) == step
        assert published_summary(tmp_path) is not None
        assert (tmp_path / name / "mine.bin").read_text() == name
        assert f"moved to {name}/" in capsys.readouterr().err
        (tmp_path / "adapter").rename(tmp_path / f"taken-{step}")
        (tmp_path / "run_summary.json").unlink()


def test_a_published_adapter_is_not_kept_twice(tmp_path: Path) -> None:
    for step in (1, 2):
        publish(tmp_path, write_source(tmp_path, step), summary_of(step), "partial")
    assert not list(tmp_path.glob("adapter.replaced*"))


def test_a_foreign_link_is_moved_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "adapter").symlink_to("elsewhere")
    publish(tmp_path, write_source(tmp_path, 1), summary_of(1), "partial")
    assert not (tmp_path / "adapter").is_symlink()
    assert (tmp_path / "adapter.replaced").is_symlink()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_foreign_mount_point_is_the_users_to_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(self: Path, target: Path) -> None:
        raise OSError(errno.EBUSY, "busy", str(self))

    (tmp_path / "adapter").mkdir()
    monkeypatch.setattr(Path, "rename", busy)
    with pytest.raises(UserError, match="mount point"):
        publish(tmp_path, write_source(tmp_path, 1), summary_of(1), "partial")

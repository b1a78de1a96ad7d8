"""Over a cluster the bytes are the same, whatever dies."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.errors import UserError
from pipeline.corpus.execution import ray_backend
from pipeline.corpus.execution.guard import WorkerError
from tests.support.closure import ROOT
from tests.unit.corpus.execution import tasks
from tests.unit.corpus.execution.support import EXPECTED, expected_without, merged, run


def test_without_ray_the_remedy_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UserError, match=r"ray is not installed here\. Install it"):
        run(tmp_path, backend="ray")


def test_where_nobody_answers_is_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no Ray cluster at '127\.0\.0\.1:1'.*ray start --head"):
        run(tmp_path, backend="ray", address="127.0.0.1:1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Two nodes with a core each on this machine, started from another folder."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster

    before = Path.cwd()
    os.chdir("/")
    node: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    nodes = Cluster(initialize_head=True, head_node_args={**node, "include_dashboard": False})
    nodes.add_node(**node)
    os.chdir(before)
    yield nodes.address
    nodes.shutdown()


@pytest.fixture
def connected(cluster: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(ROOT)
    return cluster


@pytest.mark.slow
def test_two_nodes_write_the_same_bytes(tmp_path: Path, connected: str) -> None:
    acts = {7: "exit", 30: "memory", 50: "power"}
    folders = run(tmp_path, acts, backend="ray", address=connected, workers=None)
    assert merged(folders, "lost.txt") == "7 crash\n30 memory\n50 timeout\n"
    assert merged(folders) == expected_without(*acts)


@pytest.mark.slow
def test_a_ray_worker_that_dies_loses_and_doubles_nothing(tmp_path: Path, connected: str) -> None:
    folders = run(
        tmp_path, {23: "kill-ray-worker"}, backend="ray", address=connected,
        witness=str(tmp_path), row_seconds=100,
    )  # fmt: skip
    assert (tmp_path / "happened").is_dir()
    assert (merged(folders, "lost.txt"), merged(folders)) == ("", EXPECTED)
    assert sorted(folders[0].parent.iterdir()) == folders


@pytest.mark.slow
def test_faults_cross_the_cluster_unchanged(tmp_path: Path, connected: str) -> None:
    import ray

    with ray.init(address=connected, log_to_driver=False):  # a connection that we leave alone
        where = {"backend": "ray", "address": connected}
        with pytest.raises(UserError, match=r"value 13 is unlucky\. Use 14\."):
            run(tmp_path, {23: "user"}, **where)
        with pytest.raises(OSError, match="No space left") as caught:
            run(tmp_path, {23: "full"}, **where)
        assert caught.value.errno == 28
        with pytest.raises(WorkerError, match="in _bug"):
            run(tmp_path, {23: "bug"}, **where)
        assert ray.is_initialized()
        assert merged(run(tmp_path, **where)) == EXPECTED


@pytest.mark.slow
def test_a_node_that_does_not_see_the_folder_is_named(
    tmp_path: Path, connected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_backend, "_reads", tasks.see_nothing)
    with pytest.raises(UserError, match=r"not seen by the Ray nodes .*all nodes mount"):
        run(tmp_path, backend="ray", address=connected)
    assert list((tmp_path / "scratch/copy").iterdir()) == []

"""The hub: one download of a pinned commit, then no network; offline it says what to do."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from huggingface_hub import constants

from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache
from pipeline.base.params_corpus import SourceParams
from pipeline.corpus.listing import describe_sources
from pipeline.corpus.readers.hub import parse_hub
from tests.support.closure import ROOT

COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "main/train-0.jsonl": b'{"problem": "1 + 1?", "answer": "2"}\n',
    "main/test-0.jsonl": b'{"problem": "2 + 2?", "answer": "4"}\n',
    "README.md": b"# no rows",
}


class Hub(BaseHTTPRequestHandler):
    """The answers of a hub that has one data set of one commit."""

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def _answer(self, body: bool) -> None:
        path = self.path.partition("?")[0]
        file = path.partition(f"/datasets/owner/name/resolve/{COMMIT}/")[2]
        tree = [{"type": "file", "path": n, "size": len(c), "oid": "0"} for n, c in FILES.items()]
        about = {"id": "owner/name", "sha": COMMIT, "siblings": [{"rfilename": n} for n in FILES]}
        if file in FILES:
            content, kind = FILES[file], "application/octet-stream"
        elif path == f"/api/datasets/owner/name/revision/{COMMIT}":
            content, kind = json.dumps(about).encode(), "application/json"
        elif path.startswith(f"/api/datasets/owner/name/tree/{COMMIT}"):
            content, kind = json.dumps(tree).encode(), "application/json"
        else:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


PROGRAM = """
import json, sys
from pipeline.base.fingerprint import HashCache
from pipeline.base.errors import UserError
from pipeline.base.params_corpus import SourceParams
from pipeline.corpus.listing import describe_sources
for path in sys.argv[1:]:
    try:
        print(json.dumps(describe_sources([SourceParams(path=path)], HashCache())))
    except UserError as error:
        print(json.dumps(str(error)))
"""


def describe(folder: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> list[dict[str, object]]:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    return describe_sources([SourceParams(path=path)], HashCache())


def test_a_commit_is_downloaded_once(
    tmp_path: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, part = f"hub:owner/name@{COMMIT}", f"hub:owner/name@{COMMIT}/main/train-*.jsonl"
    gone = f"hub:owner/name@{'f' * 40}"
    given = {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0", "HF_HOME": str(tmp_path / "home")}
    environment = {**os.environ, **given, "PYTHONPATH": str(ROOT), "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, whole, part, gone],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [Path(one["path"]).name for one in found[0]] == ["test-0.jsonl", "train-0.jsonl"]
    assert [Path(one["path"]).name for one in found[1]] == ["train-0.jsonl"]
    train = FILES["main/train-0.jsonl"]
    assert found[1][0]["sha256"] == hashlib.sha256(train).hexdigest()
    assert found[1][0]["source"] == 0
    assert "download failed" in found[2]
    assert not list(tmp_path.glob("runs/hub/*/README.md"))
    assert describe(tmp_path, monkeypatch, whole) == found[0]  # offline now
    assert describe(tmp_path, monkeypatch, part) == found[1]


def test_offline_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"HF_HUB_OFFLINE=0 python -m pipeline\.prepare"):
        describe(tmp_path, monkeypatch, f"hub:owner/name@{COMMIT}")


def test_names_are_taken_apart() -> None:
    found = parse_hub(f"hub:owner/na.me-1@{COMMIT}/data/*.parquet")
    assert (found.name, found.commit, found.part) == ("owner/na.me-1", COMMIT, "data/*.parquet")
    folders = {parse_hub(f"hub:a/b@{COMMIT}{part}").folder for part in ("", "/x", "/y")}
    assert len(folders) == 3

"""Every rank gets its own place and device, and says its signs of life to its own pipe."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from pipeline.learning.launch import rank_environments, start_rank

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import os, sys
from pipeline.learning.pulse import Pulse
Pulse()(f"step of rank {os.environ['RANK']}", 5.0)
"""


def test_ranks_differ_in_their_place_alone() -> None:
    first, second = rank_environments(2)
    assert (first.pop("RANK"), first.pop("LOCAL_RANK")) == ("0", "0")
    assert (second.pop("RANK"), second.pop("LOCAL_RANK")) == ("1", "1")
    assert first == second
    assert first["WORLD_SIZE"] == "2"
    assert rank_environments(1) == [{}]


def test_what_a_rank_says_reaches_its_own_listener() -> None:
    paths = {"PYTHONPATH": str(ROOT)}
    started = [
        start_rank([sys.executable, "-c", PROGRAM], {**variables, **paths})
        for variables in rank_environments(2)
    ]
    for number, (process, listener) in enumerate(started):
        assert process.wait() == 0
        listener.look(1.0)
        assert listener.doing == f"step of rank {number}"
        listener.close()


def test_no_code_leaves_the_placement_of_layers_to_a_library() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in (ROOT / "pipeline").rglob("*.py")}
    assert [path for path, text in texts.items() if re.search(r"device_map.{0,6}auto", text)] == []

"""Verdicts of lm-evaluation-harness and Math-Verify, as JSON lines on stdout.

    python -m venv peers && peers/bin/pip install "lm-eval[math]"
    peers/bin/python bench/grading_peers.py < pairs.jsonl > verdicts.jsonl

Runs in an environment of its own; imports nothing of this project. Reads one JSON array
`[reply, gold]` a line; the first line written names the versions, each further one holds
`{"harness": bool, "math_verify": bool or null}` (null: not asked, given `--harness-only`).
"""

from __future__ import annotations

import importlib.metadata
import json
import logging
import sys

from lm_eval.tasks.aime.utils import process_results
from math_verify import parse, verify


def math_verify(reply: str, gold: str) -> bool:
    """Math-Verify with its defaults: the gold is put between dollars, as its guide asks."""
    try:
        return bool(verify(parse(f"${gold}$"), parse(reply)))
    except Exception:
        return False


def main() -> None:
    """Grade what stdin holds."""
    logging.disable(logging.CRITICAL)
    only = "--harness-only" in sys.argv
    names = ("lm_eval", "math-verify")
    print(json.dumps({name: importlib.metadata.version(name) for name in names}), flush=True)
    for line in sys.stdin:
        reply, gold = json.loads(line)
        harness = bool(process_results({"answer": gold}, [reply])["exact_match"])
        peer = None if only else math_verify(reply, gold)
        print(json.dumps({"harness": harness, "math_verify": peer}), flush=True)


if __name__ == "__main__":
    main()

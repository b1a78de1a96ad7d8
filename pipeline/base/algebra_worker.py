"""The process that does algebra for the grader: `python -m pipeline.base.algebra_worker GIB`.

Started and, when it takes too long, killed by algebra_judge.py. Reads one JSON pair
`[left, right]` of cleaned answers a line, writes one outcome of algebra.py a line; the
first line it writes is `ready`. Its memory is limited to GIB (float, GiB), so a runaway
ends this process and no other. Ends when its input does.
"""

from __future__ import annotations

import json
import resource
import sys

from pipeline.base.algebra import compare


def main() -> None:
    """Serve pairs until the input ends."""
    limit = int(float(sys.argv[1]) * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Numbers are bounded by expressions.py; a long one that still arises may be printed.
    sys.set_int_max_str_digits(0)
    print("ready", flush=True)
    for line in sys.stdin:
        left, right = json.loads(line)
        try:
            outcome: str = compare(left, right)
        except MemoryError:
            outcome = "too-large"
        print(outcome, flush=True)


if __name__ == "__main__":
    main()

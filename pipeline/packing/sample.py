"""Reads some of the packed bins back while they are made.

Reads work/tokenize/ and work/select/traces.jsonl; called by `python -m pipeline.tokenize`
before it writes the manifest.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.base.prompt_variants import Prompts
from pipeline.base.records import Trace, from_line
from pipeline.packing.buckets import Layout
from pipeline.packing.encoded import Encoded
from pipeline.packing.proof import prove_document
from pipeline.packing.stored import Stored

PROVEN_BINS = 64
"""So many bins, evenly spread, are read back."""


def prove_sample(
    stored: Stored,
    prompts: Prompts,
    seed: int,
    encoded: Encoded,
    layout: Layout,
    traces: Path,
    most: int = PROVEN_BINS,
) -> int:
    """Prove every document of some bins; return how many documents that were.

    All bins are read when there are at most `most`, else that many, evenly spread from
    first to last, and the first of every bucket.

    Raises:
        UserError: a document trains anything but what it should.
    """
    bins = len(layout.counts)
    spread = np.linspace(0, bins - 1, min(most, bins)).astype(int)
    picked = np.union1d(spread, [bucket.first for bucket in layout.buckets])
    read = 0
    with traces.open("rb") as stream:
        for number in picked.tolist():
            for place in range(int(stored.firsts[number]), int(stored.firsts[number + 1])):
                stream.seek(int(encoded.rows[layout.documents[place]]))
                trace = from_line(Trace, stream.readline(), str(traces))
                chat = prompts.chat_of(trace.id, seed)
                prove_document(chat, trace, chat.prompt_ids(trace.problem), *stored.document(place))
                read += 1
    return read

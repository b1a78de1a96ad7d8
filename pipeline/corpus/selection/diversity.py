"""The order of the policy `diverse`: every topic in turn, harder problems more often.

Called by choice.py; reads and writes nothing. Topics take turns as in s1 (arXiv
2501.19393, section 2), which draws the topic uniformly and then a problem of it with a
preference for long traces. Here the preference is a lottery: a problem has one ticket
if it is easy, two if medium, four if hard, and a topic's problems enter in the order of
their best tickets, which is weighted sampling without replacement. Where the tier is
unknown, the length of the trace stands in: the longest third of such rows counts as
hard, the shortest as easy.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.corpus.copies.keyed_hash import keyed_hash, rank_in_run, run_starts
from pipeline.corpus.selection.entries import TIERS, Entries
from pipeline.corpus.selection.topics import TOPICS

TICKETS = {"easy": 1, "medium": 2, "hard": 4}


def tickets(entries: Entries, places: NDArray[np.int32]) -> NDArray[np.int32]:
    """Tickets of the rows at these places; shape as `places`."""
    tier, tokens = entries.tier[places], entries.tokens[places]
    found = np.asarray([TICKETS.get(name, 0) for name in TIERS], dtype=np.int32)[tier]
    unknown = found == 0
    lengths = tokens[unknown]
    if lengths.size:
        thirds = [len(lengths) // 3, 2 * len(lengths) // 3]
        short, long = np.partition(lengths, thirds)[thirds]
        levels = np.asarray(list(TICKETS.values()), dtype=np.int32)
        found[unknown] = levels[(lengths >= short).astype(np.intp) + (lengths >= long)]
    return found


def diverse_order(
    entries: Entries, places: NDArray[np.int32], rank: NDArray[np.int32], seed: int
) -> NDArray[np.int32]:
    """The places in the order in which they enter the budget; shape as `places`.

    Args:
        rank: of each place's trace among those of its problem; first traces go first.
    """
    group, held = entries.group[places], tickets(entries, places)
    drawn = keyed_hash(group, "ticket 0", seed)
    for number in range(1, max(TICKETS.values())):
        more = np.flatnonzero(held > number)
        drawn[more] = np.minimum(drawn[more], keyed_hash(group[more], f"ticket {number}", seed))
    series = rank.astype(np.int64) * TOPICS + entries.topic[places]
    order = np.lexsort((drawn, series))
    places, series = places[order], series[order]
    rounds = rank_in_run(run_starts(series))
    topic_turn = keyed_hash(np.arange(TOPICS, dtype=np.uint64), "topic", seed)
    turn = np.lexsort((topic_turn[series % TOPICS], rounds, series // TOPICS))
    return places[turn]

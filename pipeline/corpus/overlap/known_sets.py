"""Public evaluation sets by their content: how many problems, and which.

Called by protected.py; reads and writes nothing. A set is known by its problem ids
(hashes of the problems' texts), never by its texts: the fingerprint of all ids proves
a file whole, and the `SKETCH` smallest ids, a bottom-k sketch, estimate how much of the
set a file holds (Broder 1997, "On the resemblance and containment of documents").
Editions differ in wording, so a set may have several. A set whose texts were not at hand
is known by name and number of problems alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from pipeline.base.artifacts import sha256_text

SKETCH = 8
"""Smallest ids of an edition that are kept to recognise a part of it."""
LEAST_SHARED = 2
"""Ids of a sketch that a file must hold to count as a part of that edition."""


@dataclass(frozen=True, slots=True)
class Edition:
    """One published wording of a set."""

    fingerprint: str
    """`fingerprint_of` all its problem ids."""
    sketch: tuple[str, ...]
    """Its `SKETCH` smallest problem ids."""


@dataclass(frozen=True, slots=True)
class KnownSet:
    """A public evaluation set."""

    name: str
    problems: int
    """Distinct problems of the whole set."""
    pattern: str
    """Regular expression that finds the set in a file's name (lower case)."""
    editions: tuple[Edition, ...] = ()


@dataclass(frozen=True, slots=True)
class Recognition:
    """What a protected file is."""

    known: str | None
    """Name of the public set; null if it is none that is known here."""
    state: str
    """`complete`, `partial`, `changed` (another wording, or more problems) or `own`."""
    expected: int | None
    """Problems of the whole public set."""


def _edition(fingerprint: str, sketch: str) -> Edition:
    return Edition(fingerprint, tuple(sketch.split()))


KNOWN_SETS = (
    KnownSet(
        "MATH-500",
        500,
        r"math.?500|math_oai",
        (
            _edition(
                "581b231e42301d32",
                "00a3273aa6301753 00d529a715a05511 0198c3dc86716fd5 01f193238ffe463d "
                "0209b40e40037433 02bc9cc88c2b7102 02c53275fb4a8591 037673711166eea9",
            ),
        ),
    ),
    KnownSet(
        "GSM8K test",
        1319,
        r"gsm8k",
        (
            _edition(
                "e2dee30bfd7cf1be",
                "004193590f022931 00518b1a8cd1568e 007559bfbca20747 00862f23f19aa559 "
                "00eba72e6549ed56 0102959ca33da5fb 01173f743e3e9f8d 011f2a090f8f3f80",
            ),
        ),
    ),
    KnownSet(
        "AIME 2024",
        30,
        r"aime.?(?:20)?24",
        (
            _edition(
                "985261fea83c6b3d",
                "0586c2f8e277564e 058955d56fb19d4c 18970bb847c2ffdf 2b87605ec4b1eef3 "
                "38925f8fa99e0d4d 3d3f62b44b8651d0 482badc7c1fbce42 5a9edff62c445b0f",
            ),
            _edition(
                "9c1f3254d476dbe3",
                "0586c2f8e277564e 058955d56fb19d4c 07c3a8a4d5c56a0a 18970bb847c2ffdf "
                "2b87605ec4b1eef3 3d3f62b44b8651d0 42148a18a65c5344 482badc7c1fbce42",
            ),
        ),
    ),
    KnownSet(
        "AIME 2025",
        30,
        r"aime.?(?:20)?25",
        (
            _edition(
                "99c4fb0371a2e09c",
                "09d1e16d3199edae 09e9310cb0fbe944 263ae1f8acff6299 276e0a2245068bf8 "
                "2e4021e95b534f41 36d75aa72cbe7ba0 4123ea21928e808d 42ea8293ac9e7720",
            ),
            _edition(
                "a5ba9c9919289ffb",
                "047de99221f22973 06a7ddfc0cacad91 1c6448208ffa12ed 268c2251fd4ea3e3 "
                "270e96db0af92c8c 276e0a2245068bf8 2b38a173fa713c2e 2f358c218dbb75b5",
            ),
            _edition(
                "bc949d92e95b1b33",
                "047de99221f22973 25aa976a38486793 268c2251fd4ea3e3 270e96db0af92c8c "
                "276e0a2245068bf8 2f358c218dbb75b5 3a017af9ad01dac0 4255c0bad881f1ad",
            ),
        ),
    ),
    KnownSet("AIME 2026", 30, r"aime.?(?:20)?26"),
    KnownSet(
        "AMC 2023",
        40,
        r"amc.?(?:20)?23",
        (
            _edition(
                "b017bdeb128fb9e9",
                "07618f6c21f22a56 10fb42298276c85a 159ca50d2f95ca1a 1639a61aca63a029 "
                "1e3b3069f691ca2f 27b3139d863b4fbe 2fce5f6dc57046da 324c365592264fef",
            ),
        ),
    ),
    KnownSet("HARP", 4780, r"(?<![a-z])harp(?![a-z])"),
    KnownSet(
        "OlympiadBench-EN",
        675,
        r"olympiad.?bench",
        (
            _edition(
                "3436aa40f6a18067",
                "00836f598fade970 00a4e0fe1ce28c2d 01078b48bd86cf68 01202a2db0e20fdd "
                "01989c9800d8b9d7 01b0ead6aa692f87 02387613d9e90a1d 035692174a134541",
            ),
        ),
    ),
    KnownSet(
        "Minerva",
        272,
        r"minerva",
        (
            _edition(
                "14a2a2c4edf31cbe",
                "010e16141b10b821 01949a136cb43979 01cd79be596ca021 01f78c4311390cd8 "
                "022ba098c0f3ef27 02660a17ec921720 02bc86c6476f28cf 0407c3ed01d1c384",
            ),
        ),
    ),
)


def fingerprint_of(ids: Sequence[str]) -> str:
    """16 hexadecimal digits over a set of problem ids, whatever their order."""
    return sha256_text("\n".join(sorted(set(ids))))[:16]


def recognise(name: str, ids: Sequence[str]) -> Recognition:
    """Which public set a file of problems is, by content first, then by name.

    Args:
        name: the file's path or short name.
        ids: its problem ids.
    """
    held, fingerprint = set(ids), fingerprint_of(ids)
    shares = [
        (sum(one in held for one in edition.sketch), known)
        for known in KNOWN_SETS
        for edition in known.editions
    ]
    for known in KNOWN_SETS:
        if any(edition.fingerprint == fingerprint for edition in known.editions):
            return Recognition(known.name, "complete", known.problems)
    shared, best = max(shares, key=lambda one: one[0])
    if shared >= LEAST_SHARED:
        state = "partial" if len(held) < best.problems else "changed"
        return Recognition(best.name, state, best.problems)
    for known in KNOWN_SETS:
        if re.search(known.pattern, PurePath(name).name.lower()):
            return Recognition(known.name, _state_by_count(len(held), known), known.problems)
    return Recognition(None, "own", None)


def _state_by_count(count: int, known: KnownSet) -> str:
    if known.editions or count > known.problems:
        return "changed"
    return "complete" if count == known.problems else "partial"

"""Attention inside each document of a packed row, by the fastest kernels that are right here.

`choose` lists what this device can use, `verified` leaves out what computes wrongly,
`packing_of` describes a batch, `register` gives transformers the function that takes it.
"""

from pipeline.learning.attention.check import Verdict, verified
from pipeline.learning.attention.dense import capability_of
from pipeline.learning.attention.entry import (
    DOCUMENTS,
    attend_documents,
    packing_of,
    register,
)
from pipeline.learning.attention.packing import PackedLengths
from pipeline.learning.attention.table import Choice, choose

__all__ = [
    "DOCUMENTS",
    "Choice",
    "PackedLengths",
    "Verdict",
    "attend_documents",
    "capability_of",
    "choose",
    "packing_of",
    "register",
    "verified",
]

"""The product's worker on a large card that is made to look like a 15 GiB one of 2018.

Started by the supervisor in the place of `pipeline.learning.worker`, with the same arguments, for
the way `ours-small-card` of `bench.train`. The allocator is held to 14.0 GiB and this project's own
choices see capability 7.5: fp16, no FlashAttention, attention by the memory-efficient kernels.
Compilers still see the real card. The speed of a small card is not measured by this.
"""

from __future__ import annotations

from unittest import mock

import torch

from pipeline.learning import kernels, worker
from pipeline.learning.attention import documents

LIMIT_GIB = 14.0
CAPABILITY = (7, 5)


def main() -> int:
    """The worker's own command line; its exit code."""
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(LIMIT_GIB * 2**30 / total)
    with (
        mock.patch.object(kernels, "capability_of", return_value=CAPABILITY),
        mock.patch.object(documents, "capability_of", return_value=CAPABILITY),
    ):
        return worker.main()


if __name__ == "__main__":
    raise SystemExit(main())

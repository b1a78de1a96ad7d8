"""CPU and memory of this machine as the process may use them, from /proc and /sys.

Reads cpuinfo, meminfo and the control groups of the calling process, so that a
container with two cores of a large host counts as two cores.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

from pipeline.hardware.machine import Cpu

BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})
"""CPU flags for native bfloat16. torch's own test says yes to emulation as well,
which is slower than float32, so it is not asked."""


def cpuinfo_blocks(text: str) -> list[dict[str, str]]:
    """One dictionary a logical processor, from the text of /proc/cpuinfo."""
    blocks = []
    for paragraph in text.strip().split("\n\n"):
        pairs = (line.partition(":") for line in paragraph.splitlines())
        fields = {key.strip(): value.strip() for key, _, value in pairs}
        if "processor" in fields:
            blocks.append(fields)
    return blocks


def physical_cores(blocks: list[dict[str, str]], allowed: set[int]) -> int:
    """Distinct cores among the allowed logical processors; siblings count once."""
    cores = {
        (block.get("physical id", "0"), block.get("core id", f"cpu{block['processor']}"))
        for block in blocks
        if int(block["processor"]) in allowed
    }
    return max(1, len(cores))


def control_groups(root: Path) -> Iterator[Path]:
    """Folders of the process's v2 control group and its parents, innermost first."""
    mount = root / "sys/fs/cgroup"
    own = _read(root / "proc/self/cgroup") or ""
    inner = next((line[3:] for line in own.splitlines() if line.startswith("0::")), "/")
    folder = mount / inner.lstrip("/")
    while folder != mount and mount in folder.parents:
        yield folder
        folder = folder.parent
    yield mount


def core_quota(root: Path) -> float | None:
    """Cores that the control groups grant, or None when nothing limits them."""
    quotas = []
    for folder in control_groups(root):
        fields = (_read(folder / "cpu.max") or "max 1").split()
        if fields[0] != "max":
            quotas.append(int(fields[0]) / int(fields[1]))
    old = root / "sys/fs/cgroup/cpu"
    quota, period = _read(old / "cpu.cfs_quota_us"), _read(old / "cpu.cfs_period_us")
    if quota and period and int(quota) > 0:
        quotas.append(int(quota) / int(period))
    return min(quotas, default=None)


def memory_bytes(root: Path) -> int:
    """Bytes of memory: installed, or a control group's limit when that is less."""
    text = (root / "proc/meminfo").read_text()
    installed = next(line for line in text.splitlines() if line.startswith("MemTotal:"))
    sizes = [int(installed.split()[1]) * 1024]
    files = [folder / "memory.max" for folder in control_groups(root)]
    for path in [*files, root / "sys/fs/cgroup/memory/memory.limit_in_bytes"]:
        limit = _read(path)
        if limit and limit != "max":
            sizes.append(int(limit))
    return min(sizes)


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except (FileNotFoundError, PermissionError, NotADirectoryError):
        return None


def read_cpu(root: Path = Path("/"), allowed: set[int] | None = None) -> Cpu:
    """The CPU as this process may use it.

    Args:
        root: where /proc and /sys lie; tests give a made-up tree.
        allowed: logical processors to count, by default the affinity mask.
    """
    allowed = os.sched_getaffinity(0) if allowed is None else allowed
    blocks = cpuinfo_blocks((root / "proc/cpuinfo").read_text())
    flags = blocks[0].get("flags", blocks[0].get("Features", "")).split()
    quota = core_quota(root)
    most = max(1, math.floor(quota)) if quota is not None else len(allowed)
    return Cpu(
        model=blocks[0].get("model name", "unknown processor"),
        physical_cores=min(physical_cores(blocks, allowed), most),
        logical_cores=min(len(allowed), most),
        # Half GiBs, rounded down: what the kernel keeps varies from boot to boot.
        ram_gib=math.floor(memory_bytes(root) / 2**29) / 2,
        bf16=not BF16_FLAGS.isdisjoint(flags),
    )

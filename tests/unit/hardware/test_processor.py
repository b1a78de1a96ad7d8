"""CPU facts from made-up /proc and /sys trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.hardware.processor import core_quota, cpuinfo_blocks, physical_cores, read_cpu

BLOCK = """processor\t: {number}
model name\t: Test CPU 9000
physical id\t: 0
core id\t\t: {core}
flags\t\t: fpu sse2 {flags}
"""


def tree(root: Path, *, flags: str = "", siblings: int = 2, cores: int = 4) -> Path:
    """A host with `cores` cores of `siblings` threads and 64 GiB, nothing limited."""
    blocks = [
        BLOCK.format(number=core + thread * cores, core=core, flags=flags)
        for thread in range(siblings)
        for core in range(cores)
    ]
    write(root / "proc/cpuinfo", "\n".join(blocks))
    write(root / "proc/meminfo", f"MemTotal:       {64 * 2**20} kB\nMemFree:        12 kB\n")
    write(root / "proc/self/cgroup", "0::/jobs/one\n")
    return root


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_threads_of_one_core_count_once(tmp_path: Path) -> None:
    cpu = read_cpu(tree(tmp_path), set(range(8)))
    assert (cpu.physical_cores, cpu.logical_cores) == (4, 8)
    assert cpu.model == "Test CPU 9000"


def test_affinity_limits_both_counts(tmp_path: Path) -> None:
    cpu = read_cpu(tree(tmp_path), {0, 4, 1})
    assert (cpu.physical_cores, cpu.logical_cores) == (2, 3)


def test_processors_without_core_numbers_count_each() -> None:
    blocks = cpuinfo_blocks("processor : 0\n\nprocessor : 1\n")
    assert physical_cores(blocks, {0, 1}) == 2


@pytest.mark.parametrize("flags", ["avx512f avx512_bf16", "amx_bf16 amx_tile"])
def test_bfloat16_is_read_from_the_flags(tmp_path: Path, flags: str) -> None:
    assert read_cpu(tree(tmp_path, flags=flags), {0}).bf16


def test_avx512_alone_only_emulates_bfloat16(tmp_path: Path) -> None:
    assert not read_cpu(tree(tmp_path, flags="avx512f avx512bw avx2"), {0}).bf16


def test_the_tightest_quota_of_all_parents_holds(tmp_path: Path) -> None:
    root = tree(tmp_path)
    write(root / "sys/fs/cgroup/jobs/one/cpu.max", "400000 100000")
    write(root / "sys/fs/cgroup/jobs/cpu.max", "250000 100000")
    assert core_quota(root) == 2.5
    assert read_cpu(root, set(range(8))).physical_cores == 2


def test_half_a_core_is_still_one(tmp_path: Path) -> None:
    root = tree(tmp_path)
    write(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000")
    write(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    assert read_cpu(root, set(range(8))).physical_cores == 1


def test_memory_is_the_least_of_installed_and_granted(tmp_path: Path) -> None:
    root = tree(tmp_path)
    assert read_cpu(root, {0}).ram_gib == 64.0
    write(root / "sys/fs/cgroup/memory.max", str(int(7.9 * 2**30)))
    assert read_cpu(root, {0}).ram_gib == 7.5


def test_an_unlimited_group_of_the_old_kind_changes_nothing(tmp_path: Path) -> None:
    root = tree(tmp_path)
    write(root / "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
    assert read_cpu(root, {0}).ram_gib == 64.0


def test_this_machine_can_be_read() -> None:
    cpu = read_cpu()
    assert 1 <= cpu.physical_cores <= cpu.logical_cores
    assert cpu.ram_gib >= 0.5

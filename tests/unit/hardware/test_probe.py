"""GPUs: what the driver lists, what is visible, what torch can use."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pipeline.base.errors import UserError
from pipeline.hardware import probe
from pipeline.hardware.machine import Gpu
from pipeline.hardware.probe import Listed, parse_listing, required_version, usable_gpus, visible

LISTING = """0, GPU-aaaa-1, Tesla T4, 15360, 7.5
1, GPU-bbbb-2, Tesla T4, 15360, 7.5
"""


def test_the_listing_is_read_and_noise_is_not() -> None:
    listed = parse_listing(f"No devices were found\n{LISTING}")
    assert listed == [Listed(0, "GPU-aaaa-1", "Tesla T4"), Listed(1, "GPU-bbbb-2", "Tesla T4")]


@pytest.mark.parametrize(
    ("value", "indices"),
    [
        (None, [0, 1]),
        ("", []),
        ("-1", []),
        ("1", [1]),
        ("1,0", [1, 0]),
        ("0, 1", [0, 1]),
        ("0,7,1", [0]),
        ("GPU-bbbb", [1]),
    ],
)
def test_visible_devices_are_read_as_cuda_reads_them(value: str | None, indices: list[int]) -> None:
    environment = {} if value is None else {"CUDA_VISIBLE_DEVICES": value}
    assert [gpu.index for gpu in visible(parse_listing(LISTING), environment)] == indices


def test_no_driver_means_no_gpu_and_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "ask_torch", lambda: pytest.fail("torch was asked"))
    assert usable_gpus([], {}, "2.13.0") == ((), None)


def test_hidden_gpus_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "ask_torch", lambda: pytest.fail("torch was asked"))
    gpus, note = usable_gpus(parse_listing(LISTING), {"CUDA_VISIBLE_DEVICES": ""}, "2.13.0")
    assert gpus == ()
    assert note is not None
    assert "hides all GPUs" in note


def test_what_torch_can_use_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    found = tuple(Gpu(index, "Tesla T4", 14.5, (7, 5)) for index in range(2))
    monkeypatch.setattr(probe, "ask_torch", lambda: (found, ""))
    assert usable_gpus(parse_listing(LISTING), {}, "2.13.0+cu130") == (found, None)


def test_a_cpu_build_beside_a_gpu_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "ask_torch", lambda: ((), ""))
    gpus, note = usable_gpus(parse_listing(LISTING), {}, "2.13.0+cpu")
    assert gpus == ()
    assert note is not None
    for part in ("2 × Tesla T4", "2.13.0+cpu", "can use 0", "install"):
        assert part in note


def fake_python(folder: Path, body: str) -> str:
    """An interpreter that only prints."""
    program = folder / "python"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return str(program)


def test_the_child_reports_rounded_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"echo warning; echo '[[\"Tesla T4\", {int(14.58 * 2**30)}, [7, 5]]]'"
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path, line))
    assert probe.ask_torch() == ((Gpu(0, "Tesla T4", 14.5, (7, 5)),), "")


def test_a_failing_child_is_no_gpu_but_a_complaint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "echo 'Traceback' >&2; echo 'ImportError: libcudart.so' >&2; exit 1"
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path, body))
    assert probe.ask_torch() == ((), "ImportError: libcudart.so")


def test_the_driver_is_asked_through_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTING}END\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert [gpu.uuid for gpu in probe.list_gpus()] == ["GPU-aaaa-1", "GPU-bbbb-2"]
    program.write_text("#!/bin/sh\necho 'driver mismatch'\nexit 18\n")
    assert probe.list_gpus() == []


def test_a_missing_package_names_the_remedy() -> None:
    with pytest.raises(UserError, match="make setup"):
        required_version("no-such-package-anywhere")

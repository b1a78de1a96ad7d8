"""What this machine offers, without importing torch here.

The driver's `nvidia-smi` says which GPUs are there; a child process asks torch
which of them it can use, and only those count. A CPU build of torch beside a
GPU is said, not passed over.
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata

from pipeline.base.errors import UserError
from pipeline.hardware.machine import Gpu, Machine
from pipeline.hardware.processor import read_cpu

QUERY = "index,uuid,name,memory.total,compute_cap"
CHILD_SECONDS = 180.0
"""Importing torch from a cold network disk takes a minute or two."""

ASK_TORCH = """
import json, torch
found = []
for index in range(torch.cuda.device_count()):
    gpu = torch.cuda.get_device_properties(index)
    found.append([gpu.name, gpu.total_memory, [gpu.major, gpu.minor]])
print(json.dumps(found))
"""
"""Run in a child: torch would stay in memory and hold a CUDA context here."""


@dataclass(frozen=True)
class Listed:
    """One line of `nvidia-smi`."""

    index: int
    uuid: str
    name: str


def parse_listing(text: str) -> list[Listed]:
    """GPUs from `nvidia-smi --query-gpu=... --format=csv,noheader,nounits`."""
    rows = [[field.strip() for field in line.split(",")] for line in text.splitlines()]
    return [Listed(int(row[0]), row[1], row[2]) for row in rows if len(row) == 5]


def visible(listed: list[Listed], environment: Mapping[str, str]) -> list[Listed]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order.

    As CUDA reads it: the first entry that names no GPU ends the list.
    """
    wanted = environment.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return listed
    chosen: list[Listed] = []
    for entry in (part.strip() for part in wanted.split(",")):
        by_uuid = entry.startswith("GPU-")
        found = [
            gpu for gpu in listed
            if (gpu.uuid.startswith(entry) if by_uuid else str(gpu.index) == entry)
        ]  # fmt: skip
        if len(found) != 1:
            break
        chosen += found
    return chosen


def list_gpus() -> list[Listed]:
    """All GPUs that the driver knows; none when there is no driver."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    done = subprocess.run(
        [program, f"--query-gpu={QUERY}", "--format=csv,noheader,nounits"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return parse_listing(done.stdout) if done.returncode == 0 else []


def ask_torch() -> tuple[tuple[Gpu, ...], str]:
    """GPUs that torch can use, and its complaint when it fails (else empty)."""
    done = subprocess.run(
        [sys.executable, "-c", ASK_TORCH],
        capture_output=True, text=True, timeout=CHILD_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        return (), (done.stderr.strip().splitlines() or ["no message"])[-1]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    gpus = (
        # Rounded down: a plan must not count on memory that is not there.
        Gpu(index, name, math.floor(size / 2**30 * 10) / 10, (capability[0], capability[1]))
        for index, (name, size, capability) in enumerate(found)
    )
    return tuple(gpus), ""


def usable_gpus(
    listed: list[Listed], environment: Mapping[str, str], torch_version: str
) -> tuple[tuple[Gpu, ...], str | None]:
    """GPUs to compute on, and what to say about those that are left out."""
    shown = visible(listed, environment)
    if not shown:
        value = environment.get("CUDA_VISIBLE_DEVICES", "")
        return (), f"CUDA_VISIBLE_DEVICES={value!r} hides all GPUs" if listed else None
    gpus, complaint = ask_torch()
    if len(gpus) >= len(shown):
        return gpus, None
    reason = f": {complaint}" if complaint else ""
    return gpus, (
        f"nvidia-smi shows {len(shown)} × {shown[0].name}, torch {torch_version} can use "
        f"{len(gpus)}{reason}; install a torch build that matches the driver to use all"
    )


def version_of(package: str) -> str | None:
    """Installed version of a package, found without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def required_version(package: str) -> str:
    """Version of a package that every run needs.

    Raises:
        UserError: it is not installed.
    """
    version = version_of(package)
    if version is None:
        raise UserError(f"{package} is not installed for {sys.executable}", "Run `make setup`.")
    return version


def probe() -> Machine:
    """This machine, as the present process may use it."""
    torch_version = required_version("torch")
    gpus, note = usable_gpus(list_gpus(), os.environ, torch_version)
    return Machine(
        cpu=read_cpu(),
        gpus=gpus,
        torch=torch_version,
        transformers=required_version("transformers"),
        peft=required_version("peft"),
        python=platform.python_version(),
        bitsandbytes=version_of("bitsandbytes"),
        gpu_note=note,
    )

"""machine.json: there and back again, and in one line."""

from __future__ import annotations

import json

from pipeline.hardware.machine import describe, machine_from_json
from tests.support.machines import CPU_PLAIN, T4X2


def test_the_file_gives_back_the_machine() -> None:
    for machine in (T4X2, CPU_PLAIN):
        assert machine_from_json(json.loads(json.dumps(machine.to_json()))) == machine


def test_optional_texts_may_be_missing() -> None:
    tree = T4X2.to_json()
    del tree["gpu_note"], tree["bitsandbytes"]
    assert machine_from_json(tree).bitsandbytes is None


def test_the_description_names_what_counts() -> None:
    text = describe(T4X2)
    for part in ("8 cores", "without native bfloat16", "50 GiB", "2 × Tesla T4", "7.5"):
        assert part in text
    assert "no usable GPU" in describe(CPU_PLAIN)

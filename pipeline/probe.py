"""Stage probe: write down what this machine can compute on.

Reads /proc, the control groups, `nvidia-smi` and, in a child process, torch.
Writes work/probe/machine.json, with stable facts only: another machine gets
another plan, the same machine the same one. Run: `dvc repro probe` or
`python -m pipeline.probe`.
"""

from __future__ import annotations

from pathlib import Path

from pipeline.base.artifacts import write_json
from pipeline.base.params import Params
from pipeline.base.stage import run_stage
from pipeline.hardware.machine import describe
from pipeline.hardware.probe import probe

MACHINE = Path("work/probe/machine.json")


def main(params: Params) -> None:
    """Probe and write; nothing in params changes what the machine is."""
    machine = probe()
    print(f"probe: {describe(machine)}", flush=True)
    if machine.gpu_note:
        print(f"probe: {machine.gpu_note}", flush=True)
    write_json(MACHINE, machine.to_json())


if __name__ == "__main__":
    raise SystemExit(run_stage("probe", main))

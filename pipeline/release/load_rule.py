"""Contract term: PEFT 0.9.0 loads the adapter, offline, and it does something.

PEFT loads adapters non-strictly: a tensor under a wrong name is passed over, and a
module without its tensor stays at random A and zero B. So a child process
(load_check.py) loads the adapter on the base and reports; here it is started and
its report is judged. The child sees no network, no home and an empty folder.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pipeline.base.offline import OFFLINE
from pipeline.release.adapter_config import scale_of
from pipeline.release.case import Broken, Case, Finding

PEFT_VERSION = "0.9.0"
PYTHON_VARIABLE = "TRACEBOX_CONTRACT_PYTHON"
PROJECT = Path(__file__).resolve().parents[2]
CONTRACT_PYTHON = PROJECT / ".venv-contract/bin/python"
TIMEOUT_SECONDS = 1800.0

KEPT_VARIABLES = (
    "PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH", "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES", "CUDA_HOME", "NVIDIA_VISIBLE_DEVICES",
)  # fmt: skip
"""All that the child inherits; everything else could change what is loaded."""


def contract_python(environment: dict[str, str] | None = None) -> str:
    """The interpreter that has PEFT 0.9.0: this one, a named one, or .venv-contract.

    Raises:
        Broken: there is none; says how to make one.
    """
    environment = dict(os.environ) if environment is None else environment
    named = environment.get(PYTHON_VARIABLE)
    if named:
        if not os.access(named, os.X_OK):
            raise Broken(f"{PYTHON_VARIABLE}={named} is not a program; unset it or mend the path")
        return named
    try:
        here = version("peft")
    except PackageNotFoundError:
        here = "none"
    if here == PEFT_VERSION:
        return sys.executable
    if os.access(CONTRACT_PYTHON, os.X_OK):
        return str(CONTRACT_PYTHON)
    raise Broken(
        f"loading needs peft {PEFT_VERSION}, this Python has {here}; run `make contract-env`",
        here,
        PEFT_VERSION,
    )


def child_environment(python: str, home: str) -> dict[str, str]:
    """A clean environment: offline, no user configuration, this project importable."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    paths = [str(PROJECT)]
    if python == sys.executable:
        paths += [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        kept["PYTHONUSERBASE"] = site.getuserbase()
    return {
        **kept,
        **OFFLINE,
        "HOME": home,
        "HF_HOME": home,
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def run_child(base: Path, adapter: Path, timeout: float = TIMEOUT_SECONDS) -> dict[str, Any]:
    """Start the child and return its report.

    Raises:
        Broken: the child failed, naming its last words, or took too long.
    """
    python = contract_python()
    with tempfile.TemporaryDirectory(prefix="tracebox-contract-") as home:
        command = [python, "-m", "pipeline.release.load_check"]
        command += [str(base.resolve()), str(adapter.resolve())]
        try:
            done = subprocess.run(
                command,
                cwd=home,
                env=child_environment(python, home),
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Broken(f"loading took more than {timeout:g} s", None, timeout) from None
    if done.returncode != 0:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise Broken(f"PEFT cannot load it (exit code {done.returncode}): {last}")
    report: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return report


def judge(report: dict[str, Any], expected_scales: list[float]) -> Finding:
    """Turn the child's report into a finding.

    Raises:
        Broken: naming the first thing in the report that is not as it must be.
    """
    peft = report["versions"]["peft"]
    if peft != PEFT_VERSION:
        raise Broken(f"it was loaded by peft {peft}, not {PEFT_VERSION}", peft, PEFT_VERSION)
    for kind in ("missing", "unexpected", "different"):
        names = report[kind]
        if names:
            raise Broken(f"{len(names)} {kind} tensors after loading: {names[0]!r}", len(names), 0)
    if [round(scale, 6) for scale in report["scales"]] != expected_scales:
        raise Broken(f"PEFT scales by {report['scales']}, the config says {expected_scales}")
    if not report["finite_logits"]:
        raise Broken("the adapted model's logits are not finite")
    if not report["repeatable"]:
        raise Broken("the same prompt gives other logits the second time")
    if not report["base_unchanged"]:
        raise Broken("the base answers otherwise after the adapter was loaded and switched off")
    change = report["largest_logit_change"]
    if not change > 0:
        raise Broken("the adapter does not change the logits", change, "> 0")
    place = report["placement"]
    how = place["quantization"] if place["quantization"] != "none" else place["dtype"]
    return Finding(
        round(change, 6),
        "> 0",
        f"largest change of a logit; {report['tensors']} tensors, none missing or unexpected; "
        f"peft {peft}, {how} on {place['device']}",
    )


def load(case: Case) -> Finding:
    """Load the adapter on its base in a child and judge what it reports."""
    scales = (scale_of(case.config, module) for module in case.modules)
    expected = sorted({round(scale, 6) for scale in scales if scale is not None})
    return judge(run_child(case.base, case.folder), expected)

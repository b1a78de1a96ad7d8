"""Fill ./wheelhouse for a machine without a network: `make bundle [TARGET_PYTHON=3.11]`.

For a Linux x86-64 machine that already has torch, transformers, peft, accelerate
and bitsandbytes. Reads pyproject.toml and requirements/{contract,embedded}.lock;
writes wheels of everything else, requirements.txt (what to ask for), embedded.txt
(data packages, installed with --no-deps) and README.txt. Copy the project with its
wheelhouse; ./train.sh on the other machine does the rest.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from environment import MACHINE_OWNS, REQUIREMENTS, ROOT, WHEELHOUSE
from lock import name_of

PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64", "any")

NOTE = """Wheels for Python {python} on Linux x86-64, made by `make bundle`.

./train.sh installs from here, with no index, into .venv on top of the machine's own
packages, when the machine's python3 has torch, transformers and peft. These stay as
they are, whatever their versions: {owned}.
By hand:

  python3 -m pip install --no-index --find-links wheelhouse -r wheelhouse/requirements.txt
  python3 -m pip install --no-index --find-links wheelhouse --no-deps -r wheelhouse/embedded.txt
"""


def pins(path: Path) -> list[str]:
    """The `name==version` lines of a lock file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def download(pin: str, folder: Path, python: str) -> str | None:
    """Fetch one wheel for the target, or None when there is none to fetch."""
    platforms = [option for name in PLATFORMS for option in ("--platform", name)]
    abis = [
        option
        for abi in (f"cp{python.replace('.', '')}", "abi3", "none")
        for option in ("--abi", abi)
    ]
    command = [
        sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--only-binary=:all:", "--dest", str(folder),
        "--implementation", "cp", "--python-version", python, *abis, *platforms, pin,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode else pin


def build(pin: str, folder: Path, python: str) -> None:
    """Build a wheel from a source release; only a pure one serves another Python."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [
            sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check",
            "--no-deps", "--wheel-dir", scratch, pin,
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        built = list(Path(scratch).glob("*.whl"))
        if done.returncode or not built:
            raise SystemExit(f"bundle: {pin}: no wheel and no build:\n{done.stderr[-2000:]}")
        same = python == f"{sys.version_info[0]}.{sys.version_info[1]}"
        if not built[0].name.endswith("-none-any.whl") and not same:
            raise SystemExit(
                f"bundle: {pin}: only a source release, which must be built with Python {python}."
                f" Run `make bundle PYTHON3=python{python}`."
            )
        shutil.move(str(built[0]), folder / built[0].name)


def main() -> int:
    """Fetch everything into a new folder, then put it in place."""
    parser = argparse.ArgumentParser(description=re.split(r"\n\n", __doc__ or "")[0])
    parser.add_argument("--python", default=f"{sys.version_info[0]}.{sys.version_info[1]}")
    python = parser.parse_args().python
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ranges = [line for line in project["dependencies"] if name_of(line) not in MACHINE_OWNS]
    embedded = pins(REQUIREMENTS / "embedded.lock")
    wanted = [p for p in pins(REQUIREMENTS / "contract.lock") if name_of(p) not in MACHINE_OWNS]
    folder = WHEELHOUSE.with_name(".wheelhouse.new")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number, pin in enumerate([*wanted, *embedded], start=1):
        print(f"bundle: {number}/{len(wanted) + len(embedded)} {pin}", flush=True)
        if download(pin, folder, python) is None:
            build(pin, folder, python)
    (folder / "requirements.txt").write_text("\n".join(ranges) + "\n", encoding="utf-8")
    (folder / "embedded.txt").write_text("\n".join(embedded) + "\n", encoding="utf-8")
    note = NOTE.format(python=python, owned=", ".join(MACHINE_OWNS))
    (folder / "README.txt").write_text(note, encoding="utf-8")
    shutil.rmtree(WHEELHOUSE, ignore_errors=True)
    folder.rename(WHEELHOUSE)
    size = sum(path.stat().st_size for path in WHEELHOUSE.iterdir())
    print(f"bundle: {WHEELHOUSE.name}/ holds {size / 2**20:.0f} MiB for Python {python}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

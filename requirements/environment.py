"""Make the Python environment if need be; print the folder whose `python` runs the project.

    bin=$(python3 requirements/environment.py) && PATH="$bin:$PATH" python -m pipeline.filter

Which environment:
    PYTHON=/path/to/python set   that one, through runs/bin/python; nothing is installed
    otherwise                    .venv (or .venv-STACK), made from requirements/STACK.lock;
                                 or, when ./wheelhouse exists and this interpreter already has
                                 torch, transformers and peft, .venv on top of those, offline

Standard library only: it runs before anything is installed. What it says goes to
stderr. A stamp with the hash of what was installed is written last, so that a
set-up that was cut short is done again.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import site
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements"
WHEELHOUSE = ROOT / "wheelhouse"
OLDEST = (3, 11)

MACHINE_OWNS = (
    "torch", "triton", "transformers", "peft", "accelerate", "bitsandbytes", "datasets",
    "tokenizers", "safetensors", "huggingface-hub", "hf-xet", "numpy", "pandas", "pyarrow",
    "sympy", "mpmath", "networkx",
)  # fmt: skip
"""Left as they are on a machine that is set up from a wheelhouse."""

NEEDED_MODULES = (
    "torch", "transformers", "peft", "accelerate", "tokenizers", "safetensors", "numpy",
    "pyarrow", "pydantic", "rapidfuzz", "rensa", "ruamel.yaml", "jinja2", "dvc",
)  # fmt: skip
"""What an environment given by PYTHON must be able to import."""


NO_STACKS = ("dev", "embedded", "semantic", "vocabularies")
"""Lock files that are installed beside a stack."""


class SetupError(Exception):
    """What went wrong and what to do, in one message."""


def say(text: str) -> None:
    """One line of progress."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


def digest(paths: list[Path]) -> str:
    """Hash of the bytes of these files."""
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()


def missing(modules: tuple[str, ...]) -> list[str]:
    """Those that this interpreter cannot find; nothing is imported but their parents."""
    found = []
    for name in modules:
        try:
            if importlib.util.find_spec(name) is None:
                found.append(name)
        except ModuleNotFoundError:
            found.append(name)
    return found


def pip(python: Path, log: Path, *arguments: str) -> None:
    """Run pip without a word; on failure show the end of what it said."""
    command = [str(python), "-m", "pip", *arguments, "--no-input", "--disable-pip-version-check"]
    with log.open("ab") as stream:
        done = subprocess.run(command, stdout=stream, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        raise SetupError("\n".join(["pip failed:", *tail, f"The whole log: {log}"]))


def make_venv(folder: Path) -> Path:
    """Path of a working interpreter in `folder`; a broken environment is made anew."""
    python = folder / "bin/python"
    if python.exists():
        works = subprocess.run([str(python), "-c", ""], capture_output=True, check=False)
        if works.returncode == 0:
            return python
    say(f"making {folder.name} with Python {sys.version.split()[0]}")
    command = [sys.executable, "-m", "venv", "--clear", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        # Debian without python3-venv has no ensurepip; pip may still be on the machine.
        done = subprocess.run(
            [*command, "--without-pip"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise SetupError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
    return python


def is_installed(folder: Path, stamp: Path, key: str) -> bool:
    """Whether the stamp says that exactly this was installed, and the interpreter is there."""
    return stamp.is_file() and stamp.read_text() == key and (folder / "bin/python").exists()


def install_lock(folder: Path, lock: Path, data: Path) -> None:
    """Install a lock file and packages that are data, unless that was done before.

    Args:
        data: lock file of the latter, whose dependencies are left out.
    """
    stamp, key = folder / f".{lock.stem}.installed", digest([lock, data])
    if is_installed(folder, stamp, key):
        return
    started = time.monotonic()
    python = make_venv(folder)
    count = sum(1 for line in lock.read_text().splitlines() if "==" in line)
    say(f"installing {count} packages of {lock.relative_to(ROOT)} (minutes, the first time)")
    log = folder / "pip.log"
    pip(python, log, "install", "-r", str(lock))
    pip(python, log, "install", "--no-deps", "-r", str(data))
    stamp.write_text(key)
    say(f"{folder.name} is ready ({time.monotonic() - started:.0f} s)")


def takes_wheelhouse(folder: Path) -> bool:
    """Whether `folder` came, or should come, from ./wheelhouse.

    It should when there is a wheelhouse and this interpreter has the heavy packages;
    an environment that was once made in one of the two ways stays with it.
    """
    if not WHEELHOUSE.is_dir() or (folder / ".contract.installed").is_file():
        return False
    heavy = ("torch", "transformers", "peft")
    return (folder / ".wheelhouse.installed").is_file() or not missing(heavy)


def show_machine_packages(folder: Path) -> None:
    """Let the environment see this interpreter's packages, behind its own.

    A .pth file rather than --system-site-packages: the latter skips the packages
    of this interpreter when it is itself inside a virtual environment.
    """
    own = folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    places = [*site.getsitepackages(), site.getusersitepackages()]
    lines = [
        f"import site; site.addsitedir({place!r})\n" for place in places if Path(place).is_dir()
    ]
    (own / "machine_packages.pth").write_text("".join(lines))


def constraints_of_machine() -> str:
    """Pins that keep the machine's own heavy packages at their versions."""
    lines = []
    for name in MACHINE_OWNS:
        try:
            lines.append(f"{name}=={importlib.metadata.version(name)}\n")
        except importlib.metadata.PackageNotFoundError:
            pass
    return "".join(lines)


def install_wheelhouse(folder: Path) -> None:
    """Install what the machine lacks from ./wheelhouse, with no index."""
    wanted, plain = WHEELHOUSE / "requirements.txt", WHEELHOUSE / "embedded.txt"
    stamp, key = folder / ".wheelhouse.installed", digest([wanted, plain])
    if is_installed(folder, stamp, key):
        return
    python = make_venv(folder)
    say("installing what this machine lacks from ./wheelhouse (no network)")
    show_machine_packages(folder)
    constraints, log = folder / "machine-constraints.txt", folder / "pip.log"
    constraints.write_text(constraints_of_machine())
    source = ["--no-index", "--find-links", str(WHEELHOUSE)]
    pip(python, log, "install", *source, "-c", str(constraints), "-r", str(wanted))
    pip(python, log, "install", *source, "--no-deps", "-r", str(plain))
    stamp.write_text(key)
    say(f"{folder.name} is ready; torch, transformers and peft are the machine's own")


def use_given(python: str) -> Path:
    """Folder with a `python` that runs the given interpreter."""
    found = shutil.which(python)
    if found is None:
        raise SetupError(f"PYTHON={python}: no such program. Give the path of an interpreter.")
    if missing_there := missing(NEEDED_MODULES):
        raise SetupError(
            f"PYTHON={python} lacks {', '.join(missing_there)}. Install them there"
            " (requirements/contract.lock) or run without PYTHON."
        )
    folder = ROOT / "runs/bin"
    folder.mkdir(parents=True, exist_ok=True)
    shim = folder / "python"
    temporary = folder / f".python.{os.getpid()}"
    temporary.write_text(f'#!/bin/sh\nexec "{Path(found).absolute()}" "$@"\n')
    temporary.chmod(0o755)
    temporary.replace(shim)
    return folder


def environment(stack: str, folder: Path | None, dev: bool) -> Path:
    """Bin folder of the environment that these choices mean; made if it is not there."""
    if sys.version_info < OLDEST:
        raise SetupError(
            f"Python {'.'.join(map(str, OLDEST))} or newer is needed, {sys.executable} is"
            f" {sys.version.split()[0]}. Name another one: PYTHON3=/path/to/python3 make setup."
        )
    if given := os.environ.get("PYTHON"):
        return use_given(given)
    lock = REQUIREMENTS / f"{stack}.lock"
    if not lock.is_file():
        stacks = sorted(path.stem for path in REQUIREMENTS.glob("*.lock"))
        known = [name for name in stacks if name not in NO_STACKS]
        raise SetupError(f"STACK={stack} is unknown. Choose one of: {', '.join(known)}.")
    folder = folder or ROOT / (".venv" if stack == "contract" else f".venv-{stack}")
    if stack == "contract" and takes_wheelhouse(folder):
        install_wheelhouse(folder)
    else:
        install_lock(folder, lock, REQUIREMENTS / "embedded.lock")
    if dev:
        install_lock(folder, REQUIREMENTS / "dev.lock", REQUIREMENTS / "vocabularies.lock")
    return folder / "bin"


def main() -> int:
    """Parse the command line; print the bin folder."""
    parser = argparse.ArgumentParser(description=re.split(r"\n\n", __doc__ or "")[0])
    parser.add_argument("--stack", default=os.environ.get("STACK") or "contract")
    parser.add_argument("--folder", type=Path, help="another place for the environment")
    parser.add_argument("--dev", action="store_true", help="with the tools of the tests")
    arguments = parser.parse_args()
    try:
        folder = arguments.folder.absolute() if arguments.folder else None
        print(environment(arguments.stack, folder, arguments.dev))
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

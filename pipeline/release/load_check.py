"""The child that loads an adapter under PEFT 0.9.0 and says what happened.

Reads a base folder and an adapter folder; prints one JSON line. Started by
load_rule.py in a clean environment, because PEFT 0.9.0 may live in an interpreter
of its own: `python -m pipeline.release.load_check BASE ADAPTER`
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from peft.tuners.adalora import AdaLoraLayer
from peft.tuners.loha.layer import LoHaLayer
from peft.tuners.lokr.layer import LoKrLayer
from peft.tuners.lora import LoraLayer
from peft.utils import get_peft_model_state_dict
from safetensors.torch import load_file

from pipeline.base.adapter_format import WEIGHTS_FILE
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_OK, UserError
from pipeline.base.fingerprint import model_shape
from pipeline.base.loading import load_adapter, load_base

GIB = 2**30
SMALL_PARAMETERS = 1_500_000_000
"""Up to here the base is loaded in float32, in which rounding hides nothing."""

PROMPT_TOKENS = 12


@dataclass(frozen=True)
class Placement:
    """Where and how the base is loaded for the check."""

    device: str
    dtype: str
    quantization: str = "none"


def choose_placement(parameters: int, ram_bytes: int, gpu_bytes: int) -> Placement | None:
    """The most exact way to load a base that fits; None when none does.

    Args:
        parameters: elements of the base.
        ram_bytes: free main memory.
        gpu_bytes: free memory of the first GPU, 0 without one.
    """
    if parameters <= SMALL_PARAMETERS and 5 * parameters + GIB <= ram_bytes:
        return Placement("cpu", "float32")
    if 2.2 * parameters + 2 * GIB <= gpu_bytes:
        return Placement("cuda:0", "bfloat16")
    if 2.2 * parameters + 2 * GIB <= ram_bytes:
        return Placement("cpu", "bfloat16")
    if 0.8 * parameters + 3 * GIB <= gpu_bytes:
        return Placement("cuda:0", "float16", "nf4")
    return None


def available_ram() -> int:
    """Bytes that a new process may take: what the kernel says, or the cgroup's limit."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.is_file() and used.is_file():
        text = limit.read_text(encoding="ascii").strip()
        if text != "max":
            free = min(free, int(text) - int(used.read_text(encoding="ascii")))
    return free


def compare_tensors(model: PeftModel, folder: Path) -> dict[str, Any]:
    """Names and values of the file against those that the model holds after loading."""
    file = load_file(str(folder / WEIGHTS_FILE))
    loaded = get_peft_model_state_dict(model, save_embedding_layers=False)
    different = [
        name
        for name in sorted(file.keys() & loaded.keys())
        if not torch.equal(file[name].to(loaded[name].dtype), loaded[name].cpu())
    ]
    return {
        "tensors": len(file),
        "missing": sorted(loaded.keys() - file.keys()),
        "unexpected": sorted(file.keys() - loaded.keys()),
        "different": different,
    }


def scales(model: PeftModel) -> list[float]:
    """The distinct factors on the update that the loaded layers apply, ascending."""
    found = {scale for module in model.modules() for scale in _scale(module)}
    return sorted(found)


def _scale(module: torch.nn.Module) -> list[float]:
    """The factor of one layer, as PEFT 0.9.0's forward pass has it; LoKr is not scaled."""
    layer: Any = module
    if isinstance(module, AdaLoraLayer):
        return [float(layer.scaling["default"]) / float(layer.ranknum["default"])]
    if isinstance(module, LoKrLayer):
        return [1.0]
    if isinstance(module, LoraLayer | LoHaLayer):
        return [float(layer.scaling["default"])]
    return []


def inspect(base: Path, adapter: Path, placement: Placement) -> dict[str, Any]:
    """Load both, compare tensors and logits.

    The prompt is a fixed row of token ids, so that no tokenizer is needed. Logits
    of the bare base are taken before the adapter is loaded.
    """
    model = load_base(
        base,
        dtype=placement.dtype,
        device=placement.device,
        quantization=placement.quantization,
    )
    vocabulary = int(model.config.vocab_size)
    row = [(7 * place + 3) % vocabulary for place in range(PROMPT_TOKENS)]
    prompt = torch.tensor([row], device=placement.device)

    def logits(network: Any) -> torch.Tensor:
        with torch.inference_mode():
            result: torch.Tensor = network(input_ids=prompt, use_cache=False).logits
        return result.float().cpu()

    bare = logits(model)
    adapted_model = load_adapter(model, adapter)
    first, second = logits(adapted_model), logits(adapted_model)
    with adapted_model.disable_adapter():
        switched_off = logits(adapted_model)
    finite = bool(torch.isfinite(first).all())
    return {
        **compare_tensors(adapted_model, adapter),
        "scales": scales(adapted_model),
        "finite_logits": finite,
        "largest_logit_change": float((first - bare).abs().max()) if finite else None,
        "repeatable": torch.equal(first, second),
        "base_unchanged": torch.equal(bare, switched_off),
    }


def main(arguments: list[str]) -> int:
    """Print the JSON line; a fault that has a remedy goes to stderr with exit code 2."""
    base, adapter = Path(arguments[0]), Path(arguments[1])
    try:
        parameters = model_shape(base).parameters
        gpu = torch.cuda.mem_get_info(0)[0] if torch.cuda.is_available() else 0
        ram = available_ram()
        placement = choose_placement(parameters, ram, gpu)
        if placement is None:
            raise UserError(
                f"{base}: {parameters:,} parameters fit neither {ram / GIB:.1f} GiB of memory "
                f"nor {gpu / GIB:.1f} GiB of GPU memory",
                "Free memory, or verify on a larger machine.",
            )
        report = inspect(base, adapter, placement)
    except UserError as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_INPUT
    versions = {name: version(name) for name in ("peft", "transformers", "torch")}
    print(json.dumps({**report, "placement": vars(placement), "versions": versions}))
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

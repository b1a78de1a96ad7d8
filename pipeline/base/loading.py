"""Load a frozen base, and an adapter on it. The only module of base that imports torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers
from peft import PeftModel

from pipeline.base.errors import UserError

DTYPES: dict[str, torch.dtype] = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
}
# A bar drawn with carriage returns is noise in every log.
transformers.utils.logging.disable_progress_bar()

NF4_REMEDY = " (nf4 needs bitsandbytes and accelerate), or set train.base_quantization to none."


def load_base(
    base: Path,
    *,
    dtype: str,
    device: str,
    quantization: str = "none",
    attention: str = "sdpa",
) -> transformers.PreTrainedModel:
    """The base in evaluation mode, frozen, on one device.

    Args:
        base: local folder; nothing is fetched.
        dtype: "bfloat16", "float16" or "float32", of weights that are not quantised.
        device: "cpu", "cuda" or "cuda:N"; one process never spreads over devices.
        quantization: "none", or "nf4" through bitsandbytes.
        attention: name registered with transformers' attention interface.

    Raises:
        UserError: transformers cannot build this model from this folder, or a
            library that this takes is not installed.
    """
    options: dict[str, Any] = {
        "attn_implementation": attention,
        "local_files_only": True,
        "dtype": DTYPES[dtype],
        "use_safetensors": True,
    }
    try:
        if quantization == "nf4":
            options["quantization_config"] = _nf4(DTYPES[dtype])
        if quantization == "nf4" or torch.device(device).type == "cuda":
            # Straight to the card: every rank holding the base in host memory first is too much.
            options["device_map"] = {"": device}
        model = transformers.AutoModelForCausalLM.from_pretrained(str(base), **options)
    except ImportError as error:
        raise UserError(
            f"{base}: a library that loads it is missing ({_first_line(error)})",
            "Install it" + (NF4_REMEDY if quantization == "nf4" else "."),
        ) from None
    except (ValueError, KeyError, OSError) as error:
        raise UserError(
            f"{base}: transformers {transformers.__version__} cannot load it "
            f"({_first_line(error)})",
            "Use a causal language model that this version knows.",
        ) from None
    model.requires_grad_(False)
    model.config.use_cache = False
    return model.eval()


def _nf4(dtype: torch.dtype) -> Any:
    """Four bits a weight, computed in `dtype`."""
    return transformers.BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_compute_dtype=dtype,
        bnb_4bit_use_double_quant=True,
        bnb_4bit_quant_storage=dtype,
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else repr(error)


def load_adapter(model: transformers.PreTrainedModel, folder: Path) -> PeftModel:
    """The base with the adapter of `folder`, for inference only."""
    return PeftModel.from_pretrained(model, str(folder), is_trainable=False).eval()


def linear_modules(model: torch.nn.Module) -> dict[str, tuple[int, int]]:
    """Name → (out, in) of every linear layer but the output head, quantised or not."""
    head = (
        model.get_output_embeddings() if isinstance(model, transformers.PreTrainedModel) else None
    )
    return {
        name: (int(module.out_features), int(module.in_features))
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head
    }

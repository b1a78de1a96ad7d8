"""A base small enough for a unit test: two layers, random weights, a real tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

CHATML = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

TEXT = [
    "What is 12 + 35 - 7? Work step by step and put the final answer in \\boxed{40}.",
    "The quick brown fox jumps over the lazy dog near the river bank today.",
    "First we add 12 and 35, which gives 47. Then we subtract 7, which gives 40.",
    "assistant user system thinking therefore because answer equals plus minus times",
]

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 2,
}


def write_tiny_tokenizer(folder: Path, template: str = CHATML) -> Tokenizer:
    """tokenizer.json, tokenizer_config.json and chat_template.jinja in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
        "model_input_names": ["input_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "model_max_length": 1024,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(template)
    return tokenizer


def write_tiny_base(folder: Path, model_type: str = "llama", seed: int = 0) -> Path:
    """A random float32 model of `model_type` ("llama", "mistral", "qwen3") with its tokenizer."""
    tokenizer = write_tiny_tokenizer(folder)
    vocabulary = tokenizer.get_vocab_size()
    if model_type == "qwen3":
        config: Any = transformers.Qwen3Config(
            vocab_size=vocabulary, head_dim=16, tie_word_embeddings=False, **SIZES
        )
    elif model_type == "mistral":
        config = transformers.MistralConfig(
            vocab_size=vocabulary, sliding_window=None, tie_word_embeddings=False, **SIZES
        )
    else:
        config = transformers.LlamaConfig(vocab_size=vocabulary, tie_word_embeddings=True, **SIZES)
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(config)
    for parameter in model.parameters():
        # The default spread of 0.02 makes logits so flat that ties decide greedy decoding.
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    model.save_pretrained(str(folder), safe_serialization=True)
    return folder

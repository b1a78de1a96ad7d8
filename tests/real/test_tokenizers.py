"""Real tokenizers of other makers, from packages: prompts, replies and masks to the id.

    make test TESTS=tests/real

`llama-models` carries Llama-3's vocabulary (tiktoken's format), `mistral-common` a
SentencePiece one of 32,000 pieces (requirements/vocabularies.lock). Both are converted to
tokenizer.json, and compared with transformers, and with the libraries that the
vocabularies were made for.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers.convert_slow_tokenizer import TikTokenConverter

from pipeline.base.chat import Chat
from pipeline.base.errors import UserError
from tests.support.prompts import PROBLEM, chat_of, conversations, reference

pytestmark = pytest.mark.real

PIECES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Llama-3's rule for splitting text before merges."""
CONTROLS = [
    "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>",
]  # fmt: skip
HEADERS = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' }}"
    "{{ m.content | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
BRACKETS = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}"
    "{{ '[INST] ' + m.content + ' [/INST]' }}{% elif m.role == 'assistant' %}"
    "{{ ' ' + m.content + eos_token }}{% else %}{{ raise_exception('roles') }}{% endif %}"
    "{% endfor %}"
)
LINES = (
    "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + eos_token + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"
)
REPLIES = [
    ("", "We add.\n\nThe answer is \\boxed{47}."),
    ("12 + 35 = 47", "$\\frac{94}{2} = 47$, so \\boxed{47}"),
    ("", "  \\boxed{47}"),
    ("Ein Gedanke — naïve, 思考, 🙂", "\t∑ aᵢ ≤ ∞\n  \\boxed{47}"),
]


# tiktoken and sentencepiece are imported where they are used: a machine that does not run
# these tests collects them all the same.


def packaged(package: str, name: str) -> Path:
    found = find_spec(package)
    assert found is not None, f"install {package}"
    assert found.submodule_search_locations is not None
    return Path(found.submodule_search_locations[0]) / name


def configure(base: Path, template: str, **special: str) -> Path:
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    (base / "tokenizer_config.json").write_text(json.dumps({**config, **special}))
    (base / "chat_template.jinja").write_text(template)
    return base


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("llama")
    file = str(packaged("llama_models", "llama3/tokenizer.model"))
    convert: Any = TikTokenConverter(
        vocab_file=file,
        pattern=PIECES,
        additional_special_tokens=CONTROLS,  # as transformers 4 calls it
        extra_special_tokens=CONTROLS,  # and 5
    )
    convert.converted().save(str(base / "tokenizer.json"))
    return configure(base, HEADERS, bos_token=CONTROLS[0], eos_token="<|eot_id|>")


@pytest.fixture(scope="module")
def pieces() -> Path:
    return packaged("mistral_common", "data/tokenizer.model.v1")


def from_pieces(path: Path) -> Tokenizer:
    """A SentencePiece vocabulary of merges as the Llama family has it in tokenizer.json."""
    import sentencepiece

    own = sentencepiece.SentencePieceProcessor(str(path))
    ids = {own.id_to_piece(number): number for number in range(own.vocab_size())}
    merges = []
    for piece in sorted(ids, key=lambda piece: -own.get_score(ids[piece])):
        splits = ((piece[:at], piece[at:]) for at in range(1, len(piece)))
        known = [split for split in splits if split[0] in ids and split[1] in ids]
        merges += sorted(known, key=lambda split: (ids[split[0]], ids[split[1]]))
    model = models.BPE(
        vocab=ids, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True
    )
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    return tokenizer


@pytest.fixture(scope="module")
def mistral(tmp_path_factory: pytest.TempPathFactory, pieces: Path) -> Path:
    base = tmp_path_factory.mktemp("mistral")
    from_pieces(pieces).save(str(base / "tokenizer.json"))
    return configure(base, BRACKETS, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def check(base: Path, chat: Chat) -> None:
    """Prompt as transformers, reply to the letter, both together the whole conversation."""
    text, prompt = reference(base, chat)
    assert chat.prompt_text(PROBLEM) == text
    replies = [chat.reply_text(*reply) for reply in REPLIES]
    wholes = conversations(base, chat, replies)
    for (thinking, solution), reply, whole in zip(REPLIES, replies, wholes, strict=True):
        encoded = chat.encode(PROBLEM, thinking, solution)
        assert encoded.prompt == prompt
        assert chat.decode(encoded.reply) == reply
        assert encoded.reply.count(chat.end_id) == 1
        joined = [*encoded.prompt, *encoded.reply]
        assert whole[: len(joined)] == joined


@pytest.mark.parametrize("system", [None, "Be exact."])
def test_llama_3(llama: Path, system: str | None) -> None:
    chat = chat_of(llama, system=system)
    check(llama, chat)
    assert chat.end_text == "<|eot_id|>"
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    own = tiktoken.Encoding(
        "llama3",
        pat_str=PIECES,
        mergeable_ranks=load_tiktoken_bpe(str(packaged("llama_models", "llama3/tokenizer.model"))),
        special_tokens={},
    )
    texts = [chat.reply_text(*reply) for reply in REPLIES]
    assert chat.encode_replies(texts) == [own.encode(text) for text in texts]


def test_a_sentencepiece_vocabulary_with_brackets(mistral: Path, pieces: Path) -> None:
    configure(mistral, BRACKETS, bos_token="<s>", eos_token="</s>", unk_token="<unk>")
    chat = chat_of(mistral)
    check(mistral, chat)
    import sentencepiece

    own = sentencepiece.SentencePieceProcessor(str(pieces))
    texts = [chat.reply_text(*reply) for reply in REPLIES]
    assert chat.encode_replies(texts) == [own.encode(text) for text in texts]
    prompt = own.encode(f"[INST] {chat.user_text('1 + 1')} [/INST]")
    assert chat.prompt_ids("1 + 1") == [own.bos_id(), *prompt]
    with pytest.raises(UserError, match=r"refuses the prompt \(roles\)"):
        chat_of(mistral, system="Be exact.")


@pytest.mark.parametrize("system", [None, "Be exact."])
def test_a_sentencepiece_vocabulary_with_lines(mistral: Path, system: str | None) -> None:
    configure(mistral, LINES, eos_token="</s>", unk_token="<unk>")
    check(mistral, chat_of(mistral, system=system))


@pytest.mark.parametrize("thinking", ["on", "off", "empty-prefill"])
def test_modes_of_a_template_without_a_switch(llama: Path, thinking: str) -> None:
    chat = chat_of(llama, thinking=thinking)
    block = "<think>\n\n</think>\n\n" if thinking == "empty-prefill" else ""
    text = chat_of(llama).prompt_text("1 + 1") + block
    assert chat.prompt_text("1 + 1") == text
    assert chat.prompt_ids("1 + 1") == chat.tokenizer.encode(text, add_special_tokens=False).ids

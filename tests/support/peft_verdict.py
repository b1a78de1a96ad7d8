"""What PEFT itself does with an adapter_config.json, beside what the contract says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from peft import PeftConfig, get_peft_model

from pipeline.base.adapter_format import CONFIG_FILE
from pipeline.base.params import VerifyParams
from pipeline.release.case import Broken, Case
from pipeline.release.file_rules import FILE_RULES

CONFIG_RULES = [rule for rule in FILE_RULES if rule.id == "peft-type" or "config" in rule.id]


def contract_says(folder: Path, limits: VerifyParams) -> str:
    """The first term on the config that is broken, with its reason; "" when all hold."""
    case = Case(folder, folder, limits)
    for rule in CONFIG_RULES:
        try:
            rule.check(case)
        except Broken as fault:
            return f"{rule.id}: {fault.detail}"
    return ""


def peft_says(folder: Path, model: Any) -> str:
    """ "read" when PEFT makes an adapter of this config, else what it raises.

    The order is PEFT's own: the type names a class, the class takes all keys, and the
    class's adapter is put on the model.
    """
    try:
        config = PeftConfig.from_pretrained(str(folder))
    except (TypeError, KeyError, ValueError) as error:
        return f"config: {type(error).__name__}: {error}"
    try:
        get_peft_model(model, config)
    except (TypeError, KeyError, ValueError, AttributeError, AssertionError) as error:
        return f"model: {type(error).__name__}: {error}"
    return "read"


def write_config(folder: Path, config: dict[str, Any]) -> Path:
    """A folder that holds nothing but a config."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CONFIG_FILE).write_text(json.dumps(config))
    return folder

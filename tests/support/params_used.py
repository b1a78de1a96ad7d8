"""Which keys of params.yaml a stage's code reads, found by reading the code.

    python -m tests.support.params_used        print them for every stage

Looked at are the attribute chains that start at something called `params` in all
modules of the stage's closure: `params.train.rank`, `self.params.train.rank`, and
through a local name, `settings = params.select` then `settings.seed`. A section
that is handed on as a whole counts with all its keys.
"""

from __future__ import annotations

import ast
from pathlib import Path

from pipeline.base.params import Params
from tests.support.closure import ROOT, closure, parsed, read_dvc_yaml

SECTIONS = {
    name: list(field.annotation.model_fields)  # type: ignore[union-attr]
    for name, field in Params.model_fields.items()
}
"""Section → its keys."""

RUNNER = {ROOT / "pipeline/base/stage.py", ROOT / "pipeline/base/params.py"}
"""Same for all stages: they load the params and keep the clock."""

Use = tuple[str, str | None]
"""Section and key; key None when the section is handed on."""


def _chain(node: ast.expr) -> list[str]:
    """Names of an attribute chain, first to last; empty when it starts at something else."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def _use(chain: list[str]) -> Use | None:
    """`x.params.train.rank` → (train, rank); None when no section follows `params`."""
    if "params" not in chain:
        return None
    after = chain[chain.index("params") + 1 :]
    if not after or after[0] not in SECTIONS:
        return None
    return after[0], after[1] if len(after) > 1 else None


def _aliases(function: ast.AST) -> dict[str, str]:
    """Local names that stand for a section."""
    found = {}
    for node in ast.walk(function):
        pairs: list[tuple[ast.expr, ast.expr]] = []
        if isinstance(node, ast.Assign):
            target, value = node.targets[0], node.value
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts))
            else:
                pairs = [(target, value)]
        for target, value in pairs:
            use = _use(_chain(value))
            if isinstance(target, ast.Name) and use is not None and use[1] is None:
                found[target.id] = use[0]
    return found


def _uses_of_function(function: ast.AST) -> set[Use]:
    aliases = _aliases(function)
    assigned = {
        id(value)
        for node in ast.walk(function)
        if isinstance(node, ast.Assign)
        for value in ast.walk(node.value)
        if isinstance(value, ast.Attribute) and aliases and _is_aliased(node, value, aliases)
    }
    uses: set[Use] = set()
    inner: set[int] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            step: ast.expr = node
            while isinstance(step, ast.Attribute):
                inner.add(id(step))
                step = step.value
            chain = _chain(node)
            use = _use(chain)
            if use is not None and id(node) not in assigned:
                uses.add(use)
            elif len(chain) > 1 and chain[0] in aliases:
                uses.add((aliases[chain[0]], chain[1]))
            inner.add(id(step))
        elif isinstance(node, ast.Name) and node.id in aliases:
            handed_on = isinstance(node.ctx, ast.Load) and id(node) not in inner
            uses |= {(aliases[node.id], None)} if handed_on else set()
    return uses


def _is_aliased(node: ast.Assign, value: ast.Attribute, aliases: dict[str, str]) -> bool:
    use = _use(_chain(value))
    names = {name.id for name in ast.walk(node.targets[0]) if isinstance(name, ast.Name)}
    return use is not None and use[1] is None and bool(names & aliases.keys())


def uses_of_file(path: Path) -> set[Use]:
    """Uses in all functions of a file."""
    found: set[Use] = set()
    for node in parsed(path).body:
        parts = node.body if isinstance(node, ast.ClassDef) else [node]
        for part in parts:
            found |= _uses_of_function(part)
    return found


def expand(uses: set[Use]) -> set[str]:
    """Dotted keys; a section without a key means every one of its keys."""
    return {
        f"{section}.{name}"
        for section, key in uses
        # What is no key is a method of the section, which may read all of it.
        for name in ([key] if key in SECTIONS[section] else SECTIONS[section])
    }


def used_keys(stage: str) -> set[str]:
    """Dotted keys that the code of a stage reads."""
    files = closure(ROOT / f"pipeline/{stage}.py") - RUNNER
    return expand({use for file in files for use in uses_of_file(file)})


def declared_keys(names: list[str]) -> set[str]:
    """Dotted keys that a stage's `params:` of dvc.yaml stands for."""
    parts = [name.partition(".") for name in names]
    return expand({(section, key or None) for section, _, key in parts})


if __name__ == "__main__":
    for name in read_dvc_yaml()["stages"]:
        print(f"{name}:", *sorted(used_keys(name)), sep="\n  ")

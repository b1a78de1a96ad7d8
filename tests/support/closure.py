"""What each stage of dvc.yaml really depends on, found by reading the code.

    python -m tests.support.closure            print the code deps of every stage
    python -m tests.support.closure --write    put them into dvc.yaml, comments kept

A stage's code is `pipeline/<stage>.py`, the modules that it imports, directly or
not, and the modules that it starts as `python -m ...`, which stand in the code as
string literals ("pipeline.learning.worker"). A package file (`__init__.py`) counts
when it holds more than its docstring.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedSeq

ROOT = Path(__file__).resolve().parents[2]
DVC_YAML = ROOT / "dvc.yaml"
MODULE_NAME = re.compile(r"pipeline(\.[a-z_0-9]+)+")


def file_of(module: str) -> Path | None:
    """Source file of a dotted name, or None when it is no module of the pipeline.

    That of a package is its `__init__.py`, if it holds more than its docstring.
    """
    if not MODULE_NAME.fullmatch(module):
        return None
    folder = ROOT / module.replace(".", "/")
    package = folder / "__init__.py"
    path = package if package.is_file() and holds_code(package) else folder.with_suffix(".py")
    return path if path.is_file() else None


@cache
def parsed(path: Path) -> ast.Module:
    """Syntax tree of a source file."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _running_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below one, but what only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if not _is_type_checking(child):
            yield child
            yield from _running_nodes(child)


def _docstrings(tree: ast.Module) -> set[int]:
    """Identities of the constants that stand alone, as documentation."""
    alone = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    return {id(value) for value in alone if isinstance(value, ast.Constant)}


def imported(path: Path) -> set[str]:
    """Dotted names that a file imports at run time, from anywhere."""
    names: set[str] = set()
    for node in _running_nodes(parsed(path)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def started(path: Path) -> set[str]:
    """Modules of the pipeline that a file names in a string literal, to start them."""
    tree = parsed(path)
    skipped = _docstrings(tree)
    literals = (
        node.value
        for node in _running_nodes(tree)
        if isinstance(node, ast.Constant) and id(node) not in skipped
    )
    return {text for text in literals if isinstance(text, str) and file_of(text)}


def holds_code(path: Path) -> bool:
    """Whether a file is more than a docstring."""
    return any(
        not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        for node in parsed(path).body
    )


def package_files(path: Path) -> set[Path]:
    """The `__init__.py` files with code that run when a file is imported."""
    folders = [folder for folder in path.parents if folder.is_relative_to(ROOT / "pipeline")]
    inits = (folder / "__init__.py" for folder in folders)
    return {init for init in inits if init.is_file() and holds_code(init)}


def neighbours(path: Path) -> set[Path]:
    """Files of the pipeline that one needs directly."""
    found = (file_of(name) for name in imported(path) | started(path))
    return {file for file in found if file is not None} | package_files(path)


def closure(path: Path) -> set[Path]:
    """A file and everything that it needs, directly or not."""
    reached: set[Path] = set()
    waiting = {path}
    while waiting:
        file = waiting.pop()
        reached.add(file)
        waiting |= neighbours(file) - reached
    return reached


def code_deps(stage: str) -> list[str]:
    """The code deps of a stage as dvc.yaml should list them: its own file first."""
    own = ROOT / f"pipeline/{stage}.py"
    others = sorted(closure(own) - {own})
    return [str(path.relative_to(ROOT)) for path in [own, *others]]


def read_dvc_yaml() -> Any:
    """dvc.yaml as plain values."""
    return YAML(typ="safe").load(DVC_YAML.read_text(encoding="utf-8"))


def is_code(dependency: str) -> bool:
    """Whether a dep is source code and not data."""
    return dependency.startswith("pipeline/")


def rewrite() -> None:
    """Put the right code deps into dvc.yaml, before the data deps of each stage."""
    yaml = YAML()
    yaml.indent(mapping=2, sequence=4, offset=2)
    yaml.width = 120
    tree = yaml.load(DVC_YAML.read_text(encoding="utf-8"))
    for name, stage in tree["stages"].items():
        data = [dep for dep in stage.get("deps", []) if not is_code(dep)]
        deps = CommentedSeq([*code_deps(name), *data])
        if "deps" in stage:
            stage["deps"] = deps
        else:  # before params and outs, which keep the blank line that ends the stage
            stage.insert(
                sum(key in stage for key in ("desc", "cmd", "always_changed")), "deps", deps
            )
    with DVC_YAML.open("w", encoding="utf-8") as stream:
        yaml.dump(tree, stream)


def main() -> None:
    """Print the lists, or write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="put them into dvc.yaml")
    if parser.parse_args().write:
        rewrite()
        return
    for name in read_dvc_yaml()["stages"]:
        print(f"{name}:", *code_deps(name), sep="\n  ")


if __name__ == "__main__":
    main()

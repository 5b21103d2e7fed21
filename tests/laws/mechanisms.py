"""Everything in the package that draws noise, found in its source.

The laws of replay put a script in place of the noise wherever a module names one of these
functions, so no list of modules can go out of date. What names one in a way that cannot be
replaced, or is run by no scene, fails `test_mechanisms.py`.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import tidegate
from tidegate.privacy import noise

SOURCE = Path(tidegate.__file__).parent

NOT_PRIVATE = ("compare", "demo")
"""Parts that run on public records only: what they draw protects nobody."""


class Reference(NamedTuple):
    """A place in the source that names a mechanism."""

    module: str
    function: str
    """Its qualified name; empty outside any function."""
    mechanism: str


def mechanisms() -> set[str]:
    """The public functions that add noise: those that are given random bits."""
    return {
        name
        for name, function in inspect.getmembers(noise, inspect.isfunction)
        if not name.startswith("_") and "bits" in inspect.signature(function).parameters
    }


@cache
def bindings() -> list[tuple[ModuleType, str]]:
    """The modules that import a mechanism, and the name under which each has it."""
    own = [getattr(noise, name) for name in mechanisms()]
    modules = [import_module(name) for name in sorted({each.module for each in references()})]
    return [
        (module, name)
        for module in modules
        for name, value in vars(module).items()
        if any(value is each for each in own)
    ]


@cache
def references(folder: Path = SOURCE) -> frozenset[Reference]:
    """All places that name a mechanism, but for its own module and what is not private."""
    found = sources(*mechanisms(), folder=folder)
    return frozenset(each for name, tree in found for each in _named(name, tree))


def sources(*words: str, folder: Path = SOURCE) -> Iterator[tuple[str, ast.Module]]:
    """The modules whose records are private and that have one of these words: name and syntax."""
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        text = path.read_text()
        if parts[0] not in NOT_PRIVATE and any(word in text for word in words):
            yield ".".join(("tidegate", *parts)).removesuffix(".__init__"), ast.parse(text)


def _named(module: str, tree: ast.Module) -> Iterator[Reference]:
    if module == noise.__name__:
        return
    known = mechanisms()
    names = {
        alias.asname or alias.name: alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name in known
    }

    def within(node: ast.AST, function: str, prefix: str) -> Iterator[Reference]:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.Name(id=name) if name in names:
                    yield Reference(module, function, names[name])
                case ast.Attribute(attr=name) if name in known:
                    yield Reference(module, function, name)
            match child:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    yield from within(child, prefix + name, f"{prefix}{name}.<locals>.")
                case ast.ClassDef(name=name):
                    yield from within(child, function, f"{prefix}{name}.")
                case _:
                    yield from within(child, function, prefix)

    yield from within(tree, "", "")

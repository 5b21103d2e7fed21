"""The imports that an example in a docstring needs, so that it runs as printed."""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any


def imports(source: str, names: Mapping[str, Any], public: Sequence[str]) -> list[str]:
    """Import what an example takes from the module that its docstring is in.

    Args:
        source: The code of the example.
        names: What the names of that module stand for.
        public: The modules to import from, the first that has the name; else its own module.
    """
    lines: dict[str, list[str]] = {}
    modules = []
    for name in sorted(_free(source) & names.keys()):
        thing = names[name]
        if isinstance(thing, ModuleType):
            renamed = "" if thing.__name__ == name else f" as {name}"
            modules.append(f"import {thing.__name__}{renamed}")
        else:
            home = next(_homes(name, thing, names, public))
            lines.setdefault(home, []).append(name)
    return [*modules, *(f"from {home} import {', '.join(lines[home])}" for home in sorted(lines))]


def _homes(name: str, thing: Any, names: Mapping[str, Any], public: Sequence[str]) -> Iterator[str]:
    """Where a name can be imported from, the best place first."""
    for module in public:
        if name in import_module(module).__all__ and getattr(import_module(module), name) is thing:
            yield module
    own = getattr(thing, "__module__", None)
    if own and getattr(import_module(own), name, None) is thing:
        yield own
    yield str(names["__name__"])


def _free(source: str) -> set[str]:
    """The names that some code uses before it binds them itself."""
    free: set[str] = set()
    bound = set(vars(builtins))
    for statement in ast.parse(source).body:
        nodes = list(ast.walk(statement))
        inner = {node.id for node in nodes if isinstance(node, ast.Name) and not _loads(node)}
        inner |= {node.arg for node in nodes if isinstance(node, ast.arg)}
        if isinstance(statement, ast.Assign | ast.AugAssign):
            inner -= {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}
        free |= {node.id for node in nodes if isinstance(node, ast.Name) and _loads(node)} - (
            bound | inner
        )
        bound |= {node.id for node in nodes if isinstance(node, ast.Name) and not _loads(node)}
        bound |= {
            (alias.asname or alias.name).partition(".")[0]
            for node in nodes
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        bound |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return free


def _loads(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)

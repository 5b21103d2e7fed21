"""Which module of the package imports which."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from tests.house.source import Module, Modules

Graph = Mapping[str, frozenset[str]]
"""For each module those that it imports."""


def chain(modules: Modules) -> list[str]:
    """The longest chain of modules of which each imports the next at module level.

    At module level is what runs on import: also in an `if`, a `try` or a class, but not in a
    function. What stands under `if TYPE_CHECKING` does not run, and does not count. `from a import
    b` imports the module `a.b` if there is one, else `a`; that Python then runs the package of a
    module too does not count. Modules that import each other in a circle stand in the chain
    together, all of them: a circle does not make it shorter.
    """
    graph = module_level(tuple(modules))
    circles = list(_circles(graph))
    of = {name: place for place, circle in enumerate(circles) for name in circle}
    longest: list[list[str]] = []
    for place, circle in enumerate(circles):  # those that a circle imports come before it
        after = {of[other] for name in circle for other in graph[name]} - {place}
        rest = max((longest[each] for each in sorted(after)), key=len, default=[])
        longest.append([*sorted(circle), *rest])
    return max(longest, key=len, default=[])


def chain_length(modules: Modules) -> int:
    """The number of modules in the longest chain; see `chain`."""
    return len(chain(modules))


def deferred_imports(module: Module) -> int:
    """Import statements inside functions that import the package or a module of it."""
    return sum(1 for _ in _in_functions(module))


def _in_functions(module: Module) -> Iterator[ast.stmt]:
    package = module.name.partition(".")[0]
    at_level = {id(node) for node in _statements(module.tree.body)}
    for node in module.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in at_level:
            names = _imported(node, module.name)
            if not _only_for_types(node, module) and any(_inside(package, name) for name in names):
                yield node


def local_modules(modules: Modules) -> list[str]:
    """The modules that at most one other module imports, anywhere, also inside functions.

    What stands under `if TYPE_CHECKING` counts here: who reads a module sees it. A package whose
    `__init__` takes up a name of a module imports that module.
    """
    graph = everywhere(tuple(modules))
    return [name for name in graph if sum(name in used for used in graph.values()) <= 1]


def local_percent(modules: Modules) -> float:
    """Modules that at most one other imports, in percent of all, to one decimal."""
    return round(100 * len(local_modules(modules)) / len(modules), 1)


@lru_cache(64)
def module_level(modules: tuple[Module, ...]) -> Graph:
    """What each module imports when it is imported."""
    return _graph(modules, {each.name: _statements(each.tree.body) for each in modules})


@lru_cache(64)
def everywhere(modules: tuple[Module, ...]) -> Graph:
    """What each module imports anywhere."""
    return _graph(modules, {each.name: each.nodes for each in modules})


def _graph(modules: Iterable[Module], nodes: Mapping[str, Iterable[ast.AST]]) -> Graph:
    known = {each.name for each in modules}
    return {
        name: frozenset(
            found
            for node in within
            if isinstance(node, ast.Import | ast.ImportFrom)
            for asked in _imported(node, name)
            if (found := _known(asked, known)) is not None and found != name
        )
        for name, within in nodes.items()
    }


def _known(asked: str, known: set[str]) -> str | None:
    """The module that a name is, or is taken from."""
    if asked in known:
        return asked
    parent = asked.rpartition(".")[0]
    return parent if parent in known else None


def _imported(node: ast.Import | ast.ImportFrom, inside: str) -> list[str]:
    """The dotted names that a statement asks for."""
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    if node.level:
        raise ValueError(
            f"{inside}, line {node.lineno}: import by the whole name, not a relative one"
        )
    return [f"{node.module}.{each.name}" for each in node.names]


def _inside(package: str, name: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that run on import."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and _asks_for_types(node.test):
            yield from _statements(node.orelse)
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(node, name, []))
        for handler in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            yield from _statements(handler.body)


def _asks_for_types(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _only_for_types(node: ast.stmt, module: Module) -> bool:
    """Whether a statement stands under `if TYPE_CHECKING`."""
    return any(
        node in ast.walk(statement)
        for test in module.nodes
        if isinstance(test, ast.If) and _asks_for_types(test.test)
        for statement in test.body
    )


def _circles(graph: Graph) -> Iterator[list[str]]:
    """The strongly connected parts of a graph (Tarjan), each after all that it leads to."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(name: str) -> Iterator[list[str]]:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in number:
                yield from visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            place = stack.index(name)
            yield stack[place:]
            del stack[place:]

    for name in graph:
        if name not in number:
            yield from visit(name)

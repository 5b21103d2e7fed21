"""What can be read off the source of each module: lines, comparisons with None, flags, names."""

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src" / "tidegate"

MAX_LINES = 450
"""The most lines that a module may have."""

UNNAMED = {"__init__", "__main__"}
"""File names that every package has."""

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True)
class Module:
    """A module of the package: its dotted name, the name of its file, and its source."""

    name: str
    file: str
    text: str

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of its syntax tree."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def lines(self) -> list[str]:
        """Its lines."""
        return self.text.splitlines()


Modules = Sequence[Module]
Count = Callable[[Module], int]


@lru_cache(64)
def modules_of(root: Path) -> tuple[Module, ...]:
    """All modules under the folder of the package, by name; a package is named like its folder."""
    sources = {path.relative_to(root.parent): path.read_text() for path in root.rglob("*.py")}
    return of_sources(sources)


def of_sources(sources: Mapping[Path, str]) -> tuple[Module, ...]:
    """The modules of some files, each path beginning with the folder of the package."""
    found = []
    for path, text in sources.items():
        parts = path.with_suffix("").parts
        name = ".".join(parts[:-1] if path.stem == "__init__" else parts)
        found.append(Module(name, path.stem, text))
    return tuple(sorted(found, key=lambda each: each.name))


def total(modules: Modules, count: Count) -> int:
    """The sum over all modules."""
    return sum(map(count, modules))


# --- lines


def all_lines(module: Module) -> int:
    """All lines of a module."""
    return len(module.lines)


def code_lines(module: Module) -> int:
    """Lines of a module that are not blank, not a comment alone, and not of a docstring.

    A docstring is any statement that is nothing but a text: also the one after a constant. Lines of
    other texts count, unless they are blank.
    """
    left_out = _docstring_lines(module) | _comment_lines(module)
    numbered = enumerate(module.lines, 1)
    return sum(1 for number, line in numbered if line.strip() and number not in left_out)


def _docstring_lines(module: Module) -> set[int]:
    texts = (node for node in module.nodes if isinstance(node, ast.Expr) and _is_text(node.value))
    return {number for node in texts for number in _span(node)}


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _comment_lines(module: Module) -> set[int]:
    """Lines with a comment and nothing else; a # in a text of several lines begins none."""
    found = {i for i, line in enumerate(module.lines, 1) if line.lstrip().startswith("#")}
    texts = (node for node in module.nodes if isinstance(node, ast.Constant | ast.JoinedStr))
    if found.isdisjoint(number for node in texts for number in _span(node)):
        return found
    tokens = tokenize.generate_tokens(io.StringIO(module.text).readline)
    return found & {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def _span(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def largest_module(modules: Modules) -> int:
    """All lines of the module that has the most."""
    return max(map(all_lines, modules))


def is_too_long(module: Module) -> int:
    """1 if a module has more than 450 lines in all."""
    return int(all_lines(module) > MAX_LINES)


# --- what is asked of values


def none_comparisons(module: Module) -> int:
    """Comparisons one of whose sides is the constant None, and cases of a match that are None.

    `x is None`, `x is not None`, `x == None`, `None != x` count, whether in an if, an expression or
    a comprehension. A chain such as `a is b is None` is one. `x in {None, 1}` is none.
    """
    return sum(
        _compares_none(node) or (isinstance(node, ast.MatchSingleton) and node.value is None)
        for node in module.nodes
    )


def _compares_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and any(map(_is_none, (node.left, *node.comparators)))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def none_per_1000(modules: Modules) -> float:
    """Comparisons with None for every 1,000 lines of code, to two decimals."""
    return round(1000 * total(modules, none_comparisons) / total(modules, code_lines), 2)


def isinstance_calls(module: Module) -> int:
    """Calls of the name `isinstance`."""
    return sum(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "isinstance"
        for node in module.nodes
    )


def boolean_parameters(module: Module) -> int:
    """Parameters of functions and lambdas that are annotated `bool` or default to True or False.

    `bool | None` counts too. Fields of dataclasses do not.
    """
    functions = (node for node in module.nodes if isinstance(node, Function))
    return sum(
        _is_bool(argument.annotation) or _is_flag(default)
        for function in functions
        for argument, default in _parameters(function.args)
    )


def _parameters(given: ast.arguments) -> Iterator[tuple[ast.arg, ast.expr | None]]:
    """Each parameter with its default, if it has one."""
    positional = [*given.posonlyargs, *given.args]
    without: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    yield from zip(positional, [*without, *given.defaults], strict=True)
    yield from zip(given.kwonlyargs, given.kw_defaults, strict=True)


def _is_bool(annotation: ast.expr | None) -> bool:
    if isinstance(annotation, ast.BinOp):
        return _is_bool(annotation.left) or _is_bool(annotation.right)
    return isinstance(annotation, ast.Name) and annotation.id == "bool"


def _is_flag(default: ast.expr | None) -> bool:
    return isinstance(default, ast.Constant) and isinstance(default.value, bool)


# --- names


def repeated_names(modules: Modules) -> list[str]:
    """The names of modules whose file is called like that of an earlier module.

    Files `__init__.py` and `__main__.py` do not count, nor do the names of folders.
    """
    named = [each for each in modules if each.file not in UNNAMED]
    before = (Counter(each.file for each in named[:place]) for place in range(len(named)))
    return [each.name for each, seen in zip(named, before, strict=True) if each.file in seen]


def repeated_modules(modules: Modules) -> int:
    """How many modules have a file name that an earlier one has; see `repeated_names`."""
    return len(repeated_names(modules))


def place_classes(module: Module) -> int:
    """Classes called `Place`."""
    return sum(isinstance(node, ast.ClassDef) and node.name == "Place" for node in module.nodes)


def canonical_functions(module: Module) -> int:
    """Functions and methods called `canonical`."""
    return sum(
        isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == "canonical"
        for node in module.nodes
    )

"""The Python reference, generated from signatures and docstrings.

Types are copied from the source, because each version of Python prints evaluated types
differently.
"""

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

from reference.docstring import to_markdown
from reference.imports import imports
from reference.markdown import anchor, code, heading, page, table

MODULES = (
    "tidegate",
    "tidegate.schedule",
    "tidegate.privacy",
    "tidegate.learn",
    "tidegate.features",
    "tidegate.estimators",
    "tidegate.gate",
    "tidegate.compute",
    "tidegate.compare",
)
"""The modules whose names are public, see docs/support.md."""

WIDTH = 100

MARKS: dict[object, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*",
    inspect.Parameter.VAR_KEYWORD: "**",
}
"""What stands before the name of a parameter that takes several values."""

SIGNATURE = "text"
"""The language of signatures: blocks of Python run as printed, and these do not."""


def interface_pages() -> dict[str, str]:
    """The page of each module, by file name; a name is described in the first module that has it."""
    homes: dict[int, str] = {}
    texts = {}
    for name in MODULES:
        module = import_module(name)
        own = {each: getattr(module, each) for each in module.__all__}
        new = {each: thing for each, thing in own.items() if id(thing) not in homes}
        homes |= {id(thing): f"{name}.md{anchor(each)}" for each, thing in new.items()}
        rows = [
            (f"[`{each}`]({_link(homes[id(thing)], name)})", _first_sentence(module, each))
            for each, thing in own.items()
        ]
        described = Described()
        parts = [part for each in new for part in described.parts(module, each)]
        title, about = heading(1, f"`{name}`"), _described(inspect.getdoc(module) or "", module)
        texts[f"{name}.md"] = page(title, about, table(("name", "what it is"), rows), *parts)
    return texts


def _described(text: str, thing: Any) -> str:
    """A docstring as Markdown, with the imports that its examples need."""
    module = thing if inspect.ismodule(thing) else inspect.getmodule(thing)
    names = vars(module) if module else {}
    return to_markdown(text, lambda source: imports(source, names, MODULES))


def _link(home: str, module: str) -> str:
    return home.removeprefix(f"{module}.md")


def _first_sentence(module: ModuleType, name: str) -> str:
    paragraph = _about(module, name).partition("\n\n")[0]
    return " ".join(paragraph.split())


def _about(module: ModuleType, name: str) -> str:
    """The description of a public name: its docstring, or for a type alias the type."""
    thing = getattr(module, name)
    if inspect.isclass(thing) or inspect.isfunction(thing):
        return inspect.getdoc(thing) or ""
    value, text = _assigned(module, name)
    return text or f"The type `{value}`."


def _assigned(module: ModuleType, name: str) -> tuple[str, str]:
    """The source of the value assigned to a name, and the docstring below it."""
    tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}:
            return _assigned(import_module(str(node.module)), name)
    for node, after in zip(tree.body, [*tree.body[1:], ast.Pass()], strict=True):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.unparse(node.value), _text(after)
    raise LookupError(name)


def _text(node: ast.AST) -> str:
    """The text of a docstring; empty if the node is not one."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return inspect.cleandoc(str(node.value.value))
    return ""


@dataclass
class Described:
    """The members that a page has described so far, so that inherited ones appear only once."""

    members: dict[Any, str] = field(default_factory=dict)

    def parts(self, module: ModuleType, name: str) -> Iterator[str]:
        """The parts of a page about a name."""
        thing = getattr(module, name)
        yield heading(2, f"`{name}`")
        if inspect.isfunction(thing) or (inspect.isclass(thing) and _is_made(thing)):
            yield code(signature(name, thing), SIGNATURE)
        yield _described(_about(module, name), thing)
        if inspect.isclass(thing):
            yield _fields(thing)
            yield from self._members(name, thing)

    def _members(self, name: str, thing: type) -> Iterator[str]:
        again: dict[str, list[str]] = {}
        for member, value in members(thing):
            function = _function(value)
            if function in self.members:
                again.setdefault(self.members[function], []).append(f"`{member}`")
                continue
            self.members[function] = name
            yield heading(3, f"`{name}.{member}`")
            if not isinstance(value, property | cached_property):
                of_class = isinstance(value, classmethod | staticmethod)
                yield code(
                    signature(f"{name}.{member}" if of_class else member, function), SIGNATURE
                )
            yield _described(inspect.getdoc(function) or "", function)
        for other, names in again.items():
            yield f"The same as those of [`{other}`]({anchor(other)}): {', '.join(names)}."


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class that tidegate defines and documents."""
    for name in dict.fromkeys(name for each in thing.__mro__ for name in vars(each)):
        value = inspect.getattr_static(thing, name)
        function = _function(value)
        if inspect.isfunction(function) and function.__module__.startswith("tidegate"):
            text = inspect.getdoc(function) or ""
            if text and not name.startswith("_") and not re.fullmatch(r"See `\w+`\.", text):
                yield name, value


def _function(member: Any) -> Any:
    """The function behind a method or property."""
    for wrapped in ("__func__", "fget", "func"):  # class methods, properties, cached ones
        if not inspect.isfunction(member) and hasattr(member, wrapped):
            return getattr(member, wrapped)
    return member


def _is_made(thing: type) -> bool:
    """Whether users create instances, so that the parameters matter."""
    return not (issubclass(thing, Exception) or getattr(thing, "_is_protocol", False))


def _fields(thing: type) -> str:
    """The fields that have a docstring, as a list."""
    lines = [
        f"- `{node.target.id}`: {' '.join(_text(after).split())}"
        for owner in _ours(thing)
        for node, after in zip(_body(owner), [*_body(owner)[1:], ast.Pass()], strict=True)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and _text(after)
    ]
    return "\n".join(["Attributes:", "", *lines]) if lines else ""


def _ours(thing: type) -> list[type]:
    """A class and its bases in tidegate, the outermost base first."""
    return [each for each in reversed(thing.__mro__) if each.__module__.startswith("tidegate")]


@cache
def _body(owner: Any) -> list[ast.stmt]:
    """The statements of a class or function."""
    (node,) = ast.parse(dedent(inspect.getsource(owner))).body
    return [node] if isinstance(node, ast.FunctionDef) else list(getattr(node, "body", []))


def signature(name: str, thing: Callable[..., Any]) -> str:
    """The signature of a function or class, on one line if it fits."""
    types = _types(thing)
    shown, star = [], False
    for each in inspect.signature(thing).parameters.values():
        if each.name in {"self", "cls"}:
            continue
        if each.kind is each.KEYWORD_ONLY and not star:
            shown.append("*")
        star = star or each.kind in {each.KEYWORD_ONLY, each.VAR_POSITIONAL}
        marks = MARKS.get(each.kind, "")
        of_type = f": {types[each.name]}" if each.name in types else ""
        default = "" if each.default is each.empty else f" = {_default(each.default)}"
        shown.append(
            f"{marks}{each.name}{of_type}{default if of_type else default.replace(' ', '')}"
        )
    result = f" -> {types['return']}" if "return" in types else ""
    line = f"{name}({', '.join(shown)}){result}"
    if len(line) <= WIDTH:
        return line
    lines = "".join(f"    {each},\n" for each in shown)
    return f"{name}(\n{lines}){result}"


def _default(value: object) -> str:
    text = value.__name__ if callable(value) and hasattr(value, "__name__") else repr(value)
    return text if len(text) <= 40 else "..."


def _types(thing: Any) -> dict[str, str]:
    """The types of the parameters and of the result, as written in the source."""
    if not inspect.isclass(thing):
        (node,) = _body(thing)
        return _annotations(node)
    types = {}
    for owner in _ours(thing):
        for node in _body(owner):
            if isinstance(node, ast.AnnAssign):
                types[ast.unparse(node.target)] = _type(node.annotation)
            elif isinstance(node, ast.FunctionDef) and node.name == "__init__":
                types |= _annotations(node)
    return {name: text for name, text in types.items() if name != "return"}


def _annotations(node: ast.stmt) -> dict[str, str]:
    if not isinstance(node, ast.FunctionDef):
        return {}
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    given += [each for each in (node.args.vararg, node.args.kwarg) if each]
    types = {each.arg: _type(each.annotation) for each in given if each.annotation}
    return types | ({"return": _type(node.returns)} if node.returns else {})


def _type(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Annotated":
        return ast.unparse(node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice)
    return ast.unparse(node)

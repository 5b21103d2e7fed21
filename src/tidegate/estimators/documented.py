"""Docstrings of estimators: each parameter and attribute is described once, where it is added."""

import re
import sys
from collections.abc import Iterable, Mapping
from inspect import Parameter, cleandoc, signature
from textwrap import indent
from typing import TypeVar

Estimator = TypeVar("Estimator")

NAMES = ("Args", "Attributes")
SECTION = re.compile(r"(?m)^(Args|Attributes):\n((?:(?: {4}.*)?(?:\n|\Z))+)")
ITEM = re.compile(r"(?m)^ {4}(\w+): ")


def documented(estimator: type[Estimator]) -> type[Estimator]:
    """Add to an estimator's docstring what others say about its parameters and attributes.

    A class describes in `Args` and `Attributes` what it adds, or what is different in it: the
    nearest description counts. The parameters of its schedule are described there.
    """
    if sys.flags.optimize == 2:  # python -OO has no docstrings
        return estimator
    classes = (getattr(estimator, "_schedule_kind", object), *reversed(estimator.__mro__))
    said = [_sections(each.__dict__.get("__doc__") or "") for each in classes]
    args, attributes = ({k: v for each in said for k, v in each[name].items()} for name in NAMES)
    given = signature(estimator).parameters.values()
    ordered = sorted(given, key=lambda each: each.default is not Parameter.empty)
    about, _, example = cleandoc(estimator.__doc__ or "").partition("\n>>> ")
    parts = [
        SECTION.sub("", about).rstrip("\n"),
        _section("Args", [(each.name, args[each.name]) for each in ordered]),
        _section("Attributes", attributes.items()),
        f">>> {example}\n",
    ]
    estimator.__doc__ = indent("\n\n".join(parts), "    ").lstrip()
    return estimator


def _sections(docstring: str) -> Mapping[str, Mapping[str, str]]:
    """The descriptions in each section of a docstring, by name."""
    found = dict(SECTION.findall(cleandoc(docstring)))
    return {name: _items(found.get(name, "")) for name in NAMES}


def _items(section: str) -> Mapping[str, str]:
    _, *items = ITEM.split(section)
    return {name: text.rstrip() for name, text in zip(items[::2], items[1::2], strict=True)}


def _section(name: str, items: Iterable[tuple[str, str]]) -> str:
    return "\n".join([f"{name}:", *(f"    {item}: {text}" for item, text in items)])

"""The configuration reference, generated from the typed tables."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from reference.markdown import anchor, heading, page, sentence, table
from tidegate.checks import MAX_COUNT, InvalidValueError
from tidegate.kinds import Parameter, parameters
from tidegate.learn.loss import LOSSES
from tidegate.run.config.config import Config
from tidegate.run.config.sections import ALL, Tables, keys_of, sections

INTRODUCTION = """\
One TOML file configures a Gate. `tidegate init` writes one with comments to start from. `tidegate run FILE` checks all of it before
it does anything else, and names the key of every error.

Most sections are **fixed when the state is created**, because the privacy guarantee depends on them. It does not depend on those that
are **not fixed**. A configuration of many streams has the same sections, and a table `[members.NAME]` for
each stream: see [fleets](../fleet.md)."""

HEADINGS = {"features": "[[features]]", "columns": "[[columns]]"}
"""The headings of sections that a file may have several of."""

CHOICES = {"features": "map", "source": "type"}
"""The keys that choose the others, where they are not called kind."""

ASIDES = {
    "budget": "What the two numbers promise: [the guarantee](../guarantee.md).",
    "schedule": "How to choose: [choose a schedule](../how-to/choose-a-schedule.md).",
    "schedule.source": "For a `twostream` schedule only.",
    "source": "A `twostream` schedule has two such sections, `[source.source]` and `[source.target]`. More: [sources](../sources.md).",
    "store": "Choose it before the first run: [the store](../store.md).",
    "records": "With a `[source]`, `label` is needed, and either `columns` or `text`.",
    "compute": "More: [scale](../scale.md).",
}
"""Remarks on sections, with links."""


def settings_page() -> str:
    """The page of all keys."""
    top = {each.name: each for each in parameters(Config)}
    by_name = sections()
    names = [name for name in top if name in by_name]
    single = [each for each in top.values() if each.name not in by_name]
    rows = [
        (
            f"[`{_title(name)}`]({anchor(_title(name))})",
            sentence(top[name].help),
            _needed(top[name]),
        )
        for name in names
    ]
    parts = [part for name in by_name for part in _section(name, by_name[name], top.get(name))]
    return page(
        heading(1, "Configuration reference"),
        INTRODUCTION,
        table(("section", "what it is", "needed"), rows),
        heading(2, "Keys outside of sections"),
        _keys(single, []),
        *parts,
    )


def _needed(each: Parameter) -> str:
    return "yes" if each.required else "no"


def _title(name: str) -> str:
    return HEADINGS.get(name, f"[{name}]")


def _section(name: str, tables: Tables, top: Parameter | None) -> Iterator[str]:
    kinds = [kind for kind in tables if kind != ALL]
    yield heading(2, _title(name))
    when = {each.name: each.life for each in parameters(Config)}[name.partition(".")[0]]
    yield " ".join(
        filter(None, [sentence(top.help) if top else "", f"**{sentence(when)}**", ASIDES.get(name)])
    )
    yield _about(CHOICES.get(name, "kind"), {each: tables[each] for each in kinds})
    if name == "learner":
        yield _about("loss", dict(LOSSES))
    yield _keys(keys_of(tables), kinds)


def _keys(keys: list[Parameter], kinds: list[str]) -> str:
    head = ("key", "value", "default", "meaning", "for")
    rows = [
        (f"`{each.name}`", allowed(each), default(each), sentence(each.help), _for(each, kinds))
        for each in sorted(keys, key=lambda each: not each.required)
    ]
    return table(head, rows)


def _for(each: Parameter, kinds: list[str]) -> str:
    return ", ".join(f"`{kind}`" for kind in each.only if set(each.only) != set(kinds)) or "all"


def _about(word: str, kinds: dict[str, Any]) -> str:
    rows = [
        (f"`{kind}`", sentence(each.about))
        for kind, each in kinds.items()
        if hasattr(each, "about")
    ]
    return table((word, "what it is"), rows) if rows else ""


def allowed(each: Parameter) -> str:
    """What a value must be, taken from the error for a wrong one."""
    try:
        each.check("", object())
    except InvalidValueError as error:
        text = str(error).partition("must be ")[2].rpartition(", got")[0]
    text = text.replace(f"from 1 to {MAX_COUNT}", "above 0").replace(f" to {MAX_COUNT}", " on")
    text = text.partition(", headed")[0]
    return text if "," in text else text.removeprefix("one of ")


def default(each: Parameter) -> str:
    """The default of a key, as TOML."""
    return "**required**" if each.required else _toml(each.default)


def _toml(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, tuple | list):
        return f"`{list(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f'`"{value}"`' if isinstance(value, str | Fraction) else f"`{value}`"

"""Sources that a configuration can name, and how they are found by their type.

A type of source is one class in one file. A module of this package registers its own; another
distribution names its class in an entry point of the group `tidegate.sources`, with the type as
the name.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path
from pkgutil import iter_modules
from typing import ClassVar, TypeVar

from tidegate.checks import InvalidValueError, flag, positive, refuse, words
from tidegate.kinds import parameter
from tidegate.plugins import SOURCES, added, load
from tidegate.sources.source import RawBatch, Source, SourceIdentity
from tidegate.sources.source_columns import NO_LABEL, SourceColumns

log = logging.getLogger("tidegate.sources")

Follow = Callable[[], bool]
"""Called at the end of the available records: whether to look again."""

Resume = tuple[str, str]
"""An offset that cannot be continued, or its mark, and where the operator allows to continue."""


def every(seconds: float) -> Follow:
    """Look again after each pause, for ever."""
    pause = positive("the pause", seconds)

    def wait() -> bool:
        time.sleep(pause)
        return True

    return wait


def once() -> bool:
    """Do not look again: stop at the last complete record."""
    return False


def resumed(name: str, value: object) -> Resume:
    """Check the two texts of the error about a source that cannot be continued."""
    old, *new = words(name, value)
    if len(new) != 1:
        raise refuse(name, "the two texts of the error about lost messages", value)
    return old, new[0]


@dataclass(frozen=True, kw_only=True)
class ConfiguredSource(ABC):
    """A source that [source] can name: its keys, what it reads, and how.

    The fields that `tidegate.kinds.parameter` declares are its keys. The others are set when the
    source is opened.

    Attributes:
        type: Its name in configurations.
        about: What it reads, in a few words.
        name: The name under which its offset is kept.
        columns: Which columns of a record are read.
        follow: Whether to wait for new records at the end.
        wait: Called at the end of a followed source: whether to look again.
    """

    type: ClassVar[str]
    about: ClassVar[str]

    name: str = "records"
    columns: SourceColumns = NO_LABEL
    follow: bool = parameter("wait for new records", flag, default=False)
    wait: Follow = once

    @property
    @abstractmethod
    def identity(self) -> SourceIdentity:
        """What is read, so that no two ledgers are charged with the same records."""

    @abstractmethod
    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """See `Source`."""

    def opened(self, name: str, columns: SourceColumns, *, wait: Follow, step: int) -> Source:  # noqa: ARG002
        """The source that reads these columns; `step` is the number of records in a step."""
        return replace(self, name=name, columns=columns, wait=wait)

    @property
    def paths(self) -> list[Path]:
        """The files that it reads; none if it reads something else."""
        return []

    def reads(self, path: Path) -> bool:  # noqa: ARG002
        """Whether it names a file, or the folder of the file."""
        return False

    @property
    def piped(self) -> bool:
        """Whether it reads standard input, of which there is one."""
        return False

    @property
    def person_key(self) -> str:
        """The key, if it is given, that needs [person]."""
        return ""


S = TypeVar("S", bound=type[ConfiguredSource])

_OWN: dict[str, type[ConfiguredSource]] = {}


def register(kind: S) -> S:
    """Register a type of source of this package (a class decorator)."""
    _OWN[kind.type] = kind
    return kind


@cache
def own_kinds() -> dict[str, type[ConfiguredSource]]:
    """The types of this package, which its modules register."""
    package = import_module(__package__)
    for module in iter_modules(package.__path__, f"{__package__}."):
        import_module(module.name)
    return dict(sorted(_OWN.items()))


def _others() -> dict[str, EntryPoint]:
    """The types of other distributions; they cannot replace one of this package."""
    found = added(SOURCES)
    return {name: each for name, each in found.items() if name not in own_kinds()}


def source_types() -> list[str]:
    """The types of sources that are installed."""
    return [*own_kinds(), *_others()]


@cache
def source_kind(name: str) -> type[ConfiguredSource]:
    """The class of a type; one of another distribution is imported only if it is asked for."""
    if name in own_kinds():
        return own_kinds()[name]
    kind = load(_others()[name])
    if not (isinstance(kind, type) and issubclass(kind, ConfiguredSource)):
        raise refuse(f"the source {name}", "a class derived from ConfiguredSource", kind)
    return kind


def source_kinds() -> dict[str, type[ConfiguredSource]]:
    """All types of sources that can be imported."""
    kinds = {}
    for name in source_types():
        try:
            kinds[name] = source_kind(name)
        except InvalidValueError as error:
            log.warning("%s", error)
    return kinds

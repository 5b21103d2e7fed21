"""Sources that a configuration can name, how they are found by their type, and what each reads.

A type of source is one class in one file. A module of this package registers its own; another
distribution names its class in an entry point of the group `tidegate.sources`, with the type as
the name.
"""

import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
from itertools import zip_longest
from pathlib import Path
from pkgutil import iter_modules
from typing import ClassVar, NamedTuple, TypeVar

from tidegate.checks import InvalidValueError, flag, positive, refuse, words
from tidegate.kinds import parameter
from tidegate.plugins import SOURCES, added, load
from tidegate.sources.source import NO_LABEL, RawBatch, Source, SourceColumns

# --- what a source reads


LOOPBACK_HOSTS = {"localhost", "127.0.0.1", "[::1]"}


ALL_SUBJECTS = ">"
"""The NATS wildcard for all subjects."""


class SourceIdentity(NamedTuple):
    """What a source reads, in a form that can be compared."""

    parts: frozenset[str]  # a file or folder, or a channel at each of its servers
    around: frozenset[str]  # the parts and the folders that contain them
    subject: str = ALL_SUBJECTS  # the subjects of a channel, with NATS wildcards


def of_path(path: Path) -> SourceIdentity:
    """The identity of a file, or of a folder with the targets of its symbolic and hard links.

    >>> of_path(Path("/data/north/../south.csv")).around >= {"/data/south.csv", "/data"}
    True
    """
    within = list(path.glob("*"))
    links = (each for each in within if each.is_symlink())
    paths = frozenset(map(os.path.realpath, (path, *links)))
    folders = (str(folder) for part in paths for folder in Path(part).parents)
    parts = paths.union(*map(_hard_link, (path, *within)))
    return SourceIdentity(parts, parts.union(folders))


def _hard_link(path: Path) -> set[str]:
    """An identifier of a file with more than one name."""
    try:
        info = path.stat()
    except OSError:
        return set()
    linked = path.is_file() and info.st_nlink > 1
    return {f"the file with inode {info.st_ino} of device {info.st_dev}"} if linked else set()


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file; False if one leads to none."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def of_channel(
    channel: str, servers: Iterable[str], port: int, subject: str = ALL_SUBJECTS
) -> SourceIdentity:
    """The identity of a stream or topic at each of its servers; `port` is the default port.

    >>> sorted(of_channel("topic a", ["Db.example:9092", "127.0.0.1"], 9092).parts)
    ['topic a at db.example:9092', 'topic a at localhost:9092']
    """
    parts = frozenset(f"{channel} at {_server(each, port)}" for each in servers)
    return SourceIdentity(parts, parts, subject)


def _server(address: str, port: int) -> str:
    host, _, own = address.lower().rpartition(":")
    if not own.isdecimal():
        host, own = address.lower(), str(port)
    host = host.removesuffix(".")
    return f"{'localhost' if host in LOOPBACK_HOSTS else host}:{int(own)}"


def shared(one: SourceIdentity, other: SourceIdentity) -> str | None:
    """What two sources both read, or None if they have nothing in common.

    Copies, and servers with two names, are not detected.

    >>> shared(of_path(Path("/data/north.csv")), of_path(Path("/data/south.csv")))
    >>> shared(of_path(Path("/data/./north.csv")), of_path(Path("/data")))
    '/data'
    >>> north, all_wards = (of_channel("stream wards", ["host"], 4222, s) for s in ("north.*", ">"))
    >>> shared(north, all_wards)
    'stream wards at host:4222 (> and north.*)'
    """
    common = (one.parts & other.around) | (other.parts & one.around)
    if not common or not subjects_meet(one.subject, other.subject):
        return None
    subjects = {one.subject, other.subject}
    named = max(common, key=lambda part: (os.path.isabs(part), part))
    return named + (f" ({' and '.join(sorted(subjects))})" if subjects != {ALL_SUBJECTS} else "")


def subjects_meet(one: str, other: str) -> bool:
    """Whether a NATS subject can match both: `*` is any word, a final `>` one or more words.

    >>> subjects_meet("north.*.beds", "north.>"), subjects_meet("north", "north.>")
    (True, False)
    """
    for pair in zip_longest(one.split("."), other.split(".")):
        if None in pair:
            return False
        if ALL_SUBJECTS in pair:
            return True
        if "*" not in pair and pair[0] != pair[1]:
            return False
    return True


# --- sources of a configuration


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

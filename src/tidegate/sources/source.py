"""The protocol of a source, the batches that it yields, and what is the same source again."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.data.columns import Table
from tidegate.sources.absent import Absent

OTHER_SOURCE = "earlier records came from another kind of source; use that one"
"""What to do about an offset that a source cannot read."""


class SourceError(InvalidValueError):
    """A source as a whole cannot be read; the message is one line and quotes no record."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RawBatch:
    """Records as they arrived, each in its slot, ready for `tidegate.data.intake.clean`.

    Attributes:
        X: One row per slot: numbers of shape (n, d) with NaN for missing values, texts of shape
            (n,) with None for missing ones, or a `Table` of columns of any kind.
        y: One label per slot; None or NaN if it is missing.
        arrived: Returns what arrived in a slot, as JSON text. Only the operator may see it.
        persons: The id of each slot's person as it arrived, of any type, None if it is missing;
            None if no ids are read.
        reasons: Why a slot cannot be used, for slots that could not even be parsed.
        absent: Columns that none of its records has, if they are JSON objects and some are missing.
        offset: The position after this batch; `batches(offset)` continues from there. Empty if
            the records do not come from a source.
    """

    X: Any
    y: NDArray[Any]
    arrived: Callable[[int], str]
    persons: Sequence[Any] | None = None
    reasons: Mapping[int, str] = field(default_factory=dict)
    absent: Absent | None = None
    offset: str = ""

    @property
    def n(self) -> int:
        """The number of slots."""
        return int(self.X.shape[0])


def check_columns(raw: RawBatch, where: str) -> None:
    """Refuse a first batch that lacks a column in every record, before any record is taken."""
    if raw.absent is not None:
        raise SourceError(raw.absent.in_words(where))


def checked_first(batches: Iterable[RawBatch], where: str) -> Iterator[RawBatch]:
    """The batches; refused before the first with records if that lacks a column in all of them."""
    started = False
    for raw in batches:
        if not started:
            check_columns(raw, where)
        started = started or raw.n > 0
        yield raw


def check_ids(raw: RawBatch, *, protected: bool) -> None:
    """Refuse a batch without ids if persons are protected, or with ids if records are."""
    if protected and raw.persons is None:
        wrong = "persons is missing: the configuration has [person]"
        raise InvalidValueError(f"{wrong}, so give the id of each record's person")
    if not protected and raw.persons is not None:
        wrong = "persons must not be given: the configuration has no [person]"
        raise InvalidValueError(f"{wrong}, so records are protected, not persons")


class Source(Protocol):
    """A stream of records that can be resumed at an offset."""

    @property
    def name(self) -> str:
        """The name under which its offset is kept."""

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """The records after an offset, or all of them if it is None.

        Where a batch ends depends only on counts or on when records arrive, never on their length
        or content. The store and the fits divide records again, by counts.
        """


def joined(parts: Sequence[Any]) -> Any:
    """The records of several parts, one after the other: arrays, or tables of lists."""
    if not isinstance(parts[0], Table):
        return np.concatenate(parts)
    names = parts[0].columns
    columns = {name: [v for part in parts for v in part.columns[name]] for name in names}
    return Table(columns, sum(part.n for part in parts))


def objects(values: list[Any]) -> NDArray[np.object_]:
    """Values of any kind as a one-dimensional array.

    >>> objects([[1, 2], [3, 4]]).shape
    (2,)
    """
    return np.fromiter(values, object, len(values))  # np.array would unpack lists


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
    for words in zip_longest(one.split("."), other.split(".")):
        if None in words:
            return False
        if ALL_SUBJECTS in words:
            return True
        if "*" not in words and words[0] != words[1]:
            return False
    return True

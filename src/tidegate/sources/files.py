"""Sources that read a file, a growing file, or a folder of files: what all formats share."""

import os
import stat
import time
from abc import abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from tidegate.checks import flag, place, refuse
from tidegate.data.values import as_objects
from tidegate.kinds import parameter
from tidegate.sources.configured import (
    ConfiguredSource,
    Follow,
    Resume,
    SourceIdentity,
    of_path,
    own_kinds,
    resumed,
    source_kinds,
)
from tidegate.sources.file_offset import (
    BEGINNING,
    ChangedError,
    FileOffset,
    Seen,
    Start,
    Taken,
    as_count,
    consented,
    mark,
)
from tidegate.sources.source import RawBatch, SourceColumns, SourceError

STANDARD_INPUT = "-"
"""The path of standard input."""

NEXT = "next"
"""The value in `resume` that continues with the next file of a folder."""

SETTLING_SECONDS = 2.0
"""Seconds after a change; a second change within them might not show in the times of the file."""

IN_CONFIG = "add resume = ['{}', '{}'] to its [source]"
"""How to resume elsewhere in a source of the configuration."""

BY_OPTION = "add --resume {} {}"
"""How to resume `tidegate ingest` elsewhere in a file that has changed."""


def passed_over(name: str, value: object) -> Resume:
    """Check the mark of an offset, and how many records of its file to skip instead."""
    offset, instead = resumed(name, value)
    if instead != NEXT and not (instead.isascii() and instead.isdigit()):
        allowed = 'the mark of an offset, and a number of records in quotes or "next"'
        raise refuse(name, allowed, value)
    return offset, instead


Part = tuple[RawBatch, Seen, bool]
"""A batch of slots of one file, how far it was then read, and whether the file ends there."""


class Named(NamedTuple):
    """A column that a file names before its records, and its type if the file says so."""

    name: str
    type: pa.DataType | None = None


@dataclass(frozen=True, kw_only=True)
class Files(ConfiguredSource):
    """The records of a file, or of all files in a folder in the order of their names.

    A file in a folder is read as soon as its name appears. So write it under another name (with a
    leading dot or another ending) and rename it when it is complete. New names must sort after the
    file that is being read; others are refused. Files that have been read may be deleted.

    Before reading continues, the header and the last block are checked, and everything that was
    read if the file may have changed since the last full check. Later looks by the same object
    check only header and last block.

    A format of files is a class derived from this one.

    Args:
        path: A file or a folder.
        resume: The mark of an offset that cannot be continued, and how many records of its file to
            skip instead, or "next".
        remedy: A template of the advice how to set `resume`.
        count: Records in a batch; by default it depends on the columns.

    Attributes:
        suffix: The ending of file names.
        unusable_line: When a line cannot be used; empty if the format has no lines.
        odd_number: What else is no number in this format, with a comma after it.
    """

    suffix: ClassVar[str]
    unusable_line: ClassVar[str] = ""
    odd_number: ClassVar[str] = ""

    path: str | Path = parameter(
        'file or folder, relative to the working directory; "-": standard input', place
    )
    follow: bool = parameter(
        "wait for new lines in a file, or new files in a folder", flag, default=False
    )
    resume: Resume | None = parameter(
        "the two texts in the error about a changed file, to continue with it",
        passed_over,
        default=None,
    )
    remedy: str = IN_CONFIG
    count: int | None = None
    # The offset up to which this process has read, or checked, everything.
    _checked: list[str | None] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.piped:
            raise refuse("type", 'jsonl if the path is "-" (standard input)', self.type)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def root(self) -> Path:
        """The file or folder."""
        return Path(self.path)

    @property
    def identity(self) -> SourceIdentity:
        """See `ConfiguredSource`."""
        return of_path(self.root)

    @property
    def piped(self) -> bool:
        """See `ConfiguredSource`."""
        return self.path == STANDARD_INPUT

    @property
    def paths(self) -> list[Path]:
        """See `ConfiguredSource`; in a folder, those that are there."""
        if self.piped:
            return []
        return [*self.root.glob(f"*{self.suffix}")] if self.root.is_dir() else [self.root]

    def reads(self, path: Path) -> bool:
        """See `ConfiguredSource`."""
        return not self.piped and self.root.resolve() in {path.resolve(), path.resolve().parent}

    @property
    def separator(self) -> str | None:
        """What separates the values of a line, if anything does."""
        return None

    # --- what a format answers

    @abstractmethod
    def parts(self, path: Path, start: Start, follow: Follow | None) -> Iterator[Part]:
        """The slots of a file after `start`; ChangedError if what was read before has changed."""

    @abstractmethod
    def tails(self, path: Path, seen: list[Seen]) -> dict[Seen | None, str]:
        """Digests of a file up to the positions in `seen`, and under None of the whole file."""

    @abstractmethod
    def records(self, path: Path) -> int:
        """The number of records in a file."""

    @abstractmethod
    def header(self, path: Path) -> list[Named] | None:
        """The columns of a file; None if its records name them."""

    def check_types(self, path: Path) -> None:
        """Refuse a file with a column none of whose values could be used, by its type."""

    def sample(self, path: Path, most: int) -> dict[str, list[Any]]:
        """The first records of a public file, column by column."""
        values: dict[str, list[Any]] = {each.name: [] for each in self.header(path) or ()}
        values.pop("", None)  # the index of a data frame has no name
        columns = SourceColumns.of_any_kind(list(values))
        for raw in replace(self, path=path, columns=columns).batches(None):
            for name, column in values.items():
                column.extend(as_objects(raw.X[: most - len(column)].columns[name]))
            if max(map(len, values.values())) == most:
                break
        return values

    @classmethod
    def guessed(cls, path: Path, columns: SourceColumns) -> "Files":
        """A source that reads a file of which no configuration says more than its columns."""
        return cls(path=path, columns=columns)

    # --- reading

    def files(self) -> list[Path]:
        """The files that exist."""
        if self.root.is_dir():
            return [self.root / name for name in sorted(files_in(self.root, self.suffix))]
        return [self.root] if self.root.is_file() else []

    def holds(self, path: Path, seen: Seen) -> bool:
        """Whether a file starts with what was read of another file."""
        return seen.tail is not None and self.tails(path, [seen]).get(seen) == seen.tail

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """See `Source`."""
        kept = offset
        try:
            with readable(self.root):
                for batch in self._batches(offset):
                    kept = batch.offset
                    self._checked[:] = [kept]
                    yield batch
            self._checked[:] = [kept]
        except ChangedError as error:
            raise self._refusal(error, str(kept)) from error

    def _refusal(self, error: ChangedError, offset: str) -> SourceError:
        """The error for the operator, given the offset that the gate has kept."""
        place = FileOffset.of(offset)
        path = self.root / place.file if self.root.is_dir() else self.root
        if path.exists():
            other = str(self._proposed(path, place))
            how = f"continue after its first {other} records"
        else:
            other, how = NEXT, "continue with the next file"
        advice = f"{error.back}, or to {how} {self.remedy.format(mark(offset), other)}"
        return SourceError(f"{path} {error}: {advice}, see docs/sources.md")

    def _proposed(self, path: Path, place: FileOffset) -> int:
        """How many records of a file to skip: as many as were taken from it.

        0 for another file, unless it is the same file renamed.
        """
        if path.name != place.file and not self.holds(path, place.seen):
            return 0
        there = self.records(path)
        return there if place.seen.row is None else min(place.seen.row, there)

    def _batches(self, offset: str | None) -> Iterator[RawBatch]:
        place = BEGINNING if offset is None else FileOffset.of(offset)
        instead = consented(offset, self.resume)
        checked = offset is not None and offset in self._checked
        if self.root.is_dir():
            yield from self._folder(place, instead, checked)
            return
        regular(self.root)
        if place.file not in {"", self.root.name} and instead is None:
            raise ChangedError(
                f"is not the file {place.file} that was read", "name that file again"
            )
        follow = self.wait if self.follow else None
        yield from self._file(self.root, place, instead, follow, checked=checked)

    def _folder(self, place: FileOffset, instead: str | None, checked: bool) -> Iterator[RawBatch]:
        taken, last, records = place.taken, place.file, place.records
        if last:
            files = files_in(self.root, self.suffix)
            taken = self._taken(place, files)
            self._check_names(files, taken, last)
            if last in files and instead != NEXT:
                place = replace(place, taken=taken, rank=None)
                place = yield from self._file(self.root / last, place, instead, checked=checked)
            elif not place.last and instead != NEXT:
                raise ChangedError("was removed before it was read to its end", "restore it")
            taken, records = _and(taken, place), place.records
        while True:
            files = files_in(self.root, self.suffix)
            self._check_names(files, taken, last)
            first = {_identity(files[name]): name for name in sorted(files, reverse=True)}
            names = [name for name in sorted(files) if name > last]
            for last in names:
                taken = taken.pruned(files, str(self.path))
                self._check_new(last, first[_identity(files[last])], files[last].st_ino, taken)
                start = replace(BEGINNING, file=last, last=False, records=records, taken=taken)
                place = yield from self._file(self.root / last, start)
                taken, records = _and(taken, place), place.records
            if not names and not (self.follow and self.wait()):
                return

    def _taken(self, place: FileOffset, files: Mapping[str, os.stat_result]) -> Taken:
        """The files before the one that an offset names."""
        if place.rank is None:
            return place.taken
        names = sorted(name for name in files if name <= place.file)
        if len(names) > place.rank:  # version 0.1.0 kept only their number
            raise self._too_late("a file", place.file)
        taken = Taken()
        for name in names:
            if name != place.file:
                taken = taken.plus(name, files[name].st_ino, None)
        return taken

    def _check_names(self, files: Mapping[str, os.stat_result], taken: Taken, last: str) -> None:
        """Refuse a file that would never be read, because a later name was read already."""
        for name in files:
            if name < last and name not in taken:
                raise self._too_late(name, last)

    def _too_late(self, name: str, last: str) -> SourceError:
        return SourceError(
            f"{name} in {self.path} is new, but sorts before {last}, which was read already: "
            "rename it to sort last"
        )

    def _check_new(self, name: str, first: str, inode: int, taken: Taken) -> None:
        """Refuse a file that was taken under another name; `first` is the first of its names."""
        if first != name:
            raise self._again(name, f"a link to the same file as {first}")
        tails = set(taken.tails(inode))
        if tails and self.tails(self.root / name, [])[None][:16] in tails:
            raise self._again(name, "a renamed file")

    def _again(self, name: str, what: str) -> SourceError:
        return SourceError(
            f"{self.root / name} is {what}, whose records were taken before: remove it, "
            "or they would pay twice"
        )

    def _file(
        self,
        path: Path,
        place: FileOffset,
        instead: str | None = None,
        follow: Follow | None = None,
        *,
        checked: bool = False,
    ) -> Generator[RawBatch, None, FileOffset]:
        """Yield a file's batches after `place`, or after `instead` records; return its end."""
        info = regular(path)
        stamp = _stamp(info)
        unchanged = place.inode == info.st_ino and stamp is not None and stamp == place.stamp
        if place.last and checked and unchanged and instead is None:
            return place
        thorough = not unchanged and not (checked and place.inode == info.st_ino)
        if instead is not None:
            begun = Start(passed=as_count(instead))
        else:
            begun = Start(seen=place.seen, thorough=thorough)
            if begun.seen.at and not thorough:
                stamp = place.stamp  # the times of the last full check
        place = replace(place, file=path.name, inode=info.st_ino, stamp=stamp, rank=None)
        for batch, seen, last in self.parts(path, begun, follow):
            if place.records is None and not self.root.is_dir():
                place = replace(place, records=(seen.row or 0) - batch.n)
            place = replace(place.moved(seen, batch.n), last=last)
            yield replace(batch, offset=place.text())
        return place


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Refuse a file that the operating system does not let us read, in one line."""
    try:
        yield
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "it is damaged"
        wrong = f"{error.filename or path} cannot be read: {reason}"
        raise SourceError(f"{wrong}; check the path and permissions") from error


def regular(path: Path) -> os.stat_result:
    """The status of a regular file; anything else is refused unopened, since a FIFO would block."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(info.st_mode), "a device")
        raise SourceError(
            f"{path} is {kind}, not a file: move it elsewhere, or send its records to "
            'standard input (path = "-")'
        )
    return info


def files_in(folder: Path, suffix: str) -> dict[str, os.stat_result]:
    """The data files of a folder, by name."""
    files = {}
    for entry in folder.iterdir():
        if entry.name.endswith(suffix) and not entry.name.startswith((".", "_")):
            as_utf8(entry)
            files[entry.name] = regular(entry)
    return files


def as_utf8(path: Path) -> Path:
    """The path; refused if its name is not UTF-8."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise SourceError(f"the name of the file {shown} is not UTF-8: rename it") from None
    return path


def _identity(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def _and(taken: Taken, place: FileOffset) -> Taken:
    """The files that were taken, and one more."""
    return taken.plus(place.file, place.inode or 0, place.seen.tail)


def _stamp(info: os.stat_result) -> str | None:
    """The times of a file's last change; None if they are too recent to show another one."""
    if time.time() - max(info.st_mtime, info.st_ctime) < SETTLING_SECONDS:
        return None
    return f"{info.st_mtime_ns}-{info.st_ctime_ns}"


def kind_of_file(path: Path, name: str = "the file") -> type[Files]:
    """The format of a file, by the ending of its name; `name` is what an error calls the file."""
    for kinds in (own_kinds, source_kinds):  # other distributions are looked at only if need be
        formats = {each.suffix: each for each in kinds().values() if issubclass(each, Files)}
        if (suffix := path.suffix.lower()) in formats:
            return formats[suffix]
    *most, last = formats
    raise refuse(name, f"a {', '.join(most)} or {last} file", str(path))


def one_file(
    path: Path, configured: Iterable[ConfiguredSource] = (), name: str = "the file"
) -> Files:
    """A file as a source of its own, with the keys of a configured source of its type."""
    kind = kind_of_file(path, name)
    alike = (each for each in configured if isinstance(each, kind) and not each.piped)
    return replace(next(alike, kind(path=path)), path=path, follow=False, resume=None)

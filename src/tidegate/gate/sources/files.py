"""A source that reads a file, a growing file, or a folder of files."""

import os
import stat
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from tidegate.checks import positive
from tidegate.gate.sources.chain import ChangedError, Seen, Start
from tidegate.gate.sources.place import Place, Taken, as_count, consented, mark
from tidegate.gate.sources.source import RawBatch, SourceError

Follow = Callable[[], bool]
"""Called at the end of the available records: whether to look again."""

NEXT = "next"
"""The value in `resume` that continues with the next file of a folder."""

SETTLING_SECONDS = 2.0
"""Seconds after a change; a second change within them might not show in the times of the file."""

IN_CONFIG = "add resume = ['{}', '{}'] to its [source]"
"""How to resume elsewhere in a source of the configuration."""


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


Part = tuple[RawBatch, Seen, bool]
"""A batch of slots of one file, how far it was then read, and whether the file ends there."""


class Format(Protocol):
    """Reads files of one format."""

    @property
    def suffix(self) -> str:
        """The ending of file names."""

    def parts(self, path: Path, start: Start, follow: Follow | None) -> Iterator[Part]:
        """The slots of a file after `start`; ChangedError if what was read before has changed."""

    def tails(self, path: Path, seen: list[Seen]) -> dict[Seen | None, str]:
        """Digests of a file up to the positions in `seen`, and under None of the whole file."""

    def records(self, path: Path) -> int:
        """The number of records in a file."""


@dataclass(frozen=True, kw_only=True)
class Files:
    """The records of a file, or of all files in a folder in the order of their names.

    A file in a folder is read as soon as its name appears. So write it under another name (with a
    leading dot or another ending) and rename it when it is complete. New names must sort after the
    file that is being read; others are refused. Files that have been read may be deleted.

    Before reading continues, the header and the last block are checked, and everything that was
    read if the file may have changed since the last full check. Later looks by the same object
    check only header and last block.

    Args:
        name: The name under which the offset is kept.
        path: A file or a folder.
        format: Reads one file.
        follow: Waits for new files in a folder, or new lines in a file.
        resume: The mark of an offset that cannot be continued, and how many records of its file to
            skip instead, or "next".
        remedy: A template of the advice how to set `resume`.
    """

    name: str
    path: Path
    format: Format
    follow: Follow | None = None
    resume: tuple[str, str] | None = None
    remedy: str = IN_CONFIG
    # The offset up to which this process has read, or checked, everything.
    _checked: list[str | None] = field(default_factory=list, init=False, repr=False, compare=False)

    def files(self) -> list[Path]:
        """The files that exist."""
        if self.path.is_dir():
            return [self.path / name for name in sorted(files_in(self.path, self.format.suffix))]
        return [self.path] if self.path.is_file() else []

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """See `Source`."""
        kept = offset
        try:
            for batch in self._batches(offset):
                kept = batch.offset
                self._checked[:] = [kept]
                yield batch
            self._checked[:] = [kept]
        except ChangedError as error:
            raise self._refusal(error, str(kept)) from error
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else "it is damaged"
            wrong = f"{error.filename or self.path} cannot be read: {reason}"
            raise SourceError(f"{wrong}; check the path and permissions") from error

    def _refusal(self, error: ChangedError, offset: str) -> SourceError:
        """The error for the operator, given the offset that the gate has kept."""
        place = Place.of(offset)
        path = self.path / place.file if self.path.is_dir() else self.path
        if path.exists():
            other = str(self._proposed(path, place))
            how = f"continue after its first {other} records"
        else:
            other, how = NEXT, "continue with the next file"
        advice = f"{error.back}, or to {how} {self.remedy.format(mark(offset), other)}"
        return SourceError(f"{path} {error}: {advice}, see docs/sources.md")

    def _proposed(self, path: Path, place: Place) -> int:
        """How many records of a file to skip: as many as were taken from it.

        0 for another file, unless it is the same file renamed.
        """
        if path.name != place.file and not holds(self.format, path, place.seen):
            return 0
        there = self.format.records(path)
        return there if place.seen.row is None else min(place.seen.row, there)

    def _batches(self, offset: str | None) -> Iterator[RawBatch]:
        place = None if offset is None else Place.of(offset)
        instead = None if offset is None else consented(offset, self.resume)
        checked = offset is not None and offset in self._checked
        if self.path.is_dir():
            yield from self._folder(place, instead, checked)
            return
        regular(self.path)
        if place is not None and place.file != self.path.name and instead is None:
            raise ChangedError(
                f"is not the file {place.file} that was read", "name that file again"
            )
        yield from self._file(self.path, place, instead, self.follow, checked=checked)

    def _folder(
        self, place: Place | None, instead: str | None, checked: bool
    ) -> Iterator[RawBatch]:
        taken, last, records = Taken(), "", 0 if place is None else place.records
        if place is not None:
            files, last = files_in(self.path, self.format.suffix), place.file
            taken = self._taken(place, files)
            self._check_names(files, taken, last)
            if last in files and instead != NEXT:
                place = replace(place, taken=taken, rank=None)
                place = yield from self._file(self.path / last, place, instead, checked=checked)
            elif not place.last and instead != NEXT:
                raise ChangedError("was removed before it was read to its end", "restore it")
            taken, records = _and(taken, place), place.records
        while True:
            files = files_in(self.path, self.format.suffix)
            self._check_names(files, taken, last)
            first = {_identity(files[name]): name for name in sorted(files, reverse=True)}
            names = [name for name in sorted(files) if name > last]
            for last in names:
                taken = taken.pruned(files, str(self.path))
                self._check_new(last, first[_identity(files[last])], files[last].st_ino, taken)
                start = Place(file=last, seen=Seen(at=0), records=records, taken=taken)
                place = yield from self._file(self.path / last, start)
                taken, records = _and(taken, place), place.records
            if not names and (self.follow is None or not self.follow()):
                return

    def _taken(self, place: Place, files: Mapping[str, os.stat_result]) -> Taken:
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
        if tails and self.format.tails(self.path / name, [])[None][:16] in tails:
            raise self._again(name, "a renamed file")

    def _again(self, name: str, what: str) -> SourceError:
        return SourceError(
            f"{self.path / name} is {what}, whose records were taken before: remove it, "
            "or they would pay twice"
        )

    def _file(
        self,
        path: Path,
        start: Place | None,
        instead: str | None = None,
        follow: Follow | None = None,
        *,
        checked: bool = False,
    ) -> Generator[RawBatch, None, Place]:
        """Yield a file's batches after `start`, or after `instead` records; return its end."""
        info = regular(path)
        place = start or Place(file=path.name, seen=Seen(at=0), records=0)
        stamp = _stamp(info)
        unchanged = place.inode == info.st_ino and stamp is not None and stamp == place.stamp
        if place.last and checked and unchanged and instead is None:
            return place
        thorough = not unchanged and not (checked and place.inode == info.st_ino)
        if instead is not None:
            begun = Start(passed=as_count(instead))
        else:
            begun = Start(seen=place.seen if place.seen.at else None, thorough=thorough)
            if begun.seen and not thorough:
                stamp = place.stamp  # the times of the last full check
        place = replace(place, file=path.name, inode=info.st_ino, stamp=stamp, rank=None)
        for batch, seen, last in self.format.parts(path, begun, follow):
            if place.records is None and not self.path.is_dir():
                place = replace(place, records=(seen.row or 0) - batch.n)
            place = replace(place.moved(seen, batch.n), last=last)
            yield replace(batch, offset=place.text())
        return place


def holds(reader: Format, path: Path, seen: Seen) -> bool:
    """Whether a file starts with what was read of another file."""
    return seen.tail is not None and reader.tails(path, [seen]).get(seen) == seen.tail


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


def _and(taken: Taken, place: Place) -> Taken:
    """The files that were taken, and one more."""
    return taken.plus(place.file, place.inode or 0, place.seen.tail)


def _stamp(info: os.stat_result) -> str | None:
    """The times of a file's last change; None if they are too recent to show another one."""
    if time.time() - max(info.st_mtime, info.st_ctime) < SETTLING_SECONDS:
        return None
    return f"{info.st_mtime_ns}-{info.st_ctime_ns}"

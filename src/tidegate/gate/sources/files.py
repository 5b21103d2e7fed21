"""A file, a folder of files, or one that grows, as a source."""

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
"""Called at the end of what there is: whether to look again."""

NEXT = "next"
"""What `resume` names to go on with the next file of a folder."""

SETTLED = 2.0
"""Seconds after its last change from which on the times of a file tell whether it changes again."""

IN_CONFIG = "add resume = ['{}', '{}'] to its [source]"
"""How to consent to another place, where the source is one of a configuration."""


def every(seconds: float) -> Follow:
    """Look again after a while, for ever."""
    pause = positive("the pause", seconds)

    def wait() -> bool:
        time.sleep(pause)
        return True

    return wait


def once() -> bool:
    """Do not look again now, but stop at the last complete record."""
    return False


Part = tuple[RawBatch, Seen, bool]
"""Some slots of one file, what was read of it with them, and whether it ends there."""


class Format(Protocol):
    """How the files of one kind are read."""

    @property
    def suffix(self) -> str:
        """How the names of its files end."""

    def parts(self, path: Path, start: Start, follow: Follow | None) -> Iterator[Part]:
        """The slots of a file after what was read of it; ChangedError if that is not there."""

    def tails(self, path: Path, seen: list[Seen]) -> dict[Seen | None, str]:
        """The digests of as much of a file as was read of others, and under None of all of it."""

    def records(self, path: Path) -> int:
        """How many records a file has."""


@dataclass(frozen=True, kw_only=True)
class Files:
    """The records of a file, or of all files of a folder in the order of their names.

    A file of a folder is taken as soon as its name appears: write it under another name (one that
    starts with a dot, or with another ending) and rename it. Names must grow: one that appears
    before the name that is being read is refused. What has been taken may be deleted.

    What was read is checked before a file is taken up again: its header and its last block, and
    all of it if the file may have changed since all of it was checked. Later looks of the same
    object check header and last block only.

    Args:
        name: What the offset is kept under.
        path: A file or a folder.
        format: How a file is read.
        follow: For a folder that gets new files, or a file of lines that gets new lines.
        resume: The mark of an offset that cannot be gone on from, and how many records of its file
            to pass over instead, or "next".
        remedy: How to say so.
    """

    name: str
    path: Path
    format: Format
    follow: Follow | None = None
    resume: tuple[str, str] | None = None
    remedy: str = IN_CONFIG
    # The offset up to which this process has read, or checked, all that was read.
    _checked: list[str | None] = field(default_factory=list, init=False, repr=False, compare=False)

    def files(self) -> list[Path]:
        """The files that are there."""
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
            raise SourceError(f"{error.filename or self.path} cannot be read: {reason}") from error

    def _refusal(self, error: ChangedError, offset: str) -> SourceError:
        """What to tell the operator, given the offset that the Gate has kept."""
        place = Place.of(offset)
        path = self.path / place.file if self.path.is_dir() else self.path
        if path.exists():
            other = str(self._proposed(path, place))
            how = f"go on after its first {other} records"
        else:
            other, how = NEXT, "go on with the next file"
        told = self.remedy.format(mark(offset), other)
        return SourceError(f"{path} {error}: {error.back}, or to {how} {told}, see docs/sources.md")

    def _proposed(self, path: Path, place: Place) -> int:
        """How many records of a file to pass over: as many as were taken from it, if it has them.

        None of another file, unless it is the same one under another name.
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
            raise ChangedError(f"is not the file {place.file} that was read", "name that again")
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
                raise ChangedError("has gone before it was read to its end", "bring it back")
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
        if len(names) > place.rank:  # version 0.1.0 knew how many there were
            raise self._too_late("a file", place.file)
        taken = Taken()
        for name in names:
            if name != place.file:
                taken = taken.plus(name, files[name].st_ino, None)
        return taken

    def _check_names(self, files: Mapping[str, os.stat_result], taken: Taken, last: str) -> None:
        """Refuse a file that would never be read, because those after it were read already."""
        for name in files:
            if name < last and name not in taken:
                raise self._too_late(name, last)

    def _too_late(self, name: str, last: str) -> SourceError:
        return SourceError(
            f"{name} has appeared in {self.path}, and its name comes before {last}, which was read "
            "already: rename it to come last"
        )

    def _check_new(self, name: str, first: str, inode: int, taken: Taken) -> None:
        """Refuse a file that was taken in under another name; `first` is the first it has now."""
        if first != name:
            raise self._again(name, f"a link to the same file as {first}")
        known = set(taken.tails(inode))
        if known and self.format.tails(self.path / name, [])[None][:16] in known:
            raise self._again(name, "another name of a file that is gone from the folder")

    def _again(self, name: str, what: str) -> SourceError:
        return SourceError(
            f"{self.path / name} is {what}, which was taken in before: remove it, "
            "or its records would pay twice"
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
        """What a file has after a place, or after so many records instead; the place at its end."""
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
                stamp = place.stamp  # it is of these times that all of it was checked
        place = replace(place, file=path.name, inode=info.st_ino, stamp=stamp, rank=None)
        for batch, seen, last in self.format.parts(path, begun, follow):
            if place.records is None and not self.path.is_dir():
                place = replace(place, records=(seen.row or 0) - batch.n)
            place = replace(place.moved(seen, batch.n), last=last)
            yield replace(batch, offset=place.text())
        return place


def holds(reader: Format, path: Path, seen: Seen) -> bool:
    """Whether a file starts with what was read of another."""
    return seen.tail is not None and reader.tails(path, [seen]).get(seen) == seen.tail


def regular(path: Path) -> os.stat_result:
    """What is known of a file; refused if it is none, without opening it: a FIFO would wait."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(info.st_mode), "a device")
        raise SourceError(
            f"{path} is {kind}, not a file: take it out of the folder, or send its records to "
            'standard input (path = "-")'
        )
    return info


def files_in(folder: Path, suffix: str) -> dict[str, os.stat_result]:
    """The files of a folder that are read, by their names."""
    found = {}
    for entry in folder.iterdir():
        if entry.name.endswith(suffix) and not entry.name.startswith((".", "_")):
            as_utf8(entry)
            found[entry.name] = regular(entry)
    return found


def as_utf8(path: Path) -> Path:
    """A path that can be written down, refused otherwise."""
    try:
        path.name.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(path).decode(errors="backslashreplace")
        raise SourceError(f"the name of the file {shown} is not UTF-8: rename it") from None
    return path


def _identity(info: os.stat_result) -> tuple[int, int]:
    return info.st_dev, info.st_ino


def _and(taken: Taken, place: Place) -> Taken:
    """The files that were taken in, and one more."""
    return taken.plus(place.file, place.inode or 0, place.seen.tail)


def _stamp(info: os.stat_result) -> str | None:
    """When a file was changed, unless it may change again without showing it."""
    if time.time() - max(info.st_mtime, info.st_ctime) < SETTLED:
        return None
    return f"{info.st_mtime_ns}-{info.st_ctime_ns}"

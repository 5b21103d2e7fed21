"""A file, a folder of files, or one that grows, as a source."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from tidegate.checks import positive, whole
from tidegate.gate.sources.source import RawBatch, SourceError

Follow = Callable[[], bool]
"""Called at the end of what there is: whether to look again."""


def every(seconds: float) -> Follow:
    """Look again after a while, for ever."""
    pause = positive("the pause", seconds)

    def wait() -> bool:
        time.sleep(pause)
        return True

    return wait


def once() -> bool:
    """Do not look again now, but take only what is complete: somebody will come back."""
    return False


class Part(NamedTuple):
    """Some slots of one file.

    Attributes:
        at: The position in the file after them.
        last: Whether the file ends there.
    """

    X: Any
    y: NDArray[Any]
    arrived: Callable[[int], str]
    reasons: Mapping[int, str]
    at: int
    last: bool


class Format(Protocol):
    """How the files of one kind are read."""

    @property
    def suffix(self) -> str:
        """How the names of its files end."""

    def parts(self, path: Path, at: int, follow: Follow | None) -> Iterator[Part]:
        """The slots of a file after a position; a position is one that a part has named, or 0."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """How far a source of files is: its offset.

    Attributes:
        file: The name of the file.
        at: The position in it.
        last: Whether the file ends there.
        rank: How many files of the folder there were up to this one, in the order of their names.
    """

    file: str
    at: int
    last: bool
    rank: int

    def text(self) -> str:
        """As an offset."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def of(cls, offset: str) -> "Place":
        """From an offset.

        >>> Place.of(Place(file="a.csv", at=70, last=False, rank=1).text())
        Place(file='a.csv', at=70, last=False, rank=1)
        """
        try:
            place = cls(**json.loads(offset))
            whole("at", place.at, least=0)
        except (TypeError, ValueError) as error:
            raise SourceError("the offset is not one of a file or folder") from error
        return place


@dataclass(frozen=True, kw_only=True)
class Files:
    """The records of a file, or of all files of a folder in the order of their names.

    A file of a folder is taken as soon as its name appears and is never looked at again: write it
    under another name (one that starts with a dot, or with another ending) and rename it. Names
    must grow: one that appears before the name that is being read is refused. What has been taken
    may be deleted.

    Args:
        name: What the offset is kept under.
        path: A file or a folder.
        format: How a file is read.
        follow: For a folder that gets new files, or a file of lines that gets new lines.
    """

    name: str
    path: Path
    format: Format
    follow: Follow | None = None

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """See `Source`."""
        try:
            yield from self._batches(offset)
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else "it is damaged"
            raise SourceError(f"{error.filename or self.path} cannot be read: {reason}") from error

    def _batches(self, offset: str | None) -> Iterator[RawBatch]:
        place = None if offset is None else Place.of(offset)
        if self.path.is_dir():
            yield from self._folder(place)
        elif place is not None and place.file != self.path.name:
            raise SourceError(f"{self.path} is not the file {place.file} that was read before")
        else:
            # The end of a file says nothing about what may have been added since.
            resumed = None if place is None else Place(**{**asdict(place), "last": False})
            yield from self._file(self.path, 1, resumed, self.follow)

    def _folder(self, place: Place | None) -> Iterator[RawBatch]:
        while True:
            names = self._names(place)
            if names:
                rank, name = names[0]
                start = place if place is not None and place.file == name else None
                yield from self._file(self.path / name, rank, start, None)
                place = Place(file=name, at=0, last=True, rank=rank)
            elif self.follow is None or not self.follow():
                return

    def _names(self, place: Place | None) -> list[tuple[int, str]]:
        """The names still to be read, with their rank in the folder."""
        names = sorted(
            path.name
            for path in self.path.iterdir()
            if path.name.endswith(self.format.suffix) and not path.name.startswith((".", "_"))
        )
        ranked = list(enumerate(names, start=1))
        if place is None:
            return ranked
        if sum(name <= place.file for name in names) > place.rank:
            raise SourceError(
                f"a file has appeared in {self.path} whose name comes before {place.file}, "
                "which was read already: rename it to come last"
            )
        if not place.last and place.file not in names:
            raise SourceError(
                f"{place.file} has gone from {self.path} before it was read to its end"
            )
        return [
            (rank, name)
            for rank, name in ranked
            if name > place.file or (name == place.file and not place.last)
        ]

    def _file(
        self, path: Path, rank: int, place: Place | None, follow: Follow | None
    ) -> Iterator[RawBatch]:
        for part in self.format.parts(path, 0 if place is None else place.at, follow):
            here = Place(file=path.name, at=part.at, last=part.last, rank=rank)
            yield RawBatch(
                X=part.X,
                y=part.y,
                offset=here.text(),
                arrived=part.arrived,
                reasons=part.reasons,
            )

"""The Store: all that the Gate keeps, and the promises it relies on."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, StoreError, refuse
from tidegate.features.rows import Rows
from tidegate.learn.records import Piece, Records, Slots
from tidegate.privacy import Line
from tidegate.release import Card, StoredRelease
from tidegate.schedule import Span

RESTORE = "restore it from a copy, see docs/store.md"
DAMAGED = f"is not what was written, by its checksum: {RESTORE}"

UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading may raise that finds something else than what was written."""


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Say in one line that something which was written by us cannot be read any more."""
    try:
        yield
    except InvalidValueError:  # it can be read, and says itself what is wrong
        raise
    except UNREADABLE as error:
        raise StoreError(f"{what} is damaged: {RESTORE}") from error


class NoStateError(StoreError):
    """There is no state where one was to be opened."""


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """A record that cannot be used: private, for the operator who may see the records."""

    slot: int  # in a Batch counted from its first record, in a Store from the stream's
    reason: str
    payload: str | None  # what arrived, as JSON text; None once the slot's records are forgotten


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Cleaned records on their way in.

    A `key` names a batch that its sender may send twice: the second time nothing is added.
    """

    stream: str
    records: Records  # every batch of a stream has the same kind of rows
    quarantine: tuple[Quarantined, ...] = ()  # those of them that cannot be used
    source: str | None = None  # where they came from, if it can be read again from an offset
    offset: str | None = None  # how far the source has been read with this batch
    key: str | None = None
    cut: int | None = None  # `forget` may cut the stream off at multiples of this many slots

    def __post_init__(self) -> None:
        if (self.source is None) != (self.offset is None):
            raise refuse("offset", "given if and only if there is a source", self.offset)
        slots = [bad.slot for bad in self.quarantine]
        if len(set(slots)) < len(slots) or not all(0 <= slot < self.records.n for slot in slots):
            raise refuse("quarantine", f"slots of the batch, from 0 to {self.records.n - 1}", slots)


@dataclass(frozen=True, kw_only=True, eq=False)
class Made:
    """A fit that has been carried out, on its way in; the store numbers the card of a release."""

    line: Line
    weights: NDArray[np.float64]
    card: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A release that was tried on a step which came after it: a line of the ledger of its own."""

    release: int
    share: Fraction  # what each record of the step has paid for it
    accuracy: float  # the part of the step's slots that it got right, plus noise
    deviation: float  # of that noise


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step that has been carried out, and how good the release before was on it, if bought."""

    stream: str
    span: Span
    evaluation: Evaluation | None


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A run of raw records that is still held."""

    stream: str
    span: Span
    size: int  # in bytes
    file: str | None  # None while they wait inside the database


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with the state."""

    where: str  # the file, the fit or the stream it is about
    what: str  # what is wrong, and what to do


def damage(where: str, what: str) -> Problem:
    """A problem that only a copy helps against."""
    return Problem(where, f"{what}: {RESTORE}")


def reported(where: str, problems: Iterator[Problem]) -> Iterator[Problem]:
    """Problems one by one; what can no longer be read on the way is the last of them."""
    try:
        with readable(where):
            yield from problems
    except StoreError as error:
        yield Problem(where, str(error))


class Store(Protocol):
    """Where the Gate keeps everything.

    A method that writes has made it durable when it returns. If it raises, or the process ends
    inside it, all of what it writes is there or nothing. What is read is what was written, or it
    raises StoreError. One thread may append while another does all the rest.
    """

    @property
    def database(self) -> str:
        """What `verify` calls the place of all that is no record."""

    def config(self) -> str:
        """The configuration that the state was made with, or given since."""

    def settings(self) -> str:
        """What shapes privacy, as it was when the state was made."""

    def reconfigure(self, config: str) -> None:
        """Keep another configuration; the caller sees to it that privacy does not depend on it."""

    def snapshot(self) -> AbstractContextManager[None]:
        """Within it all that is read is of one moment, whatever another process writes."""

    def form(self, stream: str) -> Rows | None:
        """No rows, but of the width, dtype and kind that all of a stream have; None before them."""

    def count(self, stream: str) -> int:
        """How many records of the stream are durable."""

    def offset(self, source: str) -> str | None:
        """How far a source has been read; None if never."""

    def sources(self) -> list[str]:
        """The names of all sources that have been read."""

    def append(self, batch: Batch) -> int:
        """Add records, their quarantine, the source's offset and the key; the new count."""

    def read(self, stream: str, span: Span, slots: Slots | None = None) -> Records:
        """The records of a span, or some of them: slots counted from its start, ascending."""

    def pieces(self, stream: str, span: Span, slots: Slots | None = None) -> Sequence[Piece]:
        """The same, in order, to be loaded piece by piece; a loading may raise StoreError."""

    def quarantine(self, stream: str) -> Iterator[Quarantined]:
        """The records that could not be used, in order: private."""

    def quarantined(self, stream: str) -> int:
        """How many records could not be used: private."""

    def done(self, stream: str) -> int:
        """The time up to which all due fits have been carried out."""

    def state(self) -> str | None:
        """What the last `publish` that had a state said it was."""

    def publish(
        self,
        stream: str,
        at: int,
        made: Sequence[Made],
        state: str | None = None,
        evaluation: Evaluation | None = None,
    ) -> list[StoredRelease]:
        """Charge a step's fits and evaluation, keep the models, release those to be; done = at.

        Models that are not released may be dropped once they are `superseded`.
        """

    def steps(self, after: int = 0) -> Iterator[Step]:
        """The steps that have been carried out, in the order of their arrival, after so many."""

    def releases(self, start: int = 0) -> Iterator[StoredRelease]:
        """The releases from a number on, in order."""

    def release(self, number: int) -> StoredRelease:
        """One release."""

    def newest(self) -> StoredRelease | None:
        """The newest release, None if there is none yet."""

    def published(self) -> Mapping[int, Mapping[str, str]]:
        """The digests of the files of each release that is published, by their names."""

    def unpublished(self) -> int:
        """The first release whose files are not known to be published."""

    def note_published(self, files: Mapping[int, Mapping[str, str]]) -> None:
        """Keep the digests of the files of some releases, in place of those known before."""

    def fit(self, number: int) -> NDArray[np.float64]:
        """The model of a fit that is released or not superseded, read-only and bit for bit."""

    def cards(self) -> Iterator[tuple[str, Card]]:
        """The card of every fit, released or not, in order, with the stream that was read."""

    def lines(self, stream: str | None = None, after: int = -1) -> Iterator[Line]:
        """What has been charged for fits to the records of a stream, or of all, after a fit."""

    def sweep(self) -> None:
        """Delete what a crash has left; once it is certain that nothing newer was ever kept."""

    def forget(self, stream: str, before: int) -> None:
        """Delete every segment that lies wholly before a slot."""

    def held(self) -> list[Segment]:
        """Which raw records are there."""

    def verify(self) -> Iterator[Problem]:
        """Read everything, and say what is wrong."""

    def close(self) -> None:
        """Let go of the state."""

"""The interface of the store, where a gate keeps everything, and the types it uses."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, StoreError, refuse
from tidegate.features.rows import Rows
from tidegate.gate.erasure import Erasure, Target
from tidegate.learn.moments import Moments
from tidegate.learn.persons import Admitted, Owned
from tidegate.learn.records import Owners, Piece, Records, Slots
from tidegate.learn.rules import RULES
from tidegate.learn.step_admission import STEPS_LISTED, StepAdmission
from tidegate.learn.survey import NO_PAIRS, Survey
from tidegate.privacy import Budget, Line
from tidegate.privacy.admission import Admission
from tidegate.privacy.budget import allowance_of
from tidegate.release import Card, StoredRelease
from tidegate.schedule import Span

RESTORE = "restore it from a copy, see docs/store.md"
DAMAGED = f"checksum mismatch; {RESTORE}"

UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that parsing damaged data can raise."""


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Report errors of parsing stored data as damage, in one line."""
    try:
        yield
    except InvalidValueError:  # parsed, and its own message is better
        raise
    except UNREADABLE as error:
        raise StoreError(f"{what} is damaged: {RESTORE}") from error


class NoStateError(StoreError):
    """The folder to open holds no state."""


class ErasedError(StoreError):
    """Records were erased while a step was trained; nothing of it is charged."""


@dataclass(frozen=True, kw_only=True)
class Quarantined:
    """A record that cannot be used. Private: only for operators who may see records."""

    slot: int  # counted from the start of the Batch; in a Store, of the stream
    reason: str
    payload: str | None  # what arrived, as JSON text; None if deleted or if nobody owns the slot


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Cleaned records to be added to a store.

    A `key` names a batch that its sender may send twice; the second one is ignored.
    """

    stream: str
    records: Records  # every batch of a stream has the same kind of rows
    quarantine: tuple[Quarantined, ...] = ()  # records that cannot be used
    source: str | None = None  # the name of their source, if it has offsets
    offset: str | None = None  # the source's offset after this batch
    key: str | None = None
    cut: int | None = None  # `forget` may cut the stream off at multiples of this many slots

    def __post_init__(self) -> None:
        if (self.source is None) != (self.offset is None):
            raise refuse("offset", "given together with source, or neither", self.offset)
        slots = [bad.slot for bad in self.quarantine]
        if len(set(slots)) < len(slots) or not all(0 <= slot < self.records.n for slot in slots):
            raise refuse("quarantine", f"distinct slots from 0 to {self.records.n - 1}", slots)


@dataclass(frozen=True, kw_only=True, eq=False)
class FitToStore:
    """A fit to be stored; the store adds the release number to its card."""

    line: Line
    weights: NDArray[np.float64]
    card: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The test of a release on the step after it, which is charged to that step's records."""

    release: int
    share: Fraction  # paid by each record of the step
    value: float  # the accuracy, or the mean absolute error of a target, plus noise
    deviation: float  # the standard deviation of that noise
    scores: Mapping[str, Any] | None = None  # noisy counts, as `Scores.as_json` gives them


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredSurvey:
    """The survey of a step, which is charged to that step's records."""

    share: Fraction  # paid by each record of the step
    cells: NDArray[np.float64]  # the noisy sums
    moments: NDArray[np.float64]  # the forgetting means after the step
    rules: int = RULES  # the public rules that sized its noise
    pairs: NDArray[np.float64] = field(default_factory=NO_PAIRS.copy)  # noisy sums of products
    mean_pairs: NDArray[np.float64] = field(default_factory=NO_PAIRS.copy)  # means of those

    @classmethod
    def of(cls, survey: Survey, moments: Moments, share: Fraction) -> Self:
        """A survey, and the means after it."""
        return cls(
            share=share,
            cells=survey.cells,
            moments=moments.cells,
            rules=survey.rules,
            pairs=survey.pairs,
            mean_pairs=moments.pairs,
        )

    def opened(self, *, slots: int, classes: int, budget: Budget, persons: bool) -> Survey:
        """The survey, given what the settings say about it."""
        return Survey(
            slots=slots,
            classes=classes,
            allowance=allowance_of(budget, self.share),
            cells=self.cells,
            persons=persons,
            rules=self.rules,
            pairs=self.pairs,
        )

    def means(self, classes: int) -> Moments:
        """The forgetting means after the step."""
        return Moments(classes=classes, cells=self.moments, pairs=self.mean_pairs)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step that has been carried out, with its evaluation and survey, if it has them."""

    stream: str
    span: Span
    evaluation: Evaluation | None
    survey_share: Fraction | None = None  # what each of its records paid for its survey

    @property
    def measured(self) -> list[Fraction]:
        """What each of its records paid for its survey and for the evaluation of a release."""
        evaluated = [] if self.evaluation is None else [self.evaluation.share]
        return evaluated if self.survey_share is None else [self.survey_share, *evaluated]


@dataclass(frozen=True, kw_only=True, eq=False)
class StoppedStep:
    """A step that stopped the state, before its settings were corrected."""

    settings: str  # the settings that affect privacy then, as JSON
    stream: str
    span: Span  # of records that are gone, and are not counted in the stream now
    survey: StoredSurvey


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Consecutive raw records that are still held."""

    stream: str
    span: Span
    size: int  # in bytes
    file: str | None  # None if they are in the database


@dataclass(frozen=True)
class Problem:
    """A problem that `verify` found."""

    where: str  # the file, fit or stream
    what: str  # what is wrong, and what to do


def damage(where: str, what: str) -> Problem:
    """A problem whose repair is to restore a copy."""
    return Problem(where, f"{what}: {RESTORE}")


def reported(where: str, problems: Iterator[Problem]) -> Iterator[Problem]:
    """Yield problems; end with one more if reading fails on the way."""
    try:
        with readable(where):
            yield from problems
    except StoreError as error:
        yield Problem(where, str(error))


class Store(Protocol):
    """Where the Gate keeps everything.

    When a method that writes returns, its data is durable. If it raises or the process dies in it,
    all of its data is stored or none. Reading returns what was written, or raises StoreError. One
    thread may append while another does everything else.
    """

    @property
    def folder(self) -> Path:
        """The folder of the state."""

    @property
    def database(self) -> str:
        """The name of the database in the output of `verify`."""

    def config(self) -> str:
        """The current configuration of the state, as JSON."""

    def settings(self) -> str:
        """The settings that affect privacy, as JSON; only `correct` changes them."""

    def reconfigure(self, config: str) -> None:
        """Store a new configuration; the caller checks that no privacy setting differs."""

    def correct(self, config: str, settings: str) -> None:
        """Replace the settings of a stopped state, and delete its records and their counts.

        Its only step becomes one of `stopped`; its sources keep their place. The caller checks that
        the state is stopped.
        """

    def stopped(self) -> list[StoppedStep]:
        """The steps that stopped the state before its settings were corrected, in order."""

    def snapshot(self) -> AbstractContextManager[None]:
        """A context in which all reads see one moment, whatever another process writes."""

    def owned(self, stream: str, span: Span) -> Owned | None:
        """See `RecordStore` in executor.py."""

    def admit(self, stream: str, step: Span, admission: Admission) -> Admitted:
        """Decide which slots of the next step count, from owners alone.

        Nothing is stored before `publish`. To ask again gives the same answer.
        """

    def person_key(self) -> str | None:
        """The check value of the key of persons; None if records are protected."""

    def person(self, owner: Owners) -> list[tuple[int, int]]:
        """The steps in which an owner, of shape (1, 2), is admitted, as ranges.

        Steps are counted over all streams; that of a stopped state counts as the first one too.
        """

    def admissions(self, newest: int = STEPS_LISTED) -> list[StepAdmission]:
        """How many records of the newest steps count, in order. It is private.

        Empty if records are protected. Steps of earlier versions do not say it.
        """

    def form(self, stream: str) -> Rows | None:
        """An empty array with the stream's width, dtype and kind; None before its first record."""

    def count(self, stream: str) -> int:
        """The number of durable records of a stream."""

    def offset(self, source: str) -> str | None:
        """The offset up to which a source has been read; None if never."""

    def sources(self) -> list[str]:
        """The names of all sources that have been read."""

    def append(self, batch: Batch) -> int:
        """Add records, their quarantine, the source's offset and the key; return the new count."""

    def read(self, stream: str, span: Span, slots: Slots | None = None) -> Records:
        """The records of a span, or only some slots: ascending, counted from its start."""

    def pieces(self, stream: str, span: Span, slots: Slots | None = None) -> Sequence[Piece]:
        """Like `read`, in pieces to be loaded one by one; loading may raise StoreError."""

    def quarantine(self, stream: str) -> Iterator[Quarantined]:
        """The records that cannot be used, in order. They are private."""

    def quarantined(self, stream: str) -> int:
        """The number of records that cannot be used. It is private."""

    def done(self, stream: str) -> int:
        """The record count up to which all due fits have been carried out."""

    def state(self) -> str | None:
        """The two-stream state of the last `publish`; None for one stream."""

    def publish(  # noqa: PLR0913 (one for each part of a step)
        self,
        stream: str,
        at: int,
        made: Sequence[FitToStore],
        state: str | None = None,
        evaluation: Evaluation | None = None,
        *,
        survey: StoredSurvey | None = None,
        admitted: Admitted | None = None,
        erasures: int | None = None,
    ) -> list[StoredRelease]:
        """Charge a step's survey, evaluation and fits, store the models; set done to `at`.

        If persons are protected, store the admission that `admit` has decided: `admitted`.

        Models that are not released may be dropped once they are `superseded`. If `erasures` is
        given and is not the number of erasures now, raise ErasedError.
        """

    def steps(self, after: int = 0) -> Iterator[Step]:
        """The steps carried out, in order, without the first `after`."""

    def newest_step(self) -> Step | None:
        """The step carried out last; None if there is none."""

    def survey(self, stream: str, at: int | None = None) -> StoredSurvey | None:
        """The survey of a step that ended at a record count; by default the newest one."""

    def releases(self, start: int = 0) -> Iterator[StoredRelease]:
        """The releases from number `start` on, in order."""

    def release(self, number: int) -> StoredRelease:
        """The release of a number."""

    def newest(self) -> StoredRelease | None:
        """The newest release; None if there is none yet."""

    def published(self) -> Mapping[int, Mapping[str, str]]:
        """For each published release, the digests of its files by their names."""

    def unpublished(self) -> int:
        """The number of the first release that is not recorded as published."""

    def note_published(self, files: Mapping[int, Mapping[str, str]]) -> None:
        """Store the digests of the files of some releases, replacing older ones."""

    def fit(self, number: int) -> NDArray[np.float64]:
        """The model of a fit, read-only and bit for bit. Superseded models may be gone."""

    def norm(self, number: int) -> float:
        """The norm of the model of a fit, also of one that is gone."""

    def card(self, number: int) -> Card:
        """The card of a fit, released or not."""

    def cards(self) -> Iterator[tuple[str, Card]]:
        """The stream and the card of every fit, released or not, in order."""

    def lines(self, stream: str | None = None, after: int = -1) -> Iterator[Line]:
        """The ledger lines of fits after number `after`, of one stream or of all."""

    def sweep(self) -> None:
        """Delete what a crash left behind; only if this database is known to be the newest."""

    def forget(self, stream: str, before: int) -> None:
        """Delete all segments that lie entirely before a slot."""

    def erase(
        self,
        targets: Sequence[Target],
        *,
        time: datetime,
        end_fits: Callable[[], object] | None = None,
    ) -> list[Erasure]:
        """Destroy what is held of records or persons; the slots stay, as unusable ones.

        Args:
            targets: What to erase, in one transaction.
            time: The time for the lines.
            end_fits: Called once no new reader can find the old content, before it is destroyed;
                returns when no fit reads it.

        Returns:
            An erasure for each target, in the same order.
        """

    def erasures(self) -> int:
        """The number of erasures so far."""

    def erased(self) -> list[Erasure]:
        """All erasures, in order."""

    def held(self) -> list[Segment]:
        """The segments of raw records that are still held."""

    def verify(self) -> Iterator[Problem]:
        """Read everything and report what is wrong."""

    def verify_persons(self, admission: Admission | None) -> Iterator[Problem]:
        """Report what is wrong with the ledger of persons, whose admissions this decides."""

    def close(self) -> None:
        """Close the state."""

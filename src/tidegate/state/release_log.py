"""The release log: the charges and models of each step, and the hash chain of releases."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, takewhile

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import StoreError, json_of
from tidegate.learn.slot_weights import EVERY_RECORD, Counted
from tidegate.privacy import Ledger, Line
from tidegate.release.card import FIRST, Card, StoredRelease, canonical
from tidegate.schedule import RecordFit, Span
from tidegate.schedule.fit import superseded
from tidegate.state.damage import RESTORE, after, readable
from tidegate.state.erasure import after_erasures, place_of
from tidegate.state.person_log import PersonLog
from tidegate.state.state_database import StateDatabase
from tidegate.state.stopped import beginning
from tidegate.state.store import (
    FIT,
    STEP,
    ErasedError,
    Evaluation,
    FitToStore,
    PlannedWeights,
    Step,
    StoredSurvey,
    covered,
    drop,
    fit_row,
    line_of,
    paid_of,
    sha256_of,
    step_of,
    survey_columns,
    survey_of,
    weights_of,
)

MAX_FITS_PER_STEP = 64
"""More than a step has: one for each level of a schedule, and a base."""

PAID = "stream, start, stop, survey_share, release, share, accuracy, deviation, scores"
"""The columns of a step that say what its records paid for."""


class ReleaseLog:
    """The steps carried out so far, with their fits, charges, evaluations and releases."""

    def __init__(self, state: StateDatabase) -> None:
        self._state, self._db = state, state.db
        self.planned = PlannedWeights(state.db)
        self._persons = PersonLog(state)
        self._ledgers: dict[str, Ledger] = {}  # for streams charged since the state was opened

    def done(self, stream: str) -> int:
        """The record count up to which all due fits have been carried out."""
        return self._state.of_stream(stream).done

    def state(self) -> str | None:
        """The two-stream state of the last `publish`; None for one stream."""
        return self._state.head.arrived

    def publish(  # noqa: PLR0913 (one for each part of a step)
        self,
        stream: str,
        at: int,
        made: Sequence[FitToStore],
        state: str | None = None,
        evaluation: Evaluation | None = None,
        *,
        survey: StoredSurvey | None = None,
        counted: Counted = EVERY_RECORD,
        erasures: int | None = None,
    ) -> list[StoredRelease]:
        """Charge a step's survey, evaluation and fits, store the models; set done to `at`.

        If persons are protected, store the admission that `admit` has decided: `counted`. Models
        that are not released are dropped once they are `superseded`. If `erasures` is given and is
        not the number of erasures now, raise ErasedError.
        """
        row = self._state.of_stream(stream)
        done, count = row.done, row.records
        if not done < at <= count:
            raise StoreError(
                f"cannot publish {stream} at {at}: it must be above {done} and at most {count}"
            )
        numbers = [self._state.totals.newest_fit]
        numbers += [one.line.fit.number for one in made]
        if any(before >= after for before, after in pairwise(numbers)):
            raise StoreError(f"fit numbers must increase, after {numbers[0]}, got {numbers[1:]}")
        try:
            with self._state.transaction("publish"):
                self._check_nothing_erased(erasures)
                span = Span(done, at)
                step = Step(
                    stream=stream,
                    span=span,
                    evaluation=evaluation,
                    survey_share=None if survey is None else survey.share,
                )
                persons = counted.stored(partial(self._persons.store, stream, span))
                self._charge(step, made)
                self._drop_superseded(stream, [one.line.fit for one in made])
                number = self._state.totals.steps + 1
                first, history = self._insert_fits(stream, made)
                self._insert_step(number, step, survey, persons, history)
                self._state.set_stream(stream, self._state.of_stream(stream)._replace(done=at))
                head = self._state.head
                self._state.head = head._replace(arrived=state or head.arrived)
        except BaseException:
            self._ledgers.clear()  # they may contain charges that were rolled back
            self._persons.reset()
            raise
        self._persons.stored()
        return list(self.releases(first))

    def erasures(self) -> int:
        """The number of erasures so far."""
        return self._state.totals.erasures

    def _check_nothing_erased(self, before: int | None) -> None:
        """Refuse a step whose records may have been erased since it began."""
        if before not in {None, self.erasures()}:
            raise ErasedError("records were erased while this step was trained: train it again")

    def _charge(self, step: Step, made: Sequence[FitToStore]) -> None:
        """Within a transaction, charge a step; refuse to take a record above its budget.

        The ledger is computed from the database, whatever the plan says. `publish` discards it if
        the transaction is rolled back.
        """
        if step.stream not in self._ledgers:
            self._ledgers[step.stream] = self._charged_so_far(step.stream)
        ledger = self._ledgers[step.stream]
        for one in made:
            ledger.post(one.line)
        for share in step.measured:
            ledger.charge(step.span, share)

    def _charged_so_far(self, stream: str) -> Ledger:
        ledger = Ledger()
        for line in self.lines(stream):
            ledger.post(line)
        for step in self.steps():
            if step.stream == stream:
                for share in step.measured:
                    ledger.charge(step.span, share)
        return ledger

    def _settle(self, stream: str, before: int) -> None:
        """Drop the charges of earlier records from memory; those are not charged again."""
        if stream in self._ledgers:
            self._ledgers[stream].forget(before)

    def _insert_fits(self, stream: str, made: Sequence[FitToStore]) -> tuple[int, str]:
        """Add the fits of a step; return the number of the first release and the new history."""
        newest = self.newest()  # raises if it is damaged: the next hash covers it
        first, previous = (newest.number + 1, newest.hash) if newest else (0, FIRST)
        number = first
        history, rows = self._history(), []
        for one in made:
            row = list(fit_row(stream, one, previous, number, history))
            if one.line.fit.released:
                number, previous = number + 1, row[-1]
            history = after(history, [*row[:6], *row[7:]])
            for text in (2, 4):  # the fit and its card
                row[text] = self.planned.left_out(row[text])
            rows.append(row)
        self._state.insert("fits", rows)
        return first, history

    def _history(self) -> str:
        """The digest of all steps so far; refused if the newest step does not lead to it."""
        place = place_of(self._state)
        steps = f"SELECT {STEP}, history FROM steps ORDER BY number DESC LIMIT 2"  # noqa: S608
        rows = self._db.execute(steps).fetchall() if place.steps else []
        if not rows:
            return after_erasures(self._state, beginning(self._state), place)
        (*step, kept), *earlier = rows
        history = str(earlier[0][-1]) if earlier else beginning(self._state)
        history = after_erasures(self._state, history, place._replace(steps=place.steps - 1))
        fits = f"SELECT {FIT} FROM fits ORDER BY number DESC LIMIT {MAX_FITS_PER_STEP}"  # noqa: S608
        texts = self.planned
        newest = takewhile(
            lambda row: (row[1], texts.fields(row[2])["at"]) == (step[1], step[3]),
            self._db.execute(fits).fetchall(),
        )
        for row in reversed(list(newest)):
            fit, card = texts.written_out(row[2]), texts.written_out(row[4])
            history = after(history, [*row[:2], fit, row[3], card, *row[5:]])
        if after(history, covered(step)) != kept:
            raise StoreError(f"step {step[0]}: hash mismatch in the step or its fits; {RESTORE}")
        return after_erasures(self._state, str(kept), place)

    def _drop_superseded(self, stream: str, due: Sequence[RecordFit]) -> None:
        """Within a transaction, delete models that no fit needs after the ones that are due."""
        held = "stream = ? AND release IS NULL AND length(weights) > 0"
        rows = self._db.execute(f"SELECT fit, share FROM fits WHERE {held}", (stream,)).fetchall()  # noqa: S608
        gone = superseded(
            [line_of(self.planned.fields(fit), share).fit for fit, share in rows], due
        )
        self._state.sums.add("dropped", drop(self._db, gone))

    def _insert_step(
        self,
        number: int,
        step: Step,
        survey: StoredSurvey | None,
        persons: str | None,
        history: str,
    ) -> None:
        sources = canonical(self._settle_arrivals(step.stream, step.span.stop))
        *paid, scores = paid_of(step.evaluation)
        measured = (scores, *survey_columns(survey))
        row = (number, step.stream, *step.span, *paid, sources, *measured, persons)
        step_row = (*row, after(history, covered(row)))
        self._state.insert("steps", [step_row], f"({STEP}, history)")

    def _settle_arrivals(self, stream: str, stop: int) -> list[tuple[str | None, int]]:
        """Delete the arrivals of a step; return the number of records from each source."""
        rows = self._state.delete("arrivals", "stream = ? AND start < ?", stream, stop)
        later = [(stream, stop, end, source) for _, _, end, source in rows if end > stop]
        self._state.insert("arrivals", later)
        return [(source, min(end, stop) - start) for _, start, end, source in sorted(rows)]

    def steps(self, after: int = 0) -> Iterator[Step]:
        """The steps carried out, in order, without the first `after`."""
        if after >= self._state.totals.steps:
            return
        query = f"SELECT {PAID} FROM steps WHERE number > ? ORDER BY number"  # noqa: S608
        with self._state.explained():
            for row in self._db.execute(query, (after,)):
                yield step_of(*row)

    def newest_step(self) -> Step | None:
        """The step carried out last; None if there is none."""
        if not self._state.totals.steps:
            return None
        newest = f"SELECT {PAID} FROM steps ORDER BY number DESC LIMIT 1"  # noqa: S608
        return step_of(*self._state.fact(newest))

    def survey(self, stream: str, at: int | None = None) -> StoredSurvey | None:
        """The survey of a step that ended at a record count; by default the newest one."""
        if not self._state.totals.steps:
            return None
        where, values = ("", (stream,)) if at is None else ("AND stop = ?", (stream, at))
        row = self._state.one(
            f"SELECT survey_share, survey FROM steps WHERE stream = ? {where} "  # noqa: S608
            "ORDER BY number DESC LIMIT 1",
            *values,
        )
        return None if row is None or row[0] is None else survey_of(*row)

    def releases(self, start: int = 0) -> Iterator[StoredRelease]:
        """The releases from number `start` on, in order."""
        number = start
        while number < self._state.totals.releases:
            yield self.release(number)
            number += 1

    def release(self, number: int) -> StoredRelease:
        """The release of a number."""
        columns = "card, shape, weights, previous, hash"
        row = self._state.one(f"SELECT {columns} FROM fits WHERE release = ?", number)  # noqa: S608
        if row is None:
            raise StoreError(f"there is no release {number}: list them with tidegate releases")
        card, shape, data, previous, stored_hash = row
        with readable(f"release {number}"):
            release = StoredRelease(
                card=self.planned.fields(card),
                weights=weights_of(shape, data),
                previous=previous,
                hash=stored_hash,
            )
            same = release.intact and release.number == number
        if not same:
            raise StoreError(f"release {number}: hash mismatch; {RESTORE}")
        return release

    def published(self) -> dict[int, dict[str, str]]:
        """For each published release, the digests of its files by their names."""
        with readable("the list of published files in the database"):
            return {
                number: json_of(files) for number, files in self._state.rows("published", "1 = 1")
            }

    def unpublished(self) -> int:
        """The number of the first release that is not recorded as published."""
        return int(self._state.one("SELECT coalesce(max(release), -1) + 1 FROM published")[0])

    def note_published(self, files: Mapping[int, Mapping[str, str]]) -> None:
        """Store the digests of the files of some releases, replacing older ones."""
        with self._state.transaction("published"):
            for number, names in files.items():
                self._state.delete("published", "release = ?", number)
                self._state.insert("published", [(number, canonical(dict(names)))])

    def newest(self) -> StoredRelease | None:
        """The newest release; None if there is none yet."""
        made = self._state.totals.releases
        return self.release(made - 1) if made else None

    def fit(self, number: int) -> NDArray[np.float64]:
        """The model of a fit, read-only and bit for bit. Superseded models may be gone."""
        row = self._state.one("SELECT shape, weights, digest FROM fits WHERE number = ?", number)
        if row is None:
            raise StoreError(f"there is no fit {number}: it has not been carried out")
        if not row[1]:
            dropped = f"the model of fit {number} is not kept"
            raise StoreError(f"{dropped}; if tidegate verify reports this, {RESTORE}")
        weights = weights_of(*row[:2])
        if sha256_of(weights) != row[2]:
            raise StoreError(f"the model of fit {number}: hash mismatch; {RESTORE}")
        return weights

    def norm(self, number: int) -> float:
        """The norm of the model of a fit, also of one that is gone."""
        row = self._state.one("SELECT norm FROM dropped WHERE number = ?", number)
        if row is None:
            return float(np.linalg.norm(self.fit(number)))
        with readable(f"the norm of fit {number}"):
            if not 0 <= (norm := float(row[0])) < math.inf:
                raise ValueError(norm)
            return norm

    def card(self, number: int) -> Card:
        """The card of a fit, released or not."""
        row = self._state.one("SELECT card FROM fits WHERE number = ?", number)
        if row is None:
            raise StoreError(f"fit {number} is missing: {RESTORE}")
        with readable(f"the card of fit {number}"):
            return self.planned.fields(row[0])

    def cards(self) -> Iterator[tuple[str, Card]]:
        """The stream and the card of every fit, released or not, in order."""
        with self._state.explained():
            for number, stream, card in self._db.execute(
                "SELECT number, stream, card FROM fits ORDER BY number"
            ):
                with readable(f"the card of fit {number}"):
                    yield stream, self.planned.fields(card)

    def lines(self, stream: str | None = None, after: int = -1) -> Iterator[Line]:
        """The ledger lines of fits after number `after`, of one stream or of all."""
        if after >= self._state.totals.newest_fit:
            return
        of, values = ("", (after,)) if stream is None else ("AND stream = ?", (after, stream))
        query = f"SELECT fit, share FROM fits WHERE number > ? {of} ORDER BY number"  # noqa: S608
        with self._state.explained():
            for fit, share in self._db.execute(query, values):
                yield line_of(self.planned.fields(fit), share)

"""States that stopped before their first fit, and how their settings are corrected.

A state is stopped if the survey of its newest step stops its stream (`learn.preparation`), which
can only be a first step. This follows from the stored noisy survey and the settings alone.

A correction moves the step to the table `stopped` with the settings that it ran under, so that what
it paid stays, and the history goes on from there. All records are deleted, so no later fit can read
a record that has paid.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tidegate.checks import InvalidValueError, StoreError
from tidegate.learn.preparation import deviation, stopped_because, stops, whose
from tidegate.learn.survey import Survey
from tidegate.privacy.budget import down
from tidegate.run.config.config import Config
from tidegate.run.config.keys import ConfigError
from tidegate.run.config.texts import differences
from tidegate.schedule import Span, TwoStream
from tidegate.schedule.progress import ONLY
from tidegate.state.damage import BEGINNING, COLUMNS, UNREADABLE, Problem, after, damage, readable
from tidegate.state.database import Database
from tidegate.state.erasure import Erasures, Position, after_erasures, place_of
from tidegate.state.state_database import StateDatabase
from tidegate.state.store import SOURCES, STEP, StoppedStep, Store, StoredSurvey, covered, survey_of

CORRECT = (
    "check [records] columns, label, classes or target and norm with tidegate check CONFIG FILE, "
    "then run again with the corrected settings; see docs/how-to/correct-a-stopped-run.md"
)

NOBODYS = (
    "check person.id with tidegate check CONFIG FILE, then start a new state; see "
    "docs/how-to/correct-a-stopped-run.md"
)

FIXED = "settings that affect privacy are fixed when a state is created"
ADVICE = "set them back, or start a new state, where records pay again"

UNCORRECTABLE = ("budget.", "survey.", "person.", "not_private_seed:")
"""The settings that a correction must keep: what the stopped step paid for depends on them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Stop:
    """The first step of a stream, whose survey stopped the stream. All of it is public."""

    stream: str
    span: Span
    share: Fraction  # paid by each record of the step
    survey: Survey

    @property
    def line(self) -> str:
        """Why the stream stopped."""
        return stopped_because(self.survey, self.share, whose(self.stream))

    @property
    def message(self) -> str:
        """Why the stream stopped, and what to do, in one line."""
        return f"{self.line}: {CORRECT}"

    def row(self) -> dict[str, Any]:
        """The stop as fields of a status."""
        return {
            "stream": self.stream,
            "records": self.span.size,
            "unusable": self.survey.unusable_share,
            "deviation": deviation(self.survey),
            "paid": down(self.share),
            "message": self.message,
        }


def stop_of(config: Config, stream: str, span: Span, stored: StoredSurvey) -> Stop | None:
    """What the survey of a step says under some settings; None if the stream goes on."""
    if span.start:
        return None
    survey = stored.opened(
        slots=span.size,
        classes=config.settings.task.groups,
        budget=config.settings.plan.budget,
        persons=config.settings.plan.protects.persons,
    )
    stop = Stop(stream=stream, span=span, share=stored.share, survey=survey)
    return stop if stops(survey) else None


def stop_in(store: Store, config: Config) -> Stop | None:
    """Why a state is stopped; None if it is not."""
    step = store.newest_step()
    if step is None or step.span.start or step.survey_share is None:
        return None
    stored = store.survey(step.stream, step.span.stop)
    return None if stored is None else stop_of(config, step.stream, step.span, stored)


def corrected(store: Store, before: Config, after: Config) -> list[Stop]:
    """The stop that new settings correct, if they do; refuse a change that is not allowed."""
    changed = differences(before.privacy_json(), after.privacy_json())
    if not changed:
        return []
    stop = stop_in(store, before)
    if stop is None:
        raise ConfigError([f"{FIXED}: {'; '.join(changed)}; {ADVICE}"])
    if sum(1 for _ in store.steps()) > 1:
        steps = "this state stopped after another stream had completed steps"
        raise ConfigError([f"{steps}, so its settings cannot be corrected: start a new state"])
    if kept := [each for each in changed if each.startswith(UNCORRECTABLE)]:
        sections = "[budget], [survey], [person] and not_private_seed"
        only = f"a correction of a stopped state must keep {sections}"
        raise ConfigError([f"{only}: {'; '.join(kept)}; set them back"])
    if _streams(before) != _streams(after):
        raise ConfigError(["a correction of a stopped state must keep its number of streams"])
    return [stop]


def _streams(config: Config) -> bool:
    return isinstance(config.schedule.build(), TwoStream)


def corrected_note(stop: Stop, later: int) -> str:
    """What a correction did, for the operator; `later` records came after the stopped step."""
    note = (
        f"settings corrected; the {stop.span.size:,} records of the stopped step keep their charge "
        "and were deleted: do not send them again, they would pay again"
    )
    if not later:
        return note
    return f"{note}. {later:,} records that came later were deleted uncharged: send them again"


def problems(store: Store, config: Config) -> Iterator[Problem]:
    """Check that each stopped step had to stop, and paid what its settings say."""
    for number, stopped in enumerate(store.stopped(), 1):
        where = f"stopped step {number}"
        try:
            yield from _problems_of(stopped, config, where)
        except (InvalidValueError, StoreError, *UNREADABLE):
            yield damage(where, "it cannot be recomputed")


def _problems_of(stopped: StoppedStep, config: Config, where: str) -> Iterator[Problem]:
    settings = Config.from_json(stopped.settings)
    changed = differences(settings.privacy_json(), config.privacy_json())
    if kept := [each for each in changed if each.startswith(UNCORRECTABLE)]:
        yield damage(where, f"no correction may change these settings: {'; '.join(kept)}")
    share, planned = stopped.survey.share, settings.plan().survey
    if share != planned:
        yield damage(where, f"its survey cost {share}, but the plan says {planned}")
    schedule = settings.schedule.build()
    steps = schedule.steps if isinstance(schedule, TwoStream) else {ONLY: schedule.steps}
    if stopped.span != Span(0, steps[stopped.stream].size):
        yield damage(where, f"its records are {stopped.span}, which is not a first step")
    if stop_of(settings, stopped.stream, stopped.span, stopped.survey) is None:
        yield damage(where, "its survey does not stop a stream: its charge was set aside")


Row = Sequence[Any]


def correct(state: StateDatabase, config: str, settings: str) -> None:
    """Replace the settings of a stopped state, in one transaction.

    Its only step moves to the table `stopped`. Records, quarantine and counts of records are
    deleted; sources keep their place. Files of segments are left to `sweep`.
    """
    with state.transaction("correct"):
        steps = state.db.execute(f"SELECT {STEP}, history FROM steps").fetchall()  # noqa: S608
        if len(steps) != 1 or state.one("SELECT count(*) FROM fits")[0]:
            raise StoreError(
                f"{state.folder} has steps besides the stopped one: start a new state instead"
            )
        state.insert("stopped", [_stopped_row(state, steps[0])])
        state.clear("steps")
        _delete_records(state)
        # count the records of each source from 0 again; the source goes on from where it was
        state.update("offsets", "1 = 1", records=0)
        state.clear("streams")
        state.head = state.head._replace(config=config, settings=settings, arrived=None, streams=())


def _stopped_row(state: StateDatabase, step: Row) -> Row:
    number = state.one("SELECT coalesce(max(number), 0) + 1 FROM stopped")[0]
    _, stream, start, stop = step[:4]
    survey_share, survey, persons, history = step[-4:]
    if survey_share is None:
        raise StoreError(f"{state.folder} has no survey: only a stopped state can be corrected")
    settings = state.head.settings
    row = (number, settings, stream, start, stop, step[SOURCES], survey_share, survey)
    history = after_erasures(state, history, place_of(state))
    return (*row, after(history, [settings]), persons)


def _delete_records(state: StateDatabase) -> None:
    """Delete all records. Texts are overwritten first, as `forget` does: SQLite moves rows.

    The ledger of persons stays: who was admitted in the stopped step has paid for its survey.
    """
    state.update("quarantine", "payload IS NOT NULL", payload=None)
    for table in ("quarantine", "segments", "arrivals", "admitted"):
        state.delete(table, "1 = 1")


def rows_of(database: Database) -> list[Row]:
    """The rows of all stopped steps, in order."""
    query = f"SELECT {COLUMNS['stopped']} FROM stopped ORDER BY number"  # noqa: S608
    rows: list[Row] = database.execute(query).fetchall()
    return rows


def beginning(state: StateDatabase) -> str:
    """The digest of the history before the first step that is not in the table `stopped`."""
    if not state.totals.stopped:
        return BEGINNING
    return str(state.one("SELECT history FROM stopped ORDER BY number DESC LIMIT 1")[0])


def stopped_of(row: Row) -> StoppedStep:
    """A stopped step, from its row."""
    _, settings, stream, start, stop, _, share, survey, *_ = row
    with readable("a stopped step in the database"):
        return StoppedStep(
            settings=settings,
            stream=stream,
            span=Span(start, stop),
            survey=survey_of(share, survey),
        )


def history_problems(database: Database, erasures: Erasures) -> Iterator[Problem]:
    """Check stopped steps and their settings against the history."""
    history = BEGINNING
    for place, row in enumerate(rows_of(database), 1):
        number, settings, stream, start, stop, sources, share, survey, kept, persons = row
        step = (1, stream, start, stop, *[None] * 4, sources, None, share, survey, persons)
        history = erasures.after(history, Position(place - 1, 0))
        history = erasures.after(after(history, covered(step)), Position(place - 1, 1))
        history = after(history, [settings])
        if history != kept or number != place:
            yield damage(f"stopped step {number}", "hash mismatch in the step or its settings")
            history = kept  # report each wrong step once

"""What goes into the store of a gate and comes out of it, and the rows that fits and steps become.

A fit of a growing stream has a weight for every block so far. Storing them all would take space
quadratic in the number of fits, so the JSON of a fit and of its card says "planned" instead.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import Later, StoreError, check_numbers, exact, json_of, refuse
from tidegate.data.records import Records
from tidegate.learn.preparation import Moments
from tidegate.learn.rules import RULES, rules_of
from tidegate.learn.survey import NO_PAIRS, Survey
from tidegate.privacy import Budget, Line
from tidegate.privacy.budget import allowance_of
from tidegate.release.card import canonical, seal
from tidegate.schedule import RecordFit, SlotWeight, Span
from tidegate.schedule.plan import Plan, TwoStreamPlan
from tidegate.state.damage import HISTORY, UNREADABLE, readable
from tidegate.state.database import Database

if TYPE_CHECKING:
    from tidegate.state.folder_store import FolderStore


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
    def surveyed(self) -> list[Fraction]:
        """What each of its records paid for its survey, if it has one."""
        return [] if self.survey_share is None else [self.survey_share]

    @property
    def evaluated(self) -> list[Evaluation]:
        """Its evaluation, if it has one."""
        return [] if self.evaluation is None else [self.evaluation]

    @property
    def measured(self) -> list[Fraction]:
        """What each of its records paid for its survey and for the evaluation of a release."""
        return [*self.surveyed, *(each.share for each in self.evaluated)]


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


Store: TypeAlias = "FolderStore"
"""Where the Gate keeps everything."""


Row = Sequence[Any]
FIT = "number, stream, fit, share, card, shape, digest, release, previous, hash"
"""The columns of a fit that the history covers; `digest` is that of its weights."""

OLD_STEP = "number, stream, start, stop, release, share, accuracy, deviation, sources"
"""The columns of a step before layout 5."""

STEP = f"{OLD_STEP}, scores, survey_share, survey, persons"
"""The columns of a step that the history covers; see `covered`."""

SOURCES = 8
"""The place of the sources among the columns `STEP`."""


def covered(step: Row) -> Row:
    """The values of the columns `STEP` that the history covers: all, or those before layout 5 or 6.

    So the history of a step from an older layout stays what it was.
    """
    old, (*measured, persons) = step[: SOURCES + 1], step[SOURCES + 1 :]
    if persons is not None:
        return step
    return old if all(value is None for value in measured) else [*old, *measured]


def fit_row(
    stream: str, made: FitToStore, previous: str, number: int, history: str
) -> tuple[Any, ...]:
    """The row of a fit. Its last columns are release number, previous hash and hash, or None.

    Args:
        stream: The stream that the fit read.
        made: The fit.
        previous: The hash of the newest release.
        number: The number of the next release.
        history: The digest of the history before the fit; its card contains it.
    """
    (fit, share), weights = made.line, np.ascontiguousarray(made.weights, "<f8")
    card = {**made.card, HISTORY: history}
    place: tuple[int | None, str | None, str | None] = (None, None, None)
    if fit.released:
        card["release"] = number
        place = (number, previous, seal(card, weights, previous).hash)
    fields = {name: value for name, value in fit._asdict().items() if name != "slot_weights"}
    if fit.slot_weights:
        fields["emphasis"] = [(span, str(part)) for span, part in fit.slot_weights]
    if fit.power == RecordFit._field_defaults["power"]:
        del fields["power"]
    line = (fit.number, stream, canonical(fields), str(share))
    model = (json.dumps(weights.shape), weights.tobytes(), sha256_of(weights))
    return (*line, canonical(card), *model, *place)


NO_NUMBERS = {"span", "role", "stream", "released"}
"""The fields of a fit that are no whole numbers."""


@readable("a charge in the database")
def line_of(fields: Mapping[str, Any], share: str) -> Line:
    """The ledger line of a fit, from its stored fields and its share."""
    weights = (SlotWeight(Span(*span), exact(part)) for span, part in fields.get("emphasis", ()))
    others = {name: value for name, value in fields.items() if name != "emphasis"}
    check_numbers([*fields["span"], *(others[name] for name in others if name not in NO_NUMBERS)])
    fit = {**others, "span": Span(*fields["span"]), "slot_weights": tuple(weights)}
    if type(fields.get("power", 2)) is not int:  # a float would turn charges into floats
        raise ValueError(fields["power"])
    return Line(RecordFit(**fit), exact(share))


@readable("a model in the database")
def weights_of(shape: str, data: bytes) -> NDArray[np.float64]:
    """The weights of a row, as a read-only view of its bytes."""
    return np.frombuffer(data, "<f8").reshape(json_of(shape))


def drop(database: Database, numbers: Iterable[int]) -> list[tuple[int, float]]:
    """Within a transaction, delete the models of some fits and keep their norms.

    A damaged model stays, so that `verify` reports it.

    Returns:
        The rows added to the table `dropped`: numbers and norms.
    """
    query = "SELECT shape, weights, digest FROM fits WHERE number = ?"
    gone = []
    for number in numbers:
        shape, data, digest = database.execute(query, (number,)).fetchone()
        if hashlib.sha256(data).hexdigest() == digest:
            gone.append((number, float(np.linalg.norm(weights_of(shape, data)))))
    database.executemany("INSERT INTO dropped VALUES (?, ?)", gone)
    database.executemany(
        "UPDATE fits SET weights = ? WHERE number = ?", [(b"", n) for n, _ in gone]
    )
    return gone


def sha256_of(weights: NDArray[np.float64]) -> str:
    """The SHA-256 of a model's weights."""
    return hashlib.sha256(weights.tobytes()).hexdigest()


def _text(values: NDArray[np.float64]) -> str:
    """An array as text: base64 of little-endian float64."""
    return b64encode(np.ascontiguousarray(values, "<f8").tobytes()).decode("ascii")


ARRAYS = ("cells", "moments", "pairs", "mean_pairs")
"""The arrays of a survey in the database."""


def survey_columns(survey: StoredSurvey | None) -> tuple[str | None, str | None]:
    """The columns survey_share and survey of a step's row."""
    if survey is None:
        return None, None
    arrays = {
        name: _text(values)
        for name in ARRAYS
        if (values := getattr(survey, name)).size  # a survey need not have pairs
    }
    return str(survey.share), canonical({**arrays, "rules": survey.rules})


@readable("a survey in the database")
def survey_of(share: str, text: str) -> StoredSurvey:
    """A survey, from the columns that `survey_columns` made."""
    stored = json_of(text)
    rules = rules_of(stored)
    arrays = {
        name: np.frombuffer(b64decode(each, validate=True), "<f8")
        for name, each in stored.items()
        if name != "rules"
    }
    if not {*arrays} <= {*ARRAYS}:
        raise ValueError("a survey with arrays of other names")
    return StoredSurvey(share=exact(share), rules=rules, **arrays)


def paid_of(evaluation: Evaluation | None) -> tuple[Any, ...]:
    """Release, share, value, deviation and scores: the evaluation columns of a step's row."""
    if evaluation is None:
        return (None,) * 5
    value, deviation, scores = evaluation.value, evaluation.deviation, evaluation.scores
    text = None if scores is None else canonical(dict(scores))
    return evaluation.release, str(evaluation.share), value, deviation, text


@readable("an evaluation in the database")
def step_of(stream: str, start: int, stop: int, surveyed: str | None, *paid: Any) -> Step:
    """A step, from its span, the share of its survey, and its evaluation and scores."""
    evaluation = None
    if paid[0] is not None:
        release, share, value, deviation, scores = paid
        evaluation = Evaluation(
            release=release,
            share=exact(share),
            value=value,
            deviation=deviation,
            scores=None if scores is None else json_of(scores),
        )
    survey_share = None if surveyed is None else exact(surveyed)
    span = Span(start, stop)
    return Step(stream=stream, span=span, evaluation=evaluation, survey_share=survey_share)


KEY, PLANNED = "emphasis", "planned"
SHORT, LONG = f'"{KEY}":"{PLANNED}"', f'"{KEY}":[['


configurations = Later("tidegate.run.config.config")
"""Not needed where the plan is known."""


class PlannedWeights:
    """Computes slot weights from the plan in the settings of a state."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest: tuple[int, Sequence[SlotWeight]] = (-1, ())  # a cache of the last fit

    @cached_property
    def plan(self) -> Plan | TwoStreamPlan:
        """The plan; whoever knows it sets it, so that the settings are not read again."""
        (settings,) = self._database.execute("SELECT settings FROM state").fetchone()
        plan: Plan | TwoStreamPlan = configurations.Config.from_json(settings).plan()
        return plan

    @readable("a fit or its card in the database")
    def fields(self, text: str) -> dict[str, Any]:
        """Parse the JSON of a fit or of its card, with slot weights."""
        fields: dict[str, Any] = json_of(text)
        if SHORT not in text:
            return fields
        if canonical(fields) != text:  # an edit that the history would not show
            raise ValueError(text)
        return {**fields, KEY: self._planned(fields)}

    @readable("a fit or its card in the database")
    def written_out(self, text: str) -> str:
        """The JSON of a fit or of its card with slot weights, as it was before it was stored."""
        return canonical(self.fields(text)) if SHORT in text else text

    def left_out(self, text: str) -> str:
        """The JSON without slot weights, if `written_out` restores it exactly."""
        if LONG in text:
            with suppress(*UNREADABLE):  # without a plan in the settings, keep them
                fields = json_of(text)
                if canonical({**fields, KEY: self._planned(fields)}) == text:
                    return canonical({**fields, KEY: PLANNED})
        return text

    def _planned(self, fields: Mapping[str, Any]) -> list[Any]:
        """The slot weights of a fit, as the JSON of a fit or of a card has them."""
        is_card = "fit" in fields
        number = fields["fit" if is_card else "number"]
        if number != self._newest[0]:
            lines = self.plan.due(fields["at"]) if isinstance(self.plan, Plan) else []
            (fit,) = (line.fit for line in lines if line.fit.number == number)
            self._newest = (number, fit.slot_weights)
        return [
            [*span, str(part)] if is_card else [span, str(part)] for span, part in self._newest[1]
        ]


NOTHING: tuple[Any, Iterator[Row]] = (None, iter(()))


def with_fits(database: Database, steps: Iterable[Row]) -> Iterator[tuple[Row, list[Row]]]:
    """Each step with its fits. Rows of steps are in order and start with the columns `STEP`."""
    planned = PlannedWeights(database)
    fits = (
        (*row[:2], planned.written_out(row[2]), row[3], planned.written_out(row[4]), *row[5:])
        for row in database.execute(f"SELECT {FIT} FROM fits ORDER BY number")  # noqa: S608
    )
    groups = groupby(fits, key=lambda row: (row[1], json_of(row[2])["at"]))
    place, group = next(groups, NOTHING)
    for step in steps:
        if place == (step[1], step[3]):
            yield step, list(group)
            place, group = next(groups, NOTHING)
        else:
            yield step, []

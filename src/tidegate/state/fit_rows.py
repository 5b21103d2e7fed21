"""Convert fits, steps and models to rows of the database, and back.

A fit of a growing stream has a weight for every block so far. Storing them all would take space
quadratic in the number of fits, so the JSON of a fit and of its card says "planned" instead.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import check_numbers, exact, json_of
from tidegate.learn.rules import rules_of
from tidegate.privacy import Line
from tidegate.release import canonical, seal
from tidegate.run.config.config import Config
from tidegate.schedule import RecordFit, SlotWeight, Span
from tidegate.schedule.plan import Plan, TwoStreamPlan
from tidegate.state.damage import UNREADABLE, readable
from tidegate.state.database import Database
from tidegate.state.integrity import HISTORY
from tidegate.state.store import Evaluation, FitToStore, Step, StoredSurvey


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


class PlannedWeights:
    """Computes slot weights from the plan in the settings of a state."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._newest: tuple[int, Sequence[SlotWeight]] = (-1, ())  # a cache of the last fit

    @cached_property
    def plan(self) -> Plan | TwoStreamPlan:
        """The plan; whoever knows it sets it, so that the settings are not read again."""
        (settings,) = self._database.execute("SELECT settings FROM state").fetchone()
        return Config.from_json(settings).plan()

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

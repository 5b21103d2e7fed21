"""How fits, steps and models are written as rows of the database, and read again."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.gate.database import Database
from tidegate.gate.integrity import HISTORY
from tidegate.gate.store import Evaluation, Made, Step, readable
from tidegate.privacy import Line
from tidegate.release import canonical, seal
from tidegate.schedule import RecordFit, SlotWeight, Span


def fit_row(stream: str, made: Made, previous: str, number: int, history: str) -> tuple[Any, ...]:
    """The row of a fit; it ends with number, hash before and hash, if it is released.

    Args:
        stream: The stream that it has read.
        made: The fit.
        previous: The hash of the newest release.
        number: Of the next release.
        history: The digest of all that was done before it, which its card names.
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
    line = (fit.number, stream, canonical(fields), str(share))
    model = (json.dumps(weights.shape), weights.tobytes(), sha256_of(weights))
    return (*line, canonical(card), *model, *place)


@readable("a charge in the database")
def line_of(fields: Mapping[str, Any], share: str) -> Line:
    """A fit, from what its text says, and what it cost."""
    weights = (SlotWeight(Span(*span), Fraction(part)) for span, part in fields.get("emphasis", ()))
    others = {name: value for name, value in fields.items() if name != "emphasis"}
    fit = {**others, "span": Span(*fields["span"]), "slot_weights": tuple(weights)}
    return Line(RecordFit(**fit), Fraction(share))


@readable("a model in the database")
def weights_of(shape: str, data: bytes) -> NDArray[np.float64]:
    """The weights of a row, read-only because they are views of bytes."""
    return np.frombuffer(data, "<f8").reshape(json.loads(shape))


def drop(database: Database, numbers: Iterable[int]) -> list[tuple[int, float]]:
    """Within a transaction, delete the models of some fits but for their norms.

    A damaged one stays, for `verify` to find.

    Returns:
        The rows that the table `dropped` has got: numbers and norms.
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
    """What a model is known by that is not released and so has no hash."""
    return hashlib.sha256(weights.tobytes()).hexdigest()


def paid_of(evaluation: Evaluation | None) -> tuple[Any, ...]:
    """Release, share, accuracy and deviation, as the row of a step has them."""
    if evaluation is None:
        return (None,) * 4
    accuracy, deviation = evaluation.accuracy, evaluation.deviation
    return evaluation.release, str(evaluation.share), accuracy, deviation


@readable("an evaluation in the database")
def step_of(stream: str, start: int, stop: int, *paid: Any) -> Step:
    """A step, from its span and what `paid_of` has written."""
    evaluation = None
    if paid[0] is not None:
        release, share, accuracy, deviation = paid
        evaluation = Evaluation(
            release=release, share=Fraction(share), accuracy=accuracy, deviation=deviation
        )
    return Step(stream=stream, span=Span(start, stop), evaluation=evaluation)

"""Attaches slot weights to the pieces of a fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidegate.checks import refuse
from tidegate.data.records import Piece, PieceOf, Records, zeroed
from tidegate.privacy.budget import down
from tidegate.schedule import SlotWeight


@dataclass(frozen=True)
class WeightedPiece(PieceOf):
    """A piece with slot weights.

    Attributes:
        piece: The slots.
        runs: In order, numbers of consecutive slots with their common weight.
    """

    runs: tuple[tuple[int, float], ...]

    def load(self) -> Records:
        """See `Piece`."""
        sizes, weights = zip(*self.runs, strict=True)
        return replace(self.piece.load(), slot_weights=np.repeat(weights, sizes))


def weighing(records: Records, *, expected: bool, persons: bool = False) -> Records:
    """Refuse records that have slot or person weights if the fit has none, or the reverse.

    Args:
        records: The records.
        expected: Whether the fit has slot weights.
        persons: Whether it protects persons.
    """
    # Fail closed: a record or a person could lose more privacy than is charged.
    for name, wanted in (("slot_weights", expected), ("person_weights", persons)):
        if wanted != (getattr(records, name) is not None):
            raise refuse(name, "on fit and records, or on neither", shown="on one of them")
    return without_owners(records)


def by_record(records: Records) -> Records:
    """Refuse person weights that a fit has not taken over: they would have no effect."""
    return weighing(records, expected=records.slot_weights is not None)


def without_owners(records: Records) -> Records:
    """Refuse records that still have owners: they lack person weights."""
    if records.owners is not None:
        raise refuse("person_weights", "on records with owners", shown="none")
    return records


def by_person(records: Records, *, expected: bool) -> Records:
    """The records weighed by their person weights alone, in place of slot weights.

    Args:
        records: The records, with person weights.
        expected: Whether the fit has slot weights.
    """
    records = weighing(records, expected=expected, persons=True)
    return replace(records, slot_weights=records.person_weights, person_weights=None)


def reweighed(records: Records, *, factors: Mapping[float, float]) -> Records:
    """Replace slot weights; a slot that gets 0 becomes unusable: zeros and label 0.

    A solver that still saw the row, for example in a preconditioner, could depend on it.

    Args:
        records: The records, with slot weights.
        factors: The new weight for each old one.

    >>> records = Records(np.eye(2), np.zeros(2, np.intp), np.ones(2, np.bool_), np.array([0.5, 1]))
    >>> reweighed(records, factors={0.5: 0.0, 1.0: 1.0}).X
    array([[0., 0.],
           [0., 1.]])
    """
    given = np.asarray(weighing(records, expected=True).slot_weights)
    olds = np.array(sorted(factors))
    news = np.array([factors[old] for old in olds])
    places = np.searchsorted(olds, given)
    if not np.array_equal(olds[places.clip(max=len(olds) - 1)], given):
        raise refuse("slot_weights", "those of the fit", None)
    weights = news[places]
    out = weights == 0
    labels = np.where(out, 0, records.y)
    return Records(zeroed(records.X, out), labels, records.usable & ~out, weights)


def weighted(pieces: Sequence[Piece], slot_weights: Sequence[SlotWeight]) -> list[Piece]:
    """The pieces of a span with their slot weights, rounded down.

    >>> from fractions import Fraction
    >>> from tidegate.schedule import Span
    >>> run = Records(np.eye(3), np.zeros(3, np.intp), np.ones(3, np.bool_))
    >>> half, one = SlotWeight(Span(0, 4), Fraction(1, 2)), SlotWeight(Span(4, 6), Fraction(1))
    >>> [piece.load().slot_weights for piece in weighted([run, run], [half, one])]
    [array([0.5, 0.5, 0.5]), array([0.5, 1. , 1. ])]
    """
    if not slot_weights:
        return list(pieces)
    covered, held = sum(span.size for span, _ in slot_weights), sum(piece.n for piece in pieces)
    if covered != held:
        raise refuse("slot_weights", f"for {held} slots", shown=f"weights for {covered}")
    left = [(span.size, down(weight)) for span, weight in slot_weights]
    result: list[Piece] = []
    for piece in pieces:
        runs, wanted = [], piece.n
        while wanted:
            size, weight = left.pop(0)
            runs.append((min(size, wanted), weight))
            if size > wanted:
                left.insert(0, (size - wanted, weight))
            wanted -= min(size, wanted)
        marked = WeightedPiece(piece, tuple(runs))
        result.append(marked.load() if isinstance(piece, Records) else marked)
    return result

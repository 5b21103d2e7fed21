"""Attaches slot weights to the pieces of a fit."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tidegate.checks import refuse
from tidegate.learn.records import Piece, Records
from tidegate.privacy.rounding import down
from tidegate.schedule import SlotWeight


@dataclass(frozen=True)
class WeightedPiece:
    """A piece with slot weights.

    Attributes:
        piece: The slots.
        runs: In order, numbers of consecutive slots with their common weight.
    """

    piece: Piece
    runs: tuple[tuple[int, float], ...]

    @property
    def n(self) -> int:
        """See `Piece`."""
        return self.piece.n

    @property
    def place(self) -> Path | None:
        """See `Piece`."""
        return self.piece.place

    def ahead(self) -> None:
        """See `Piece`."""
        self.piece.ahead()

    def load(self) -> Records:
        """See `Piece`."""
        sizes, weights = zip(*self.runs, strict=True)
        return replace(self.piece.load(), slot_weights=np.repeat(weights, sizes))


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
        raise refuse("slot_weights", f"for {held} slots", told=f"weights for {covered}")
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

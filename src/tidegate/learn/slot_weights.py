"""What the slots of a fit count for, laid over the pieces that they are in."""

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
    """A piece whose slots do not all count for 1.

    Attributes:
        piece: The slots.
        runs: How many slots in a row count for how much, in order.
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
        sizes, parts = zip(*self.runs, strict=True)
        return replace(self.piece.load(), slot_weights=np.repeat(parts, sizes))


def weighted(pieces: Sequence[Piece], slot_weights: Sequence[SlotWeight]) -> list[Piece]:
    """The pieces of a span with what their slots count for, rounded down.

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
        raise refuse("slot_weights", f"those of {held} slots", told=f"those of {covered}")
    left = [(span.size, down(part)) for span, part in slot_weights]
    result: list[Piece] = []
    for piece in pieces:
        runs, wanted = [], piece.n
        while wanted:
            size, part = left.pop(0)
            runs.append((min(size, wanted), part))
            if size > wanted:
                left.insert(0, (size - wanted, part))
            wanted -= min(size, wanted)
        marked = WeightedPiece(piece, tuple(runs))
        result.append(marked.load() if isinstance(piece, Records) else marked)
    return result

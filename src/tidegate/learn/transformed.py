"""Applies a transform to the pieces of a fit."""

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.learn.records import Piece, PieceOf, Records
from tidegate.learn.transform import Transform


@dataclass(frozen=True)
class TransformedPiece(PieceOf):
    """A piece whose features are centred and scaled when it is loaded."""

    transform: Transform

    def load(self) -> Records:
        """See `Piece`."""
        return self.transform.records(self.piece.load())


def transformed(pieces: Sequence[Piece], transform: Transform) -> list[Piece]:
    """The pieces with centred and scaled features."""
    return [
        transform.records(piece)
        if isinstance(piece, Records)
        else TransformedPiece(piece, transform)
        for piece in pieces
    ]

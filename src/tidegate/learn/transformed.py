"""Applies a transform to the pieces of a fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidegate.learn.records import Piece, Records
from tidegate.learn.transform import Transform


@dataclass(frozen=True)
class TransformedPiece:
    """A piece whose features are centred and scaled when it is loaded."""

    piece: Piece
    transform: Transform

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
        return self.transform.records(self.piece.load())


def transformed(pieces: Sequence[Piece], transform: Transform) -> list[Piece]:
    """The pieces with centred and scaled features."""
    return [
        transform.records(piece)
        if isinstance(piece, Records)
        else TransformedPiece(piece, transform)
        for piece in pieces
    ]

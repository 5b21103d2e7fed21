"""Packed records: a few numbers for each, from which features are made when a fit reads them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tidegate.data.columns import Columns
from tidegate.data.maps.clip import clip_in_place
from tidegate.data.records import Piece, PieceOf, Records, zeroed
from tidegate.data.rows import Rows


class NotPacked:
    """Records that a store keeps as they are read: nothing is packed."""

    columns = None
    """The columns of packed records: none."""

    def rows(self, rows: Rows) -> Rows:
        """The features of stored rows: the rows."""
        return rows

    def records(self, records: Records) -> Records:
        """The records of stored ones: the same."""
        return records

    def pieces(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """The pieces of stored ones: the same."""
        return pieces


NOT_PACKED = NotPacked()


@dataclass(frozen=True, kw_only=True, eq=False)
class Packing:
    """How packed records become records: those that a store keeps take far less space.

    Attributes:
        columns: Their columns, all of whose features together are dense.
        norm: The public bound on the norm of every record.
        dtype: The dtype of features.
    """

    columns: Columns
    norm: float
    dtype: str = "float32"

    def rows(self, packed: NDArray[np.float32]) -> NDArray[np.floating]:
        """The features of packed rows, each within the norm, whatever its numbers are."""
        rows = self.columns.unpack(packed).astype(self.dtype, copy=False)
        if rows.size and self.norm < self.columns.norm:
            clip_in_place(rows, self.norm)
        return rows

    def records(self, packed: Records) -> Records:
        """The records; the features of an unusable one are zero."""
        return replace(packed, X=zeroed(self.rows(packed.X), ~packed.usable))

    def pieces(self, pieces: Sequence[Piece]) -> Sequence[Piece]:
        """Pieces of records, made of pieces of packed ones."""
        return [PackedPiece(piece, self) for piece in pieces]


@dataclass(frozen=True)
class PackedPiece(PieceOf):
    """A piece of packed records, whose features are made when it is loaded."""

    packing: Packing

    def load(self) -> Records:
        """See `Piece`."""
        return self.packing.records(self.piece.load())

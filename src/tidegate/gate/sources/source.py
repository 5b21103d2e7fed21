"""What a source is."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError


class SourceError(InvalidValueError):
    """A source as a whole cannot be read; the message is one line and quotes no record."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RawBatch:
    """Records as they arrived, each in its slot, ready for `tidegate.learn.intake.clean`.

    Attributes:
        X: One row a slot: numbers of shape (n, d), not-a-number for what is none; or texts of
            shape (n,), None for what is none.
        y: A label for each slot, None or not-a-number for what is none.
        arrived: What arrived in a slot of this batch, as JSON text: for the operator's eyes only.
        reasons: Why a slot cannot be used, for those whose frame is broken already.
        offset: Where the source is after this batch; `batches(offset)` goes on from there. Empty
            for records of no source.
    """

    X: Any
    y: NDArray[Any]
    arrived: Callable[[int], str]
    reasons: Mapping[int, str] = field(default_factory=dict)
    offset: str = ""

    @property
    def n(self) -> int:
        """How many slots there are."""
        return int(self.X.shape[0])


class Source(Protocol):
    """A stream of records that can be taken up again where it was left."""

    @property
    def name(self) -> str:
        """What its offset is kept under."""

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """The records after an offset, or all of them.

        Where a batch ends depends on counts, or on when records arrive: never on how long they are
        or on what they hold. The store and the fits cut records anew, by counts.
        """


def objects(values: list[Any]) -> NDArray[np.object_]:
    """Values of any kind as a one-dimensional array.

    >>> objects([[1, 2], [3, 4]]).shape
    (2,)
    """
    return np.fromiter(values, object, len(values))  # np.array would unpack lists

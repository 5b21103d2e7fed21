"""A built-in stream of records whose classes first stand still and then move."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

ARRIVING, FRESH = 0, 1
"""Which records to draw: those of the stream, or test records of the same distribution."""


@dataclass(frozen=True, kw_only=True)
class DriftingStream:
    """Classes on a ring that starts to turn, so that class 0 moves to where class 1 was.

    Two columns hold the position on the ring; the others are noise. All records follow from a
    public seed, through raw bits that are the same in all versions of numpy.

    Args:
        records: How many records there are.
        classes: How many classes are on the ring.
        columns: How many numbers a record has.
        still: The fraction of the records that arrive before the ring starts to turn.
        turns: How many turns the ring makes until the last record.
        seed: A public number.

    >>> stream = DriftingStream()
    >>> X, y = stream.batch(0, 512)
    >>> X.shape, y[:8]
    ((512, 24), array([2, 3, 3, 0, 3, 1, 4, 2]))
    >>> stream.angle(20_000), round(stream.angle(stream.records) / (2 * math.pi), 2)
    (0.0, 0.6)
    """

    records: int = 80_384
    classes: int = 5
    columns: int = 24
    still: float = 0.25
    turns: float = 0.6
    seed: int = 1

    norm = 1.5
    """A public bound that scales down few records: ring and noise have a length of about 1 each."""

    def angle(self, at: int) -> float:
        """How far the ring has turned when `at` records have arrived, in radians."""
        moved = max(0.0, at / self.records - self.still) / (1 - self.still)
        return 2 * math.pi * self.turns * moved

    def batch(self, start: int, size: int) -> tuple[Floats, Labels]:
        """Draw `size` records from slot `start` on, with the ring as it is at their end.

        Use batches of one size only: each batch is drawn independently.
        """
        return self._draw(ARRIVING, start, size, self.angle(start + size))

    def fresh(self, at: int, size: int) -> tuple[Floats, Labels]:
        """Draw test records, which are not in the stream, with the ring as it is at this time."""
        return self._draw(FRESH, at, size, self.angle(at))

    def _draw(self, kind: int, at: int, size: int, angle: float) -> tuple[Floats, Labels]:
        source = np.random.PCG64(np.random.SeedSequence([self.seed, kind, at]))
        bits = source.random_raw(size * (self.columns + 1)).reshape(size, -1) >> np.uint64(32)
        labels = (bits[:, 0] * np.uint64(self.classes) >> np.uint64(32)).astype(np.intp)
        X = ndtri((bits[:, 1:] + 0.5) * 2.0**-32) / math.sqrt(self.columns)
        place = angle + 2 * math.pi * labels / self.classes
        X[:, 0] += np.cos(place)
        X[:, 1] += np.sin(place)
        return X, labels

"""A built-in stream of records whose concept first stands still and then turns, like a tide."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

ARRIVING, FRESH = 0, 1
"""Which records are drawn: those of the stream, or others of the same concept to test on."""


@dataclass(frozen=True, kw_only=True)
class DriftingStream:
    """Classes on a ring that starts to turn: what was class 0 will be where class 1 has been.

    Two of the columns hold the ring, in the others there is nothing to learn. Everything follows
    from a public seed by way of raw bits, which stay the same over the versions of numpy.

    Args:
        records: How many there are.
        classes: How many classes stand on the ring.
        columns: How many numbers a record has.
        still: The fraction of the records that arrive before the ring starts to turn.
        turns: How often it goes round until the last record.
        seed: A public number.

    >>> stream = DriftingStream()
    >>> X, y = stream.batch(0, 512)
    >>> X.shape, y[:8]
    ((512, 24), array([2, 3, 3, 0, 3, 1, 4, 2]))
    >>> stream.angle(20_000), round(stream.angle(stream.records) / (2 * math.pi), 2)
    (0.0, 0.75)
    """

    records: int = 100_352
    classes: int = 5
    columns: int = 24
    still: float = 0.25
    turns: float = 0.75
    seed: int = 1

    norm = 1.5
    """A public bound that cuts little off: the ring's radius is 1, the noise's about 1 too."""

    def angle(self, at: int) -> float:
        """How far the ring has turned when `at` records have arrived."""
        moved = max(0.0, at / self.records - self.still) / (1 - self.still)
        return 2 * math.pi * self.turns * moved

    def batch(self, start: int, size: int) -> tuple[Floats, Labels]:
        """The records from `start` on, of the concept at their end.

        Ask for them in batches of one size: each batch is drawn by itself.
        """
        return self._draw(ARRIVING, start, size, self.angle(start + size))

    def fresh(self, at: int, size: int) -> tuple[Floats, Labels]:
        """Records that are not in the stream, of the concept at this time: to test on."""
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

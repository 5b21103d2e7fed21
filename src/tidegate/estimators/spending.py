"""Warns if the same records are learnt from again, or were prepared by a step that learns.

Each fit keeps its own promise. Two fits on the same records reveal what both reveal, and neither
ledger knows of the other. So a process remembers a sketch of the rows that its estimators were
given: the 256 smallest keyed hashes of rows that occur once. The key is drawn when the process
starts; sketches are never pickled, written or shown. Warnings are for the operator alone.
"""

import secrets
from collections import deque
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from tidegate.checks import SpentAgainWarning, UnprotectedInputWarning, warn_caller

Hashes = NDArray[np.uint64]

SKETCH = 256
"""Hashes kept of a stream."""

MAX_STREAMS = 64
"""Streams that a process remembers."""

MAX_ROWS, MAX_COLUMNS = 2**17, 16
"""The most rows and columns of a batch that are hashed."""

MIN_SHARED, MIN_PART = 3, 0.1
"""The fewest hashes in common, and the least part of the smaller set, that count as overlap."""

ROWS = 2**13
"""Rows hashed at once: they stay in a core's cache."""

HALF = 0.5
"""The mean of one row in many, of columns with mean 0 and deviation 1, is closer to 0 than this."""

FIT_AGAIN = (
    "{name}.fit was called again and starts a new stream with a budget of its own: records of the "
    "earlier fit that are given again pay twice. Use partial_fit to go on with a stream, and a new "
    "estimator for other records"
)
OVERLAP = (
    "{name} was given records that another model of this process has learnt from: each has a "
    "budget of its own, and what they reveal adds up. GridSearchCV and cross_val_score do so at "
    "every fit: search on public records, then fit once"
)
STANDARDISED = (
    "X is centred and scaled by its own means and deviations, as StandardScaler does: those are "
    "not private, and no budget covers them. Leave the scaler out of the Pipeline: the survey "
    "centres and scales privately"
)


@dataclass(eq=False)
class Sketch:
    """What is remembered of a stream: hashes of rows, and whether it was warned about."""

    hashes: Hashes = field(default_factory=lambda: np.empty(0, np.uint64))
    warned: bool = False

    def add(self, hashes: Hashes) -> None:
        """Remember more rows, as many as there is room for."""
        self.hashes = np.union1d(self.hashes, hashes)[:SKETCH]


_streams: deque[Sketch] = deque(maxlen=MAX_STREAMS)
_live: WeakKeyDictionary[Any, Sketch] = WeakKeyDictionary()
_key = np.random.Generator(np.random.PCG64(secrets.randbits(128)))
_factors: Hashes = _key.integers(2**64, size=MAX_COLUMNS, dtype=np.uint64) | np.uint64(1)


def note_batch(name: str, run: Any, X: Any, *, again: bool) -> None:
    """Remember the rows of a batch; warn if another stream has learnt from them.

    Args:
        name: The estimator's class, for the warning.
        run: The stream; it is not kept alive.
        X: The records as the caller gave them.
        again: Whether this is the first batch of a second `fit` of one estimator.
    """
    hashes = row_hashes(X)
    sketch = _live.get(run, Sketch())
    if again:
        warn_caller(FIT_AGAIN.format(name=name), SpentAgainWarning)
    elif not sketch.warned and _seen_elsewhere(hashes, sketch):
        warn_caller(OVERLAP.format(name=name), SpentAgainWarning)
        sketch.warned = True
    if run not in _live:  # only now: if warnings are errors, the batch is refused
        _live[run] = sketch
        _streams.append(sketch)
    sketch.warned |= again
    sketch.add(hashes)


def _seen_elsewhere(hashes: Hashes, own: Sketch) -> bool:
    return any(overlap(hashes, each) for each in _streams if each is not own)


def overlap(hashes: Hashes, other: Sketch) -> bool:
    """Whether rows with these hashes, the smallest of their batch, were seen in another stream."""
    # Below both largest hashes, both sketches are complete.
    ends = [each[-1] for each in (hashes, other.hashes) if each.size == SKETCH]
    end = min(ends, default=np.uint64(2**64 - 1))
    mine, theirs = hashes[hashes <= end], other.hashes[other.hashes <= end]
    shared = np.intersect1d(mine, theirs, assume_unique=True).size
    return bool(shared >= max(MIN_SHARED, MIN_PART * min(mine.size, theirs.size)))


def row_hashes(X: Any) -> Hashes:
    """The smallest hashes of rows that occur once in a batch, in order; none if it has no rows."""
    try:
        hashes = _hashes(X)
    except Exception:  # whatever X is, its intake decides what to do with it
        return np.empty(0, np.uint64)
    values, counts = np.unique(hashes, return_counts=True)
    once: Hashes = values[counts == 1]
    return once[:SKETCH]


def _hashes(X: Any) -> Hashes:
    if issparse(X):
        return _of_sparse(csr_array(X)[:MAX_ROWS])
    values = np.asarray(X.to_pandas() if hasattr(X, "to_pandas") else X)
    values = values[:MAX_ROWS].reshape(len(values[:MAX_ROWS]), -1)
    if values.shape[1] > MAX_COLUMNS:
        values = values[:, np.linspace(0, values.shape[1] - 1, MAX_COLUMNS).astype(int)]
    if values.dtype.kind not in "fiub":
        whole = [hash(tuple(None if each != each else each for each in row)) for row in values]  # noqa: PLR0124
        return _mixed(np.array(whole, np.int64).view(np.uint64))
    parts = [values[start : start + ROWS] for start in range(0, len(values), ROWS)]
    return np.concatenate([_of_numbers(part) for part in parts])


def _of_numbers(rows: NDArray[Any]) -> Hashes:
    bits = _mixed(np.ascontiguousarray(rows, np.float64) + 0.0)
    sums: Hashes = (bits * _factors[: rows.shape[1]]).sum(axis=1, dtype=np.uint64)
    return _mixed(sums)


def _of_sparse(rows: csr_array) -> Hashes:
    """A sum over the entries of each row, so that their order does not matter."""
    places = _mixed(rows.indices.astype(np.uint64) + _factors[0])
    entries = _mixed(rows.data.astype(np.float64) + 0.0) * places
    sums = np.concatenate([[np.uint64(0)], np.cumsum(entries, dtype=np.uint64)])
    return _mixed(sums[rows.indptr[1:]] - sums[rows.indptr[:-1]])


def _mixed(values: NDArray[Any]) -> Hashes:
    """The bits of 64-bit values, mixed so that every bit depends on every other (splitmix64)."""
    bits = values.view(np.uint64).copy()
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    return bits


def warn_if_standardised(X: Any) -> None:
    """Warn if every column of a batch has mean 0 and deviation 1, as after a StandardScaler."""
    if standardised(X):
        warn_caller(STANDARDISED, UnprotectedInputWarning)


def standardised(X: Any) -> bool:
    """Whether every column that varies has mean 0 and deviation 1, up to rounding.

    >>> rows = np.random.default_rng(0).normal(size=(100, 2))
    >>> standardised(rows), standardised((rows - rows.mean(axis=0)) / rows.std(axis=0))
    (False, True)
    """
    try:
        values = np.asarray(X.to_numpy() if hasattr(X, "to_numpy") else X)
        if values.dtype.kind != "f" or values.ndim != 2 or len(values) <= MIN_SHARED:
            return False
        near = 1e-4 if values.dtype.itemsize < np.dtype(np.float64).itemsize else 1e-8
        values = values[:, :MAX_COLUMNS]
        some = values[:: max(1, len(values) // ROWS)]
        if np.abs(some.mean(axis=0)).max() > HALF:  # as for almost all that is not standardised
            return False
        return _mean_0_deviation_1(values, near)
    except Exception:  # whatever X is, its intake decides what to do with it
        return False


def _mean_0_deviation_1(values: NDArray[Any], near: float) -> bool:
    means = values.mean(axis=0, dtype=np.float64)
    deviations = values.std(axis=0, dtype=np.float64)
    varies = deviations > 0
    exact = (np.abs(means) < near) & (np.abs(deviations - 1) < near)
    return bool(varies.any() and exact[varies].all())

"""A constant column for methods that make none, and the model that consists of it alone."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tidegate.learn.learner import Weights
from tidegate.learn.records import zeroed
from tidegate.learn.target import RESOLUTION
from tidegate.learn.transform import Transform
from tidegate.study.baselines.refit import Times
from tidegate.study.method import Method
from tidegate.study.study_stream import Fitted, Labelled, StudyStream, Transformed


def scaling(stream: StudyStream) -> Transform:
    """Scales the rows of a stream to norm 1 and adds a constant column; it reads no record."""
    d = stream.records.X.shape[1]
    return Transform.of(np.zeros(d), np.full(d, 1 / stream.norm))


@dataclass(frozen=True, kw_only=True)
class WithConstant:
    """A method whose models may add a constant, as those of surveyed schedules do.

    Args:
        method: What learns from the rows and the constant column.
    """

    method: Method

    @property
    def name(self) -> str:
        """See `Method`."""
        return self.method.name

    @property
    def private(self) -> bool:
        """See `Method`: the column is the same for all records."""
        return self.method.private

    @property
    def probabilities(self) -> bool:
        """See `Method`."""
        return self.method.probabilities

    def models(self, stream: StudyStream, seed: int) -> Iterator[tuple[int, Fitted]]:
        """Each release."""
        transform = scaling(stream)
        given = stream.records
        rows = zeroed(transform.rows(given.X), ~given.usable)
        records = replace(given, X=rows)
        scaled = replace(stream, records=records, norm=Transform.NORM, test=_untested)
        for at, fitted in self.method.models(scaled, seed):
            if isinstance(fitted, Transformed):
                raise TypeError("the method makes a constant column of its own")
            yield at, Transformed(fitted, transform)


def _untested(at: int) -> Labelled:
    raise LookupError(f"no method may read test records, as at {at}")


@dataclass(frozen=True, kw_only=True)
class Constant:
    """Without privacy: the mean target, or the shares of the classes, of the records that count.

    Args:
        times: When to release, and which records count.
    """

    times: Times
    name: str = "constant"

    private = False
    probabilities = True

    def models(self, stream: StudyStream, seed: int) -> Iterator[tuple[int, Fitted]]:
        """Each release."""
        del seed
        transform, known = scaling(stream), stream.ownerless
        for span in self.times.spans(stream.n):
            records = known.between(*span)
            weights = np.zeros(stream.task().loss.shape(transform.features + 1))
            margins = _margins(records.y[records.usable], stream)
            weights[-1] = margins / Transform.CONSTANT
            yield span.stop, Transformed(weights, transform)


def _margins(y: NDArray[np.intp], stream: StudyStream) -> Weights:
    """The margins of the best constant for these labels or targets; of none, the middle."""
    if stream.target is not None:
        return np.asarray(RESOLUTION * y.sum() / max(y.size, 1))
    odds = np.log(np.bincount(y, minlength=stream.classes) + 0.5)  # none is infinite
    return np.asarray(odds[1] - odds[0] if stream.task().loss.outputs == 1 else odds)

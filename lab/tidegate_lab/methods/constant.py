"""A constant column for methods that make none, and the model that consists of it alone."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from tidegate.compare import Labelled, LabelledStream, Linear, Method
from tidegate.features import CenterScale
from tidegate_lab.methods.times import Times

COLUMN = 0.14999999105930328
"""The constant column, as in models of surveyed schedules: a float32 that is not above 0.15."""

NORM = 1.0111874208078344
"""The bound on the norm of a row of norm 1 with that column: sqrt(1.0225), rounded up."""


def scaling(stream: LabelledStream) -> CenterScale:
    """Scales the rows of a stream to norm 1 and adds a constant column; it reads no record."""
    d = stream.records.X.shape[1]
    scale = np.full(d, 1 / stream.norm, np.float32)
    return CenterScale(center=np.zeros(d, np.float32), scale=scale, constant=COLUMN)


@dataclass(frozen=True, eq=False)
class Mapped:
    """A model of rows that a feature map makes.

    Args:
        model: The model.
        features: The feature map.
    """

    model: Any
    features: CenterScale

    def margins(self, rows: Any) -> Any:
        """The margins of rows of features."""
        return self.model.margins(self.features.transform(rows))


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

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Mapped]]:
        """Each release."""
        features, given = scaling(stream), stream.records
        rows = _zeroed(features.transform(given.X), given.usable)
        scaled = replace(stream, records=replace(given, X=rows), norm=NORM, test=_untested)
        for at, model in self.method.models(scaled, seed):
            yield at, Mapped(model, features)


def _zeroed(rows: Any, usable: NDArray[np.bool_]) -> Any:
    """The rows, with zeros for records that cannot be used."""
    if sparse.issparse(rows):
        return sparse.csr_array(sparse.diags_array(usable.astype(rows.dtype)) @ rows)
    return rows * usable[:, None]


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

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Mapped]]:
        """Each release."""
        del seed
        features, records = scaling(stream), stream.records
        for span in self.times.spans(stream.n):
            part = records[slice(*span)]
            weights = np.zeros(stream.task().loss.shape(records.X.shape[1] + 1))
            weights[-1] = _margins(part.y[part.usable], stream) / COLUMN
            yield span.stop, Mapped(Linear(weights), features)


def _margins(y: NDArray[np.intp], stream: LabelledStream) -> Any:
    """The margins of the best constant for these labels or targets; of none, the middle."""
    if stream.target is not None:
        values = stream.target.values(y)
        mean = values.mean() if values.size else stream.target.middle
        return (mean - stream.target.middle) / stream.target.half
    odds = np.log(np.bincount(y, minlength=stream.classes) + 0.5)  # none is infinite
    return odds[1] - odds[0] if stream.task().loss.outputs == 1 else odds

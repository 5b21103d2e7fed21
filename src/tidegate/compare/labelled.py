"""Labelled records, public and in the order of their arrival, on which methods are compared."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import refuse, whole
from tidegate.data.owners import owned_by
from tidegate.data.predicted import BITS, Target, predicted_codes
from tidegate.data.records import Owners, Records
from tidegate.data.rows import Rows
from tidegate.learn.learner import Task
from tidegate.learn.loss import Loss, Softmax

Labels = NDArray[Any]
Floats = NDArray[np.float64]

UNUSABLE = -(2 ** (BITS + 1))
"""Stands for the label of a record that cannot be used: below all classes and all targets."""


class Fitted(Protocol):
    """A model that a method has released."""

    def margins(self, rows: Rows) -> Any:
        """The margins of rows of features, shape (n,) or (n, K)."""


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Records whose features are mapped and clipped.

    Attributes:
        X: Features, shape (n, d), dense or CSR; no row is longer than the stream's norm.
        y: The class index of each record, or the code of its target, shape (n,); `UNUSABLE` for
            one that cannot be used, whose row is 0.
        owners: Whose each record is, if persons are protected. A record of nobody is not learnt
            from, but models are tested on it: predictions need no id.

    >>> records = Labelled(X=np.array([[1.0], [-1.0], [0.5]]), y=np.array([1, 0, 1]))
    >>> records[1:].y, records.usable.all()
    (array([0, 1]), np.True_)
    """

    X: Rows
    y: Labels
    owners: Owners | None = None

    def __getitem__(self, which: Any) -> "Labelled":
        owners = None if self.owners is None else self.owners[which]
        return Labelled(X=self.X[which], y=self.y[which], owners=owners)

    @property
    def usable(self) -> NDArray[np.bool_]:
        """Whether each record can be used."""
        return np.asarray(self.y != UNUSABLE)

    def margins(self, model: Fitted) -> Floats:
        """The margins of a model on each record."""
        return np.asarray(model.margins(self.X), np.float64)

    def score(self, model: Fitted) -> float:
        """The fraction of the records that a model classifies correctly."""
        return float(np.mean(predicted_codes(self.margins(model)) == self.y))


@dataclass(frozen=True, kw_only=True)
class LabelledStream:
    """Labelled records in the order of their arrival, and what is learnt from them.

    Attributes:
        records: All of them.
        classes: Number of classes; not read if there is a target.
        norm: The bound on the norm of a record.
        test: The records to test on at a time: always the same, unless the concept drifts.
        loss: The loss to minimise; softmax if None.
        target: The number to predict, in place of classes.

    >>> records = Labelled(X=np.array([[1.0], [-1.0], [0.5]]), y=np.array([1, 0, 1]))
    >>> stream = LabelledStream(records=records, classes=2, norm=1.0, test=lambda at: records)
    >>> stream.n, stream.first(2).n, stream.test(2).y
    (3, 2, array([1, 0, 1]))
    """

    records: Labelled
    classes: int
    norm: float
    test: Callable[[int], Labelled]
    loss: Loss | None = None
    target: Target | None = None

    @property
    def n(self) -> int:
        """How many records there are."""
        return len(self.records.y)

    def task(self, regularization: float | None = None) -> Task:
        """What to learn: loss, norm and lambda; a lambda of None leaves it to the learner."""
        loss = self.loss or Softmax(self.classes)
        return Task(loss=loss, norm=self.norm, regularization=regularization)

    def first(self, n: int) -> "LabelledStream":
        """The same stream, ended after n records."""
        return replace(self, records=self.records[:n])

    def between(self, start: int, stop: int) -> Records:
        """Consecutive records, in the form that learners read; with owners, if they have some."""
        part = self.records[start:stop]
        records = Records(part.X, np.where(part.usable, part.y, 0), part.usable)
        return records if part.owners is None else owned_by(records, part.owners)

    @property
    def ownerless(self) -> "LabelledStream":
        """The same stream for methods without privacy: it does not say whose records are."""
        return replace(self, records=replace(self.records, owners=None))


# --- records to learn from, and those to test on, from the time of a release: so drift shows

Split = tuple[Labelled, Callable[[int], Labelled]]
"""The records to learn from, and a function from how many have arrived to the test records."""


def interleaved(records: Labelled, *, every: int, near: int) -> Split:
    """Hold out one in `every` records; test each model on those nearest to its time.

    Args:
        records: In the order of their arrival.
        every: The records numbered 0, every, 2 every, ... are held out.
        near: Number of held-out records that a model is tested on.

    >>> numbers = Labelled(X=np.arange(20.0)[:, None], y=np.arange(20))
    >>> learnt, test = interleaved(numbers, every=5, near=2)
    >>> learnt.y, test(8).y
    (array([ 1,  2,  3,  4,  6,  7,  8,  9, 11, 12, 13, 14, 16, 17, 18, 19]), array([ 5, 10]))
    """
    whole("every", every, least=2)
    out = np.arange(len(records.y)) % every == 0
    left_out = records[out]
    count = len(left_out.y)
    near = min(whole("near", near), count)

    def test(at: int) -> Labelled:
        # Each run of every - 1 records of the stream follows one that was held out.
        middle = -(-at // (every - 1))
        start = min(max(0, middle - near // 2), count - near)
        return left_out[start : start + near]

    return records[~out], test


def prequential(records: Labelled, *, ahead: int) -> Split:
    """Learn from all records; test each model on the records that arrive next.

    Args:
        records: In the order of their arrival; the last `ahead` are used for tests only.
        ahead: Number of records that a model is tested on.

    >>> numbers = Labelled(X=np.arange(20.0)[:, None], y=np.arange(20))
    >>> learnt, test = prequential(numbers, ahead=4)
    >>> len(learnt.y), test(8).y
    (16, array([ 8,  9, 10, 11]))
    """
    kept = len(records.y) - whole("ahead", ahead)
    if kept <= 0:
        raise refuse("the number of records", f"above {ahead}", len(records.y))
    return records[:kept], lambda at: records[at : at + ahead]

"""A stream of labelled records for studies, with the records that its models are tested on."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.features.rows import Rows
from tidegate.learn.labels import predicted_codes
from tidegate.learn.learner import Task, Weights
from tidegate.learn.loss import Loss, Softmax
from tidegate.learn.owners import owned_by
from tidegate.learn.records import Owners, Records
from tidegate.learn.target import BITS, Target
from tidegate.learn.transform import Transform

Labels = NDArray[Any]

UNUSABLE = -(2 ** (BITS + 1))
"""Stands for the label of a record that cannot be used: below all classes and all targets."""


@dataclass(frozen=True, eq=False)
class Transformed:
    """The weights of a model that first centres and scales the features."""

    weights: Weights
    transform: Transform


Fitted = Weights | Transformed
"""What a method makes: weights of the features as they are, or as transformed."""


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Records whose features are mapped and clipped.

    Attributes:
        X: Features, shape (n, d), dense or CSR; no row is longer than the stream's norm.
        y: The class index of each record, or the code of its target, shape (n,); `UNUSABLE` for
            one that cannot be used, whose row is 0.
        owners: Whose each record is, if persons are protected. A record of nobody is not learnt
            from, but models are tested on it: predictions need no id.
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

    def margins(self, model: Fitted) -> NDArray[np.float64]:
        """The margins of a model on each record."""
        if isinstance(model, Transformed):
            return np.asarray(model.transform.rows(self.X) @ model.weights, np.float64)
        return np.asarray(self.X @ model, np.float64)

    def score(self, model: Fitted) -> float:
        """The fraction of the records that a model classifies correctly."""
        return float(np.mean(predicted_codes(self.margins(model)) == self.y))


@dataclass(frozen=True, kw_only=True)
class StudyStream:
    """Records in the order of their arrival.

    Attributes:
        records: All of them.
        classes: Number of classes; not read if there is a target.
        norm: The bound on the norm of a record.
        test: The records to test on at a time: always the same, unless the concept drifts.
        loss: The loss to minimise; softmax if None.
        target: The number to predict, in place of classes.
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
        """The task to learn from it; a regularization of None leaves it to the learner."""
        loss = self.loss or Softmax(self.classes)
        return Task(loss=loss, norm=self.norm, regularization=regularization)

    def first(self, n: int) -> "StudyStream":
        """The same stream, ended after n records."""
        return replace(self, records=self.records[:n])

    def between(self, start: int, stop: int) -> Records:
        """Consecutive records, in the form that learners read; with owners, if they have some."""
        part = self.records[start:stop]
        records = Records(part.X, np.where(part.usable, part.y, 0), part.usable)
        return records if part.owners is None else owned_by(records, part.owners)

    @property
    def ownerless(self) -> "StudyStream":
        """The same stream for methods without privacy: it does not say whose records are."""
        return replace(self, records=replace(self.records, owners=None))

"""The exact measures of a study's models: of classes, or of a number; and which of them ranks.

A `Yardstick` says what models of a stream are measured by. Everything that compares models asks it,
so that classes and numbers are compared in the same way.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from tidegate.learn import target_measures
from tidegate.learn.labels import predicted_codes
from tidegate.learn.measures import Measure, exact
from tidegate.learn.target import RESOLUTION, Target
from tidegate.study.study_stream import Fitted, Labelled, StudyStream

MEASURES = ("balanced_accuracy", "auc", "bias", "majority", "constant_log_loss")
"""What is measured of classes besides accuracy and log-loss; see `tidegate.learn.Measures`."""


class Yardstick(Protocol):
    """What models are measured by.

    Attributes:
        ranks: The measure by which models are ranked.
        lower_is_better: Whether the least of it is the best.
        names: All other measures.
    """

    ranks: ClassVar[str]
    lower_is_better: ClassVar[bool]
    names: ClassVar[tuple[str, ...]]

    @property
    def digits(self) -> int:
        """Decimals of a measure in JSON."""

    def measured(
        self, model: Fitted, test: Labelled, *, probabilities: bool = True
    ) -> dict[str, float]:
        """All measures of a model; NaN where one is not defined.

        Args:
            model: The model.
            test: The records to test it on.
            probabilities: Whether its margins have probabilities; if not, no measure reads them so.
        """


@dataclass(frozen=True)
class ByClass:
    """Ranks by accuracy. A record that cannot be used counts as wrong there, and for nothing else.

    Args:
        classes: The number of classes.

    >>> from tidegate.study.study_stream import UNUSABLE
    >>> X, y = np.array([[1.0], [-1.0], [2.0], [0.0]]), np.array([1, 0, 0, UNUSABLE])
    >>> found = ByClass(2).measured(np.ones(1), Labelled(X=X, y=y))
    >>> found["accuracy"], found["balanced_accuracy"], found["auc"]
    (0.5, 0.75, 0.5)
    """

    ranks: ClassVar[str] = "accuracy"
    lower_is_better: ClassVar[bool] = False
    names: ClassVar[tuple[str, ...]] = ("log_loss", *MEASURES)

    classes: int

    @property
    def digits(self) -> int:
        """See `Yardstick`."""
        return 4

    def measured(
        self, model: Fitted, test: Labelled, *, probabilities: bool = True
    ) -> dict[str, float]:
        """See `Yardstick`."""
        margins = test.margins(model)
        right = predicted_codes(margins) == test.y
        if self.classes == 2 and margins.ndim == 2:  # two columns have the same probabilities
            margins = margins[:, 1] - margins[:, 0]
        y = np.where(test.usable, test.y, 0)
        found = exact(margins, y, test.usable, self.classes, probabilities=probabilities)
        values = {name: _value(getattr(found, name)) for name in self.names}
        return {"accuracy": float(right.mean()), **values}


@dataclass(frozen=True)
class ByError:
    """Ranks by RMSE. All but R^2 are in the unit of the target; unusable records are left out.

    Args:
        target: The number to predict.

    >>> from tidegate.learn.target import BITS
    >>> test = Labelled(X=np.array([[1.0], [0.0]]), y=np.array([2**BITS, 0]))
    >>> found = ByError(Target(0, 60)).measured(np.array([0.5]), test)
    >>> found["mae"], found["constant_mae"], round(found["rmse"], 2), round(found["r2"], 2)
    (7.5, 15.0, 10.61, 0.5)
    """

    ranks: ClassVar[str] = "rmse"
    lower_is_better: ClassVar[bool] = True
    names: ClassVar[tuple[str, ...]] = ("mae", "r2", "mean_error", "constant_rmse", "constant_mae")

    target: Target

    @property
    def digits(self) -> int:
        """Enough for six digits of the width of the range, or more."""
        return max(4, 6 - math.ceil(math.log10(self.target.high - self.target.low)))

    def measured(
        self, model: Fitted, test: Labelled, *, probabilities: bool = True
    ) -> dict[str, float]:
        """See `Yardstick`."""
        del probabilities
        target, truths = self.target, test.y * RESOLUTION
        found = target_measures.exact(
            test.margins(model), truths, test.usable, low=target.low, high=target.high
        )
        kept = truths[test.usable]
        around = target.half * np.abs(kept - kept.mean()).mean() if kept.size else math.nan
        names = (self.ranks, *(name for name in self.names if name != "constant_mae"))
        values = {name: _value(getattr(found, name)) for name in names}
        return values | {"constant_mae": float(around)}


def _value(measure: Measure | None) -> float:
    return math.nan if measure is None else measure.value


def yardstick_of(stream: StudyStream) -> Yardstick:
    """What the models of a stream are measured by."""
    return ByClass(stream.classes) if stream.target is None else ByError(stream.target)


def rounded(values: Mapping[str, float], digits: int) -> dict[str, float | None]:
    """Measures for JSON; None where one is not defined.

    >>> rounded({"mae": 1.23456, "r2": math.nan}, 2)
    {'mae': 1.23, 'r2': None}
    """
    return {k: None if math.isnan(v) else round(v, digits) for k, v in values.items()}

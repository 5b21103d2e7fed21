"""The exact measures of compared models, of classes or of a number; which ranks; their words.

A `Yardstick` says what models of a stream are measured by. Everything that compares models asks it,
so that classes and numbers are compared in the same way.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from tidegate.compare.labelled import Fitted, Labelled, LabelledStream
from tidegate.data.predicted import RESOLUTION, Target, predicted_codes
from tidegate.learn.measures.estimates import Answers
from tidegate.learn.measures.measure import Ends, Kind, Measure, Measures, listed
from tidegate.learn.measures.sums import Predictions

MEASURES = ("balanced_accuracy", "auc", "bias", "majority", "constant_log_loss")
"""What is measured of classes besides accuracy and log-loss, before all other measures."""


# --- words


@dataclass(frozen=True)
class Shown:
    """How a measure is shown.

    Attributes:
        name: The measure.
        heading: What tables and plots call it.
        spec: The format of its values.
        constant: The measure that says what a constant reaches; empty if there is none.
        always: What a constant reaches on any records; NaN if that depends on them.
    """

    name: str
    heading: str
    spec: str
    constant: str = ""
    always: float = math.nan

    def cell(self, value: float) -> str:
        """A value in a table.

        >>> Shown("auc", "AUC", ".3f").cell(0.51234), Shown("auc", "AUC", ".3f").cell(math.nan)
        ('0.512', '-')
        """
        return "-" if math.isnan(value) else format(value, self.spec)


@dataclass(frozen=True, kw_only=True)
class Wording:
    """The words of a comparison.

    Attributes:
        ranks: The measure that ranks.
        beside: The one beside it in the first table and in the plot.
        measures: Those of the second table, after the one that ranks.
        plotted: The one that the plot shows after `beside`.
        title: What the title of a table adds.
        axis: The plot's axis of the measure that ranks.
        relative: Whether the plot over time shows the difference from the constant.
        constant: The name of the constant that knows the test records.
        behind: The heading of the differences from the best.
        unit: What a difference is multiplied by.
        decimals: Decimals of a difference in a table; sentences have one more of points.
        praise: How good the best is, given its value.
        above: By how much it is better than another.
        ahead: By how much a baseline is better than it.
        doubt: What it means if a constant is as good.
        notes: What the measures mean.
    """

    ranks: Shown
    beside: Shown
    measures: tuple[Shown, ...]
    plotted: Shown
    title: str
    axis: str
    relative: bool
    constant: str
    behind: str
    unit: float
    decimals: int
    praise: str
    above: str
    ahead: str
    doubt: str
    notes: str

    def difference(self, size: float, *, more: int = 0) -> str:
        """A difference of the measure that ranks, with `more` decimals than in a table."""
        digits = self.decimals + more
        return f"{round(self.unit * size, digits) + 0.0:.{digits}f}"  # not -0.0


def class_wording(groups: int) -> Wording:
    """The words for models of some number of classes."""
    two = groups == 2
    better = "AUC" if two else "balanced accuracy"
    log_loss = Shown("log_loss", "log-\nloss", ".3f", "constant_log_loss")
    balanced = Shown("balanced_accuracy", "balanced\naccuracy", ".1%", always=1 / groups)
    auc = Shown("auc", "AUC", ".3f", always=0.5 if two else math.nan)
    return Wording(
        ranks=Shown("accuracy", "accuracy", ".1%", "majority"),
        beside=log_loss,
        measures=(balanced, auc, log_loss, Shown("bias", "bias", "+.3f"), *_more("classes")),
        plotted=auc if two else balanced,
        title="accuracy",
        axis="right on new records, median of runs",
        relative=False,
        constant="majority class",
        behind="points\nbehind",
        unit=100.0,
        decimals=1,
        praise="with {} of new records right",
        above="It is {} points above {}",
        ahead="{} is {} points ahead of it",
        doubt=f"accuracy says little here; look at the log-loss and the {better} too",
        notes=(
            "The majority class: a constant that answers the most frequent class or, for the "
            "log-loss, the shares of the classes; it knows those of the new records. Bias (two "
            "classes): mean predicted share of the second class minus its share."
        ),
    )


def error_wording(width: float, name: str) -> Wording:
    """The words for models of a number.

    Args:
        width: The width of its range.
        name: What it is called.
    """
    decimals = decimals_of(width)
    spec = f".{decimals}f" if decimals <= MAX_DECIMALS and width < LARGEST_FIXED else ".4g"
    rmse = Shown("rmse", "RMSE", spec, "constant_rmse")
    mae = Shown("mae", "MAE", spec, "constant_mae")
    r2 = Shown("r2", "R^2", ".3f", always=0.0)
    return Wording(
        ranks=rmse,
        beside=mae,
        measures=(mae, r2, Shown("mean_error", "bias", f"+{spec}", always=0.0), *_more("target")),
        plotted=r2,
        title="RMSE",
        axis="RMSE minus that of the mean target (lower is better)",
        relative=True,
        constant="mean target",
        behind="RMSE\nbehind",
        unit=1.0,
        decimals=min(decimals, MAX_DECIMALS),
        praise="with an RMSE of {} on new records",
        above="Its RMSE is {} below that of {}",
        ahead="The RMSE of {} is {} below that",
        doubt=f"the columns say little about {name}, or the noise hides it",
        notes=(
            f"RMSE, MAE and bias are in the unit of {name}. Of RMSE and MAE less is better, of R^2 "
            "more. "
            "The mean target: a constant that answers the mean of the new records, which it knows "
            "in advance, so its R^2 is 0. Bias: mean prediction minus mean target."
        ),
    )


KNOWN = {"accuracy", "balanced_accuracy", "auc", "log_loss", "bias", "unusable"} | {
    *("rmse", "mae", "r2", "mean_error"),
}
"""The measures whose columns are described above, or left out."""


def _more(kind: Kind) -> Iterator[Shown]:
    """The columns of all other measures that people are shown by themselves."""
    for score in listed(kind):
        if score.alone and score.name not in KNOWN:
            heading = score.label.replace(" ", "\n")
            yield Shown(score.name, heading, score.form.spec or ".4g", score.baseline)


MAX_DECIMALS = 9
LARGEST_FIXED = 1e9
"""Ranges that need more decimals, or are wider, are shown with four digits and an exponent."""


def decimals_of(width: float) -> int:
    """The decimals with which a number is shown whose range has this width.

    >>> decimals_of(240), decimals_of(1), decimals_of(1e6)
    (2, 4, 0)
    """
    return max(0, 4 - math.floor(math.log10(width)))


# --- measures


class Yardstick(Protocol):
    """What models are measured by.

    Attributes:
        ranks: The measure by which models are ranked.
        lower_is_better: Whether the least of it is the best.
        names: All other measures.
    """

    ranks: ClassVar[str]
    lower_is_better: ClassVar[bool]

    @property
    def names(self) -> tuple[str, ...]: ...  # noqa: D102 - see above

    @property
    def digits(self) -> int:
        """Decimals of a measure in JSON."""

    def wording(self, label: str) -> Wording:
        """How comparisons show its measures; `label` names what is predicted."""

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

    >>> from tidegate.compare.labelled import UNUSABLE
    >>> from tidegate.compare.method import Linear
    >>> X, y = np.array([[1.0], [-1.0], [2.0], [0.0]]), np.array([1, 0, 0, UNUSABLE])
    >>> found = ByClass(2).measured(Linear(np.ones(1)), Labelled(X=X, y=y))
    >>> found["accuracy"], found["balanced_accuracy"], found["auc"]
    (0.5, 0.75, 0.5)
    """

    ranks: ClassVar[str] = "accuracy"
    lower_is_better: ClassVar[bool] = False

    classes: int

    @property
    def names(self) -> tuple[str, ...]:
        """See `Yardstick`."""
        return _names("classes", "log_loss", *MEASURES)

    @property
    def digits(self) -> int:
        """See `Yardstick`."""
        return 4

    def wording(self, label: str) -> Wording:
        """See `Yardstick`."""
        del label
        return class_wording(self.classes)

    def measured(
        self, model: Fitted, test: Labelled, *, probabilities: bool = True
    ) -> dict[str, float]:
        """See `Yardstick`."""
        margins = test.margins(model)
        right = predicted_codes(margins) == test.y
        if self.classes == 2 and margins.ndim == 2:  # two columns have the same probabilities
            margins = margins[:, 1] - margins[:, 0]
        y = np.where(test.usable, test.y, 0)
        found = Measures(
            Answers(margins, y, test.usable, self.classes, probabilities=probabilities)
        )
        values = {name: _value(found.values[name]) for name in self.names}
        return {"accuracy": float(right.mean()), **values}


@dataclass(frozen=True)
class ByError:
    """Ranks by RMSE. All but R^2 are in the unit of the target; unusable records are left out.

    Args:
        target: The number to predict.

    >>> from tidegate.compare.method import Linear
    >>> from tidegate.data.predicted import BITS
    >>> test = Labelled(X=np.array([[1.0], [0.0]]), y=np.array([2**BITS, 0]))
    >>> found = ByError(Target(0, 60)).measured(Linear(np.array([0.5])), test)
    >>> found["mae"], found["constant_mae"], round(found["rmse"], 2), round(found["r2"], 2)
    (7.5, 15.0, 10.61, 0.5)
    """

    ranks: ClassVar[str] = "rmse"
    lower_is_better: ClassVar[bool] = True

    target: Target

    @property
    def names(self) -> tuple[str, ...]:
        """See `Yardstick`."""
        return _names("target", "mae", "r2", "mean_error", "constant_rmse", "constant_mae")

    @property
    def digits(self) -> int:
        """Enough for six digits of the width of the range, or more."""
        return max(4, 6 - math.ceil(math.log10(self.target.high - self.target.low)))

    def wording(self, label: str) -> Wording:
        """See `Yardstick`."""
        return error_wording(self.target.high - self.target.low, label)

    def measured(
        self, model: Fitted, test: Labelled, *, probabilities: bool = True
    ) -> dict[str, float]:
        """See `Yardstick`."""
        del probabilities
        target, truths = self.target, test.y * RESOLUTION
        ends = Ends(target.low, target.high)
        found = Measures(Predictions(test.margins(model), truths, test.usable, ends))
        kept = truths[test.usable]
        around = target.half * np.abs(kept - kept.mean()).mean() if kept.size else math.nan
        names = (self.ranks, *(name for name in self.names if name != "constant_mae"))
        values = {name: _value(found.values[name]) for name in names}
        return values | {"constant_mae": float(around)}


def _names(kind: Kind, *first: str) -> tuple[str, ...]:
    """The measures that people are shown and that do not rank, some of them first."""
    others = (score.name for score in listed(kind))
    names = dict.fromkeys([*first, *others])
    return tuple(name for name in names if name not in {"accuracy", "rmse", "unusable"})


def _value(measure: Measure | None) -> float:
    return math.nan if measure is None else measure.value


def yardstick_of(stream: LabelledStream) -> Yardstick:
    """What the models of a stream are measured by."""
    return ByClass(stream.classes) if stream.target is None else ByError(stream.target)


def rounded(value: float, digits: int) -> float | None:
    """A number for JSON; None where it is not defined.

    >>> rounded(1.23456, 2), rounded(math.nan, 2)
    (1.23, None)
    """
    return round(value, digits) if math.isfinite(value) else None

"""How comparisons show measures: headings, formats and words, for classes and for numbers."""

import math
from dataclasses import dataclass

from tidegate.study.measured import ByError, Yardstick


@dataclass(frozen=True)
class Shown:
    """How a measure is shown.

    Attributes:
        name: The measure.
        heading: What tables and plots call it.
        spec: The format of its values.
        constant: The measure that says what a constant reaches, or what that always is; None if
            there is nothing to say.
    """

    name: str
    heading: str
    spec: str
    constant: str | float | None = None

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
        plotted: Those of which the plot shows the first that is defined.
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
    plotted: tuple[Shown, ...]
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


def wording_of(yardstick: Yardstick, *, groups: int, label: str | None = None) -> Wording:
    """The words for a yardstick.

    Args:
        yardstick: What models are measured by.
        groups: The number of classes.
        label: The column of the number to predict, if it has a name.
    """
    if isinstance(yardstick, ByError):
        return _errors(yardstick, label)
    return _classes(groups)


def _classes(groups: int) -> Wording:
    two = groups == 2
    better = "AUC" if two else "balanced accuracy"
    log_loss = Shown("log_loss", "log-\nloss", ".3f", "constant_log_loss")
    balanced = Shown("balanced_accuracy", "balanced\naccuracy", ".1%", 1 / groups)
    auc = Shown("auc", "AUC", ".3f", 0.5 if two else None)
    return Wording(
        ranks=Shown("accuracy", "accuracy", ".1%", "majority"),
        beside=log_loss,
        measures=(balanced, auc, log_loss, Shown("bias", "bias", "+.3f")),
        plotted=(auc, balanced),
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


def _errors(yardstick: ByError, label: str | None) -> Wording:
    width = yardstick.target.high - yardstick.target.low
    decimals = decimals_of(width)
    spec = f".{decimals}f" if decimals <= MAX_DECIMALS and width < LARGEST_FIXED else ".4g"
    rmse = Shown("rmse", "RMSE", spec, "constant_rmse")
    mae = Shown("mae", "MAE", spec, "constant_mae")
    r2 = Shown("r2", "R^2", ".3f", 0.0)
    name = label or "the target"
    return Wording(
        ranks=rmse,
        beside=mae,
        measures=(mae, r2, Shown("mean_error", "bias", f"+{spec}", 0.0)),
        plotted=(r2,),
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


MAX_DECIMALS = 9
LARGEST_FIXED = 1e9
"""Ranges that need more decimals, or are wider, are shown with four digits and an exponent."""


def decimals_of(width: float) -> int:
    """The decimals with which a number is shown whose range has this width.

    >>> decimals_of(240), decimals_of(1), decimals_of(1e6)
    (2, 4, 0)
    """
    return max(0, 4 - math.floor(math.log10(width)))

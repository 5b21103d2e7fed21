"""Two measures that are nowhere but here: one of classes, one of a target."""

from typing import Any

from tidegate.learn.measures.estimates import Answers, Estimates
from tidegate.learn.measures.measure import InUnits, Measure, Percent, Score, exactly
from tidegate.learn.measures.sums import EstimatedSums, Predictions


class ErrorRate(Score):
    """Share of wrong answers of the newest scored release, noisy."""

    name, label = "error_rate", "error rate"
    form = Percent()
    better = -1

    def noisy(self, known: Estimates) -> Measure | None:
        """See `Score`."""
        return known.ratio(known.usable - known.right, known.usable)

    def exact(self, known: Answers) -> Measure | None:
        """See `Score`."""
        return exactly((known.codes != known.y).mean())


class TwiceTheMae(Score):
    """Twice the mean absolute error of the newest scored release, noisy."""

    kind = "target"
    name, label = "twice_mae", "twice MAE"
    form = InUnits(high=2.0)
    needs = ("some",)
    better = -1

    def noisy(self, known: EstimatedSums) -> Measure | None:
        """See `Score`."""
        return known.mean("absolute", 2 * known.ends.width)

    def exact(self, known: Predictions) -> Measure:
        """See `Score`."""
        return exactly(2 * known.half * abs(known.error).mean())


TOYS: dict[str, Any] = {"classes": ErrorRate, "target": TwiceTheMae}

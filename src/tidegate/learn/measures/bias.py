"""Two classes: whether probabilities are too high or too low on average."""

from tidegate.learn.measures.estimates import Answers, Estimates, mean_by_class, mean_of
from tidegate.learn.measures.measure import Measure, Percent, Score, register


@register
class Bias(Score):
    """Mean probability of class 1 minus its share, two classes only, noisy."""

    name, label = "bias", "bias"
    form = Percent(low=-1.0, spec="+.3f")
    needs = ("two", "probabilities")

    def noisy(self, known: Estimates) -> Measure | None:
        """See `Score`."""
        return mean_by_class(known, lambda p: p, lambda p: p - 1)

    def exact(self, known: Answers) -> Measure | None:
        """See `Score`."""
        return mean_of(known.first - known.y)

"""Two classes: the mean squared error of probabilities."""

from tidegate.learn.measures.estimates import Answers, Estimates, mean_by_class, mean_of
from tidegate.learn.measures.measure import Form, Measure, Score, register


@register
class Brier(Score):
    """Mean squared error of the probability of class 1, two classes only, noisy."""

    name, label = "brier", "Brier score"
    form = Form(high=1.0)
    needs = ("two", "probabilities")
    listed = False
    better = -1

    def noisy(self, known: Estimates) -> Measure | None:
        """See `Score`."""
        return mean_by_class(known, lambda p: p**2, lambda p: (1 - p) ** 2)

    def exact(self, known: Answers) -> Measure | None:
        """See `Score`."""
        return mean_of((known.first - known.y) ** 2)

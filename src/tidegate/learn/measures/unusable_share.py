"""The share of slots that cannot be used, whatever is predicted."""

from typing import Any

from tidegate.learn.measures.measure import Measure, Percent, Score, register


@register
class Unusable(Score):
    """Share of unusable records in the newest step, noisy."""

    name, label = "unusable", "unusable"
    form = Percent()
    better = -1

    def noisy(self, known: Any) -> Measure:
        """See `Score`."""
        found: Measure = known.unusable
        return found

    exact = noisy


@register
class UnusableTarget(Unusable):
    """Share of unusable records in the newest step, noisy."""

    kind = "target"

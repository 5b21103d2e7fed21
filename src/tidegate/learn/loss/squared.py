"""The squared distance, whose minimiser is a mean."""

from dataclasses import dataclass
from typing import ClassVar

from tidegate.learn.loss.classification import rounded_up


@dataclass(frozen=True)
class Squared:
    """Squared distance ||x - w||² of a record to the weights: means and histograms.

    Its minimiser has a closed form. A record that cannot be used counts as the public `point`
    (the zero vector if None) with weight 1: leaving it out would make the denominator depend on
    the records, and the bound below would fail.
    """

    kind: ClassVar[str] = "squared"

    point: tuple[float, ...] | None = None

    def sensitivity(self, diameter: float, n: int, regularization: float) -> float:
        """Most that the exact minimiser moves if one of n records moves by at most `diameter`.

        >>> round(Squared().sensitivity(diameter=2**0.5, n=100, regularization=1.0), 9)
        0.007071068
        """
        return rounded_up(diameter / (n * (1 + regularization)))

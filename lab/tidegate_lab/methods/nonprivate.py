"""A model without privacy, which shows by comparison what the noise costs."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tidegate.compare import LabelledStream, Linear
from tidegate.learn import HuberError, Loss, SquaredError, minimize
from tidegate_lab.methods.times import Times


@dataclass(frozen=True, kw_only=True)
class NonPrivate:
    """Trains each release on all records that count, without noise, starting at the last release.

    Args:
        times: When to release, and which records count.
        regularization: Lambda, in units of the square of the records' norm.
        tolerance: The gradient norm to reach, in units of the loss's Lipschitz constant.
    """

    times: Times
    regularization: float = 3e-6
    tolerance: float = 3e-4
    name: str = "not private"

    private = False
    probabilities = True

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Linear]]:
        """Each release."""
        del seed
        task, weights = stream.task(), None
        loss, target = certifiable(task.loss), stream.target
        problem: dict[str, Any] = {
            "regularization": self.regularization * task.norm**2,
            "tolerance": self.tolerance * loss.lipschitz(task.norm),
            "norm": task.norm,
            "target": target,
        }
        for span in self.times.spans(stream.n):
            records = stream.ownerless.between(*span)
            y = records.y if target is None else target.values(records.y)
            found = minimize(loss, records.X, y, weights=records.usable, start=weights, **problem)
            weights = found.weights
            yield span.stop, Linear(weights)


def certifiable(loss: Loss) -> Loss:
    """The same loss with bounded gradients, which the solver needs for its certificate.

    Targets and predictions are in [-1, 1], so that no error of theirs is above 2.
    """
    return HuberError(h=2.0) if isinstance(loss, SquaredError) else loss

"""A model without privacy, which shows by comparison what the noise costs."""

from collections.abc import Iterator
from dataclasses import dataclass

from tidegate.learn.learner import Weights
from tidegate.learn.loss import HuberError, Loss, SquaredError
from tidegate.learn.objective import Objective
from tidegate.learn.solver import certified_minimum
from tidegate.study.baselines.refit import Times
from tidegate.study.study_stream import StudyStream


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

    def models(self, stream: StudyStream, seed: int) -> Iterator[tuple[int, Weights]]:
        """Each release."""
        del seed
        task, weights = stream.task(), None
        loss = certifiable(task.loss)
        tolerance = self.tolerance * loss.lipschitz(task.norm)
        for span in self.times.spans(stream.n):
            records = stream.ownerless.between(*span)
            pull = self.regularization * task.norm**2
            objective = Objective(records, loss, regularization=pull, norm=task.norm)
            weights = certified_minimum(objective, tolerance, weights).weights
            yield span.stop, weights


def certifiable(loss: Loss) -> Loss:
    """The same loss with bounded gradients, which the solver needs for its certificate.

    Targets and predictions are in [-1, 1], so that no error of theirs is above 2.
    """
    return HuberError(h=2.0) if isinstance(loss, SquaredError) else loss

"""Output perturbation: the certified minimiser, plus noise for its sensitivity.

Proofs: docs/proofs/minimiser.md (sensitivity) and docs/proofs/noise.md (noise).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar

from tidegate.checks import between, refuse
from tidegate.learn.learner import Task, Weights
from tidegate.learn.objective import OverParts, rounding_bound
from tidegate.learn.parts import Parts
from tidegate.learn.records import Records
from tidegate.learn.solver import certified_minimum
from tidegate.privacy.bits import Bits
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import gaussian, l2_laplace
from tidegate.privacy.rounding import up


@dataclass(frozen=True, kw_only=True)
class OutputPerturbation:
    """Solve each fit to a certified tolerance, then add noise once; for both kinds of budget.

    Args:
        slack: What the solver's tolerance may add to the sensitivity, relative to it. Smaller
            costs passes over the records, larger costs noise. Where float64 cannot prove as
            much, the tolerance is what it can prove.

    >>> from tidegate.learn.loss import Softmax
    >>> task = Task(loss=Softmax(10), norm=1.0, regularization=0.01)
    >>> round(OutputPerturbation().sensitivity(task, n=8192, d=784), 6)
    0.01728
    """

    emphasizes: ClassVar[bool] = False

    slack: float = 2.0**-10

    def __post_init__(self) -> None:
        object.__setattr__(self, "slack", between("slack", self.slack, 0, 1))

    def check(self, task: Task, unit: str) -> None:  # noqa: ARG002 (both kinds will do)
        """Refuse a task without strong convexity, whose minimiser has no bounded sensitivity."""
        if task.regularization is not None and task.regularization <= 0:
            raise refuse("regularization", "above 0 for OutputPerturbation", task.regularization)

    def pull(self, task: Task, n: int, d: int, allowance: Allowance) -> float:
        """Lambda: the task's, or the one with which a margin gets noise of deviation 1/8.

        That deviation is at most R Delta/mu, or R Delta sqrt(p + 1)/epsilon for p coordinates, and
        Delta is G/(lambda n): all public.
        """
        if task.regularization is not None:
            return task.regularization
        allowed = allowance.amount
        if allowance.unit == "epsilon":
            allowed /= math.sqrt(math.prod(task.loss.shape(d)) + 1)
        return 8 * task.norm * task.loss.lipschitz(task.norm) / (n * allowed)

    def tolerance(self, task: Task, n: int, d: int, prior: Weights | None = None) -> float:
        """The gradient norm tau that the solver must reach: public, and provable in float64."""
        tolerance = self.slack * task.loss.lipschitz(task.norm) / n
        for _ in range(8):  # the bound grows with the tolerance, but hardly
            bound = rounding_bound(
                task.loss,
                d=d,
                norm=task.norm,
                regularization=_given(task),
                center_norm=0.0 if prior is None else math.hypot(*prior.flat) * (1 + 1e-6),
                tolerance=tolerance,
            )
            if tolerance >= 2.5 * bound:
                break
            tolerance = 3 * bound
        return tolerance

    def sensitivity(self, task: Task, n: int, d: int, prior: Weights | None = None) -> float:
        """Delta = G/(lambda n) + tau/lambda, rounded up: how far one record moves the solution."""
        tolerance = Fraction(self.tolerance(task, n, d, prior))
        exact = Fraction(task.loss.lipschitz(task.norm)) / n + tolerance
        return up(exact / Fraction(_given(task)))

    def settings(
        self, task: Task, *, n: int, d: int, allowance: Allowance, prior: Weights | None
    ) -> Mapping[str, float]:
        """The public numbers of a fit; `noise_scale` is Delta/epsilon or Delta/mu, rounded up."""
        task = replace(task, regularization=self.pull(task, n, d, allowance))
        sensitivity = self.sensitivity(task, n, d, prior)
        return {
            "regularization": _given(task),
            "sensitivity": sensitivity,
            "tolerance": self.tolerance(task, n, d, prior),
            "noise_scale": up(Fraction(sensitivity) / Fraction(allowance.amount)),
        }

    def fit(
        self,
        task: Task,
        records: Parts[Records],
        *,
        allowance: Allowance,
        prior: Weights | None,
        bits: Bits,
    ) -> Weights:
        """Private weights for mean(loss) + lambda ||w - prior||^2, over all slots."""
        n, d = records.n, records.d
        settings = self.settings(task, n=n, d=d, allowance=allowance, prior=prior)
        objective = OverParts(
            records,
            task.loss,
            regularization=settings["regularization"],
            center=prior,
            norm=task.norm,
        )
        solution = certified_minimum(objective, settings["tolerance"])
        add_noise = l2_laplace if allowance.unit == "epsilon" else gaussian
        return add_noise(solution.weights, settings["noise_scale"], bits)


def _given(task: Task) -> float:
    """The lambda of a task that has one."""
    if task.regularization is None:
        raise refuse("regularization", "chosen by now", None)
    return task.regularization

"""Output perturbation: the certified minimiser, plus noise for its sensitivity.

Proofs: docs/proofs/minimiser.md (sensitivity) and docs/proofs/noise.md (noise).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tidegate.checks import between, refuse
from tidegate.learn.learner import Task, Weights
from tidegate.learn.objective import InMemory
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
            costs passes over the records, larger costs noise.

    >>> from tidegate.learn.loss import Softmax
    >>> task = Task(loss=Softmax(10), norm=1.0, regularization=0.01)
    >>> round(OutputPerturbation().sensitivity(task, n=8192), 6)
    0.01728
    """

    slack: float = 2.0**-10

    def __post_init__(self) -> None:
        between("slack", self.slack, 0, 1)

    def check(self, task: Task, unit: str) -> None:  # noqa: ARG002 (both kinds will do)
        """Refuse a task without strong convexity, whose minimiser has no bounded sensitivity."""
        if task.regularization <= 0:
            raise refuse("regularization", "above 0 for OutputPerturbation", task.regularization)

    def tolerance(self, task: Task, n: int) -> float:
        """The gradient norm tau that the solver must reach."""
        return self.slack * task.loss.lipschitz(task.norm) / n

    def sensitivity(self, task: Task, n: int) -> float:
        """Delta = G/(lambda n) + tau/lambda, rounded up: how far one record moves the solution."""
        exact = Fraction(task.loss.lipschitz(task.norm)) / n + Fraction(self.tolerance(task, n))
        return up(exact / Fraction(task.regularization))

    def scale(self, task: Task, n: int, allowance: Allowance) -> float:
        """The noise scale Delta/epsilon, or the deviation Delta/mu, rounded up."""
        return up(Fraction(self.sensitivity(task, n)) / Fraction(allowance.amount))

    def settings(
        self, task: Task, *, n: int, allowance: Allowance, prior: Weights | None
    ) -> Mapping[str, float]:
        """The public numbers of a fit."""
        del prior
        return {
            "sensitivity": self.sensitivity(task, n),
            "tolerance": self.tolerance(task, n),
            "noise_scale": self.scale(task, n, allowance),
        }

    def fit(
        self,
        task: Task,
        records: Records,
        *,
        allowance: Allowance,
        prior: Weights | None,
        bits: Bits,
    ) -> Weights:
        """Private weights for mean(loss) + lambda ||w - prior||^2, over all slots."""
        objective = InMemory(
            records.X,
            records.y,
            task.loss,
            regularization=task.regularization,
            center=prior,
            norm=task.norm,
            weights=records.usable,
        )
        solution = certified_minimum(objective, self.tolerance(task, records.n))
        add_noise = l2_laplace if allowance.unit == "epsilon" else gaussian
        return add_noise(solution.weights, self.scale(task, records.n, allowance), bits)

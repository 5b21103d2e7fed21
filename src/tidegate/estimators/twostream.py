"""A classifier of a target stream that leans on a source stream."""

from typing import Any, Self

from tidegate.checks import refuse
from tidegate.estimators.classifier import Classifier, LossName
from tidegate.estimators.stream import as_allocation
from tidegate.learn.learner import Learner
from tidegate.learn.records import FeatureMap, Held
from tidegate.plan import TwoStreamPlan
from tidegate.privacy import Allocation, Budget, Ledger, Line
from tidegate.schedule import Cumulative, SlidingWindow, Stream, TwoStream
from tidegate.schedule.twostream import Arrived


class TwoStreamClassifier(Classifier):
    """Private dynamic transfer learning: models of a source stream, refined on a target stream.

    Each record pays in its own stream only. `predict` uses the newest release of the target, or
    of the source before there is one.

    Args:
        budget: What any single record of either stream may lose, over all time.
        source: The schedule of the source: `Cumulative` or `SlidingWindow`.
        step: Target records between two releases.
        classes: All labels there can be; public.
        norm: Bound on the norm of every record, which is clipped to it; public.
        regularization: Lambda, the pull of each model towards the one it refines.
        loss: "logistic", "softmax", "huber", or "auto" for the first or second by the classes.
        learner: How a fit is made private; by default OutputPerturbation for a pure budget,
            GradientPerturbation for a Gaussian one.
        allocation: How shares go to levels: "paper", "tapered" or an Allocation.
        features: A feature map that every record goes through first.
        not_private_seed: Makes the noise repeatable, and so NOT PRIVATE: for studies and tests.

    Attributes:
        releases_: All releases so far, the newest last.
        ledgers_: What each record of each stream has paid.
        quarantined_: How many records could not be used: for the operator only.

    >>> import numpy as np
    >>> from tidegate import PureDP
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(4000, 2)), rng.integers(2, size=4000)
    >>> X[:, 0] += 3 * y - 1.5
    >>> clf = TwoStreamClassifier(
    ...     budget=PureDP(1.0), source=Cumulative(block=2000), step=500, classes=[0, 1], norm=3.0,
    ...     regularization=0.1, not_private_seed=7)
    >>> clf = clf.partial_fit(X, y, stream="source").partial_fit(X[:900], y[:900])
    >>> [(release.fit.stream, release.fit.at) for release in clf.releases_]
    [('source', 2000), ('source', 4000), ('target', 500)]
    """

    def __init__(
        self,
        *,
        budget: Budget,
        source: Cumulative | SlidingWindow,
        step: int,
        classes: Any,
        norm: float,
        regularization: float = 0.01,
        loss: LossName = "auto",
        learner: Learner | None = None,
        allocation: str | Allocation = "paper",
        features: FeatureMap | None = None,
        not_private_seed: int | None = None,
    ) -> None:
        self.budget = budget
        self.source = source
        self.step = step
        self.classes = classes
        self.norm = norm
        self.regularization = regularization
        self.loss = loss
        self.learner = learner
        self.allocation = allocation
        self.features = features
        self.not_private_seed = not_private_seed

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then take X and y in as the start of both streams.

        For one table of records; streams that differ go through `partial_fit`. The same records
        then stand in both streams, and pay in both.
        """
        self.__dict__.pop("plan_", None)
        return self.partial_fit(X, y, stream="source").partial_fit(X, y, stream="target")

    def partial_fit(self, X: Any, y: Any, *, stream: Stream = "target") -> Self:
        """Take in records of one stream; each step they complete makes its releases.

        The order in which steps of the two streams complete is public.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; what `features` takes, if given.
            y: A label for each, shape (n,).
            stream: "source" or "target".
        """
        if stream not in {"source", "target"}:
            raise refuse("stream", "source or target", stream)
        if not hasattr(self, "plan_"):
            self._open()
        self._accept(self._clean(X, y), self._held[stream])
        while self._next(stream) <= self._held[stream].count:
            so_far, fits = self.plan_.schedule.arrive(self._so_far, stream)
            lines = [Line(fit, self.plan_.share(fit)) for fit in fits]
            self._carry_out(lines, self._held[stream], self.ledgers_[stream])
            self._so_far = so_far
            self._forget()
        return self

    def _open(self) -> None:
        self._start()
        schedule = TwoStream(source=self.source, step=self.step)
        plan = TwoStreamPlan(
            schedule=schedule, budget=self.budget, allocation=as_allocation(self.allocation)
        )
        self.ledgers_: dict[Stream, Ledger] = {
            "source": plan.source.ledger(),
            "target": Ledger(),
        }
        self._held: dict[Stream, Held] = {"source": Held(), "target": Held()}
        self._so_far = Arrived()
        self.plan_ = plan

    def _next(self, stream: Stream) -> int:
        """How many records of a stream complete its next step."""
        if stream == "source":
            return self._so_far.source + self.source.step
        return self._so_far.target + self.step

    def _forget(self) -> None:
        """Settle and drop what no later fit can read."""
        so_far, source = self._so_far, self.source
        self.ledgers_["source"].settle(source.settled(so_far.source))
        self.ledgers_["target"].settle(so_far.phase_start)
        self._held["source"].forget(source.needed(so_far.source))
        self._held["target"].forget(so_far.phase_start)

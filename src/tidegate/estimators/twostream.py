"""A classifier of a target stream that leans on a source stream."""

from copy import copy
from typing import Any, Self

from tidegate.checks import refuse
from tidegate.compute import Engine
from tidegate.estimators.classifier import Classifier, LossName
from tidegate.estimators.face import Begun
from tidegate.learn.learner import Learner, Task
from tidegate.learn.records import FeatureMap
from tidegate.plan import TwoLedgers, TwoStreamPlan
from tidegate.privacy import Allocation, Budget
from tidegate.run import TwoStreamRun
from tidegate.schedule import Cumulative, SlidingWindow, Stream, TwoStream


class TwoStreamClassifier(Classifier):
    """Private dynamic transfer learning: models of a source stream, refined on a target stream.

    Each record pays in its own stream only. `predict` uses the newest release, whose stream is
    the source's only until the next target step is complete.

    Args:
        budget: What any single record of either stream may lose, over all time.
        source: The schedule of the source: `Cumulative` or `SlidingWindow`.
        step: Target records between two releases.
        classes: All labels there can be; public.
        norm: Bound on the norm of every record, which is clipped to it; public.
        regularization: Lambda, the pull of each model towards the one it refines; by default the
            learner chooses it from public numbers (GradientPerturbation needs none).
        loss: "logistic", "softmax", "huber", or "auto" for the first or second by the classes.
        learner: How a fit is made private; by default OutputPerturbation for a pure budget,
            GradientPerturbation for a Gaussian one.
        allocation: How shares go to levels: "paper", "tapered" or an Allocation.
        features: A feature map that every record goes through first.
        compute: Where fits are computed, such as a Dask cluster; by default in memory.
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

    ledgers_: TwoLedgers

    def __init__(
        self,
        *,
        budget: Budget,
        source: Cumulative | SlidingWindow,
        step: int,
        classes: Any,
        norm: float,
        regularization: float | None = None,
        loss: LossName = "auto",
        learner: Learner[Task] | None = None,
        allocation: str | Allocation = "paper",
        features: FeatureMap | None = None,
        compute: Engine | None = None,
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
        self.compute = compute
        self.not_private_seed = not_private_seed

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then take X and y in as the start of both streams.

        For one table of records; streams that differ go through `partial_fit`. The same records
        then stand in both streams, and pay in both.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; what `features` takes, if given.
            y: A label for each, shape (n,).
        """
        self._take(self._begin_both(), X, y, "source")
        return self.partial_fit(X, y, stream="target")

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, *, stream: Stream = "target"
    ) -> Self:
        """Take in records of one stream; each step they complete makes its releases.

        The order in which steps of the two streams complete is public. For the rest see
        `SlidingWindowClassifier.partial_fit`.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; what `features` takes, if given.
            y: A label for each, shape (n,).
            classes: Not read: the classes are a parameter, known before the first record.
            stream: "source" or "target".
        """
        del classes
        if stream not in ("source", "target"):
            raise refuse("stream", "source or target", stream)
        begun = self._begun if hasattr(self, "_begun") else self._begin_both()
        return self._take(begun, X, y, stream)

    def _begin_both(self) -> Begun:
        trainer, intake, classes = self._parts()
        plan = TwoStreamPlan(
            schedule=TwoStream(source=copy(self.source), step=self.step),
            budget=self.budget,
            allocation=self._allocation(),
        )
        run = TwoStreamRun(plan, trainer, self._engine())
        attributes = {
            "releases_": run.models.releases,
            "ledgers_": run.ledgers,
            "classes_": classes,
        }
        parameters = self.get_params()
        return Begun(run=run, intake=intake, attributes=attributes, parameters=parameters)

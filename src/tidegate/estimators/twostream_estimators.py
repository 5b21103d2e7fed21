"""Models of a source stream that are refined on a target stream."""

from copy import copy
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Self, get_args

from tidegate.checks import refuse
from tidegate.data.records import Records
from tidegate.data.values import as_labels
from tidegate.estimators.base_estimator import Begun
from tidegate.estimators.documented import documented
from tidegate.estimators.linear import Classifier, LinearEstimator, Regressor
from tidegate.privacy import Allocation
from tidegate.run.engine import Engine
from tidegate.schedule import Cumulative, SlidingWindow, Stream, TwoStream
from tidegate.schedule.plan import TwoLedgers, TwoStreamPlan

STREAMS = get_args(Stream)


@dataclass(kw_only=True, eq=False, repr=False)
class TwoStreams(LinearEstimator):
    """The parameters of models of two streams.

    Args:
        budget: The bound on the privacy loss of any one record of either stream, over all time; of
            any one person in both streams together if contributions is set.
        source: The schedule of the source: `Cumulative` or `SlidingWindow`.
        step: Target records between two releases.
        period: Not offered for two streams.

    Attributes:
        ledgers_: What each record of each stream has paid.
    """

    source: Cumulative | SlidingWindow
    step: int
    allocation: str | Allocation = "paper"
    compute: Engine | None = None

    ledgers_: TwoLedgers = field(init=False)

    def fit(self, X: Any, y: Any, *, stream: Any = None, persons: Any = None) -> Self:
        """Start two new streams with X and y, and forget any earlier ones.

        Each row goes to one stream; in both it would pay twice. The stream of a row is public, so
        do not choose it by the content of the row.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; the input of `features`, if given.
            y: A label or target for each, shape (n,).
            stream: "source" or "target" for each row, shape (n,). By default the first half of the
                rows, rounded up, is "source" and the rest is "target".
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        runs = _runs(len(as_labels(y)), stream)
        return self._take(self._begin_both(), X, y, *runs, persons=persons)

    def partial_fit(
        self, X: Any, y: Any, *, stream: Stream = "target", persons: Any = None
    ) -> Self:
        """Take in records of one stream; each step they complete makes its releases.

        The order in which steps of the two streams complete is public. Batches are handled as in
        `SlidingWindowRegressor.partial_fit`.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; the input of `features`, if given.
            y: A label or target for each, shape (n,).
            stream: "source" or "target".
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        if stream not in STREAMS:
            raise refuse("stream", "source or target", stream)
        begun = self._begun if hasattr(self, "_begun") else self._begin_both()
        return self._take(begun, X, y, (stream, slice(None)), persons=persons)

    def _hand_over(self, run: Any, records: Records, *runs: tuple[Stream, slice]) -> None:
        for stream, rows in runs:
            run.take(records.take(rows), stream)

    def _begin_both(self) -> Begun:
        learning, attributes = self._parts()
        if self.period is not None:
            raise refuse(
                "period", "None for two streams, which protect persons for life", self.period
            )
        schedule = TwoStream(source=copy(self.source), step=self.step)
        plan = TwoStreamPlan(schedule=schedule, survey=self._survey(), **self._shares())
        run = self._run(plan, learning)
        return self._begun_with(run, {"ledgers_": run.steps.ledgers, **attributes})


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class TwoStreamClassifier(TwoStreams, Classifier):
    """Private dynamic transfer learning: models of a source stream, refined on a target stream.

    Each record is in one stream and pays in that stream only. `predict` uses the newest release; it
    is a source model only until the next target step is complete.

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

    def partial_fit(
        self,
        X: Any,
        y: Any,
        classes: Any = None,
        *,
        stream: Stream = "target",
        persons: Any = None,
    ) -> Self:
        """Take in records of one stream; each step they complete makes its releases.

        The order in which steps of the two streams complete is public. Batches are handled as in
        `SlidingWindowClassifier.partial_fit`.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; the input of `features`, if given.
            y: A label for each, shape (n,).
            classes: Ignored: the classes are a parameter of the estimator.
            stream: "source" or "target".
            persons: The id of each record's person, text or whole numbers, shape (n,); needed if
                `contributions` is set.
        """
        del classes
        return super().partial_fit(X, y, stream=stream, persons=persons)


@documented
@dataclass(kw_only=True, eq=False, repr=False)
class TwoStreamRegressor(TwoStreams, Regressor):
    """Private dynamic transfer learning: models of a source stream, refined on a target stream.

    Each record is in one stream and pays in that stream only. `predict` uses the newest release; it
    is a source model only until the next target step is complete.

    >>> import numpy as np
    >>> from tidegate import ApproxDP
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(4000, 2))
    >>> y = 20 + 10 * X[:, 0] + rng.normal(size=4000)
    >>> reg = TwoStreamRegressor(
    ...     budget=ApproxDP(1.0, 1e-6), source=Cumulative(block=2000), step=500, target=(0, 40),
    ...     norm=2.0, not_private_seed=7)
    >>> reg = reg.partial_fit(X, y, stream="source").partial_fit(X[:900], y[:900])
    >>> [(release.fit.stream, release.fit.at) for release in reg.releases_]
    [('source', 2000), ('source', 4000), ('target', 500)]
    """


def _runs(count: int, stream: Any) -> list[tuple[Stream, slice]]:
    """Runs of consecutive rows of one stream, in order.

    >>> _runs(5, None)
    [('source', slice(0, 3, None)), ('target', slice(3, 5, None))]
    >>> _runs(3, ["source", "target", "target"])
    [('source', slice(0, 1, None)), ('target', slice(1, 3, None))]
    """
    if stream is None:
        half = (count + 1) // 2
        return [("source", slice(0, half)), ("target", slice(half, count))]
    names = as_labels(stream, "stream")
    if len(names) != count:
        raise refuse("stream", f"{count} names, one for each row", shown=f"{len(names)}")
    if wrong := [name for name in names if name not in STREAMS]:
        raise refuse("stream", "source or target for each row", wrong[0])
    runs, start = [], 0
    for name, rows in groupby(names):
        stop = start + len(list(rows))
        runs.append((name, slice(start, stop)))
        start = stop
    return runs

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidegate import ApproxDP, Plan
from tidegate.compare.contenders import Linear, Scheduled
from tidegate.compare.labelled import Labelled, LabelledStream
from tidegate.compare.results import measure
from tidegate.learn import GradientPerturbation
from tidegate.schedule import SlidingWindow


def two_blobs(seed: int, n: int = 400) -> LabelledStream:
    rng = np.random.default_rng(seed)

    def drawn(size: int) -> Labelled:
        y = rng.integers(2, size=size)
        X = np.where(y == 1, 0.5, -0.5)[:, None] + rng.uniform(-0.2, 0.2, size=(size, 2))
        return Labelled(X=X, y=y)

    test = drawn(100)
    return LabelledStream(records=drawn(n), classes=2, norm=1.0, test=lambda _: test)


@dataclass(frozen=True)
class Constant:
    """Says class 1 always, then the truth."""

    name = "constant"
    private = True
    probabilities = True

    def models(self, stream: LabelledStream, seed: int) -> Iterator[tuple[int, Linear]]:
        del seed
        yield stream.n // 2, Linear(np.array([[0.0, 0.0], [0.0, 0.0]]))
        yield stream.n, Linear(np.array([[-1.0, 1.0], [-1.0, 1.0]]))


def test_a_curve_holds_each_release_of_each_run() -> None:
    curve = measure(Constant(), two_blobs(0), range(3))
    assert curve.at == (200, 400)
    assert curve.runs.shape == (3, 2)
    assert curve.median[1] == 1.0
    assert curve.median[0] < 0.8  # all of class 0, and half the records are not
    lower, upper = curve.quartiles
    assert (lower <= curve.median).all()
    assert (curve.median <= upper).all()


def test_our_own_method_releases_as_planned() -> None:
    plan = Plan(schedule=SlidingWindow(window=200, step=100), budget=ApproxDP(100.0, 1e-6))
    method = Scheduled(name="ours", plan=plan, learner=GradientPerturbation())
    curve = measure(method, two_blobs(0, n=500), range(2))
    assert curve.at == (200, 300, 400, 500)
    # At epsilon = 100 the noise in a margin is below 1/10 and the blobs are 0.6 apart.
    assert curve.runs.min() == 1.0


def test_the_first_records_of_a_stream() -> None:
    stream = two_blobs(0)
    assert np.array_equal(stream.first(7).records.X, stream.records.X[:7])
    assert stream.first(7).n == 7

"""Random problems for the tests of `tidegate.learn`."""

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import expit, softmax

from tidegate.data.predicted import BITS, RESOLUTION, Target
from tidegate.data.records import Records
from tidegate.features import clip_rows
from tidegate.learn import Huber, HuberError, Logistic, Loss, Softmax, SquaredError
from tidegate.learn.loss import TargetLoss
from tidegate.learn.objective import Objective, Weights

LOSSES: list[Loss] = [
    Logistic(),
    Huber(h=0.5),
    Huber(h=0.05),
    Softmax(2),
    Softmax(5),
    HuberError(h=0.5),
    HuberError(h=3.0),
]
"""Those with bounded gradients."""

EVERY_LOSS: list[Loss] = [*LOSSES, SquaredError()]


def truths(loss: Loss, n: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Class indices, or codes of targets; some at the ends of the range."""
    if isinstance(loss, TargetLoss):
        codes = rng.integers(-(2**BITS), 2**BITS, size=n, endpoint=True)
        return np.where(rng.random(n) < 0.2, np.sign(codes) * 2**BITS, codes).astype(np.intp)
    return rng.integers(max(2, loss.outputs), size=n)


def options_of(loss: Loss) -> dict[str, Any]:
    """What `minimize` needs to take the truths as they are: a range whose values are the codes."""
    return {"target": Target(-(2**BITS), 2**BITS)} if isinstance(loss, TargetLoss) else {}


def records(loss: Loss, n: int, d: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """n rows in the unit ball, some of them on the sphere, and class indices."""
    rng = np.random.default_rng(seed)
    X = clip_rows(rng.normal(size=(n, d)) * rng.uniform(0, 2, size=(n, 1)), 1.0)
    return X, truths(loss, n, rng)


def usable(X: Any, y: NDArray[np.intp]) -> Records:
    """Records that all count."""
    return Records(X, y, np.ones(X.shape[0], np.bool_))


def objective(loss: Loss, n: int, d: int, seed: int, **options: Any) -> Objective:
    whole = usable(*records(loss, n, d, seed))
    return Objective(whole, loss, **{"regularization": 0.1, "norm": 1.0, **options})


def value(F: Objective, w: Weights) -> float:
    """F at w, by its definition; the records of F are in one part."""
    whole: Any = F.records
    lost = float((F.loss.value((whole.X @ w).T, whole.y) * whole.usable).sum())
    away = w - F.center
    return lost / F.mass + F.regularization * float(np.vdot(away, away))


losses = st.sampled_from(LOSSES)
every_loss = st.sampled_from(EVERY_LOSS)
seeds = st.integers(0, 2**32 - 1)


def curvature(loss: Any, margins: Any, y: Any, v: Any) -> Any:
    """The second derivative of each record's loss in its margins, applied to v."""
    match loss:
        case Logistic():
            return expit(margins) * expit(-margins) * v
        case Softmax():
            p = softmax(margins, axis=0)
            return p * v - p * (p * v).sum(axis=0)
        case Huber():
            depth = (1 + loss.h - (2 * y - 1) * margins) / (2 * loss.h)
            return np.where((depth > 0) & (depth < 1), v / (2 * loss.h), 0.0)
        case HuberError():
            return np.where(np.abs(margins - y * RESOLUTION) < loss.h, v, 0.0)
        case SquaredError():
            return v.copy()
        case _:
            raise TypeError(f"no curvature of {loss}")

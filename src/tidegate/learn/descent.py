"""The public numbers of a descent along noisy gradients, and how far its steps travel."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from tidegate.checks import between, positive, whole
from tidegate.learn.exact import MAX_SLOTS
from tidegate.learn.rules import RULES, UNNUMBERED

TARGET_SPREAD = 1 / 16
"""The default deviation of the noise in a predicted target, in units of half its range."""

TWO_CLASS_SPREAD = 0.6
"""The default deviation of the noise in a margin of two classes, where surveys centre the rows."""

MAX_STEPS = 256
"""Most steps of a descent whose steps are not given: a longer way is cut short."""

MIN_FRESH_STEPS = 16
"""Fewest steps of a descent that does not continue the release before. More cost time only."""

MAX_PROVED_FEATURES = 65
"""Most features for which the rate is kept to what is proved: 64 and a constant column."""

WIDE_FACTOR = 8
"""How much faster than proved a descent with more features goes; see docs/proofs/descent.md."""

WIDE_TARGET_FACTOR = 2
"""The same for a target: squared errors are curved everywhere, so it is less."""


@dataclass(frozen=True, kw_only=True)
class Descent:
    """The public numbers of one fit, all fixed before its records are read.

    Attributes:
        steps: number of gradients released.
        rate: learning rate.
        clip: largest norm of one record's gradient.
        sigma: deviation of the noise in each coordinate of a sum of gradients.
        keep: factor by which the starting model is multiplied.
        lead: how far the model goes on in the direction from the starting model to it.
    """

    steps: int
    rate: float
    clip: float
    sigma: float
    keep: float = 1.0
    lead: float = 0.0

    @property
    def sensitivity(self) -> float:
        """The most that replacing one record moves a sum of gradients."""
        return 2 * self.clip


def fastest_rate(*, smoothness: float, regularization: float, features: int, target: bool) -> float:
    """The highest rate: 1 over the bound on the curvature.

    At this rate the descent of a loss with one margin cannot swing. With many features, rows point
    in many directions and the curvature is far below its bound; there the rate is higher. That, and
    softmax losses, were measured, not proved: docs/proofs/descent.md.

    Args:
        smoothness: Beta, the loss's bound on its curvature.
        regularization: Lambda.
        features: Number of features.
        target: Whether a number is predicted, not a class.

    >>> fastest_rate(smoothness=0.25, regularization=0.0, features=6, target=False)
    4.0
    >>> fastest_rate(smoothness=0.25, regularization=0.0, features=784, target=False)
    32.0
    """
    if features <= MAX_PROVED_FEATURES:
        return 1 / (smoothness + 2 * regularization)
    factor = WIDE_TARGET_FACTOR if target else WIDE_FACTOR
    return 1 / (smoothness / factor + 4 * regularization)


class Pace(NamedTuple):
    """The number of steps of a descent and its learning rate."""

    steps: int
    rate: float


@dataclass(frozen=True, kw_only=True)
class Course:
    """What decides the numbers of a descent, all of it public.

    Attributes:
        slots: n, the number of slots in the fit's span, usable or not, or the sum of their slot
            weights.
        mu: Budget of the fit, in Gaussian DP.
        norm: R, the bound on the rows' norm.
        lipschitz: G, the loss's bound on a gradient's norm; infinite if it has none.
        smoothness: Beta, the loss's bound on its curvature.
        regularization: Lambda.
        behind: Number of records that the starting model has learnt from; 0 for the origin.
        continues: Whether that model is the previous release of a schedule with slot weights.
        surveyed: Whether rows are transformed by what surveys say.
        target: Whether a number is predicted, not a class.
        features: Number of features; above 64 the rate may be higher.
        rules: The number of the public rules to follow.
    """

    slots: int
    mu: float
    norm: float
    lipschitz: float
    smoothness: float
    regularization: float = 0.0
    behind: int = 0
    continues: bool = False
    surveyed: bool = False
    target: bool = False
    features: int = 1
    rules: int = RULES

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "slots": whole("slots", self.slots, most=MAX_SLOTS),
            "mu": positive("mu", self.mu),
            "norm": between("norm", self.norm, 2.0**-64, 2.0**64),
            "smoothness": positive("smoothness", self.smoothness),
            "behind": whole("behind", self.behind, least=0),
        }
        if self.lipschitz != math.inf:
            checked["lipschitz"] = positive("lipschitz", self.lipschitz)
        if self.regularization:
            checked["regularization"] = positive("regularization", self.regularization)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def one_margin(self) -> bool:
        """Whether a record has one margin; a gradient of more can be longer than its row."""
        return self.lipschitz <= self.norm

    @property
    def usual_clip(self) -> float:
        """The clip, if none is given.

        If most records are classified correctly already, a smaller clip affects only the others. A
        larger clip biases a model less; with two classes that outweighs the noise.
        """
        if self.target:
            return self.norm / 2
        if self.surveyed:
            return self.norm / (2 if self.one_margin or not self.continues else 4)
        return (0.14 if self.continues else 0.35) * self.lipschitz

    @property
    def usual_spread(self) -> float:
        """The deviation of the noise in a margin to aim at, if none is given."""
        if self.target:
            return TARGET_SPREAD
        return TWO_CLASS_SPREAD if self.surveyed and self.one_margin else 1.0

    def pace(self, horizon: float, *, steps: int | None, rate: float | None) -> Pace:
        """The fewest steps that cover the horizon no faster than allowed, 16 from a fresh start.

        If `MAX_STEPS` are too few, the way becomes shorter: the rate is never raised. What is given
        is kept.

        Args:
            horizon: How far to travel along a constant slope of 1.
            steps: The number of steps, if it is given.
            rate: The rate, if it is given.
        """
        least = 1 if rate or self.continues else MIN_FRESH_STEPS
        if self.rules == UNNUMBERED:
            return self._earlier_pace(horizon, least, steps, rate)
        fastest = rate or fastest_rate(
            smoothness=self.smoothness,
            regularization=self.regularization,
            features=self.features,
            target=self.target,
        )
        count = steps or min(max(steps_for(horizon, fastest), least), MAX_STEPS)
        return Pace(count, rate or min(horizon / travel(count), fastest))

    def _earlier_pace(
        self, horizon: float, least: int, steps: int | None, rate: float | None
    ) -> Pace:
        """The pace under rules 1: a start at the release before took the fewest, largest steps."""
        factor = 2 if self.target else 32 if self.continues else 8
        aim = rate or factor / self.smoothness
        count = steps or min(max(steps_for(horizon, aim), least), 64)
        limit = math.inf
        if self.regularization:
            limit = (0.25 if self.surveyed else 0.5) / self.regularization
        highest = min(1.5 * factor / self.smoothness, limit)
        return Pace(count, rate or min(horizon / travel(count), highest))


def travel(steps: int) -> float:
    """The distance that accelerated descent covers along a constant slope of 1 at rate 1.

    >>> travel(1), travel(64)
    (1.0, 568.0)
    """
    return steps * (steps + 7) / 8


def steps_for(horizon: float, rate: float) -> int:
    """The least number of steps that cover the horizon at a rate.

    >>> steps_for(568.0, 1.0)
    64
    """
    return max(1, math.ceil(math.sqrt(12.25 + 8 * horizon / rate) - 3.5))

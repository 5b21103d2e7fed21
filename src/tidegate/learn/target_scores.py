"""Scores of a regression: noisy sums of a released model's errors on the next step.

Targets and predictions are in units in which the public range of targets is from -1 to 1.
Proof: docs/proofs/quality.md.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import refuse, whole
from tidegate.learn.exact import MAX_SLOTS, Floats, array_of, truncate
from tidegate.learn.score_cells import level_of, noise_scale
from tidegate.learn.scores import StepScores, shared
from tidegate.learn.survey import lattice_bits, person_bits
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import Bits, gaussian, laplace

LAYOUT = "target-1"
"""The version of the rules below; scores of another version, or of classes, cannot be read."""

RANGE_PARTS = (2, 4, 4, 8, 16)
"""Equal parts of the range in the table, by the level of the noise: see `bins.NOISE_LEVELS`."""


class Kinds(NamedTuple):
    """One number for each kind of sum.

    Below, t is the target and e the prediction minus the target.

    Attributes:
        bias: Of the sum of e/2.
        absolute: Of the sum of |e|/2.
        square: Of the sum of (e/2)^2.
        truth: Of the sum of t.
        truth_square: Of the sum of t^2.
        usable: Of the number of usable records.
        unusable: Of the number of unusable records.
        cell: Of the number of records in a cell of the table.
    """

    bias: Any
    absolute: Any
    square: Any
    truth: Any
    truth_square: Any
    usable: Any
    unusable: Any
    cell: Any


PRECISION = Kinds(
    bias=Fraction(1, 8),
    absolute=Fraction(1, 8),
    square=Fraction(3, 8),
    truth=Fraction(1, 16),
    truth_square=Fraction(1, 8),
    usable=Fraction(1, 16),
    unusable=Fraction(1, 16),
    cell=Fraction(1, 16),
)
"""Gaussian noise: the squared weights, with which no record moves all sums by more than 1."""

INVERSE_SCALE = Kinds(
    bias=Fraction(1, 8),
    absolute=Fraction(1, 8),
    square=Fraction(5, 16),
    truth=Fraction(1, 12),
    truth_square=Fraction(1, 12),
    usable=Fraction(7, 96),
    unusable=Fraction(7, 96),
    cell=Fraction(1, 8),
)
"""Laplace noise: the weights, with which no record moves all sums by more than 1."""

SUMS = Kinds._fields[:-1]
"""The names of the sums, in order; the cells of the table are beside them."""


def scales(allowance: Allowance) -> Kinds:
    """The scale of the noise of each kind of sum, rounded up.

    >>> scales(Allowance("mu", 1.0)).truth, scales(Allowance("epsilon", 1.0)).square
    (4.000000000000001, 3.2)
    """
    weights = INVERSE_SCALE if allowance.unit == "epsilon" else PRECISION
    return Kinds(*(noise_scale(allowance, 1 / weight) for weight in weights))


def deviations(allowance: Allowance) -> Kinds:
    """The standard deviation of the noise of each kind of sum."""
    return Kinds(*map(allowance.deviation, scales(allowance)))


def parts_of(slots: int, allowance: Allowance) -> int:
    """How many equal parts of the range the table has on each side: few if its noise is large.

    >>> parts_of(1024, Allowance("mu", 0.05)), parts_of(65536, Allowance("mu", 0.05))
    (2, 16)
    """
    return RANGE_PARTS[level_of(deviations(allowance).cell / whole("slots", slots, most=MAX_SLOTS))]


def fraction_bits(slots: int, *, persons: bool = False) -> int:
    """The number of fractional bits of errors and targets, so that all sums are exact."""
    return person_bits(slots)[0] if persons else lattice_bits(slots)


def exact_sums(
    predictions: Floats,
    truths: Floats,
    usable: NDArray[np.bool_],
    *,
    parts: int,
    person_weights: Floats | None = None,
) -> tuple[Floats, Floats]:
    """The seven sums and the cells of the table without noise: secret.

    Args:
        predictions: Of each slot; what is outside of -1 to 1 counts as the nearest end.
        truths: The target of each slot, from -1 to 1 where it is usable.
        usable: Whether each slot can be used.
        parts: Equal parts of the range in the table, whose rows are parts of the truth.
        person_weights: How much each slot counts, if persons are protected.

    >>> usable = np.array([True, False])
    >>> exact_sums(np.array([9.0, 0.5]), np.zeros(2), usable, parts=2)
    (array([0.5 , 0.5 , 0.25, 0.  , 0.  , 1.  , 1.  ]), array([0., 0., 0., 1.]))
    """
    n, persons = len(usable), person_weights is not None
    each = np.ones(n)
    if person_weights is not None:
        each = truncate(person_weights, person_bits(n)[1])
    bits = fraction_bits(n, persons=persons)
    p, t = (in_range(values[usable]) for values in (predictions, truths))
    error, truth = _rounded((p - t) / 2, bits), _rounded(t, bits)
    # Products and sums are exact, in any order: errors, targets and weights are on lattices.
    columns = [error, np.abs(error), error**2, truth, truth**2, np.ones(t.size)]
    sums = [float(each[usable] @ column) for column in columns]
    places = _place(t, parts) * parts + _place(p, parts)
    cells = np.bincount(places, each[usable], minlength=parts * parts).astype(np.float64)
    return np.array([*sums, float(each[~usable].sum())]), cells


def in_range(values: Floats) -> Floats:
    """Values clipped to the range from -1 to 1; what is no number counts as 0."""
    return np.clip(np.nan_to_num(values.astype(np.float64, copy=False)), -1.0, 1.0)


def _rounded(values: Floats, bits: int) -> Floats:
    """The nearest multiples of 2**-bits: those of values from -1 to 1 are also from -1 to 1."""
    return np.asarray(np.rint(values * 2.0**bits) * 2.0**-bits)


def _place(values: Floats, parts: int) -> NDArray[np.intp]:
    """The part of the range in which each value is."""
    return np.minimum((values + 1) * (parts / 2), parts - 1).astype(np.intp)


@dataclass(frozen=True, kw_only=True, eq=False)
class TargetScores(StepScores):
    """The noisy sums of one step, of a target; `tidegate.learn.measures` reads them.

    Attributes:
        low: The lower end of the public range of targets.
        high: Its upper end.
        sums: The sums that `SUMS` names, plus noise.
    """

    kind: ClassVar[Literal["classes", "target"]] = "target"
    suffers: ClassVar[str] = "errors"

    low: float
    high: float
    sums: Floats

    def __post_init__(self) -> None:
        wanted = (len(SUMS),), (self.parts**2,)
        if (self.sums.shape, self.cells.shape) != wanted:
            shown = f"{self.sums.shape} and {self.cells.shape}"
            raise refuse("scores", f"{len(SUMS)} sums and {self.parts**2} cells", shown=shown)

    @cached_property
    def parts(self) -> int:
        """How many equal parts of the range the table has on each side."""
        return parts_of(self.slots, self.allowance)

    @cached_property
    def deviations(self) -> Kinds:
        """The standard deviation of the noise of each kind of sum."""
        return deviations(self.allowance)

    def _counted(self) -> tuple[float, float]:
        both = self.sums[SUMS.index("usable") :].tolist()
        noise = math.hypot(self.deviations.usable, self.deviations.unusable)
        return math.fsum(both), noise

    @property
    def errors(self) -> float:
        """See `StepScores`: each is half of |e|."""
        return float(self.sums[SUMS.index("absolute")])

    @property
    def error_deviation(self) -> float:
        """See `StepScores`."""
        return float(self.deviations.absolute)

    @property
    def over_all(self) -> tuple[float, float]:
        """See `StepScores`: the mean absolute error."""
        unit = (self.high - self.low) / self.total
        return unit * self.errors, unit * self.error_deviation

    @property
    def predicted(self) -> dict[str, Any]:
        """See `StepScores`."""
        return {"target": [self.low, self.high]}

    def as_json(self) -> dict[str, Any]:
        """See `StepScores`."""
        return {"layout": LAYOUT, **super().as_json(), "sums": self.sums.tolist()}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Self:
        """See `StepScores`."""
        if stored["layout"] != LAYOUT:
            raise refuse("the layout of scores", LAYOUT, stored["layout"])
        low, high = stored["target"]
        return cls(**shared(stored), low=low, high=high, sums=array_of(stored["sums"]))


def score_targets(  # noqa: PLR0913 (records are three arrays)
    predictions: Floats,
    truths: Floats,
    usable: NDArray[np.bool_],
    *,
    low: float,
    high: float,
    allowance: Allowance,
    bits: Bits,
    person_weights: Floats | None = None,
) -> TargetScores:
    """Sum up how a released model does on the records of the next step, plus noise.

    Args:
        predictions: Of the model on each slot, in units of the range; they are clipped to it.
        truths: The target of each slot, in the same units; ignored where the slot is unusable.
        usable: Whether each slot can be used.
        low: The lower end of the public range of targets.
        high: Its upper end.
        allowance: What each of these records pays, once, for all of it.
        bits: Source of randomness.
        person_weights: How much each slot counts, if persons are protected.

    >>> from tidegate.privacy.noise import NotPrivateBits
    >>> truths, usable = np.linspace(-1, 1, 1000), np.ones(1000, bool)
    >>> scores = score_targets(truths / 2, truths, usable, low=0.0, high=60.0,
    ...                        allowance=Allowance("mu", 1.0), bits=NotPrivateBits(7))
    >>> round(scores.errors), round(scores.error_deviation, 2)
    (123, 2.83)
    """
    parts = parts_of(len(usable), allowance)
    sums, cells = exact_sums(
        predictions, truths, usable, parts=parts, person_weights=person_weights
    )
    add_noise = laplace if allowance.unit == "epsilon" else gaussian
    scale = scales(allowance)
    noisy = [add_noise(np.array([x]), s, bits)[0] for x, s in zip(sums, scale[:-1], strict=True)]
    return TargetScores(
        slots=len(usable),
        low=low,
        high=high,
        allowance=allowance,
        sums=np.array(noisy),
        cells=add_noise(cells, scale.cell, bits),
        persons=person_weights is not None,
    )

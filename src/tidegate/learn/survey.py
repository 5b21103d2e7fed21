"""The survey of a step: noisy sums that say what its records look like.

Proof: docs/proofs/survey.md.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.sparse import issparse

from tidegate.checks import refuse, whole
from tidegate.data.records import Parts, Records, total, zeroed
from tidegate.data.rows import Rows, entries_of, with_entries
from tidegate.learn.exact import MAX_FEATURES, MAX_SLOTS, Floats, truncate
from tidegate.learn.rules import RULES, WITH_PAIRS
from tidegate.learn.slot_weights import weighing
from tidegate.privacy.budget import Allowance, sqrt_down, up
from tidegate.privacy.noise import Bits, gaussian, laplace

SQRT2 = Fraction(1.4142135623730951)
"""The float just above the square root of 2."""

MOST_CLASSES = 2**20
"""The most classes that a survey counts."""

MOST_PAIRED = 64
"""The most features of which a survey sums the products of every two."""

NO_PAIRS: Floats = np.zeros(0)
"""The sums of products of a survey that has none."""


class Kinds(NamedTuple):
    """One number for each kind of cell of a survey.

    Attributes:
        sums: Of the sums of features.
        squares: Of the sums of squared features.
        counts: Of the counts of classes and of unusable slots.
        length: Of the sum of squared norms.
    """

    sums: float
    squares: float
    counts: float
    length: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Sums:
    """Sums over records; features are in units of the public norm.

    Attributes:
        classes: Number of classes.
        cells: The sums: of each feature, of each squared feature, the count of each class, the
            count of unusable slots, the sum of squared norms. Subclasses may have more after these.
        pairs: The sums of the products of every two features, in the order of `np.triu_indices`;
            empty if there are none, see `has_pairs`.
    """

    MORE: ClassVar[int] = 0
    """How many numbers come after the cells."""

    classes: int
    cells: Floats
    pairs: Floats = field(default_factory=NO_PAIRS.copy)

    def __post_init__(self) -> None:
        left = self.cells.size - self.classes - 2 - self.MORE
        if not _is_vector(self.cells) or left < 2 or left % 2:
            allowed = f"a float64 array with the cells of {self.classes} classes"
            shown = f"{self.cells.dtype} of shape {self.cells.shape}"
            raise refuse("cells", allowed, shown=shown)
        d = self.features
        if not _is_vector(self.pairs) or self.pairs.size not in {0, d * (d - 1) // 2}:
            allowed = f"a float64 array with the products of {d} features"
            shown = f"{self.pairs.dtype} of shape {self.pairs.shape}"
            raise refuse("pairs", allowed, shown=shown)

    @property
    def features(self) -> int:
        """Number of features."""
        return (self.cells.size - self.classes - 2 - self.MORE) // 2

    @property
    def sums(self) -> Floats:
        """The sum of each feature."""
        return self.cells[: self.features]

    @property
    def squares(self) -> Floats:
        """The sum of the squares of each feature."""
        return self.cells[self.features : 2 * self.features]

    @property
    def counts(self) -> Floats:
        """The count of each class."""
        return self.cells[2 * self.features :][: self.classes]

    @property
    def unusable(self) -> float:
        """The count of unusable slots."""
        return float(self.cells[2 * self.features + self.classes])

    @property
    def length(self) -> float:
        """The sum of squared norms."""
        return float(self.cells[2 * self.features + self.classes + 1])


def _is_vector(values: Floats) -> bool:
    return values.dtype == np.float64 and values.ndim == 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Survey(Sums):
    """The noisy sums over the slots of one step. An unusable slot enters its own count only.

    Attributes:
        slots: Number of slots in the step.
        allowance: What each record paid.
        persons: Whether persons are protected: then a person's admitted slots count for one
            together, and others not at all.
        rules: The number of the public rules that sized its noise; see `tidegate.learn.rules`.
    """

    slots: int
    allowance: Allowance
    persons: bool = False
    rules: int = RULES

    @property
    def deviations(self) -> Kinds:
        """The standard deviation of the noise in each kind of cell."""
        scale = scales(self.allowance, features=self.features, rules=self.rules)
        return Kinds(*map(self.allowance.deviation, scale))

    @property
    def unusable_share(self) -> float:
        """The noisy share of unusable slots; it can lie outside [0, 1]."""
        return self.unusable / self.total

    @property
    def total(self) -> float:
        """How much all slots count together: their number, or an estimate if persons count."""
        if not self.persons:
            return self.slots
        noisy = math.fsum([*self.counts.tolist(), self.unusable])
        noise = math.sqrt(self.classes + 1) * self.deviations.counts
        return total_of(noisy, noise, self.slots)


def total_of(noisy: float, noise: float, slots: int) -> float:
    """How much all slots count together, estimated from noisy counts of persons.

    Args:
        noisy: The sum of all noisy counts.
        noise: The deviation of the noise in it; no less is estimated, where slots allow it.
        slots: The number of slots, the most that they can count.
    """
    return min(max(noisy, noise, 1.0), float(slots))


def survey(  # noqa: PLR0913 - the records and public numbers
    records: Parts[Records],
    *,
    norm: float,
    classes: int,
    allowance: Allowance,
    bits: Bits,
    persons: bool = False,
    rules: int = RULES,
) -> Survey:
    """The private survey of a step, in one pass over its records.

    Args:
        records: All slots of the step.
        norm: The public bound on the norm of every row.
        classes: Number of classes.
        allowance: What each record pays.
        bits: Source of randomness.
        persons: Whether persons are protected; then the records have person weights.
        rules: The number of the public rules that it follows.

    >>> from tidegate.privacy.noise import NotPrivateBits
    >>> records = Records(np.full((4096, 1), 0.5), np.ones(4096, np.intp), np.ones(4096, bool))
    >>> found = survey(records, norm=1.0, classes=2, allowance=Allowance("mu", 0.5),
    ...                bits=NotPrivateBits(7))
    >>> round(float(found.sums[0]) / 4096, 1), round(float(found.counts[1]) / 4096, 1)
    (0.5, 1.0)
    """
    n, d = (
        whole("slots", records.n, most=MAX_SLOTS),
        whole("features", records.d, most=MAX_FEATURES),
    )
    whole("classes", classes, least=2, most=MOST_CLASSES)
    paired = has_pairs(allowance.unit, features=d, sparse=issparse(records.form), rules=rules)
    sums = partial(cells_of, bits=lattice_bits(n))
    if persons:
        features, shares = person_bits(n)
        sums = partial(cells_of_persons, bits=features, shares=shares)
    exact = total(records, partial(sums, norm=norm, classes=classes, pairs=paired))
    scale = scales(allowance, features=d, rules=rules)
    kinds = [d, d, classes + 1, 1, exact.size - 2 * d - classes - 2]
    noisy = with_noise(exact, kinds, [*scale, scale.sums], allowance.unit, bits)
    *cells, pairs = np.split(noisy, np.cumsum(kinds)[:-1])
    return Survey(
        slots=n,
        classes=classes,
        allowance=allowance,
        cells=np.concatenate(cells),
        persons=persons,
        rules=rules,
        pairs=pairs,
    )


def has_pairs(unit: str, *, features: int, sparse: bool, rules: int = RULES) -> bool:
    """Whether a survey sums products of features: of few dense ones, under a Gaussian budget.

    >>> has_pairs("mu", features=6, sparse=False), has_pairs("epsilon", features=6, sparse=False)
    (True, False)
    """
    return unit == "mu" and rules >= WITH_PAIRS and 2 <= features <= MOST_PAIRED and not sparse


def cells_of(
    records: Records, *, norm: float, classes: int, bits: int, pairs: bool = False
) -> Floats:
    """The exact sums over a part, which are secret; the sums of such sums are exact too.

    The sums of products come last, if `pairs` asks for them.
    """
    records = weighing(records, expected=False)
    return _cells(records, np.ones(records.n), _units(records, norm, bits), classes, pairs=pairs)


def cells_of_persons(  # noqa: PLR0913 - the records and public numbers
    records: Records, *, norm: float, classes: int, bits: int, shares: int, pairs: bool = False
) -> Floats:
    """The exact sums over a part in which each slot counts as much as its person weight says."""
    records = weighing(records, expected=False, persons=True)
    parts = truncate(np.asarray(records.person_weights), shares)
    return _cells(records, parts, _units(records, norm, bits), classes, pairs=pairs)


def _cells(records: Records, parts: Floats, units: Rows, classes: int, *, pairs: bool) -> Floats:
    """The sums of rows, of which each counts as much as its part says.

    Products and sums are exact, in any order: features, squares and parts are on lattices.
    """
    squared = with_entries(units, entries_of(units) ** 2)
    usable = np.where(records.usable, parts, 0)
    counts = np.bincount(records.y[records.usable], parts[records.usable], minlength=classes)
    if counts.size != classes:
        raise refuse("classes", f"{classes} class indices", shown="another class index")
    sums, squares = np.asarray(units.T @ usable), np.asarray(squared.T @ usable)
    more = _products(units, units * usable[:, None]) if pairs else NO_PAIRS
    return np.concatenate([sums, squares, counts, [(parts - usable).sum(), squares.sum()], more])


def _products(one: Rows, other: Rows) -> Floats:
    """The sums of the products of every two features, exact in any order."""
    return np.asarray(one.T @ other)[np.triu_indices(one.shape[1], 1)]


def _units(records: Records, norm: float, bits: int) -> Rows:
    """The rows in units of the norm, on a lattice; an unusable one is zero."""
    kept = zeroed(records.X, ~records.usable).astype(np.float64, copy=False)
    # A little less, so that no rounding lengthens a row; truncation then only shortens it.
    return truncate(with_entries(kept, entries_of(kept) / norm * (1 - 2.0**-50)), bits)


def with_noise(
    exact: Floats, kinds: Sequence[int], scale: Sequence[float], unit: str, bits: Bits
) -> Floats:
    """Add independent noise to each cell, of its kind's scale.

    Args:
        exact: The exact sums, kind by kind.
        kinds: How many there are of each kind.
        scale: The scale of the noise of each kind.
        unit: The unit of the budget.
        bits: Source of randomness.
    """
    add_noise = laplace if unit == "epsilon" else gaussian
    parts = zip(np.split(exact, np.cumsum(kinds)[:-1]), scale, strict=True)
    return np.concatenate([add_noise(part, each, bits) for part, each in parts if part.size])


def sensitivity(unit: str, *, features: int, rules: int = RULES) -> float:
    """The most that replacing one record moves the weighted cells, rounded up.

    Sums, squares, products of two features, counts and length are weighted by 1, 1/sqrt(2), 1, 1/2
    and 1. In the L2 norm, squares, products and length are free; for a pure budget, which has no
    products, this is the L1 norm.

    >>> round(sensitivity("mu", features=784) ** 2, 9)
    4.5
    >>> round(sensitivity("epsilon", features=16), 3)
    9.441
    """
    if unit == "mu":
        return math.nextafter(sqrt_down(Fraction(9, 2)), math.inf)
    if rules == 1:  # the sum of what each kind of cell moves by alone
        root = math.nextafter(sqrt_down(Fraction(features)), math.inf)
        return up(2 * Fraction(root) + SQRT2 + 2)
    # d t/(2 - t^2) + 2/t bounds sums, squares and length together, for every t in (0, 1]. This t
    # makes it smallest; an error in computing t only makes the bound less tight.
    d = features
    t = Fraction(min(1.0, math.sqrt(8 / (d + 4 + math.sqrt(d * d + 16 * d)))))
    return up(1 + d * t / (2 - t * t) + 2 / t)


def scales(allowance: Allowance, *, features: int, rules: int = RULES) -> Kinds:
    """The scale of the noise in each kind of cell, rounded up."""
    moved = Fraction(sensitivity(allowance.unit, features=features, rules=rules))
    one = Fraction(up(moved / Fraction(allowance.amount)))
    return Kinds(sums=float(one), squares=up(one * SQRT2), counts=float(2 * one), length=float(one))


def settings(
    allowance: Allowance, *, features: int, rules: int = RULES, pairs: bool = False
) -> Mapping[str, float]:
    """The public numbers of a survey, for cards and verification; scales are of sums."""
    scale = scales(allowance, features=features, rules=rules)
    return {
        "sensitivity": sensitivity(allowance.unit, features=features, rules=rules),
        **{f"noise_scale_{kind}": each for kind, each in scale._asdict().items()},
        **({"noise_scale_pairs": scale.sums} if pairs else {}),
    }


def lattice_bits(slots: int) -> int:
    """The number of fractional bits of features; squares have twice as many.

    >>> lattice_bits(4096), lattice_bits(2**29)
    (20, 12)
    """
    return (53 - (slots - 1).bit_length()) // 2


def person_bits(slots: int) -> tuple[int, int]:
    """The numbers of fractional bits of features and of person weights, if persons count.

    A person with so many slots in a step that each counts for less than the last bit is left out.

    >>> person_bits(4096), person_bits(2**29)
    ((13, 15), (8, 8))
    """
    all_of_them = 53 - (slots - 1).bit_length()
    return all_of_them // 3, all_of_them - 2 * (all_of_them // 3)

"""Budgets: the bound on the privacy loss of any one record over all time.

docs/proofs/budget.md proves the conversion between (epsilon, delta) and mu, and
docs/proofs/amplification.md what a mechanism may spend on a sample. What a budget gives as a float
is rounded to the safe side.
"""

import math
import struct
import sys
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import ClassVar, Literal, NamedTuple

from flint import arb, ctx, fmpq

from tidegate.checks import between, positive, refuse, whole


def down(value: Fraction) -> float:
    """The largest float that is not above a non-negative rational.

    >>> down(Fraction(1, 3)) <= Fraction(1, 3) < math.nextafter(down(Fraction(1, 3)), 1)
    True
    """
    number = float(value)
    return number if number <= value else math.nextafter(number, 0.0)


def sqrt_down(value: Fraction) -> float:
    """The largest float whose square is not above a non-negative rational.

    >>> sqrt_down(Fraction(1, 4)), Fraction(sqrt_down(Fraction(2))) ** 2 < 2
    (0.5, True)
    """
    # An integer root of value * 4^shift with at least 54 bits determines all 53 bits of a float.
    shift = max(0, 54 - (value.numerator.bit_length() - value.denominator.bit_length()) // 2)
    root = math.isqrt((value.numerator << 2 * shift) // value.denominator)
    return down(Fraction(root, 1 << shift))


def up(value: Fraction) -> float:
    """The smallest float that is not below a non-negative rational.

    >>> up(Fraction(1, 2)), up(Fraction(1, 3)) > Fraction(1, 3)
    (0.5, True)
    """
    number = float(value)
    return number if number >= value else math.nextafter(number, math.inf)


PRECISIONS = (128, 512, 2048, 8192)
"""Bits of ball arithmetic, tried in turn until a comparison is decided."""

LARGEST_DELTA = 1e-3
"""A larger delta must be confirmed: it would allow publishing one record in a thousand."""

MAX_CONTRIBUTIONS = 2**20
"""The largest k; far beyond what leaves a useful model."""


@dataclass(frozen=True)
class PureDP:
    """Pure differential privacy: a fit with share s is (s epsilon)-DP.

    Args:
        epsilon: The bound on any record's privacy loss, above 0.
        contributions: If persons are protected, k: the most that all records of a person may cost
            together, in units of what one record may cost. Then epsilon is about a person, and
            shares are of epsilon / k.

    >>> PureDP(1.0).of_share(Fraction(4, 7))
    0.5714285714285714
    """

    epsilon: float
    contributions: int = field(default=1, kw_only=True)

    unit: ClassVar[Literal["epsilon"]] = "epsilon"
    """What `of_share` returns."""
    power: ClassVar[int] = 1
    """A slot of weight e loses e times what a fit costs, and shares are fractions of epsilon."""
    tapered_rate: ClassVar[Fraction] = Fraction(7, 10)
    """The default rate of `Tapered`, near 2^-1/2."""
    even_rate: ClassVar[Fraction] = Fraction(1, 2)
    """The factor on the share s that keeps the noise, of scale ~ 1/(n s), when n doubles."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _checked(self.epsilon))
        whole("contributions", self.contributions, most=MAX_CONTRIBUTIONS)

    def __repr__(self) -> str:
        return f"PureDP(epsilon={self.epsilon!r}{_shown(self.contributions)})"

    @property
    def delta(self) -> float:
        """0: the bound holds without exception."""
        return 0.0

    def of_share(self, share: Fraction) -> float:
        """The epsilon of one fit, rounded down."""
        return down(share * Fraction(self.epsilon) / self.contributions)


@dataclass(frozen=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy by Gaussian noise: a fit with share s has mu sqrt(s).

    Args:
        epsilon: Above 0. Replacing a record multiplies the probability of any set of outcomes by at
            most e^epsilon and adds at most delta.
        delta: Between 0 and 1, far below one over the number of records; docs/guarantee.md says how
            to choose it.
        contributions: As for `PureDP`; shares are of mu^2 / k.
        weak_delta: Confirms a delta above 0.001, which hardly protects.

    >>> ApproxDP(1.0, 1e-6).mu
    0.2367043806634357
    >>> ApproxDP(1.0, 0.01)
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: delta must be at most 0.001, or confirmed by weak_delta ...
    """

    epsilon: float
    delta: float
    contributions: int = field(default=1, kw_only=True)
    weak_delta: bool = field(default=False, repr=False, compare=False, kw_only=True)

    unit: ClassVar[Literal["mu"]] = "mu"
    """What `of_share` returns."""
    power: ClassVar[int] = 2
    """A slot of weight e loses e times what a fit costs, and shares are fractions of mu^2."""
    tapered_rate: ClassVar[Fraction] = Fraction(1, 2)
    """The default rate of `Tapered`."""
    even_rate: ClassVar[Fraction] = Fraction(1, 4)
    """The factor on the share s that keeps the noise, of scale ~ 1/(n sqrt s), when n doubles."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", _checked(self.epsilon))
        object.__setattr__(self, "delta", between("delta", self.delta, 0, 1))
        whole("contributions", self.contributions, most=MAX_CONTRIBUTIONS)
        if self.delta > LARGEST_DELTA and self.weak_delta is not True:
            allowed = f"at most {LARGEST_DELTA:g}, or confirmed by weak_delta"
            raise refuse("delta", f"{allowed} (as an option: --weak-delta)", self.delta)
        _ = self.mu  # raise now if there is no such mu

    def __repr__(self) -> str:
        amounts = f"epsilon={self.epsilon!r}, delta={self.delta!r}"
        return f"ApproxDP({amounts}{_shown(self.contributions)})"

    @cached_property
    def mu(self) -> float:
        """The largest float mu for which mu-GDP provably implies this budget."""
        return gaussian_mu(self.epsilon, self.delta)

    def of_share(self, share: Fraction) -> float:
        """The mu of one fit, rounded down."""
        return sqrt_down(share * Fraction(self.mu) ** 2 / self.contributions)


Budget = PureDP | ApproxDP


def _shown(contributions: int) -> str:
    """The contributions in the text of a budget, if persons are protected."""
    return f", contributions={contributions}" if contributions > 1 else ""


def budget_of(
    epsilon: float,
    delta: float | None = None,
    *,
    contributions: int = 1,
    weak_delta: bool = False,
) -> Budget:
    """The budget for an epsilon: ApproxDP if a delta is given, else PureDP.

    >>> budget_of(1.0), budget_of(1.0, 1e-6)
    (PureDP(epsilon=1.0), ApproxDP(epsilon=1.0, delta=1e-06))
    >>> budget_of(1.0, contributions=4)
    PureDP(epsilon=1.0, contributions=4)
    """
    if delta is not None:
        return ApproxDP(epsilon, delta, contributions=contributions, weak_delta=weak_delta)
    if weak_delta:
        raise refuse("weak_delta", "left out where there is no delta", weak_delta)
    return PureDP(epsilon, contributions=contributions)


class Allowance(NamedTuple):
    """How much one mechanism may spend: an epsilon, or a mu of Gaussian DP."""

    unit: Literal["epsilon", "mu"]
    amount: float

    def deviation(self, scale: float) -> float:
        """The standard deviation of noise of a scale: Laplace for epsilon, else Gaussian."""
        return scale * math.sqrt(2) if self.unit == "epsilon" else scale


def allowance_of(budget: Budget, share: Fraction) -> Allowance:
    """How much a mechanism with a share of a budget may spend.

    >>> allowance_of(PureDP(2.0), Fraction(1, 4))
    Allowance(unit='epsilon', amount=0.5)
    """
    return Allowance(budget.unit, budget.of_share(share))


MIN_EPSILON = 1e-100
"""An epsilon below this would need noise beyond what floats can hold."""


def _checked(epsilon: object) -> float:
    number = positive("epsilon", epsilon)
    if number < MIN_EPSILON:
        raise refuse("epsilon", f"at least {MIN_EPSILON}", epsilon)
    return number


def gaussian_delta(epsilon: float, mu: float) -> float:
    """The smallest delta of a mu-Gaussian mechanism at epsilon, rounded up.

    >>> gaussian_delta(1.0, 1.0)
    0.12693673750664397
    """
    positive("epsilon", epsilon)
    positive("mu", mu)
    for precision in PRECISIONS:
        ball = _delta(epsilon, mu, precision)
        if ball < sys.float_info.min * sys.float_info.epsilon:
            return math.ulp(0.0)
        if ball.rel_accuracy_bits() > 64:
            mantissa, exponent = map(int, ball.upper().man_exp())
            return min(up(Fraction(mantissa) * Fraction(2) ** exponent), 1.0)
    raise refuse("epsilon", "small enough to compute with, such as 10", epsilon)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The largest float mu whose delta at epsilon is provably at most `delta`.

    It bisects over the floats themselves, and ball arithmetic decides each comparison. So the
    result is never an ulp too large.

    >>> mu = gaussian_mu(1.0, 1e-6)
    >>> gaussian_delta(1.0, mu) <= 1e-6 < gaussian_delta(1.0, mu * (1 + 1e-15))
    True
    """
    return _gaussian_mu(positive("epsilon", epsilon), between("delta", delta, 0, 1))


@lru_cache
def _gaussian_mu(epsilon: float, delta: float) -> float:
    low, high = 0, _ordinal(sys.float_info.max)  # positive floats have the order of their bits
    while high - low > 1:
        middle = (low + high) // 2
        if _certainly_within(epsilon, _float(middle), delta):
            low = middle
        else:
            high = middle
    if low == 0:
        allowed = f"in reach of Gaussian noise at delta {delta}, such as 1"
        raise refuse("epsilon", allowed, epsilon)
    return _float(low)


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The smallest float epsilon for which mu-GDP provably implies (epsilon, `delta`)-DP.

    >>> mu = ApproxDP(1.0, 1e-6).mu
    >>> gaussian_epsilon(mu, 1e-6), math.ceil(10 * gaussian_epsilon(10 * mu, 1e-6)) / 10
    (1.0, 13.6)
    """
    positive("mu", mu)
    between("delta", delta, 0, 1)
    most = 1.0
    while not _certainly_within(most, mu, delta):
        most = positive("epsilon", 2 * most)
    low, high = 0, _ordinal(most)
    while high - low > 1:
        middle = (low + high) // 2
        if _certainly_within(_float(middle), mu, delta):
            high = middle
        else:
            low = middle
    return _float(high)


def _ordinal(number: float) -> int:
    return int.from_bytes(struct.pack(">d", number))


def _float(ordinal: int) -> float:
    return float(struct.unpack(">d", ordinal.to_bytes(8))[0])


def _certainly_within(epsilon: float, mu: float, delta: float) -> bool:
    """Whether the delta of mu at epsilon is provably at most `delta`; False when in doubt."""
    for precision in PRECISIONS:
        ball = _delta(epsilon, mu, precision)
        if ball <= delta:
            return True
        if ball > delta:
            return False
    return False


def _delta(epsilon: float, mu: float, precision: int) -> arb:
    """A ball around Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2)."""
    with ctx.workprec(precision):
        loss, size = arb(epsilon), arb(mu)
        return _phi(size / 2 - loss / size) - loss.exp() * _phi(-size / 2 - loss / size)


def _phi(value: arb) -> arb:
    return (-value / arb(2).sqrt()).erfc() / 2


def epsilon_for_sample(epsilon: float, sample: int, size: int) -> float:
    """The epsilon that a mechanism may spend on its sample, rounded down.

    If the mechanism is that private for the `sample` records it reads, and these are drawn without
    replacement from `size` records, then the fit is `epsilon`-private for each of the `size`:

        epsilon = ln(1 + (sample/size)(e^epsilon_for_sample - 1))

    >>> round(epsilon_for_sample(1.0, sample=1000, size=10_000), 4)
    2.9005
    """
    positive("epsilon", epsilon)
    whole("sample", sample)
    whole("size", size, least=sample)
    for precision in (128, 512, 2048):
        with ctx.workprec(precision):
            ball = (arb(epsilon).expm1() * arb(fmpq(size, sample))).log1p()
        if ball.is_finite() and ball.rel_accuracy_bits() > 64:
            mantissa, exponent = map(int, ball.lower().man_exp())
            return down(Fraction(mantissa) * Fraction(2) ** exponent)
    raise refuse("epsilon", "small enough to compute with, such as 10", epsilon)

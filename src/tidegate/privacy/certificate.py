"""The certificate: what any record can ever pay, in closed form.

Each form is derived in docs/proofs/certificate.md and held against brute force in tests/laws.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

from tidegate.checks import refuse
from tidegate.privacy.allocation import (
    Allocation,
    Charged,
    Paper,
    Target,
    geometric,
    side,
    update_levels,
)
from tidegate.schedule import (
    Basic,
    Continual,
    Cumulative,
    Growing,
    Independent,
    MultiResolution,
    SlidingWindow,
)
from tidegate.schedule.binary import log2

CERTIFIED: tuple[type, ...] = (
    Basic,
    Continual,
    Cumulative,
    Growing,
    Independent,
    MultiResolution,
    SlidingWindow,
    Target,
)


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What any record could ever pay before shares are scaled, known before there is one.

    Attributes:
        supremum: The most any record pays over all time before scaling: what shares are divided by.
        attained: Whether a record reaches it, or only tends to it as more and more bases are made.
    """

    supremum: Fraction
    attained: bool


def certify(schedule: Charged, allocation: Allocation, rate: Fraction) -> Certificate:
    """The exact supremum of the ledger, over all records and all time, before scaling.

    >>> str(certify(SlidingWindow(window=7, step=1), Paper(), Fraction(1, 2)).supremum)
    '7/12'
    >>> str(certify(Continual(block=8, step=1), Paper(), Fraction(1, 2)).supremum)
    '11/8'
    """
    if type(schedule) not in CERTIFIED:  # a subclass may make other fits than it is certified for
        raise refuse(
            "schedule", "one that a certificate is proved for", told=type(schedule).__name__
        )
    match schedule:
        case Independent():
            return Certificate(supremum=Fraction(1), attained=True)
        case SlidingWindow():
            return Certificate(supremum=_sliding(schedule, allocation, rate), attained=True)
        case Continual() if isinstance(allocation, Paper):
            # The first step of phase 0: all its updates, and every base but the first.
            excess = rate - rate ** update_levels(schedule, 0)
            return Certificate(supremum=1 + max(Fraction(0), excess), attained=False)
        case Growing() | MultiResolution() | Cumulative() | Continual() | Basic() | Target():
            # (1 - r)(1 + r + r^2 + ...), or what Tapered fills up to it in every phase; for Growing
            # a sum that telescopes.
            return Certificate(supremum=Fraction(1), attained=False)
        case _:
            assert_never(schedule)


def _sliding(schedule: SlidingWindow, allocation: Allocation, rate: Fraction) -> Fraction:
    """The levels of one side, the bases a record is in, and the worst way to be in two sides."""
    divisor = 3 * side(schedule, allocation, rate)
    base = Fraction(1, 3)
    levels = [geometric(rate, level) / divisor for level in range(schedule.levels)]
    whole_bases, rest = divmod(schedule.base, schedule.left + 1)
    total = sum(levels, base * whole_bases)
    if rest == 0:
        return total
    top = log2(rest)
    both_sides = sum(share for level, share in enumerate(levels) if rest >> level & 1)
    one_more_base = base - 2 * levels[top] - sum(levels[top + 1 :])
    return total + both_sides + max(Fraction(0), one_more_base)

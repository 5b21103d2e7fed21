"""Conversion of exact rationals and roots to floats, rounded to the safe side."""

import math
from fractions import Fraction


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

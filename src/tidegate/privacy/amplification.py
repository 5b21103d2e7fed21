"""Amplification by sampling, proved in docs/proofs/amplification.md."""

from fractions import Fraction

from flint import arb, ctx, fmpq

from tidegate.checks import positive, refuse, whole
from tidegate.privacy.rounding import down


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

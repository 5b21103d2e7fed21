"""What a budget promises, in words: the one place where they are chosen."""

import math

LARGEST_FACTOR = 1e6
"""Beyond it, e^epsilon as a number says nothing to anyone."""


def name(epsilon: float, delta: float) -> str:
    """The kind of privacy that a budget gives.

    >>> name(1.0, 0.0), name(0.5, 1e-6)
    ('1-differentially private', '(0.5, 1e-06)-differentially private')
    """
    known = f"({_exact(epsilon)}, {_exact(delta)})" if delta else _exact(epsilon)
    return f"{known}-differentially private"


def amounts(epsilon: float, delta: float) -> str:
    """A budget as its numbers.

    >>> amounts(1.0, 0.0), amounts(0.5, 1e-6)
    ('epsilon = 1', 'epsilon = 0.5, delta = 1e-06')
    """
    return f"epsilon = {epsilon:g}" + (f", delta = {delta:g}" if delta else "")


def meaning(epsilon: float, delta: float) -> str:
    """What a budget promises about any one record, in one true sentence.

    With a delta it must not say that no outcome becomes more than e^epsilon times as likely: some
    do. What holds is P(S) <= e^epsilon P'(S) + delta, for every set S of outcomes.

    >>> print(meaning(1.0, 0.0))
    Replace the content of any one record, and no set of outcomes becomes more than e^1 (under 2.72)
    times as likely.
    >>> print(meaning(1.0, 1e-6))
    Replace the content of any one record, and the probability of every set of outcomes stays at
    most e^1 (under 2.72) times what it was, plus 1e-06.
    """
    factor = f"e^{_exact(epsilon)}{_rounded_up(epsilon)}"
    if not delta:
        change = f"no set of outcomes becomes more than {factor} times as likely"
    else:
        stays = f"at most {factor} times what it was, plus {_exact(delta)}"
        change = f"the probability of every set of outcomes stays {stays}"
    return f"Replace the content of any one record, and {change}."


def _exact(number: float) -> str:
    """The shortest text of a float that is read back as the same: rounding could claim too much."""
    return repr(number).removesuffix(".0")


def _rounded_up(epsilon: float) -> str:
    if epsilon > math.log(LARGEST_FACTOR):
        return ""
    return f" (under {math.floor(math.exp(epsilon) * 100 + 1) / 100:.10g})"

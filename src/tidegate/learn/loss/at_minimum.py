"""How large gradients can be at the minimiser of an objective, which is never far from its center.

docs/proofs/minimiser.md, section 8, derives all of this. Every function returns an upper bound:
`SLACK` is far more than the rounding errors of the few operations in each.
"""

import math

SLACK = 1 + 1e-9


def sigmoid(x: float) -> float:
    """1/(1 + exp(-x)), without overflow."""
    small = math.exp(-abs(x))
    return (1.0 if x >= 0 else small) / (1 + small)


def reach(*, slope: float, odds: float, regularization: float) -> float:
    """The largest distance of a minimiser from the center.

    Args:
        slope: The most that a record's log-odds change for each unit of that distance.
        odds: The largest log-odds, at the center, of a wrong answer.
        regularization: Lambda.

    >>> round(reach(slope=1.0, odds=0.0, regularization=0.01), 3)
    3.731
    """
    by_value = math.sqrt(_largest_pull(odds) / (2 * regularization))
    return SLACK * min(by_value, slope * sigmoid(odds) / (2 * regularization))


def _largest_pull(odds: float) -> float:
    """The largest y sigmoid(odds - y) over y: the V with V + ln V = odds - 1.

    >>> round(_largest_pull(0.0), 4)
    0.2785
    """
    k = odds - 1
    x = math.log(max(1.0, k))  # x = ln V, from above: exp(x) + x is convex and increasing
    for _ in range(60):
        x -= (math.exp(x) + x - k) / (math.exp(x) + 1)
    return SLACK * math.exp(x)


def half_apart(margin: float) -> float:
    """The largest sin(t) sigmoid(margin cos(t)): half of how far apart two gradients can be.

    Gradients are those of binary logistic losses at one w, for rows of norm at most 1; `margin` is
    at least the norm of w.

    >>> half_apart(0.0).__round__(6), half_apart(1.0).__round__(6)
    (0.5, 0.549548)
    """
    low, high = 0.0, 1.0
    for _ in range(100):  # c = cos(t): the logarithm is concave in c
        c = (low + high) / 2
        if c / (1 - c * c) < margin * sigmoid(-margin * c):
            low = c
        else:
            high = c
    slope = abs(margin * sigmoid(-margin * low) - low / (1 - low * low))
    best = math.sqrt(1 - low * low) * sigmoid(margin * low)
    # A concave function is below its tangents, and c is within 1 of `low`.
    return min(1.0, SLACK * best * math.exp(slope))

"""Bounds on the loss of a released model, for planning, under assumptions of the caller.

These are the paper's Theorems 3.2, 4.3, 4.4 and 5.2 in corrected form, each proved in
docs/proofs/utility.md. The data loss is the mean of `loss(w; record)` over all slots of a span,
without the regulariser. Never compute the risk of a model, the distance between models or the bound
on a loss from private records: assume them, or take them from public data.

Each theorem takes a `shift`: a bound on the distance of a release from the exact minimiser of its
fit. It is the norm of the noise, plus tolerance / (2 regularization) for a certified minimiser,
plus half a lattice step times sqrt(coordinates) for the rounding of the release.
"""

import math

from scipy.special import gammainccinv

from tidegate_lab.checks import positive, refuse, whole


def laplace_norm(*, coordinates: int, scale: float, eta: float) -> float:
    """The value that the norm of L2-Laplace noise exceeds with probability exactly e^-eta.

    The paper's lemma has p ln(p e^eta) scale instead: equal for p = 1, larger for every other p.

    Args:
        coordinates: released coordinates p.
        scale: sensitivity / epsilon; the norm is Gamma(p, scale) distributed, its mean p scale.
        eta: minus the logarithm of the probability.

    >>> round(laplace_norm(coordinates=1, scale=0.5, eta=3.0), 12)
    1.5
    >>> round(laplace_norm(coordinates=7850, scale=1.0, eta=3.0))  # p ln(p e^eta) is 93950
    7996
    """
    quantile = gammainccinv(whole("coordinates", coordinates), math.exp(-positive("eta", eta)))
    return positive("scale", scale) * float(quantile)


def gaussian_norm(*, coordinates: int, deviation: float, eta: float) -> float:
    """The value that the norm of Gaussian noise exceeds with probability exactly e^-eta.

    Args:
        coordinates: released coordinates p.
        deviation: standard deviation of each coordinate; the mean norm is at most sqrt(p) times it.
        eta: minus the logarithm of the probability.

    >>> round(gaussian_norm(coordinates=2, deviation=1.0, eta=2.0), 12)
    2.0
    """
    quantile = gammainccinv(whole("coordinates", coordinates) / 2, math.exp(-positive("eta", eta)))
    return positive("deviation", deviation) * math.sqrt(2 * float(quantile))


def expected_excess(
    *, lipschitz: float, mean_shift: float, regularization: float = 0.0, distance: float = 0.0
) -> float:
    """Theorem 3.2: a bound on the expected data loss of a release minus that of another model.

    If `distance` is 0, the other model is the exact minimiser of the fit, and the result is the
    cost of privacy alone. Otherwise it is any model at that distance from the prior, fixed before
    the noise is drawn.

    Args:
        lipschitz: Lipschitz constant G of the loss in the weights.
        mean_shift: mean distance of the release from the exact minimiser.
        regularization: lambda of the fit.
        distance: assumed distance of the other model from the prior.

    >>> expected_excess(lipschitz=1.0, mean_shift=0.02, regularization=0.01, distance=2.0)
    0.06
    """
    return positive("lipschitz", lipschitz) * _at_least_0("mean_shift", mean_shift) + _bias(
        regularization, distance
    )


def excess_on_new_records(  # noqa: PLR0913 (one argument for each premise)
    *,
    lipschitz: float,
    shift: float,
    regularization: float,
    distance: float,
    slots: int,
    risk: float,
    loss_bound: float,
    eta: float,
) -> float:
    """Theorems 4.3 and 5.2: a bound on the fitted span's data loss minus the best model's risk.

    It holds with probability at least 1 - 2 e^-eta if the records of the span are independent draws
    from one distribution and the best model w* is fixed. Any fixed model can be w*; the theorems
    use the minimiser of the risk.

    Args:
        lipschitz: Lipschitz constant G of the loss in the weights.
        shift: bound that the distance of the release from the exact minimiser exceeds with
            probability at most e^-eta; see `laplace_norm`.
        regularization: lambda of the fit.
        distance: assumed distance of w* from the prior.
        slots: slots n of the span.
        risk: assumed bound on the expected loss of w*: that of w* itself, or of the prior.
        loss_bound: assumed bound M with 0 <= loss(w*; record) <= M for every record.
        eta: minus the logarithm of the probability of each of the two failures.

    >>> assumed = dict(distance=2.0, risk=0.3, loss_bound=2.0, eta=3.0)
    >>> fit = dict(lipschitz=1.0, regularization=0.01, slots=4096, shift=0.1)
    >>> round(excess_on_new_records(**fit, **assumed), 4)
    0.1706
    """
    slots, eta = whole("slots", slots), positive("eta", eta)
    loss_bound, risk = positive("loss_bound", loss_bound), _at_least_0("risk", risk)
    sampling = math.sqrt(2 * eta * loss_bound * risk / slots) + 2 * loss_bound * eta / (3 * slots)
    shifted = positive("lipschitz", lipschitz) * _at_least_0("shift", shift)
    return shifted + _bias(regularization, distance) + sampling


def excess_on_old_records(*, lipschitz: float, shift: float, regularization: float) -> float:
    """Theorem 4.4: a bound on how much worse than its prior an update is on any records.

    It bounds the change of the data loss from prior to release on every data set, including the
    prior's own. It holds with the same probability as `shift` and assumes nothing about the
    records. Along a chain of updates the bounds add up.

    Args:
        lipschitz: Lipschitz constant G of the loss in the weights.
        shift: bound on the distance of the release from the exact minimiser; see `laplace_norm`.
        regularization: lambda of the fit.

    >>> excess_on_old_records(lipschitz=1.0, shift=0.1, regularization=2.0)
    0.35
    """
    lipschitz = positive("lipschitz", lipschitz)
    pull = lipschitz / (2 * positive("regularization", regularization))
    return lipschitz * (pull + _at_least_0("shift", shift))


def _bias(regularization: float, distance: float) -> float:
    """The most that the regulariser can cost: lambda distance^2."""
    weight = _at_least_0("regularization", regularization)
    return weight * _at_least_0("distance", distance) ** 2


def _at_least_0(name: str, value: float) -> float:
    if not 0 <= value < math.inf:
        raise refuse(name, "a finite number of at least 0", value)
    return float(value)

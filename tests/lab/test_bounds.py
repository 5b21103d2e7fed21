"""The utility bounds hold, are attained, and the forms the paper printed fail.

Counts of failures are compared with binomial quantiles for a false-alarm rate of 1e-6 a test;
seeds are fresh.
"""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import gammainccinv
from scipy.stats import binom

from tidegate.checks import InvalidValueError
from tidegate_lab.paper.bounds import (
    excess_on_new_records,
    excess_on_old_records,
    expected_excess,
    gaussian_norm,
    laplace_norm,
)

FALSE_ALARM = 1e-6
TRIALS = 2000
Array = NDArray[np.float64]


def at_most(failures: int, probability: float) -> bool:
    """Whether a count is credible if each trial fails with at most this probability."""
    return failures <= int(binom.isf(FALSE_ALARM, TRIALS, min(1.0, probability)))


def laplace_noise(rng: np.random.Generator, coordinates: int, scale: float) -> Array:
    directions = rng.normal(size=(TRIALS, coordinates))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions * rng.gamma(coordinates, scale, size=(TRIALS, 1))


class Logistic:
    """Records that are one of six points, so that risks and losses are finite sums.

    A point is the label times the features; the loss is ln(1 + exp(-point . w)).
    """

    points = np.array([[1, 0.2], [0.5, -0.5], [-0.4, 0.9], [0.8, 0.6], [-0.7, -0.1], [-0.2, -0.3]])
    shares = np.array([0.4, 0.2, 0.2, 0.1, 0.05, 0.05])
    lipschitz = float(np.linalg.norm(points, axis=1).max())

    def losses(self, weights: Array) -> Array:
        return np.asarray(np.logaddexp(0, -weights @ self.points.T))

    def data_loss(self, weights: Array, shares: Array) -> Array:
        return np.asarray((self.losses(weights) * shares).sum(axis=1))

    def minimize(self, shares: Array, regularization: float, priors: Array) -> Array:
        """The minimiser of every trial by gradient descent with step 1 / smoothness."""
        weights, smoothness = priors.copy(), self.lipschitz**2 / 4 + 2 * regularization
        for _ in range(3000):
            slopes = -shares / (1 + np.exp(weights @ self.points.T))
            gradients = slopes @ self.points + 2 * regularization * (weights - priors)
            weights -= gradients / smoothness
            if np.abs(gradients).max() < 1e-11:
                return weights
        raise AssertionError("the reference has not converged")


@given(coordinates=st.integers(1, 10_000), eta=st.floats(0.01, 50))
def test_the_exact_norm_is_below_the_lemma_of_the_paper(coordinates: int, eta: float) -> None:
    exact = laplace_norm(coordinates=coordinates, scale=1.0, eta=eta)
    assert exact <= coordinates * (math.log(coordinates) + eta) * (1 + 1e-12)


@pytest.mark.parametrize("coordinates", [1, 2, 30])
@pytest.mark.parametrize("eta", [0.7, 3.0])
def test_norms_are_exceeded_as_often_as_they_say(coordinates: int, eta: float) -> None:
    rng = np.random.default_rng()
    laplace = np.linalg.norm(laplace_noise(rng, coordinates, 0.3), axis=1)
    gaussian = np.linalg.norm(rng.normal(scale=0.3, size=(TRIALS, coordinates)), axis=1)
    for norms, bound in (
        (laplace, laplace_norm(coordinates=coordinates, scale=0.3, eta=eta)),
        (gaussian, gaussian_norm(coordinates=coordinates, deviation=0.3, eta=eta)),
    ):
        exceeded = int((norms > bound).sum())
        assert at_most(exceeded, math.exp(-eta))
        assert at_most(TRIALS - exceeded, 1 - math.exp(-eta))


@pytest.mark.parametrize("scale", [0.01, 1.0])
@pytest.mark.parametrize("regularization", [0.01, 1.0])
@pytest.mark.parametrize("eta", [1.0, 3.0])
def test_the_theorems_hold_along_a_chain(scale: float, regularization: float, eta: float) -> None:
    """A base fit and an update with the base's release as prior, for logistic regression."""
    rng, problem, slots = np.random.default_rng(), Logistic(), 50
    origin = np.zeros((TRIALS, 2))
    best = problem.minimize(problem.shares[None, :], 0.0, np.zeros((1, 2)))
    risk = float(problem.data_loss(best, problem.shares)[0])
    old = rng.multinomial(slots, problem.shares, size=TRIALS) / slots
    new = rng.multinomial(slots, problem.shares, size=TRIALS) / slots
    fitted = problem.minimize(old, regularization, origin)
    priors = fitted + laplace_noise(rng, 2, scale)
    updated = problem.minimize(new, regularization, priors)
    releases = updated + laplace_noise(rng, 2, scale)

    shift = laplace_norm(coordinates=2, scale=scale, eta=eta)
    fit: Any = {"lipschitz": problem.lipschitz, "regularization": regularization}
    on_new = [
        excess_on_new_records(
            **fit,
            shift=shift,
            distance=float(np.linalg.norm(best - prior)),
            slots=slots,
            risk=risk,
            loss_bound=float(problem.losses(best).max()),
            eta=eta,
        )
        for prior in priors
    ]
    excess = problem.data_loss(releases, new) - risk
    assert at_most(int((excess > on_new).sum()), 2 * math.exp(-eta))

    change = problem.data_loss(releases, old) - problem.data_loss(priors, old)
    on_old = excess_on_old_records(**fit, shift=shift)
    assert at_most(int((np.abs(change) > on_old).sum()), math.exp(-eta))

    # The excess is at most G times the norm of the noise in every trial, and the sum of the norms
    # is Gamma(2 TRIALS) distributed: its quantile is the threshold for the mean.
    quantile = float(gammainccinv(2 * TRIALS, FALSE_ALARM)) / TRIALS
    price = problem.data_loss(priors, old) - problem.data_loss(fitted, old)
    assert price.mean() <= expected_excess(lipschitz=fit["lipschitz"], mean_shift=quantile * scale)
    gain = problem.data_loss(priors, old) - problem.data_loss(best, old)
    assert gain.mean() <= expected_excess(
        **fit, mean_shift=quantile * scale, distance=float(np.linalg.norm(best))
    )


def test_theorem_4_4_is_attained() -> None:
    """The loss G w in one coordinate: the minimiser moves by G / (2 lambda), noise moves it on."""
    lipschitz, regularization, noise = 0.5, 0.25, 0.125
    release = lipschitz / (2 * regularization) + noise
    bound = excess_on_old_records(lipschitz=lipschitz, shift=noise, regularization=regularization)
    assert lipschitz * release == bound


def test_theorem_3_2_is_attained() -> None:
    """All records and the prior at 1, the loss G |w - 1|: the excess is G |noise|, on average."""
    rng, scale, lipschitz = np.random.default_rng(), 0.7, 3.0
    releases = 1 + laplace_noise(rng, 1, scale)
    excess = lipschitz * np.abs(releases - 1).mean()
    tails = gammainccinv(TRIALS, [FALSE_ALARM / 2, 1 - FALSE_ALARM / 2]) / TRIALS
    assert lipschitz * scale * tails[1] <= excess <= lipschitz * scale * tails[0]
    assert expected_excess(lipschitz=lipschitz, mean_shift=scale) == lipschitz * scale


class TestThePrintedFormsFail:
    """Counterexamples, exact where no randomness is needed: why our bounds are others."""

    def test_3_2_for_the_regularised_objective(self) -> None:
        """The loss slope . w and the regulariser: noise adds lambda E ||noise||^2 to the objective.

        On the ball of diameter R = slope / lambda that holds the minimiser, the gradient of the
        regularised loss is at most 2 slope, which the text calls L and G, and beta is 2 lambda.
        """
        coordinates, block, epsilon, regularization, slope = 10, 10, 0.1, 1.0, 1.0
        lipschitz = 2 * slope
        smoothness_term = 2 * regularization * (slope / regularization) ** 2
        scale = 4 * lipschitz / (regularization * block * epsilon)
        printed = (lipschitz + smoothness_term + lipschitz**2) * math.log(block) / (
            regularization * block
        ) + 4 * coordinates * lipschitz**2 / (epsilon * regularization * block)
        truth = regularization * coordinates * (coordinates + 1) * scale**2
        assert truth > 10 * printed

    def test_4_3_divides_the_regulariser_by_the_whole_span(self) -> None:
        """The loss G |w - 1|, all records at 1, prior 0: the minimiser stops half way, at 1/2."""
        step, span, eta, epsilon = 10, 10 * 2**20, 1.0, 1e6
        regularization = 1 / step  # the largest the theorem allows: the distance is 1
        lipschitz = regularization
        minimiser = lipschitz / (2 * regularization)
        truth = lipschitz * abs(minimiser - 1)
        prior_risk = loss_bound = lipschitz
        noise = eta * 4 * lipschitz**2 / (regularization * step * epsilon)
        printed = (
            math.sqrt(2 * eta * prior_risk / span) + (1.5 * loss_bound * eta + 1) / span + noise
        )
        assert truth > 100 * printed
        assert truth <= excess_on_new_records(
            lipschitz=lipschitz,
            shift=0.0,
            regularization=regularization,
            distance=1.0,
            slots=span,
            risk=0.0,
            loss_bound=loss_bound,
            eta=eta,
        )

    def test_4_3_and_5_2_leave_the_loss_bound_out_of_the_root(self) -> None:
        """A loss of 0 or M by a fair coin, whatever the model: only the sampling error is left.

        w* is the prior, so the regulariser costs nothing, and noise does no harm. With the
        regulariser's cost, 0, in place of the printed "+1" the right side only gets smaller.
        """
        slots, loss_bound, eta = 10_000, 1000.0, 3.0
        risk = loss_bound / 2
        printed = math.sqrt(2 * eta * risk / slots) + (1.5 * loss_bound * eta + 1) / slots
        corrected = excess_on_new_records(
            lipschitz=1e-9,
            shift=0.0,
            regularization=1.0,
            distance=0.0,
            slots=slots,
            risk=risk,
            loss_bound=loss_bound,
            eta=eta,
        )

        def failure(excess: float) -> float:
            """The probability that the mean loss exceeds its expectation by more than this."""
            return float(binom.sf(math.floor(slots * (risk + excess) / loss_bound), slots, 0.5))

        assert failure(printed) > 8 * math.exp(-eta)  # even 1 - 2 e^-eta is far off
        assert failure(corrected) <= math.exp(-eta)

    def test_4_4_vanishes_where_the_prior_is_best(self) -> None:
        """All records, old and new, at the prior, the loss |w - prior|: any noise does harm."""
        rng, printed = np.random.default_rng(), 0.0  # the distance of w* from the prior is a factor
        harm = np.abs(laplace_noise(rng, 1, 0.1))
        assert (harm > printed).all()
        shift = laplace_norm(coordinates=1, scale=0.1, eta=2.0)
        bound = excess_on_old_records(lipschitz=1.0, shift=shift, regularization=1.0)
        assert at_most(int((harm > bound).sum()), math.exp(-2.0))


@pytest.mark.parametrize(
    ("name", "value"),
    [("shift", -0.1), ("shift", math.inf), ("regularization", 0.0), ("lipschitz", math.nan)],
)
def test_wrong_assumptions_are_refused(name: str, value: float) -> None:
    given_values = {"lipschitz": 1.0, "shift": 0.1, "regularization": 1.0, name: value}
    with pytest.raises(InvalidValueError, match=f"{name} must be"):
        excess_on_old_records(**given_values)

"""The sentences about a budget are true of its noise, for both kinds of budget."""

import re
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import laplace, norm

from tidegate.privacy import ApproxDP, PureDP
from tidegate.privacy.meaning import bets_won, meaning, name, paid_so_far

epsilons = st.floats(0.01, 10)
deltas = st.floats(1e-9, 1e-3)


class Claim(NamedTuple):
    """P(S) <= factor P'(S) + more, for every set S of outcomes."""

    factor: float
    more: float


def claimed(sentence: str) -> Claim:
    """The claim of a sentence, parsed from its words; any other sentence fails."""
    record = "replace the content of any one record, and "
    factor = r"e\^(?P<epsilon>\S+)(?: \(under \S+\))?"
    pure = f"{record}no set of outcomes becomes more than {factor} times as likely\\."
    approximate = (
        f"{record}the probability of every set of outcomes stays at most {factor} times what it "
        r"was, plus (?P<delta>\S+)\."
    )
    bet, _, promise = sentence.partition(" Formally: ")
    match = re.fullmatch(pure, promise) or re.fullmatch(approximate, promise)
    assert match, sentence
    assert re.search(r"wins at most [\d.]+ % of bets on which of two equally likely contents", bet)
    assert ("Gaussian" in bet) == ("delta" in match.groupdict())
    return Claim(np.exp(float(match["epsilon"])), float(match.groupdict().get("delta") or 0))


@given(epsilons)
def test_the_sentence_of_a_pure_budget_is_true(epsilon: float) -> None:
    """For a Laplace mechanism that spends all of it, and for all half-lines."""
    claim = claimed(meaning(epsilon, PureDP(epsilon).delta))
    edges = np.linspace(-30, 30, 2001) / epsilon
    here, there = laplace.sf(edges, 1, 1 / epsilon), laplace.sf(edges, 0, 1 / epsilon)
    assert np.all(here <= claim.factor * there * (1 + 1e-9) + claim.more)
    assert claim.more == 0


@given(epsilons, deltas)
def test_the_sentence_of_a_gaussian_budget_is_true(epsilon: float, delta: float) -> None:
    """For a Gaussian mechanism that spends all of it; without the delta it would be false."""
    claim = claimed(meaning(epsilon, delta))
    mu = ApproxDP(epsilon, delta).mu
    worst = epsilon / mu + mu / 2  # where the density is e^epsilon times as large
    edges = worst + np.linspace(-5, 5, 2001)
    here, there = norm.sf(edges, mu), norm.sf(edges)
    assert np.all(here <= (claim.factor * there + claim.more) * (1 + 1e-9))
    assert np.any(here > 1.01 * claim.factor * there)
    assert claim.more == delta


@pytest.mark.parametrize("epsilon", [0.1 + 0.2, 1e-3, 1.0, 13.5, 13.9, 700.0])
def test_numbers_in_words_are_exact_or_rounded_up(epsilon: float) -> None:
    for delta in (0.0, 1e-6 / 3):
        assert claimed(meaning(epsilon, delta)) == (np.exp(epsilon), delta)
        factor = re.search(r"under (\S+)\)", meaning(epsilon, delta))
        assert factor is None or np.exp(epsilon) < float(factor[1]) <= np.exp(epsilon) + 0.0101
        assert str(epsilon).removesuffix(".0") in name(epsilon, delta)


@given(epsilons, deltas)
def test_no_bet_is_won_more_often_than_the_sentence_says(epsilon: float, delta: float) -> None:
    """The best test between two outcomes wins half of 1 plus their distance in total variation."""
    mu = ApproxDP(epsilon, delta).mu
    assert norm.cdf(mu / 2) <= bets_won(epsilon, delta) / 100
    laplace_wins = (1 - np.expm1(-epsilon / 2)) / 2
    assert laplace_wins <= bets_won(epsilon, 0.0) / 100


@given(epsilons, st.one_of(st.just(0.0), deltas))
def test_bets_are_rounded_up_by_a_tenth_of_a_per_cent_at_most(epsilon: float, delta: float) -> None:
    """Without a delta, randomised response wins exactly e^epsilon / (e^epsilon + 1) of them.

    With one, the best test between two Gaussians wins, and never more than the definition allows.
    """
    by_definition = 100 * (np.exp(epsilon) + delta) / (np.exp(epsilon) + 1)
    exact = 100 * norm.cdf(ApproxDP(epsilon, delta).mu / 2) if delta else by_definition
    assert exact <= by_definition + 1e-9
    assert exact - 1e-9 <= bets_won(epsilon, delta) <= exact + 0.1 + 1e-6
    assert f"wins at most {bets_won(epsilon, delta):g} % of bets" in meaning(epsilon, delta)


def test_a_spent_budget_does_not_read_like_an_alarm() -> None:
    assert "of its budget; no record can ever pay more than 100 %" in paid_so_far(0.99)
    assert "99.9 %" in paid_so_far(0.9981)  # rounded up
    assert "100 % of its budget: all that the plan will ever charge it" in paid_so_far(1.0)

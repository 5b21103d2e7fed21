"""What is said of a budget is true of the noise that it buys, for both kinds of budget."""

import re
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import laplace, norm

from tidegate.privacy import ApproxDP, PureDP
from tidegate.privacy.meaning import meaning, name

epsilons = st.floats(0.01, 10)
deltas = st.floats(1e-9, 1e-3)


class Claim(NamedTuple):
    """P(S) <= factor P'(S) + more, for every set S of outcomes."""

    factor: float
    more: float


def claimed(sentence: str) -> Claim:
    """What a sentence says, read off its words: a sentence that says something else is an error."""
    record = "Replace the content of any one record, and "
    factor = r"e\^(?P<epsilon>\S+)(?: \(under \S+\))?"
    pure = f"{record}no set of outcomes becomes more than {factor} times as likely\\."
    approximate = (
        f"{record}the probability of every set of outcomes stays at most {factor} times what it "
        r"was, plus (?P<delta>\S+)\."
    )
    found = re.fullmatch(pure, sentence) or re.fullmatch(approximate, sentence)
    assert found, sentence
    return Claim(np.exp(float(found["epsilon"])), float(found.groupdict().get("delta") or 0))


@given(epsilons)
def test_the_sentence_of_a_pure_budget_is_true(epsilon: float) -> None:
    """Of a Laplace mechanism that spends it all, and all half-lines."""
    claim = claimed(meaning(epsilon, PureDP(epsilon).delta))
    edges = np.linspace(-30, 30, 2001) / epsilon
    here, there = laplace.sf(edges, 1, 1 / epsilon), laplace.sf(edges, 0, 1 / epsilon)
    assert np.all(here <= claim.factor * there * (1 + 1e-9) + claim.more)
    assert claim.more == 0


@given(epsilons, deltas)
def test_the_sentence_of_a_gaussian_budget_is_true(epsilon: float, delta: float) -> None:
    """Of a Gaussian mechanism that spends it all; without the delta it would be false."""
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

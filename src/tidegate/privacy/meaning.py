"""The wording of what a budget promises, for cards, pages and commands."""

import math

from tidegate.privacy.budget import gaussian_mu
from tidegate.privacy.person import EACH_RECORD, Protects

LARGEST_FACTOR = 1e6
"""A larger e^epsilon is not written as a number, which would tell readers nothing."""


def name(epsilon: float, delta: float) -> str:
    """The kind of privacy that a budget gives.

    >>> name(1.0, 0.0), name(0.5, 1e-6)
    ('1-differentially private', '(0.5, 1e-06)-differentially private')
    """
    numbers = f"({_exact(epsilon)}, {_exact(delta)})" if delta else _exact(epsilon)
    return f"{numbers}-differentially private"


def amounts(epsilon: float, delta: float) -> str:
    """The numbers of a budget, as text.

    >>> amounts(1.0, 0.0), amounts(0.5, 1e-6)
    ('epsilon = 1', 'epsilon = 0.5, delta = 1e-06')
    """
    return f"epsilon = {epsilon:g}" + (f", delta = {delta:g}" if delta else "")


def whom(protects: Protects) -> str:
    """Whom a budget protects.

    >>> from tidegate.privacy.person import Person
    >>> whom(EACH_RECORD)
    'any one record'
    >>> whom(Person(contributions=4)), whom(Person(contributions=4, period=30))
    ('any one person', 'what any one person does within any 30 consecutive steps')
    """
    return protects.words.whom


def meaning(epsilon: float, delta: float, protects: Protects = EACH_RECORD) -> str:
    """What a budget promises about any one record or person: as a bet, then the definition.

    With a delta, some outcomes can become more than e^epsilon times as likely, so the text must
    not deny it. What holds is P(S) <= e^epsilon P'(S) + delta, for every set S of outcomes.

    >>> from tidegate.privacy.person import Person
    >>> print(meaning(1.0, 0.0))
    Someone who knows all other records and sees every release wins at most 73.2 % of bets on which
    of two equally likely contents a record has; a blind guess wins 50 %. Formally: replace the
    content of any one record, and no set of outcomes becomes more than e^1 (under 2.72) times as
    likely.
    >>> print(meaning(1.0, 1e-6))
    Someone who knows all other records and sees every release wins at most 54.8 % of bets on which
    of two equally likely contents a record has, because all noise is Gaussian; a blind guess wins
    50 %. Formally: replace the content of any one record, and the probability of every set of
    outcomes stays at most e^1 (under 2.72) times what it was, plus 1e-06.
    >>> print(meaning(1.0, 0.0, Person(contributions=4)))
    Someone who knows all other records and sees every release wins at most 73.2 % of bets on which
    of two equally likely contents all records of a person together have; a blind guess wins 50 %.
    Formally: replace the content of any number of records of any one person, and no set of outcomes
    becomes more than e^1 (under 2.72) times as likely. The records of a person count until all of
    them together have cost 4 times what one record may cost; later ones keep their place and are
    not learnt from.
    """
    factor = f"e^{_exact(epsilon)}{_rounded_up(epsilon)}"
    if not delta:
        why, change = "", f"no set of outcomes becomes more than {factor} times as likely"
    else:
        why = ", because all noise is Gaussian"
        stays = f"at most {factor} times what it was, plus {_exact(delta)}"
        change = f"the probability of every set of outcomes stays {stays}"
    words = protects.words
    return (
        "Someone who knows all other records and sees every release wins at most "
        f"{bets_won(epsilon, delta):g} % of bets on which of two equally likely contents "
        f"{words.contents}{why}; a blind guess wins 50 %. Formally: replace the content of "
        f"{words.replaced}, and {change}. {words.until}"
    ).rstrip()


def until(protects: Protects) -> str:
    """How long the records of a person count; empty if records are protected.

    >>> from tidegate.privacy.person import Person
    >>> print(until(Person(contributions=1, period=7)))
    Within any 7 consecutive steps, the records of a person count until all of them together have
    cost what one record may cost; later ones keep their place and are not learnt from.
    """
    return protects.words.until


def bets_won(epsilon: float, delta: float) -> float:
    """The most bets between two contents of a record that can be won, in per cent, rounded up.

    Without a delta this is e^epsilon / (e^epsilon + 1). With one, all noise is Gaussian, and the
    best test wins Phi(mu / 2), where Phi is the normal distribution. docs/guarantee.md derives
    both.

    >>> bets_won(1.0, 0.0), bets_won(1.0, 1e-6), bets_won(1000.0, 0.0)
    (73.2, 54.8, 100.0)
    """
    won = _normal(gaussian_mu(epsilon, delta) / 2) if delta else 1 / (1 + math.exp(-epsilon))
    return min(1000, math.ceil(1000 * won + 1e-9)) / 10  # the 1e-9 covers float errors


def paid_so_far(share: float, protects: Protects = EACH_RECORD) -> str:
    """What the most-charged record has paid, worded so that 100 % is not taken for an alarm.

    >>> from tidegate.privacy.person import Person
    >>> print(paid_so_far(0.5714))
    The most-charged record has paid 57.2 % of its budget; no record can ever pay more than 100 %.
    >>> print(paid_so_far(1.0))
    The most-charged record has paid 100 % of its budget: all that the plan will ever charge it.
    Nothing has run out, and no record can pay more.
    >>> print(paid_so_far(1.0, Person(contributions=4)))
    The most-charged record has paid 100 % of what one record may cost, and no record can pay more.
    All records of a person together never cost more than 4 times what one record may cost.
    """
    rounded = f"The most-charged record has paid {math.ceil(1000 * share - 1e-9) / 10:g} %"
    if protects.persons:
        return (
            f"{rounded} of what one record may cost, and no record can pay more. All records of a "
            f"person{protects.within} together never cost more than {protects.cost}."
        )
    paid = f"{rounded} of its budget"
    if share < 1:
        return f"{paid}; no record can ever pay more than 100 %."
    all_of_it = "all that the plan will ever charge it"
    return f"{paid}: {all_of_it}. Nothing has run out, and no record can pay more."


def _normal(x: float) -> float:
    """The probability that a standard normal variable is at most x."""
    return math.erfc(-x / math.sqrt(2)) / 2


def _exact(number: float) -> str:
    """The shortest text that reads back as the same float: a rounded one could promise too much."""
    return repr(number).removesuffix(".0")


def _rounded_up(epsilon: float) -> str:
    if epsilon > math.log(LARGEST_FACTOR):
        return ""
    return f" (under {math.floor(math.exp(epsilon) * 100 + 1) / 100:.10g})"

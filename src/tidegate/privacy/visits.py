"""How often a person may come: the admitted steps of persons who come regularly."""

from bisect import bisect_right
from fractions import Fraction
from math import gcd
from typing import NamedTuple

from tidegate.privacy.admission import Admission
from tidegate.privacy.rises import Bases, Chain, Window

MAX_STAY = 10**9
"""The longest stay, in steps, that is tried."""

MAX_VISITS = 2**11
"""The most visits with steps in between that are tried."""

GAPS = 8
"""How many gaps between visits are tried: 1, 2, 4, ... steps."""

MAX_PASS_STEPS = 2**10
"""For a sliding window with longer passes no stays are tried: they could start anywhere."""


class Visits(NamedTuple):
    """How often a person who comes at regular intervals is admitted.

    Attributes:
        every: Steps from one visit to the next; None for any steps, however they lie.
        further: What each further visit costs, on average; None if that changes with time.
        admitted: In how many steps the person is admitted at least before the first refusal, and
            within a period if there is one; None if it is more than was looked for.
    """

    every: int | None
    further: Fraction | None
    admitted: int | None


def visits(admission: Admission) -> list[Visits]:
    """The admitted steps of persons who come more and more seldom, and of those who come anyhow.

    >>> from fractions import Fraction
    >>> from tidegate.privacy.rises import Window
    >>> halves = Window((Fraction(0), Fraction(1, 2), Fraction(1)), first=1)
    >>> for each in visits(Admission(rises=halves, contributions=3)):
    ...     print(each.every, each.further, each.admitted)
    1 1/2 5
    2 1 3
    None 1 3
    """
    rises = admission.rises
    most = admission.contributions
    if admission.period:
        most = min(most, admission.period)
    anyhow = Visits(None, Fraction(1), most)
    match rises:
        case Window():
            seldom, starts, cycle = rises.memory, range(rises.first - 1, rises.first), 1
        case Chain() if rises.length <= MAX_PASS_STEPS:
            first = rises.schedule.first
            seldom, cycle = first, rises.length
            starts = range(first - 1, first - 1 + cycle)
        case Bases():
            return [Visits(1, None, _admitted(admission, 0, 1)), anyhow]
        case _:
            return [anyhow]
    gaps = [1 << power for power in range(GAPS) if 1 << power < seldom]
    regular = [
        Visits(
            every,
            _further(admission, starts[0], every, cycle // gcd(cycle, every)),
            _fewest([_admitted(admission, start, every) for start in starts]),
        )
        for every in (*gaps, seldom)
    ]
    return [*regular, anyhow]


def _visited(start: int, every: int, number: int) -> list[tuple[int, int]]:
    if every == 1:
        return [(start, start + number)]
    return [(start + each * every, start + each * every + 1) for each in range(number)]


def _further(admission: Admission, start: int, every: int, number: int) -> Fraction:
    """The average cost of the next visits."""
    cost = admission.cost(_visited(start, every, number + 1))
    return (cost - admission.cost(_visited(start, every, 1))) / number


def _admitted(admission: Admission, start: int, every: int) -> int | None:
    """In how many steps a person is admitted; None if no refusal is found."""
    most, period = MAX_STAY if every == 1 else MAX_VISITS, admission.period
    within = -(-period // every) if period else 0
    ends = min(most, within or most)

    def cost(number: int) -> Fraction:
        return admission.cost(_visited(start, every, number))

    limit, high = Fraction(admission.contributions), 1
    while high < ends and cost(high) <= limit:
        high *= 2
    number = bisect_right(range(min(high, ends) + 1), limit, lo=1, key=cost) - 1
    return None if number == most and number != within else number


def _fewest(numbers: list[int | None]) -> int | None:
    """The smallest number, where None is more than all."""
    return min((each for each in numbers if each is not None), default=None)

"""The settings of schedules that a comparison tries by default, side by side."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import NamedTuple

from tidegate.schedule import Fading

FORGETS = (Fraction(2, 5), Fraction(3, 10), Fraction(1, 5), Fraction(1, 8), Fraction(1, 15))
"""Forget rates to choose from: a step counts for half after 1.4, 1.9, 3.1, 5.2 and 10 more."""

OWN_STEP_ONLY = Fraction(1, 5)
"""The forget rate that is tried with a memory of one step; there it sets how long models linger."""

NOT_PRIVATE = "not-private"
CONSTANT = "constant"
"""The names of the baselines without noise."""

SLIDING_REFIT = "sliding-refit"
SLIDING_CHAIN = "sliding-chain"
GRID = ("fading", "sliding", SLIDING_REFIT, "continual", "growing", "independent")
"""The names of the schedules that are tried by default."""


class Setting(NamedTuple):
    """A schedule with some of its keys.

    Attributes:
        name: Its name in tables and plots.
        kind: The kind of schedule.
        keys: Keys of the [schedule] table besides its sizes; None leaves a configured key out.
    """

    name: str
    kind: str
    keys: Mapping[str, str | int | bool | None]


def settings_of(name: str, forgets: Sequence[Fraction] = FORGETS) -> Iterator[Setting]:
    """The settings behind a name: several for fading, one for every other schedule.

    >>> [each.name for each in settings_of("fading", [Fraction(1, 4)])]
    ['fading 1/4', 'fading 1/5, memory 1']
    >>> next(settings_of("fading", [Fraction(1, 4)])).keys
    {'forget': '1/4', 'memory': 9, 'linger': None}
    """
    if name == "fading":
        for forget in forgets:
            memory = Fading(step=1, forget=forget).memory
            yield _fading(f"fading {forget}", forget, memory)
        yield _fading(f"fading {OWN_STEP_ONLY}, memory 1", OWN_STEP_ONLY, 1)
    elif name == SLIDING_REFIT:
        yield Setting(name, "sliding", {"refit": True})
    elif name == "sliding":
        yield Setting(name, "sliding", {"refit": None})
    else:
        yield Setting(name, name, {})


def _fading(name: str, forget: Fraction, memory: int | None) -> Setting:
    return Setting(name, "fading", {"forget": str(forget), "memory": memory, "linger": None})

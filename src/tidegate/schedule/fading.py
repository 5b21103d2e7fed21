"""A model that forgets: old records count less at every step, and then not at all."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

from tidegate.checks import fraction, refuse, whole
from tidegate.schedule.fit import Certificate, Fit, Levels, SlotWeight, Span
from tidegate.schedule.protocol import Stepped, parameter, register

MIN_FORGET = Fraction(1, 32)
"""A smaller one would take a long memory, and so long cards: 1/32 takes 73 steps by default."""

MAX_MEMORY_STEPS = 128
"""Steps that a fit may read: the card of a fit lists the weight of each."""

MAX_DENOMINATOR = 1000
"""The largest denominator of `forget`, whose powers the ledger adds up exactly; that of `linger` is
the square, so that its default can be given too."""


@register
@dataclass(frozen=True, kw_only=True)
class Fading(Stepped):
    """One fit at every step, on the newest `memory` steps; each counts less than the next.

    With q = 1 - forget, a step that is a steps old has the slot weight q^a. A record of weight e is
    charged e^p times the share, where p is 1 under a pure budget and 2 under a Gaussian one. Every
    fit has the share (1 - q^p) / (1 - q^(p memory)), so a record that is read at every age is
    charged exactly 1: nothing is left unspent. After `memory` steps its content can be deleted.

    The descent starts at a fraction of the model released before, which costs nothing. So a model
    remembers more than the records that its own fit reads; `linger` is how much. In steps, with
    their weights, forget = 1/2 and memory = 3:

        t = 1   [ 1 ]
        t = 2   [1/2   1 ]
        t = 3   [1/4  1/2   1 ]
        t = 4        [1/4  1/2   1 ]

    The shares are its own: no allocation but the default is taken.

    Args:
        step: Records between two releases.
        forget: The fraction of its weight that a step loses when the next one arrives, as a
            Fraction, a float or a text such as "3/10".
        memory: How many of the newest steps a fit reads; by default the fewest after which a
            weight would be at most 1/10.
        first: How many steps are complete when the first model is released.
        linger: The fraction of what earlier models know that is left after a step; by default the
            square of 1 - forget.

    >>> from tidegate.schedule import fits
    >>> schedule = Fading(step=10, forget=Fraction(1, 2), memory=3)
    >>> [tuple(fit.span) for fit in fits(schedule, until=4)]
    [(0, 1), (0, 2), (0, 3), (1, 4)]
    >>> [(tuple(span), str(part)) for span, part in schedule.due(4)[0].slot_weights]
    [((1, 2), '1/4'), ((2, 3), '1/2'), ((3, 4), '1')]
    >>> str(schedule.share(power=1)), str(schedule.share(power=2))
    ('4/7', '16/21')
    """

    kind: ClassVar[str] = "fading"
    about: ClassVar[str] = "a model at every step in which old records count less and less"
    allocated: ClassVar[bool] = False

    step: int = parameter("records between two models", 1024)
    forget: Fraction = parameter(
        "the fraction of its weight that a step loses when the next one arrives",
        "3/10",
        check=fraction,
        default=Fraction(3, 10),
    )
    memory: int | None = parameter(
        "how many of the newest steps a fit reads; left out: until a weight is at most 1/10",
        default=None,
    )
    first: int = parameter("how many steps come before the first model", default=1)
    linger: Fraction | None = parameter(
        "the fraction of what earlier models know that a step leaves; left out: (1 - forget)^2",
        check=fraction,
        default=None,
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "step", whole("step", self.step))
        object.__setattr__(self, "first", whole("first", self.first))
        object.__setattr__(self, "forget", _exact("forget", self.forget, MAX_DENOMINATOR))
        if self.forget < MIN_FORGET:
            raise refuse("forget", f"at least {MIN_FORGET}, and at most 1", shown=str(self.forget))
        if self.memory is None:
            object.__setattr__(self, "memory", _steps_to_a_tenth(self.keep))
        object.__setattr__(self, "memory", whole("memory", self.memory, most=MAX_MEMORY_STEPS))
        if self.forget == 1 and self.memory != 1:
            raise refuse(
                "memory", "1 where forget is 1: older steps would count for 0", self.memory
            )
        if self.linger is None:
            object.__setattr__(self, "linger", self.keep**2)
        else:
            object.__setattr__(self, "linger", _exact("linger", self.linger, MAX_DENOMINATOR**2))
        if self.linger == 1:
            raise refuse("linger", "below 1, or nothing would ever be forgotten", shown="1")

    @property
    def keep(self) -> Fraction:
        """q: the fraction of its weight that a step keeps when the next one arrives."""
        return 1 - self.forget

    @property
    def look_back(self) -> int:
        """The steps of one fit."""
        return self._memory

    @property
    def largest(self) -> int:
        """How many records a number of steps has."""
        return self.steps.count(self._memory)

    @property
    def _memory(self) -> int:
        return self.memory or 1

    @cached_property
    def _slot_weights(self) -> tuple[Fraction, ...]:
        """The weight of a step by its age."""
        return tuple(self.keep**age for age in range(self._memory))

    def share(self, power: int) -> Fraction:
        """What a record of the newest step is charged for a fit."""
        return 1 / sum((weight**power for weight in self._slot_weights), Fraction(0))

    def due(self, now: int) -> Sequence[Fit]:
        """The one fit of this step."""
        number = now - self.first
        if number < 0:
            return ()
        start = max(0, now - self._memory)
        slot_weights = tuple(
            SlotWeight(Span(step, step + 1), self._slot_weights[now - 1 - step])
            for step in range(start, now)
        )
        lingers = number > 0 and self.linger != 0
        return (
            Fit(
                number,
                now,
                Span(start, now),
                None,
                "base",
                0,
                behind=(self._behind(number),) if lingers else (),
                start=number - 1 if lingers else None,
                slot_weights=slot_weights,
            ),
        )

    def _behind(self, number: int) -> float:
        """How many steps would carry as much information as the fits before this one.

        The information of a fit is the square of what its records count for together, times its
        share; that of the fits before is multiplied by `linger` at every step. With S^2 for the
        newest fit and I for all, n / (n + behind) is then S / sqrt(I), where n is what the newest
        fit's records count for together.
        """
        linger, growing = float(self.linger or 0), self._growing
        full = len(growing) - 1
        mass, information = growing[min(number, full)]
        if number > full:  # from there on every fit reads as many steps
            faded = linger ** (number - full)
            information = mass**2 * (1 - faded) / (1 - linger) + faded * information
        return mass * (math.sqrt(information / mass**2) - 1)

    @cached_property
    def _growing(self) -> list[tuple[float, float]]:
        """What records count for together, and all information, until a fit reads all its steps."""
        linger, information, sums = float(self.linger or 0), 0.0, []
        for steps in range(self.first, max(self.first, self._memory) + 1):
            mass = float(sum(self._slot_weights[:steps]))
            information = mass**2 + linger * information
            sums.append((mass, information))
        return sums

    def raw_share(self, fit: Fit, levels: Levels) -> Fraction:  # noqa: ARG002 (all the same)
        """What a record of the newest step is charged."""
        return self.share(levels.power)

    def certificate(self, levels: Levels) -> Certificate:  # noqa: ARG002 (its own shares)
        """A record that is read at every age is charged 1."""
        return Certificate(supremum=Fraction(1), attained=True)

    def reads(self, step: int) -> Iterator[int]:
        """Every time at which the step is among the newest."""
        return iter(range(max(self.first, step + 1), step + self._memory + 1))

    def settled(self, now: int) -> int:
        """All that the next fit does not read."""
        return max(0, now + 1 - self._memory)


def _exact(name: str, value: object, finest: int) -> Fraction:
    """A fraction from 0 to 1 whose powers stay short."""
    exact = fraction(name, value)
    if exact.denominator > finest:
        raise refuse(name, f"a fraction with a denominator of at most {finest}", shown=str(exact))
    return exact


def _steps_to_a_tenth(keep: Fraction) -> int:
    """The fewest steps after which a weight is at most 1/10.

    >>> [_steps_to_a_tenth(Fraction(q, 10)) for q in (0, 7, 8, 9)]
    [1, 7, 11, 22]
    """
    steps, weight = 1, keep
    while weight > Fraction(1, 10):
        steps, weight = steps + 1, weight * keep
    return steps

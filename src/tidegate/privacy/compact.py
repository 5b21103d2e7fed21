"""Compact states: 8 bytes for each person that decide admissions almost always.

A state has the last admitted step and bounds on the cost, in units of a part of a record's budget:

    bits 32-63   the last admitted step + 1, or 0 for a person who was never admitted
    bits  8-31   the cost in units, rounded down
    bits  0-7    by how many units the cost may be larger

Where all costs are whole numbers of units the last is 0, and the state always decides. A state of
all ones says nothing. Where a state does not decide (`UNSURE`), ask `Admission.decide`, which needs
the admitted steps themselves, and replace the state by `of` these steps.

With a period the cost is rounded up, and what left the period is not subtracted. So a state never
says NO. `of` the steps within the period makes the bound tight again.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, lcm

import numpy as np
from numpy.typing import NDArray

from tidegate.privacy.rises import NEVER, Rises, StepArray

States = NDArray[np.uint64]
Decisions = NDArray[np.int8]

NO, YES, UNSURE = 0, 1, -1

NOBODY = 0
"""The state of a person who was never admitted."""
UNKNOWN = 2**64 - 1
"""A state that says nothing."""

_MAX_UNITS = 2**24 - 1
_MAX_ERROR = 2**8 - 1
_MAX_STEP = 2**32 - 3


@dataclass(frozen=True, kw_only=True)
class Compact:
    """Decides admissions from states; its arguments are those of `Admission`.

    >>> from tidegate.privacy.rises import Count
    >>> compact = Compact(rises=Count(), contributions=2, measured=Fraction(0), period=None)
    >>> states = np.zeros(1, np.uint64)
    >>> for step in (3, 4, 9):
    ...     print(compact.decide(states, step))
    ...     states = compact.after(states, step)
    [1]
    [1]
    [0]
    """

    rises: Rises
    contributions: int
    measured: Fraction
    period: int | None

    @cached_property
    def scale(self) -> int:
        """Units in a record's budget."""
        return whole_units((_MAX_UNITS - 1) // self.contributions, self.rises, self.measured)

    def first(self, step: int) -> int:
        """The state of a person after the first admitted step."""
        return int(self.after(np.zeros(1, np.uint64), step)[0])

    def decide(self, states: States, step: int) -> Decisions:
        """YES, NO or UNSURE for each person: whether the step is admitted."""
        _, low, error, known = self._next(states, step)
        limit = self.contributions * self.scale
        yes = known & (low + error <= limit)
        decisions = np.where(yes, YES, UNSURE).astype(np.int8)
        if not self.period:
            decisions[known & (low > limit)] = NO
        return decisions

    def after(self, states: States, step: int) -> States:
        """The states after the step is admitted for all of these persons."""
        step, low, error, known = self._next(states, step)
        return _packed(np.full(len(states), step, np.int64), low, error, known)

    def _next(
        self, states: States, step: int
    ) -> tuple[int, StepArray, StepArray, NDArray[np.bool_]]:
        """The step, bounds on the cost with it, and whether they are known."""
        unknown = states == np.uint64(UNKNOWN)
        lasts = (states >> np.uint64(32)).astype(np.int64) - 1
        low = (states >> np.uint64(8)).astype(np.int64) & _MAX_UNITS
        error = states.astype(np.int64) & _MAX_ERROR
        first = np.maximum(step - self.period + 1, 0) if self.period else 0
        gone = unknown | (lasts < first)
        lasts[gone], low[gone], error[gone] = NEVER, 0, 0
        more, inexact = self._rises(lasts, step)
        known = ~unknown & (step <= _MAX_STEP)
        low, error = low + more, error + inexact
        if self.period:
            low, error = low + error, np.zeros_like(error)
        return step, low, error, known

    def _rises(self, lasts: StepArray, step: int) -> tuple[StepArray, StepArray]:
        """What the step adds in units, rounded down, and whether it adds a little more."""
        steps = np.full(len(lasts), step, np.int64)
        pairs, inverse = unique_pairs(self.rises.keys(lasts, steps))
        units = [(self.rises.rise(*pair) + self.measured) * self.scale for pair in pairs]
        down = np.array([floor(unit) for unit in units], np.int64)
        inexact = np.array([unit.denominator > 1 for unit in units], np.int64)
        return down[inverse], inexact[inverse]

    def of(self, last: int, cost: Fraction) -> int:
        """The tightest state of a person, given the last admitted step and the cost.

        With a period, the cost is that of the admitted steps from some step on, which every later
        decision may include but need not.
        """
        units = cost * self.scale
        low = ceil(units) if self.period else floor(units)
        parts = [[last], [min(low, _MAX_UNITS)], [max(ceil(units) - low, 0)]]
        step, low_, error = np.array(parts, np.int64)
        return int(_packed(step, low_, error, np.array([last <= _MAX_STEP]))[0])

    def over(self, states: States) -> NDArray[np.bool_]:
        """Which bounds are above the contributions: admission leads there only by rounding.

        Ask `Admission.decide` about these persons. A state that says nothing is above.
        """
        low = (states >> np.uint64(8)).astype(np.int64) & _MAX_UNITS
        error = states.astype(np.int64) & _MAX_ERROR
        return low + error > self.contributions * self.scale


def _packed(steps: StepArray, low: StepArray, error: StepArray, known: NDArray[np.bool_]) -> States:
    """States of these parts; UNKNOWN where the error is too large. The largest cost is too much."""
    known = known & (error <= _MAX_ERROR)
    words = ((steps + 1) << 32) | (np.minimum(low, _MAX_UNITS) << 8) | error
    return np.where(known, words.astype(np.uint64), np.uint64(UNKNOWN))


def whole_units(most: int, rises: Rises, measured: Fraction) -> int:
    """The largest number of units, up to `most`, in which costs are whole, if there is one."""
    for whole in (lcm(rises.grain or most + 1, measured.denominator), measured.denominator):
        if whole <= most:
            return most // whole * whole
    return most


def unique_pairs(keys: tuple[StepArray, StepArray]) -> tuple[list[tuple[int, int]], StepArray]:
    """The different pairs of keys, and for each place which of them it has."""
    one, two = keys
    order = np.lexsort((two, one))
    ones, twos = one[order], two[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (ones[1:] != ones[:-1]) | (twos[1:] != twos[:-1])
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.cumsum(new) - 1
    return list(zip(ones[new].tolist(), twos[new].tolist(), strict=True)), inverse

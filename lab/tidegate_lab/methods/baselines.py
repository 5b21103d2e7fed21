"""The methods that this package adds to `tidegate compare`: see entry points in pyproject.toml."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidegate import ApproxDP, InvalidValueError
from tidegate.compare import Method, Problem
from tidegate_lab.methods.constant import Constant, WithConstant
from tidegate_lab.methods.diffprivlib import MISSING, PULLS, Diffprivlib, installed
from tidegate_lab.methods.ftrl import DPFTRL, SETTINGS, TARGET_SETTINGS
from tidegate_lab.methods.nonprivate import NonPrivate
from tidegate_lab.methods.refit import NaiveSplitting, WindowRefit
from tidegate_lab.methods.times import Times

BATCH = 512
"""Approximate number of records in a gradient of DP-FTRL."""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """A method to compare with.

    Args:
        name: Its name on the command line.
        settings: The method for a problem, once for each of its settings.
        usual: Whether it is compared if no method is asked for by name.
        runs_once: Whether all its runs would be the same.
        adds_constant: Whether it needs a constant column where the schedules have one.
        reads_window: Whether it reads a window also beside schedules of all records.
        protects_records_only: Why it is left out if persons are protected; empty if it is not.
        about: What to say about it below the tables.
        about_persons: The same if persons are protected.
    """

    name: str
    settings: Callable[[Problem, Times], Sequence[Method]]
    usual: bool = True
    runs_once: bool = False
    adds_constant: bool = True
    reads_window: bool = False
    protects_records_only: str = ""
    about: str = ""
    about_persons: str = ""

    def methods(self, problem: Problem) -> Sequence[Method]:
        """The method, once for each setting; where schedules may add a constant, so may it."""
        if problem.person is not None and self.protects_records_only:
            why = f"{self.name} is not compared if persons are protected"
            raise InvalidValueError(f"{why}: {self.protects_records_only}")
        window = problem.window if problem.newest or self.reads_window else None
        times = Times(first=window or problem.first, step=problem.step, window=window)
        if times.first > problem.records:
            raise InvalidValueError(
                f"{self.name} needs {times.first:,} records for its first release, but there are "
                f"{problem.records:,}: give more records, or a smaller window or block"
            )
        found = self.settings(problem, times)
        if problem.surveyed and self.adds_constant:
            return [WithConstant(method=each) for each in found]
        return found

    def note(self, problem: Problem) -> str:
        """What to say below the tables about how it was compared."""
        return self.about or (self.about_persons if problem.person is not None else "")


def _refit(problem: Problem, times: Times) -> dict[str, Any]:
    """The arguments of a refit; of persons, one release may cost one contribution."""
    person = problem.person and replace(problem.person, contributions=1, period=None)
    return {
        "budget": problem.budget,
        "times": times,
        "learner": problem.learner,
        "regularization": problem.regularization,
        "person": person,
    }


def _ftrl(problem: Problem, times: Times) -> list[Method]:
    budget = problem.budget
    if not isinstance(budget, ApproxDP):
        raise InvalidValueError("dp-ftrl needs a delta: give one, such as 1e-6")
    batch = _divisor(math.gcd(times.first, times.step))
    chosen = TARGET_SETTINGS if problem.target else SETTINGS
    return [DPFTRL(budget=budget, times=times, batch=batch, **each) for each in chosen]


def _diffprivlib(problem: Problem, times: Times) -> list[Method]:
    if problem.target:
        raise InvalidValueError("diffprivlib is compared on classes only")
    if not installed():
        raise InvalidValueError(MISSING)
    return [Diffprivlib(budget=problem.budget, times=times, regularization=r) for r in PULLS]


def _divisor(number: int) -> int:
    """The divisor of a number whose ratio to `BATCH` is nearest to 1.

    >>> _divisor(1024), _divisor(1000), _divisor(7)
    (512, 500, 7)
    """
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    divisors = {*small, *(number // d for d in small)}
    return min(divisors, key=lambda d: abs(math.log(d / BATCH)))


WINDOW_REFIT = Baseline(
    name="window-refit",
    settings=lambda problem, times: [WindowRefit(**_refit(problem, times))],
    reads_window=True,
    protects_records_only=(
        "it limits what a record pays, not what a person pays; sliding-refit does both"
    ),
)
NAIVE = Baseline(
    name="naive",
    settings=lambda problem, times: [NaiveSplitting(**_refit(problem, times))],
    about_persons=(
        "naive counts each person like one record in every release and leaves nobody out."
    ),
)
DP_FTRL = Baseline(
    name="dp-ftrl",
    settings=_ftrl,
    protects_records_only=(
        "its noise is proved for records, not for a person with records in many batches"
    ),
)
DIFFPRIVLIB = Baseline(
    name="diffprivlib",
    settings=_diffprivlib,
    usual=False,  # slow
    protects_records_only="it protects records: it cannot count a person like one record",
)
NOT_PRIVATE = Baseline(
    name="not-private",
    settings=lambda _, times: [NonPrivate(times=times)],
    runs_once=True,
    about_persons="not-private learns from all records of all persons.",
)
CONSTANT = Baseline(
    name="constant",
    settings=lambda _, times: [Constant(times=times)],
    runs_once=True,
    adds_constant=False,
    about="constant: the same, but of the records so far or in the window, without noise.",
)
BASELINES = (WINDOW_REFIT, NAIVE, DP_FTRL, DIFFPRIVLIB, NOT_PRIVATE, CONSTANT)

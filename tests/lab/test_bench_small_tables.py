"""A law of whole streams: models of small tables are no worse than those of every step alone."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from tidegate.learn.rules import RULES, UNNUMBERED
from tidegate_lab.bench.small_tables import (
    MADE_UP,
    MAX_ERROR_BEHIND_BEST,
    MAX_ERROR_BEHIND_INDEPENDENT,
    MAX_LOSS_BEHIND_BEST,
    MAX_LOSS_BEHIND_INDEPENDENT,
    Rng,
    Stream,
    late_flights,
    run,
    two_columns,
)

SEEDS = 10
WIDEST = 4.9
"""Deviations of a mean difference that chance passes once in a million times."""


@cache
def errors(
    make: Callable[[Rng], Stream], method: str, steps: int | None, rules: int
) -> list[float]:
    return [run(make, method, steps, rules, seed).error for seed in range(SEEDS)]


def behind(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """By how much ours are larger on the mean, and what chance could add to that."""
    difference = np.subtract(ours, theirs)
    chance = WIDEST * difference.std(ddof=1) / np.sqrt(SEEDS)
    return float(difference.mean()), float(chance)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fading", "growing", "refit"])
@pytest.mark.parametrize("make", [*MADE_UP, late_flights])
def test_a_small_table_is_learnt_as_well_as_from_every_step_alone(
    make: Callable[[Rng], Stream], method: str
) -> None:
    ours, alone = errors(make, method, None, RULES), errors(make, "independent", None, RULES)
    given = errors(make, method, 16, RULES)
    far, near = MAX_LOSS_BEHIND_INDEPENDENT, MAX_LOSS_BEHIND_BEST
    if not make(np.random.default_rng(0)).classes:
        far = MAX_ERROR_BEHIND_INDEPENDENT * float(np.mean(alone))
        near = MAX_ERROR_BEHIND_BEST * float(np.mean(given))
    for theirs, bar in ((alone, far), (given, near)):
        mean, chance = behind(ours, theirs)
        assert mean <= bar + chance


@pytest.mark.thorough
def test_the_rules_before_made_models_of_small_tables_swing() -> None:
    before = np.mean([run(two_columns, "fading", None, UNNUMBERED, seed).error for seed in (0, 1)])
    now = np.mean([run(two_columns, "fading", None, RULES, seed).error for seed in (0, 1)])
    assert now < 0.53 < before

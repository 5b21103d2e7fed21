"""What it costs in accuracy to protect persons with eight records each, beside dividing mu by 8."""

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from statistics import mean, median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate import ApproxDP, FadingClassifier
from tidegate.privacy import gaussian_epsilon
from tidegate_lab.bench.data import K, images
from tidegate_lab.bench.table import show, yes

BUDGET = ApproxDP(1.0, 1e-6)
EACH, STEP, STEPS, RUNS = 8, 1024, 32, 5
Ids = NDArray[np.intp]


def one_a_step() -> Ids:
    """Whose each record is: a person has one record in each of eight consecutive steps.

    In every step an eighth of the persons are there for the first time.
    """
    crowd = STEP // EACH
    first = np.arange(STEPS)[:, None] - np.arange(EACH)[None, :]  # when each group came first
    ids = (first + EACH)[:, :, None] * crowd + np.arange(crowd)
    return np.asarray(ids.reshape(-1))


def all_in_one_step() -> Ids:
    """Whose each record is: a person has eight records in one step."""
    return np.arange(STEP * STEPS) // EACH


def divided() -> ApproxDP:
    """The budget of a record with which eight of them together keep to `BUDGET`."""
    return replace(BUDGET, epsilon=gaussian_epsilon(BUDGET.mu / EACH, BUDGET.delta))


def accuracy(ids: Ids | None, given: Mapping[str, Any], seed: int) -> float:
    """The mean accuracy of the releases of the last eight steps."""
    train, test = images().train, images().test
    order = np.random.default_rng(seed).permutation(len(train.y))[: STEP * STEPS]
    model = FadingClassifier(
        step=STEP,
        forget=Fraction(1, 5),
        classes=range(K),
        norm=1.0,
        not_private_seed=seed,
        **given,
    )
    scores = []
    for step in range(STEPS):
        span = slice(step * STEP, (step + 1) * STEP)
        persons = {} if ids is None else {"persons": ids[span]}
        model.partial_fit(train.X[order[span]], train.y[order[span]], **persons)
        if step >= STEPS - 8:
            scores.append(model.score(*test))
    return mean(scores)


def protected(contributions: int, typical: int) -> dict[str, Any]:
    """The arguments that protect persons."""
    return {"budget": BUDGET, "contributions": contributions, "typical": typical}


def medians(ids: Ids | None, given: Mapping[str, Any]) -> float:
    """The median over runs, in percent."""
    return 100 * median(accuracy(ids, given, seed) for seed in range(RUNS))


def main() -> None:
    """Show the table."""
    spread, together = one_a_step(), all_in_one_step()
    base = medians(None, {"budget": divided()})
    rows = [["records, mu / 8", f"{base:.1f}", "", ""]]
    for k in (1, 2, 4, 8):
        found = medians(spread, protected(k, EACH))
        bar = [f">= {base + 5:.1f}", yes(found >= base + 5)] if k == 4 else ["", ""]
        rows.append([f"persons in 8 consecutive steps, k = {k}", f"{found:.1f}", *bar])
    found = medians(together, protected(1, EACH))
    rows.append(
        ["persons in one step, k = 1", f"{found:.1f}", f">= {base:.1f}", yes(found >= base)]
    )
    rows.append(["records, mu", f"{medians(None, {'budget': BUDGET}):.1f}", "", ""])
    title = f"{images().name} pixels, Fading 1/5, step {STEP}, (1, 1e-6), medians of {RUNS}"
    show(title, rows, ("protected", "accuracy %", "bar", "met"))

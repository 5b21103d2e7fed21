"""Visits of patients with ranges for columns, beside one norm for rows that need ranges."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from tidegate import ApproxDP, FadingClassifier
from tidegate.features import Columns, Number
from tidegate_lab.bench.table import show

BUDGET = ApproxDP(1.0, 1e-6)
VISITS, PATIENTS, TESTS, RUNS = 32_768, 12_000, 8_192, 5
AGES, PRESSURES = (0, 110), (60, 220)


class Visits(NamedTuple):
    """Ages and pressures, whether a visit ended in a ward, and whose it was."""

    X: NDArray[np.float64]
    y: NDArray[np.intp]
    patients: NDArray[np.intp]


def visits(n: int, seed: int) -> Visits:
    """Made-up visits whose outcome depends on both columns."""
    rng = np.random.default_rng(seed)
    ages = np.clip(rng.normal(52, 18, size=n), *AGES)
    pressures = np.clip(rng.normal(112 + ages / 3, 17, size=n), *PRESSURES)
    margins = (ages - 52) / 15 + (pressures - 129) / 30
    y = (rng.random(n) < 1 / (1 + np.exp(-margins))).astype(np.intp)
    return Visits(np.column_stack([ages, pressures]), y, rng.integers(PATIENTS, size=n))


def accuracy(seed: int, **given: Any) -> float:
    """Of the newest model, on new visits, in percent."""
    seen, new = visits(VISITS, seed), visits(TESTS, seed + RUNS)
    model = FadingClassifier(
        budget=BUDGET, step=1024, classes=[0, 1], contributions=4, not_private_seed=seed, **given
    )
    model.fit(seen.X, seen.y, persons=seen.patients)
    return 100 * float(model.score(new.X, new.y))


def main() -> None:
    """Show the table."""
    ranged = Columns([
        Number("age", low=AGES[0], high=AGES[1]),
        Number("pressure", low=PRESSURES[0], high=PRESSURES[1]),
    ])  # fmt: skip
    seen, new = visits(VISITS, 0), visits(TESTS, RUNS)
    plain = LogisticRegression(max_iter=1000).fit(seen.X, seen.y).score(new.X, new.y)
    settings: dict[str, dict[str, Any]] = {
        "ranges": {"features": ranged},
        "norm = 10": {"norm": 10.0},
    }
    rows = []
    for name, given in settings.items():
        found = [accuracy(seed, **given) for seed in range(RUNS)]
        rows.append([name, f"{min(found):.0f} to {max(found):.0f}"])
    rows.append(["logistic regression, not private", f"{100 * plain:.0f}"])
    title = f"{VISITS:,} visits of {PATIENTS:,} patients, k = 4, (1, 1e-6), {RUNS} runs"
    show(title, rows, ("columns", "accuracy %"))

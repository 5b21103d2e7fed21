"""Tiny streams. All numbers are multiples of a power of two: every machine makes the same."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Floats = NDArray[np.float64]

WORDS = ("tide", "gate", "low", "high", "the", "sea", "Ebb", "é", "ξ", "Σίσυφος", "out", "shut")


def numbers(n: int, d: int = 3, seed: int = 1) -> tuple[Floats, NDArray[np.int64]]:
    """Records of two classes, the first half of which leans another way than the second."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-1024, 1025, size=(n, d)) / 1024
    lean = np.where(np.arange(n) < n // 2, 1, -1)
    y = (2 * X[:, 0] + lean * X[:, 1] + rng.integers(-512, 513, size=n) / 1024 > 0).astype(np.int64)
    return X, y


def with_gaps(n: int, d: int = 3, seed: int = 1) -> tuple[Floats, NDArray[np.int64]]:
    """The same, of which a few cannot be used."""
    X, y = numbers(n, d, seed)
    X[np.arange(n) % 37 == 5, 1] = np.nan
    y[np.arange(n) % 41 == 7] = 9
    return X, y


def sparse(n: int, d: int = 8, seed: int = 1) -> tuple[Any, NDArray[np.int64]]:
    """Sparse records: a third of their numbers are not 0."""
    X, y = numbers(n, d, seed)
    kept = (np.arange(n)[:, None] + np.arange(d)) % 3 == 0
    return csr_array(X * kept), y


def three(n: int, d: int = 3, seed: int = 1) -> tuple[Floats, list[str]]:
    """Records of three classes with names."""
    X, y = numbers(n, d, seed)
    return X, [("low", "mid", "high")[int(each)] for each in y + (X[:, 2] > 0)]


def targets(n: int, d: int = 3, seed: int = 1) -> tuple[Floats, Floats]:
    """Records with a number to predict, mostly between 0 and 8."""
    X, _ = numbers(n, d, seed)
    return X, 4 + 4 * X[:, 0] - X[:, 1]


def people(n: int) -> list[str | None]:
    """Whose the records are: one person is there at every step, a few records are nobody's."""
    return [
        None if slot % 53 == 7 else "often" if slot % 10 == 0 else f"p{slot * 7919 % 101}"
        for slot in range(n)
    ]


def texts(n: int, seed: int = 1) -> tuple[list[str], list[int]]:
    """Texts of a few words, whose class is whether there is a tide among them."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(WORDS), size=(n, 4)).tolist()
    made = [" ".join(WORDS[word] for word in row) for row in drawn]
    return made, [int("tide" in each or "low" in each) for each in made]


def visits(n: int, seed: int = 1) -> list[dict[str, Any]]:
    """Rows of a table with a column of each kind, as texts; some are missing, some unknown."""
    rng = np.random.default_rng(seed)
    rows = []
    for slot, whose in enumerate(people(n)):
        age, ward, code, year, hour = rng.integers([0, 0, 0, 2001, 0], [99, 4, 50, 2030, 24])
        rows.append(
            {
                "age": "" if slot % 17 == 3 else str(age),
                "cost": "oops" if slot % 43 == 9 else str(2.0 ** int(age % 9)),
                "ward": "ABCé"[ward],
                "code": f"x{code}",
                "smoker": ("yes", "no", "")[slot % 3],
                "seen": f"{year}-0{1 + slot % 9}-17T{hour:02}:30:00Z",
                "note": " ".join(WORDS[(slot * k) % len(WORDS)] for k in (1, 3, 5)),
                "y": "ill" if age + 5 * ward > 55 else "well",
                "stay": str(age / 8),
                "who": "" if whose is None else whose,
            }
        )
    return rows

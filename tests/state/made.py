"""Records, batches and fits for the tests of stores."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tidegate.data.records import Records
from tidegate.privacy import Line
from tidegate.schedule import RecordFit, Span
from tidegate.state.store import FitToStore, Store


def records(start: int, n: int, width: int = 3, kind: str = "float32") -> Records:
    """Records that say which slot they belong to."""
    slots = np.arange(start, start + n)
    dense = (slots[:, None] * 10 + np.arange(width)) % 1009 / 1009
    if kind.startswith("sparse"):
        X: Any = csr_array(dense * (slots[:, None] % 3 == np.arange(width) % 3))
        X = X.astype(kind.removeprefix("sparse "))
    else:
        X = dense.astype(kind)
    return Records(X, slots % 7, slots % 5 != 0)


def same(left: Records, right: Records) -> bool:
    """Whether two runs of records are the same, to the bit and the type."""
    dense = [
        part.X if isinstance(part.X, np.ndarray) else part.X.toarray() for part in (left, right)
    ]
    return (
        type(left.X) is type(right.X)
        and left.X.dtype == right.X.dtype
        and np.array_equal(dense[0], dense[1])
        and np.array_equal(left.y, right.y)
        and np.array_equal(left.usable, right.usable)
    )


def made(
    number: int, at: int, *, released: bool = True, shape: Sequence[int] = (2, 3)
) -> FitToStore:
    """A fit whose model follows from its number."""
    fit = RecordFit(number, at, Span(0, at), None, "base", 0, released=released)
    weights = np.random.default_rng(number).standard_normal(shape)
    line = Line(fit, Fraction(1, 2 ** (number + 1)))
    card = {"fit": number, "share": str(line.share), "shape": list(shape)}
    return FitToStore(line=line, weights=weights, card=card)


def chain(store: Store) -> list[tuple[Any, ...]]:
    """All that is published, in a form that can be compared."""
    return [
        (one.number, one.weights.tobytes(), one.card, one.previous, one.hash)
        for one in store.releases()
    ]

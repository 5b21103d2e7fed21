"""Made-up records with the columns of a batch: what transformers are fitted on instead of it."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

NUMBER, TEXT, TIME = 1.0, "text", np.datetime64("2000-01-01", "s")


def is_frame(X: Any) -> bool:
    """Whether a batch is a DataFrame of pandas."""
    return hasattr(X, "iloc") and getattr(X, "ndim", 0) == 2


def made_up(X: Any) -> Iterator[Any]:
    """Made-up records in the form of a batch, of which only names and dtypes are read.

    The first is what the dtypes suggest. One odd record may have changed them, so that others
    follow: all numbers, all texts, all times.

    >>> next(made_up(np.array([[5.0, 7.0], [6.0, 8.0]]))), list(made_up(["a b", "c"]))[-1]
    (array([[1., 1.]]), [{'text': 1.0}])
    """
    columns = X.shape[1] if getattr(X, "ndim", 1) == 2 else 1
    dtypes = X.dtypes if is_frame(X) else [getattr(X, "dtype", np.dtype(object))] * columns
    yield filled(X, [_example(dtype) for dtype in dtypes])
    yield from (filled(X, [value] * columns) for value in (NUMBER, TEXT, TIME))
    if isinstance(X, list):  # a record may be anything that can be hashed
        yield from ([value] for value in ([TEXT], [(TEXT, NUMBER)], {TEXT: NUMBER}))


def filled(X: Any, cells: list[Any]) -> Any:
    """One record in the form of a batch, with the given entries.

    >>> filled(np.zeros((3, 2)), ["a", 1.0])
    array([['a', 1.0]], dtype=object)
    """
    if is_frame(X):
        return type(X)([cells], columns=X.columns)
    if hasattr(X, "iloc"):
        return type(X)(cells, name=X.name)
    if issparse(X):
        return csr_array(np.array([[NUMBER] * len(cells)]))
    if not hasattr(X, "ndim"):
        return cells[:1]
    numbers = all(isinstance(cell, float) for cell in cells)
    record = np.empty((1, len(cells)), float if numbers else object)
    record[0] = cells
    return record if X.ndim == 2 else record[0]


def _example(dtype: Any) -> Any:
    """A value that a column of this dtype could hold."""
    kind = getattr(dtype, "kind", "O")
    return NUMBER if kind in "biuf" else TIME if kind == "M" else TEXT

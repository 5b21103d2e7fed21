"""A source of batches made in Python."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from tidegate.checks import refuse
from tidegate.data.columns.table import Table, as_table
from tidegate.data.owners import as_list, check_type
from tidegate.data.values import as_labels
from tidegate.sources.source import OTHER_SOURCE, RawBatch, SourceError, as_json, objects


@dataclass(frozen=True, kw_only=True, eq=False)
class Batches:
    """The (X, y) pairs of a Python iterable, or (X, y, persons) if persons are protected.

    The offset is the number of batches taken. After a restart the iterable must yield the same
    batches again from the first; those already taken are skipped.

    Args:
        name: The name under which the offset is kept.
        pairs: Yields (X, y) with one record per row: arrays, CSR matrices, or lists of these. If
            persons are protected, (X, y, persons) with the id of each record's person.

    >>> source = Batches(name="mine", pairs=[([[1.0], [2.0]], [0, 1]), ([[3.0]], [0])])
    >>> [(batch.n, batch.offset) for batch in source.batches(None)]
    [(2, '1'), (1, '2')]
    >>> [batch.n for batch in source.batches("1")]
    [1]
    """

    name: str
    pairs: Iterable[tuple[Any, Any] | tuple[Any, Any, Any]]

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """See `Source`."""
        if offset is not None and not (offset.isascii() and offset.isdigit()):
            raise SourceError(f"the offset is not a number of batches: {OTHER_SOURCE}")
        taken = int(offset or 0)
        for number, (X, y, *persons) in enumerate(islice(self.pairs, taken, None), start=taken + 1):
            yield raw_batch(X, y, *persons, offset=str(number))


def raw_batch(X: Any, y: Any, persons: Any = None, *, offset: str = "") -> RawBatch:
    """A batch made in Python, with one record per row."""
    if isinstance(X, str | bytes) or not hasattr(X, "__len__") or getattr(X, "ndim", 2) == 0:
        raise refuse("X", "a batch, with one record per row", type(X).__name__)
    if isinstance(X, Mapping | pa.Table | pa.RecordBatch):
        X = as_table(X, list(X) if isinstance(X, Mapping) else X.schema.names)
    elif hasattr(X, "get_column"):  # polars
        X = as_table(X, X.columns)
    # np.array would give all records of a list one type, so that one record could change others.
    rows: Any = X if hasattr(X, "shape") else objects(list(X))
    rows = rows.tocsr() if sparse.issparse(rows) else rows  # other layouts cannot be sliced by row
    labels = y if isinstance(y, np.ndarray) else objects(as_labels(y))
    ids = None if persons is None else _ids(persons, rows.shape[0])
    arrived = partial(_arrived, rows, labels)
    return RawBatch(X=rows, y=labels, offset=offset, arrived=arrived, persons=ids)


def _ids(persons: Any, n: int) -> list[Any]:
    """The ids of persons as a list, whatever holds them."""
    if isinstance(persons, str | bytes) or not hasattr(persons, "__len__"):
        raise refuse("persons", "a list, with one id per record", type(persons).__name__)
    if len(persons) != n:
        raise refuse("persons", f"as long as X ({n})", len(persons))
    if n:
        check_type(persons)
    return as_list(persons)


def _arrived(rows: Any, labels: Any, index: int) -> str:
    if isinstance(rows, Table):
        return as_json({"x": rows.row(index), "y": labels[index]})
    row = rows[index : index + 1]
    row = row.toarray() if hasattr(row, "toarray") else np.asarray(row)
    record = row[0].tolist() if hasattr(row[0], "tolist") else row[0]
    return as_json({"x": record, "y": labels[index]})

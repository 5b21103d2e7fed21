"""Tables as they arrive: named columns of one length, from any library."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.checks import InvalidValueError, refuse
from tidegate.data.arrow_values import as_object, is_text
from tidegate.data.columns.column import Values

MOST_NAMES = 12
"""The most columns that an error names."""


@dataclass(frozen=True, eq=False)
class Table:
    """Columns of one length, whose values are as they arrived.

    Attributes:
        columns: The values of each column, by its name.
        n: How many records there are.
    """

    columns: Mapping[str, Values]
    n: int

    @property
    def shape(self) -> tuple[int, int]:
        """The number of records and of columns."""
        return self.n, len(self.columns)

    @property
    def ndim(self) -> int:
        """The number of dimensions, as of an array."""
        return 2

    @property
    def nbytes(self) -> int:
        """About how many bytes the values take."""
        return sum(map(_size, self.columns.values()))

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, slots: Any) -> "Table":
        """Some of the records, by a slice or by their places."""
        if isinstance(slots, slice):
            start, stop, _ = slots.indices(self.n)
            taken = {name: values[start:stop] for name, values in self.columns.items()}
            return Table(taken, max(stop - start, 0))
        places = np.arange(self.n)[slots]
        return Table(
            {name: _taken(values, places) for name, values in self.columns.items()}, len(places)
        )

    def row(self, place: int) -> dict[str, Any]:
        """One record, as it arrived."""
        values = {name: column[place] for name, column in self.columns.items()}
        return {n: as_object(v) if isinstance(v, pa.Scalar) else v for n, v in values.items()}


def _size(values: Values) -> int:
    if isinstance(values, pa.Array):
        return int(values.nbytes)
    return sum(map(sys.getsizeof, values)) + 8 * len(values)


def _taken(values: Values, places: Any) -> Values:
    if isinstance(values, pa.Array):
        return values.take(pa.array(places))
    return [values[place] for place in places.tolist()]


def as_table(X: Any, names: Sequence[str]) -> Table:
    """The named columns of a batch, in their order.

    Args:
        X: A `Table`, an Arrow table, a pandas or polars DataFrame, a dict of columns, a list of
            dicts, or rows without names whose values are in the order of `names`.
        names: The columns to take; others are ignored.

    >>> as_table([{"a": 1, "b": "x"}, {"a": None}], ["b", "a"]).columns
    {'b': ['x', None], 'a': [1, None]}
    """
    columns = X.columns if isinstance(X, Table) else X
    if isinstance(columns, pa.Table | pa.RecordBatch):
        check_names(columns.schema.names, names)
    elif isinstance(columns, Mapping):
        check_names(list(columns), names)
    elif hasattr(columns, "columns"):  # pandas or polars
        check_names([str(name) for name in columns.columns], names)
    else:
        return _of_rows(X, names)
    taken = {name: _values(columns[name]) for name in names}
    lengths = {len(values) for values in taken.values()}
    if len(lengths) > 1:
        raise refuse("X", "columns of the same length", shown=f"lengths {sorted(lengths)}")
    return Table(taken, max(lengths, default=0))


def check_names(present: Sequence[str], names: Sequence[str]) -> None:
    """Refuse a table that does not have every column once."""
    times = Counter(present)
    missing = [name for name in names if not times[name]]
    if missing:
        raise InvalidValueError(
            f"X lacks the column{'s' * (len(missing) > 1)} {few(missing)}; it has {few(present)}"
        )
    if twice := [name for name in names if times[name] > 1]:
        raise InvalidValueError(f"X has the column {twice[0]} more than once: rename the others")


def few(names: Sequence[str]) -> str:
    """Some names, as a text."""
    return ", ".join([*names[:MOST_NAMES], *["..."] * (len(names) > MOST_NAMES)])


def _values(values: Any) -> Values:
    """A column of any library, as a `Table` holds it."""
    if isinstance(values, list):
        return values
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return one_array(values)
    if hasattr(values, "iloc"):
        return _of_series(values)
    if hasattr(values, "to_arrow"):
        return _of_polars(values)
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise refuse("a column of X", "a list or an array", shown=type(values).__name__)
    flat = isinstance(values, np.ndarray) and values.ndim == 1
    return _of_array(values) if flat else list(values)


def _of_array(values: Any) -> Values:
    """An array of numbers or times as an Arrow array; the others as a list."""
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values).tolist()
        return [None if hidden else v for hidden, v in zip(mask, values.data.tolist(), strict=True)]
    if values.dtype.kind in "biufM":
        return pa.array(values)
    return list(values.tolist())


def _of_series(series: Any) -> Values:
    """A column of pandas. Objects stay as they are: Arrow would give them all one type."""
    kind = str(series.cat.categories.dtype if hasattr(series, "cat") else series.dtype)
    if kind == "object":
        return _of_objects(series.tolist())
    if kind.startswith(("complex", "interval", "period", "timedelta")):
        return series.tolist()
    try:
        return one_array(pa.array(series, from_pandas=True))
    except (pa.ArrowException, ValueError):  # a text that is not Unicode
        return series.tolist()


def _of_polars(series: Any) -> Values:
    if str(series.dtype) == "Object":  # of which Arrow would hold the addresses
        return _of_objects(series.to_list())
    try:
        return one_array(series.to_arrow())
    except Exception:  # numbers of 128 bits
        return list(series.to_list())


def _of_objects(values: list[Any]) -> Values:
    """Objects as they are, in an Arrow array if all are texts, None or NaN.

    Arrow would take bytes for texts, too, but only beside nothing else.
    """
    kinds = set(map(type, values))
    if not kinds <= {str, float, type(None)}:
        return values
    if float in kinds and any(type(each) is float and each == each for each in values):  # noqa: PLR0124
        return values
    try:
        return pa.array(values, pa.large_string(), from_pandas=True)
    except (pa.ArrowException, ValueError):  # half a surrogate pair
        return values


def one_array(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """An Arrow column in one piece; its texts may take 2 GiB and more.

    >>> str(one_array(pa.chunked_array([["a"], ["b"]])).type)
    'large_string'
    """
    if isinstance(values, pa.Array):
        return values
    if is_text(values.type) and values.num_chunks > 1:
        values = values.cast(pa.large_string())
    joined = values.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _of_rows(X: Any, names: Sequence[str]) -> Table:
    """Rows without names, in the order of `names`, or dicts."""
    if isinstance(X, np.ndarray) and X.ndim == 2:
        _check_width(X.shape[1], names)
        columns = {name: _of_array(X[:, place]) for place, name in enumerate(names)}
        return Table(columns, X.shape[0])
    objects = isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype == object
    rows = list(X) if objects or isinstance(X, tuple) else X
    if isinstance(rows, list) and any(isinstance(row, Mapping) for row in rows):
        return Table({name: [_entry(row, name) for row in rows] for name in names}, len(rows))
    wanted = f"a table with the columns {few(names)}"
    if not isinstance(rows, list):
        raise refuse("X", wanted, shown=type(X).__name__)
    if not all(isinstance(row, list | tuple | np.ndarray) for row in rows):
        raise refuse("X", wanted, shown="a list of other things")
    for width in set(map(len, rows)):
        _check_width(width, names)
    return Table({name: [row[i] for row in rows] for i, name in enumerate(names)}, len(rows))


def _entry(row: Any, name: str) -> Any:
    """A value of a record; what is no record has none that any kind of column takes."""
    return row.get(name) if isinstance(row, Mapping) else ()


def _check_width(width: int, names: Sequence[str]) -> None:
    if width != len(names):
        raise InvalidValueError(
            f"X has {width} features, but {len(names)} were expected: give the columns "
            f"{few(names)}, in this order or by name"
        )

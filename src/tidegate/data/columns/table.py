"""Tables as they arrive, from any library, and their columns: each is encoded by its kind."""

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from tidegate.checks import InvalidValueError, refuse
from tidegate.data.columns.column import Cells, Column, Values, column_of
from tidegate.data.feature_map import COLUMNS
from tidegate.data.rows import Rows, chunks
from tidegate.data.values import NEWEST, a_rule, as_object, one_array
from tidegate.kinds import parameter
from tidegate.privacy.budget import sqrt_down

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


# --- columns with kinds


MOST_COLUMNS = 2**14

WIDEST = 4096
"""With more features than this, rows are sparse, so that surveys cannot centre them."""

SLACK = Fraction(2**20 + 1, 2**20)
"""The norm is this much larger than the bound, so that clipping leaves every row as it is."""


def columns_of(name: str, value: object, spelling: int = NEWEST) -> tuple[Column, ...]:
    """Columns with different names, at least one; a description stands for its column."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence) or not value:
        raise refuse(name, "a list of columns, such as Number or Category", value)
    if len(value) > MOST_COLUMNS:
        raise refuse(name, f"at most {MOST_COLUMNS:,} columns", shown=f"{len(value):,}")
    made = tuple(column_of(each, spelling) if isinstance(each, Mapping) else each for each in value)
    for each in made:
        if not isinstance(each, Column):
            raise refuse(name, "a list of columns, such as Number or Category", each)
    times = Counter(each.name for each in made)
    if twice := [name for name, count in times.items() if count > 1]:
        raise InvalidValueError(
            f"column {twice[0]} is named {times[twice[0]]} times: name each column once"
        )
    alike = [each.spelling == spelling for each in made]
    return made if all(alike) else tuple(replace(each, spelling=spelling) for each in made)


@dataclass(eq=False, repr=False)
class TableColumns:
    """The columns of a table, each encoded by its kind; `Columns` is the same for scikit-learn.

    Args:
        columns: The columns.
        spelling: The rule by which values are spelled, see `tidegate.data.values`.
    """

    kind: ClassVar[str] = ""
    about: ClassVar[str] = "columns with kinds; configurations use [[columns]] instead"
    takes_text: ClassVar[bool] = False
    takes_columns: ClassVar[bool] = True

    columns: Any = parameter("the columns", columns_of)
    spelling: int = parameter("the rule by which values are spelled", a_rule, default=NEWEST)

    @property
    def checked(self) -> tuple[Column, ...]:
        """The columns, checked; they are checked again if they have changed."""
        columns = tuple(self.columns) if isinstance(self.columns, list | tuple) else self.columns
        given = columns, self.spelling
        before = self.__dict__.get("_checked")
        if before is None or before[0] != given:
            rule = a_rule("spelling", self.spelling)
            before = self._checked = given, columns_of("columns", self.columns, rule)
        checked: tuple[Column, ...] = before[1]
        return checked

    @property
    def names(self) -> list[str]:
        """The names of the columns, in their order."""
        return [each.name for each in self.checked]

    @property
    def width(self) -> int:
        """How many features a record becomes."""
        return sum(each.width for each in self.checked)

    @property
    def norm(self) -> float:
        """A bound on the norm of every row, with a little slack; see docs/proofs/columns.md."""
        squares = Fraction(sum(each.squared_norm for each in self.checked))
        return math.nextafter(sqrt_down(squares * SLACK**2), math.inf)

    def described(self) -> dict[str, Any]:
        """The map for a card; `columns_in` builds it again."""
        columns = [each.described() for each in self.checked]
        rule = {} if self.spelling == 1 else {"spelling": self.spelling}
        return {"kind": COLUMNS, "columns": columns, **rule}

    def transform(self, X: Any) -> Rows:
        """The features of each record, float32.

        Args:
            X: A table with these columns: a DataFrame, an Arrow table, a dict of columns, a list of
                dicts, or rows without names in this order. Other columns are ignored.
        """
        cells = [*self.cells(X).values()]
        wrong = np.any([each.wrong for each in cells], axis=0)
        if not self.dense:
            return _sparse(self.checked, cells, wrong)
        rows = self.unpack(_packed(self.checked, cells, wrong.size))
        rows[wrong] = np.nan
        return rows

    @property
    def dense(self) -> bool:
        """Whether rows are dense: if there are few features, which surveys can then centre."""
        return self.width <= WIDEST

    @property
    def packed_width(self) -> int:
        """How many numbers hold a record until its features are needed."""
        return sum(each.packed_width for each in self.checked)

    def pack(self, X: Any) -> NDArray[np.float32]:
        """The records of a table in a few numbers each; NaN for one that cannot be used."""
        cells = [*self.cells(X).values()]
        wrong = np.any([each.wrong for each in cells], axis=0)
        packed = _packed(self.checked, cells, wrong.size)
        packed[wrong] = np.nan
        return packed

    def unpack(self, packed: NDArray[Any]) -> NDArray[np.float32]:
        """The features of packed records; of any numbers, they keep the norm."""
        columns = self.checked
        rows = np.zeros((len(packed), sum(each.width for each in columns)), np.float32)
        for part in chunks(rows):  # few enough rows to stay in a core's cache
            place = start = 0
            for each in columns:
                own = packed[part, start : start + each.packed_width]
                each.unpack(own, rows[part, place : place + each.width])
                place, start = place + each.width, start + each.packed_width
        return rows

    def cells(self, X: Any) -> dict[str, Cells]:
        """The values of each column, read but not encoded: secret."""
        table = as_table(X, self.names)
        return {each.name: each.cells(table.columns[each.name]) for each in self.checked}

    def bad(self, X: Any) -> dict[str, NDArray[np.bool_]]:
        """Which values of each column contradict its kind: secret, like the values."""
        return {name: cells.wrong for name, cells in self.cells(X).items()}

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:  # noqa: ARG002
        """The names of the features."""
        return np.array([name for each in self.checked for name in each.names], object)


def columns_in(steps: Sequence[Mapping[str, Any]]) -> TableColumns | None:
    """The columns of any kind that a card describes; None if it has none."""
    if not steps or steps[0]["kind"] != COLUMNS:
        return None
    return TableColumns(steps[0]["columns"], steps[0].get("spelling", 1))


def _packed(columns: Sequence[Column], cells: Sequence[Cells], n: int) -> NDArray[np.float32]:
    packed = np.zeros((n, sum(each.packed_width for each in columns)), np.float32)
    place = 0
    for column, own in zip(columns, cells, strict=True):
        column.pack(own, packed[:, place : place + column.packed_width])
        place += column.packed_width
    return packed


def _sparse(
    columns: Sequence[Column], cells: Sequence[Cells], wrong: NDArray[np.bool_]
) -> csr_array:
    """Sparse rows, in which a wrong record keeps a NaN."""
    parts = [column.sparse(own) for column, own in zip(columns, cells, strict=True)]
    rows = csr_array(hstack(parts, format="csr"))
    if not wrong.any():
        return rows
    kept = rows.multiply(~wrong[:, None])
    places = np.flatnonzero(wrong)
    nan = np.full(places.size, np.nan, np.float32)
    marks = csr_array((nan, (places, np.zeros_like(places))), rows.shape)
    return csr_array(kept + marks).astype(np.float32)

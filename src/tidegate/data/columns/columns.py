"""A map of tables: each column is encoded by its kind, and the norm follows from the columns."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack
from sklearn.base import BaseEstimator, TransformerMixin

from tidegate.checks import InvalidValueError, refuse
from tidegate.data.columns.column import Cells, Column, column_of
from tidegate.data.columns.table import as_table
from tidegate.data.maps.feature_map import register
from tidegate.data.rows import Rows, chunks
from tidegate.data.spelling import NEWEST, a_rule
from tidegate.kinds import parameter
from tidegate.privacy.budget import sqrt_down

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


@register
@dataclass(eq=False, repr=False)
class Columns(TransformerMixin, BaseEstimator):
    """Encode the columns of a table, each by its kind.

    The features of a record depend on that record and the settings of the columns alone. A missing
    value is a value: it sets a feature of its own. A record with a value that contradicts its
    column's kind becomes a row of NaN, so it cannot be used.

    Each column's features are bounded, so a whole row has a norm of at most `norm`. An estimator
    with these features needs no norm of its own.

    Args:
        columns: The columns: `Number`, `Category`, `Flag`, `Time`, `Text` and `Vector`.
        spelling: The rule by which values are spelled, see `tidegate.data.spelling`; 1 is that
            of states and releases before version 0.2.

    >>> from tidegate.features import Category, Number
    >>> columns = Columns([Number("age", low=0, high=80), Category("sex", values=["f", "m"])])
    >>> columns.transform([{"age": 20, "sex": "m"}, {"age": "?", "sex": "f"}, {"age": 60}])
    array([[-0.5,  0. ,  0. ,  1. ,  0. ,  0. ],
           [ nan,  nan,  nan,  nan,  nan,  nan],
           [ 0.5,  0. ,  0. ,  0. ,  0. ,  1. ]], dtype=float32)
    >>> columns.get_feature_names_out().tolist()
    ['age', 'age missing', 'sex=f', 'sex=m', 'sex other', 'sex missing']
    >>> round(columns.norm, 3)
    1.414
    """

    kind: ClassVar[str] = ""
    about: ClassVar[str] = "columns with kinds; configurations use [[columns]] instead"
    takes_text: ClassVar[bool] = False
    takes_columns: ClassVar[bool] = True

    columns: Any = parameter("the columns", columns_of)
    spelling: int = parameter("the rule by which values are spelled", a_rule, default=NEWEST)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Keep rule 1 for columns that an earlier version has pickled."""
        super().__setstate__({"spelling": 1, **state})

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
        """The map for a card; `built_step` builds it again."""
        columns = [each.described() for each in self.checked]
        rule = {} if self.spelling == 1 else {"spelling": self.spelling}
        return {"kind": type(self).__name__, "columns": columns, **rule}

    def fit(self, X: object = None, y: object = None) -> Self:  # noqa: ARG002
        """Check the columns; no record is read."""
        self.feature_names_in_ = np.array(self.names, object)
        self.n_features_in_ = len(self.names)
        return self

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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.no_validation = True
        return tags


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

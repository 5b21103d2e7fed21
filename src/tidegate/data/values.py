"""Values of any type and library, each by itself: how they are spelled, which numbers they are.

Libraries give a whole column one type because of one odd value: 1 becomes 1.0 or "1", and True
becomes "True". So a value is known by its spelling, whatever type holds it. States and cards say by
which rule: rule 1 leaves every text as it is, and a label must also be of the type of its class;
rule 2 spells the text of a plain number as that number, and True or TRUE as true.
"""

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from tidegate.checks import InvalidValueError, Later, refuse, warn_caller

scikit = Later("sklearn.exceptions")


NEWEST = 2
"""The rule of new states and releases."""

RULES = (1, NEWEST)

PLAIN_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
"""What rule 2 takes for the text of a number."""

_PLAIN = re.compile(PLAIN_NUMBER)

TRUTHS = {
    spelling: word for word in ("true", "false") for spelling in (word, word.title(), word.upper())
}
"""The texts of true and false, as readers of files know them."""

TRUTH_NUMBERS = {spelling: float(word == "true") for spelling, word in TRUTHS.items()}
"""The numbers of true and false."""

TWINS = {"true": "1", "1": "true", "false": "0", "0": "false"}
"""In a list, true and 1 are one value, and so are false and 0: libraries mix them up."""

WHOLE = 2**64
"""Whole numbers smaller than this are spelled without a point or an exponent."""


class Odd(Enum):
    """What a value is that its column cannot encode as itself."""

    GAP = "missing: the record can be used"
    WRONG = "not of the column's kind: the record cannot be used"


def a_rule(name: str, value: object) -> int:
    """Check the number of a rule."""
    if isinstance(value, bool) or value not in RULES:
        raise refuse(name, f"one of {', '.join(map(str, RULES))}", value)
    return int(str(value))


def scalar(value: object) -> Any:
    """A value as a Python object; NaN, and what stands for nothing in pandas, becomes None.

    A complex number that is real becomes a float: beside one that is not, pandas makes all complex.
    A long float becomes a float: beside one, NumPy makes all long.
    """
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value
    if isinstance(value, np.longdouble | np.clongdouble):  # their item() is no Python number
        value = complex(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, complex) and (value.imag == 0 or value != value):  # noqa: PLR0124
        value = value.real if value.imag == 0 else math.nan
    nan = isinstance(value, float) and value != value  # noqa: PLR0124
    return None if nan or type(value).__name__ in {"NAType", "NaTType"} else value


def spelled(value: object, rule: int = NEWEST) -> Any:  # noqa: PLR0911 (a table of types)
    """A value as its text; an `Odd` if it has none.

    Numbers are spelled alike whatever type holds them, so that 3 and 3.0 are one category: pandas
    turns whole numbers into floats if another record has none. So those above 2^53 are rounded.

    >>> spelled("UA"), spelled(3), spelled(3.0), spelled(True), spelled(2.5)
    ('UA', '3', '3', 'true', '2.5')
    >>> spelled("3.0"), spelled("TRUE"), spelled("007"), spelled("3.0", rule=1)
    ('3', 'true', '007', '3.0')
    >>> spelled(2**60 + 1), spelled(2.0**60)
    ('1152921504606846976', '1152921504606846976')
    """
    if isinstance(value, str):
        return respelled(value, rule) or Odd.GAP
    if value is None:
        return Odd.GAP
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes) and rule > 1:
        return spelled(as_read(value, rule), rule)
    if not isinstance(value, int | float | Decimal):
        return Odd.WRONG
    try:
        number = float(value)
    except (OverflowError, ValueError):  # too large, or a signalling NaN
        return Odd.WRONG
    if math.isnan(number):  # of a Decimal
        return Odd.GAP
    return _of_number(number)


def respelled(text: str, rule: int = NEWEST) -> str:
    """A text as a rule spells it; rule 1 leaves it as it is.

    >>> respelled("-0.50"), respelled("True"), respelled("1e3"), respelled(" 1")
    ('-0.5', 'true', '1e3', ' 1')
    """
    if spells_number(text, rule):
        return _of_number(float(text))
    return text if rule == 1 else TRUTHS.get(text, text)


def spells_number(text: str, rule: int = NEWEST) -> bool:
    """Whether a rule spells a text as its number; rule 1 spells none so."""
    return rule > 1 and bool(_PLAIN.fullmatch(text)) and math.isfinite(float(text))


def truths_of(rule: int) -> Mapping[str, float]:
    """The texts that stand for 1 and 0 where numbers are read; rule 1 has none."""
    return TRUTH_NUMBERS if rule > 1 else {}


def _of_number(number: float) -> str:
    whole_number = number.is_integer() and abs(number) < WHOLE
    return str(int(number)) if whole_number else repr(number)


def as_read(value: object, rule: int) -> object:
    """A value as it is read: by rule 2 bytes are texts, and wrong for any kind if they are none.

    Arrow has bytes beside a text that is not UTF-8.
    """
    if rule == 1 or not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ()


def as_texts(X: Any, rule: int = NEWEST) -> Any:
    """Records that are texts; by rule 2 a number is the text that it is spelled as.

    >>> as_texts(["high tide", 3.0, None, ""])
    ['high tide', '3', None, '']
    """
    if rule == 1 or isinstance(X, str) or getattr(X, "ndim", 1) != 1 or not hasattr(X, "__iter__"):
        return X
    return only_texts(X, rule)


def only_texts(values: Iterable[Any], rule: int) -> list[str | None]:
    """Values as texts; None for those that are none by the rule."""
    plain = (each if rule == 1 or isinstance(each, str) else key_of(each, rule) for each in values)
    return [respelled(each, rule) if isinstance(each, str) else None for each in plain]


def key_of(value: object, rule: int = NEWEST) -> Hashable:
    """By what a value is found in a list: its spelling, or the value itself if it has none."""
    if rule == 1:
        return value
    plain = scalar(value)
    text = spelled(plain, rule)
    return text if isinstance(text, str) else plain


def places_in(name: str, listed: Sequence[Any], rule: int = NEWEST) -> dict[Hashable, int]:
    """The place of each value of a public list by its key; refuse values that are spelled alike.

    >>> places_in("classes", [0, 1])
    {'0': 0, '1': 1, 'true': 1, 'false': 0}
    >>> places_in("classes", ["1", "1.0"])
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: classes must differ by rule 2 of spelling, got '1' and \
'1.0', which are both 1
    """
    twins = TWINS if rule > 1 else {}
    places: dict[Hashable, int] = {}
    for place, value in enumerate(listed):
        key = key_of(value, rule)
        same = [each for each in (key, twins.get(str(key), key)) if each in places]
        if same:
            both = [f"{each!r:.60}" for each in (listed[places[same[0]]], value)]
            raise InvalidValueError(
                f"{name} must differ by rule {rule} of spelling, got {both[0]} and {both[1]}, "
                f"which are both {str(same[0])[:60]}"
            )
        places[key] = place
    return places | {twins[key]: places[key] for key in twins if key in places}


BYTES = {pa.binary(): pa.string(), pa.large_binary(): pa.large_string()}
"""Types of bytes, which a column of texts has if one of them is not UTF-8, by their texts."""


def plain(values: pa.Array) -> pa.Array:
    """An Arrow array without a dictionary of plain values; its texts may take 2 GiB and more."""
    if not isinstance(values.type, pa.DictionaryType) or not is_flat(values.type.value_type):
        return values
    if is_text(values.type.value_type):
        words = values.dictionary.cast(pa.large_string())
        values = pa.DictionaryArray.from_arrays(values.indices, words)
    return values.dictionary_decode()


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds numbers, decimals or flags."""
    kinds = pa.types
    numeric = kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal
    return any(is_kind(kind) for is_kind in numeric)


def is_flat(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds texts, bytes, numbers or times: what readers of files infer.

    Others are never read, because they can hold more than their bytes say: one small file could
    fill the memory.
    """
    flat = is_text(kind) or is_number(kind) or kind in BYTES
    return flat or bool(pa.types.is_null(kind) or pa.types.is_temporal(kind))


def is_list(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds lists of numbers; lists of nulls take no bytes, at any length."""
    lists = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    return any(is_kind(kind) for is_kind in lists) and is_number(kind.value_type)


def nulls(values: pa.Array) -> NDArray[np.bool_]:
    """Which values of an array are null."""
    if not values.null_count:
        return np.zeros(len(values), np.bool_)
    return np.asarray(values.is_null().to_numpy(zero_copy_only=False))


def as_objects(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """An Arrow array as Python objects; an empty tuple, wrong for any kind, if there is none.

    >>> as_objects(pa.array([0, 2**60], pa.timestamp("s")))
    [datetime.datetime(1970, 1, 1, 0, 0), ()]
    """
    try:
        return list(values.to_pylist())
    except Exception:  # such as a time after the year 9999, or in an unknown zone
        return [as_object(value, ()) for value in values]


def as_object(value: pa.Scalar, instead: Any = "what Python cannot hold") -> Any:
    """An Arrow scalar as a Python object, or something else if there is none."""
    try:
        return value.as_py()
    except Exception:
        return instead


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


def as_numbers(X: Any, rule: int = NEWEST) -> Any:
    """A batch as an array or a sparse matrix of numbers; any other entry becomes NaN.

    An array or a sparse matrix of numbers is returned unchanged; anything else is converted to
    float64, entry by entry, so that no entry depends on the others. By rule 2 the texts true and
    false are 1 and 0, as they are where a library takes them for flags.

    >>> as_numbers([[1, "2.5"], ["x", None]])
    array([[1. , 2.5],
           [nan, nan]])
    """
    if sparse.issparse(X):
        return X if _plain(X) else _real_sparse(X)
    if isinstance(X, list | tuple):
        return _from_rows(X, rule)
    if hasattr(X, "column_names"):
        return _from_columns(X.columns, rule)
    if hasattr(X, "get_column"):  # polars
        return _from_columns([X.get_column(name) for name in X.columns], rule)
    if isinstance(columns := getattr(X, "columns", None), Mapping):  # of a `Table`
        return _from_columns([*columns.values()], rule)
    batch = np.asarray(X)
    if batch.dtype.kind in "OUST" and batch.ndim == 2:
        batch = _from_rows(batch.tolist(), rule)
    elif batch.dtype.kind not in "OUST":
        batch = as_real(batch)
        if not isinstance(X, np.ndarray):
            batch = batch.astype(np.float64, copy=False)
    if isinstance(X, np.ma.MaskedArray) and _plain(batch):
        batch = np.where(np.ma.getmaskarray(X), np.nan, batch)
    return batch


def as_real(batch: NDArray[Any]) -> NDArray[Any]:
    """An array of real numbers of at most 64 bits; NaN for what is none.

    One entry can make a whole array complex, or one of long numbers or of times, so none of these
    is refused.

    >>> as_real(np.array([1.5, 2j]))
    array([1.5, nan])
    """
    if _plain(batch):
        return batch
    if batch.dtype.kind == "c":
        return np.where(batch.imag == 0, batch.real, np.nan).astype(np.float64)
    if batch.dtype.kind in "mM":
        return np.full(batch.shape, np.nan)
    if batch.dtype.kind == "f":
        with np.errstate(over="ignore"):  # an infinite record is unusable
            return batch.astype(np.float64)
    raise refuse("X", "of numbers", shown=str(batch.dtype))


def _real_sparse(X: Any) -> Any:
    made = X.tocsr(copy=True)
    entries = [number_of(each) for each in made.data] if made.dtype == object else made.data
    made.data = as_real(np.asarray(entries))
    return made


def is_arrow_array(values: Any) -> bool:
    """Whether this is an Arrow column and not a table."""
    return hasattr(values, "to_pylist") and not hasattr(values, "column_names")


def _plain(batch: Any) -> bool:
    """Whether float64 can hold the entries, up to rounding."""
    return bool(batch.dtype.kind in "biuf" and batch.dtype.itemsize <= 8)


def _from_rows(rows: Sequence[Any], rule: int) -> NDArray[np.float64]:
    try:
        batch = np.asarray(rows if all(map(_only_numbers, rows)) else ())
    except Exception:  # rows of different lengths
        batch = np.empty(0)
    if batch.ndim == 2 and _plain(batch):
        return batch.astype(np.float64)
    cells = [row if isinstance(row, list | tuple) else _row(row) for row in rows]
    if len({len(row) for row in cells}) > 1:
        raise refuse("X", "two-dimensional", shown="rows of different lengths")
    return np.array([[number_of(value, rule) for value in row] for row in cells], np.float64)


def _only_numbers(row: object) -> bool:
    """Whether a row has numbers alone: beside a text, an array has its length in every entry."""
    if isinstance(row, np.ndarray):
        return _plain(row)
    return isinstance(row, list | tuple) and all(
        issubclass(kind, int | float | np.number | np.bool_) for kind in set(map(type, row))
    )


def _row(row: object) -> list[Any]:
    values = np.asarray(row)
    if values.ndim != 1:
        raise refuse(
            "X", "two-dimensional (Reshape your data: one row per record)", shown="no rows"
        )
    return list(values.tolist())


def _from_columns(columns: Sequence[Any], rule: int) -> NDArray[np.float64]:
    """Columns of any library, each by itself."""
    return np.column_stack([_from_column(each, rule) for each in columns])


def _from_column(column: Any, rule: int) -> NDArray[np.float64]:
    if not isinstance(column, list):
        try:
            values = np.asarray(column)
        except Exception:  # Polars has numbers that NumPy does not
            values = np.empty(0, object)
        if _plain(values) and values.ndim == 1:
            return values.astype(np.float64)
        column = as_objects(column) if is_arrow_array(column) else column.to_list()
    return np.array([number_of(value, rule) for value in column], np.float64)


def number_of(value: object, rule: int = NEWEST) -> float:
    """One entry as a float; NaN if it is not a real number."""
    try:
        value = as_read(value, rule)  # a text that is not UTF-8 makes bytes of a column of texts
        if isinstance(value, str):
            return float(truths_of(rule).get(value, value))
        if isinstance(value, float | int | bytes | Real | Decimal):
            return float(value)
        if isinstance(value, list | tuple):
            return np.nan
        return float(as_real(array)) if (array := np.asarray(value)).ndim == 0 else np.nan
    except Exception:  # an entry that raises affects its own slot only
        return np.nan


def as_labels(y: Any, name: str = "y") -> list[Any]:
    """The label of each record, as a value that does not depend on the other labels.

    >>> as_labels([1, "a"]), as_labels(np.array([3, 4]))
    ([1, 'a'], [3, 4])
    """
    if isinstance(y, list | tuple | range):
        return list(y)
    if is_arrow_array(y):
        return as_objects(y)
    if hasattr(y, "to_arrow") and hasattr(y, "to_list"):  # polars
        return list(y.to_list())
    native = isinstance(getattr(y, "dtype", None), np.dtype | None)
    labels = np.asarray(y, None if native else object)  # pandas would turn ints into floats
    if isinstance(y, np.ma.MaskedArray):
        labels = labels.astype(object)
        labels[np.ma.getmaskarray(y)] = object()
    if labels.ndim == 2 and labels.shape[1] == 1:
        message = f"A column-vector {name} was passed when a 1d array was expected"
        warn_caller(message, scikit.DataConversionWarning)
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise InvalidValueError(
            f"{name} should be a 1d array with one value per record, got shape {labels.shape}"
        )
    return list(labels if labels.dtype.kind in "mM" else labels.tolist())  # no whole numbers

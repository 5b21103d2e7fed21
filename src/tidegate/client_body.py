"""What a client sends: records as an Arrow stream, or as JSON.

How a record is encoded may depend on the others, because an Arrow column has one type. But the
service reads every encoding of a value alike, by rule 2 of spelling.
"""

import json
import math
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.checks import refuse
from tidegate.data.columns.table import as_table, few
from tidegate.data.rows import as_rows
from tidegate.data.values import (
    as_labels,
    as_numbers,
    as_objects,
    is_flat,
    is_list,
    plain,
    scalar,
    spelled,
)

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"

NOTHING_READABLE = "<what no kind of column reads>"
"""Stands for an object that is neither a text nor a number, a time or a list."""

NUMBERS = {np.dtype(kind) for kind in "?bhilBHILfd"}
"""Types of numbers that Arrow takes as they are."""

TIED = ({int, float}, {str, bytes})
"""Types that Arrow puts into one column without a change to their values."""


def body_of(X: Any, y: Any = None, persons: Any = None) -> tuple[bytes, str]:
    """Encode records: numbers and tables as an Arrow stream, texts and dicts as JSON.

    Args:
        X: As in `Client.ingest`.
        y: The labels, or the name of their column; None to predict.
        persons: The ids of persons, if any.
    """
    if isinstance(y, str) or _has_names(X, labelled=y is not None):
        return _named(X, y, persons)
    ids = None if persons is None else _ids(persons)
    if isinstance(X, list) and not any(isinstance(each, list | tuple | np.ndarray) for each in X):
        given = {"x": _json(X)} if y is None else {"x": _json(X), "y": _json(as_labels(y))}
        given |= {} if ids is None else {"persons": ids.to_pylist()}
        return json.dumps(given).encode(), JSON
    rows = as_rows(as_numbers(X))
    if not isinstance(rows, np.ndarray):
        raise refuse("X", "an array, a table or a list", shown="a sparse matrix")
    rows = np.ascontiguousarray(rows)
    columns = {"x": pa.FixedSizeListArray.from_arrays(pa.array(rows.reshape(-1)), rows.shape[1])}
    if y is not None:
        columns["y"] = column_of_any(y if isinstance(y, np.ndarray) else as_labels(y))
    if ids is not None:
        columns["persons"] = ids
    return _stream(pa.table(columns)), ARROW


def _has_names(X: Any, *, labelled: bool) -> bool:
    """Whether records are dicts, or a table to predict whose columns are not all numbers."""
    if isinstance(X, list):
        return any(isinstance(record, Mapping) for record in X)
    named = hasattr(X, "columns") or hasattr(X, "column_names")
    return named and not labelled and np.asarray(X).dtype.kind not in "biuf"


def _named(X: Any, y: Any, persons: Any) -> tuple[bytes, str]:
    """Encode records whose values have names, the label among them."""
    if persons is not None:
        raise refuse("persons", "None for a table, which has a column of ids", shown="others")
    if y is not None and not isinstance(y, str):
        raise refuse("y", "the name of the column of labels of a table", shown=type(y).__name__)
    if isinstance(X, list):
        return json.dumps({"records": _json(X)}).encode(), JSON
    if hasattr(X, "iloc"):
        X = X if X.index.names == [None] else X.reset_index()
        X = X.set_axis([str(name) for name in X.columns], axis=1)
    names = _names(X)
    table = as_table(X, names)
    return _stream(pa.table({name: column_of_any(table.columns[name]) for name in names})), ARROW


def _names(X: Any) -> list[str]:
    if isinstance(X, Mapping):
        return [str(name) for name in X]
    names = X.schema.names if hasattr(X, "schema") and hasattr(X, "column_names") else None
    names = list(getattr(X, "columns", ()) if names is None else names)
    if not names:
        raise refuse("X", "a table with names, such as a DataFrame", shown=type(X).__name__)
    if len(set(names)) < len(names):
        raise refuse("X", "a table that has every name once", shown=few(names))
    return names


def column_of_any(values: Any) -> pa.Array:
    """Values of any types as one Arrow array: as texts, by their spelling, if they are mixed.

    >>> column_of_any([1, 2.5, None]).type, column_of_any([1, "a", True]).to_pylist()
    (DataType(double), ['1', 'a', 'true'])
    """
    if isinstance(values, pa.Array):
        values = plain(values)
        if is_flat(values.type) or is_list(values.type):
            return values
        values = as_objects(values)
    if isinstance(values, np.ndarray):
        if (
            values.dtype.kind in "biufU" and values.dtype.itemsize <= 8
        ) or values.dtype.kind == "U":
            return pa.array(values)
        values = as_labels(values)
    kinds = {type(each) for each in values} - {type(None)}
    if len(kinds) <= 1 or any(kinds <= tied for tied in TIED):
        try:
            made = pa.array(values, from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            made = None  # such as texts that are not Unicode, or lists of different things
        if made is not None and (is_flat(made.type) or is_list(made.type)):
            return made
    return pa.array(list(map(_text, values)), pa.large_string())


def _text(value: Any) -> str | None:
    """A value as a text that every kind of column reads as the value."""
    value = scalar(value)
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, np.datetime64):
        return str(value)
    if isinstance(value, list | tuple | np.ndarray):
        return json.dumps(_json(value))
    text = spelled(value) if isinstance(value, int | float | Decimal | bytes) else value
    return text if isinstance(text, str | None) else NOTHING_READABLE


def _json(values: Iterable[Any]) -> list[Any]:
    return [_json_value(each) for each in values]


def _json_value(value: Any) -> Any:
    """A value that JSON can hold, which the service reads alike."""
    value = scalar(value)
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, Mapping):
        return {str(name): _json_value(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return _json(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int) and abs(value) < 2**63:
        return value
    return value if isinstance(value, float) and math.isfinite(value) else _text(value)


def _stream(table: Any) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _ids(persons: Any) -> Any:
    """The ids of persons as an Arrow array of texts or whole numbers."""
    if isinstance(persons, pa.ChunkedArray):
        persons = persons.combine_chunks()
    if isinstance(persons, str | bytes):
        raise refuse("persons", "a list, with one id per record", type(persons).__name__)
    try:
        ids = persons if isinstance(persons, pa.Array) else pa.array(persons, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):  # its text would quote an id
        ids = None
    kinds = pa.types.is_integer, pa.types.is_string, pa.types.is_large_string
    if ids is None or not any(is_kind(ids.type) for is_kind in kinds):
        kind = "several types" if ids is None else str(ids.type)
        raise refuse("persons", "all texts or all whole numbers", shown=kind)
    return ids

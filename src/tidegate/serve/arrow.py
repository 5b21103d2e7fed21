"""Arrow bodies, whose size once read is computed before any value is copied.

They are read in a process whose memory is limited, see `tidegate.serve.parser`: a few bytes of a
compressed stream can expand to any size. Such streams are refused, because reading one allocates
memory. The columns of any other only refer to the body. Still, booleans grow from a bit to a float,
and several columns may share the same bytes. So the size is computed from types and counts.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, refuse
from tidegate.data.values import BYTES, is_flat, is_list, is_text, nulls
from tidegate.serve.framing import Body
from tidegate.serve.limits import check_number, check_size
from tidegate.sources.arrow_records import values

NOT_ARROW = "the body must be an Arrow IPC stream, without compression and dictionaries"

MAX_EXPANSION = 64
"""The most that a body can grow if no two columns share bytes: a bit becomes 8 bytes."""

BYTES_PER_CHARACTER = 4
"""The most bytes that a byte of text takes in a Python string."""

POOL = pa.proxy_memory_pool(pa.system_memory_pool())
"""Where streams are read; it must outlive them."""


def table_of(body: Body, most: int) -> Any:
    """The table in a body, of at most so many rows; its columns refer to the body, unchecked."""
    batches, rows, before = [], 0, POOL.bytes_allocated()
    try:
        stream = pa.ipc.open_stream(pa.py_buffer(body), memory_pool=POOL)
        _ = stream.schema.names, [getattr(kind, "tz", None) for kind in stream.schema.types]
        for batch in stream:
            if batch.num_rows < 0 or POOL.bytes_allocated() > before:
                raise pa.ArrowInvalid
            rows += batch.num_rows
            check_number(rows, most)
            batches.append(batch)
        return pa.Table.from_batches(batches, stream.schema)
    except InvalidValueError:
        raise
    except (pa.ArrowException, ValueError, OSError):
        raise InvalidValueError(NOT_ARROW) from None


def chosen(table: Any, names: Sequence[str], body: Body, most: int) -> Any:
    """Some columns of a table, checked: they take at most so many bytes once read.

    Text is returned as bytes, so that invalid UTF-8 affects only its own record.
    """
    kinds = [table.schema.field(name).type for name in dict.fromkeys(names)]
    for name, kind in zip(dict.fromkeys(names), kinds, strict=True):
        if not (is_flat(kind) or is_list(kind)):
            allowed = "texts, numbers, flags, times or lists of numbers"
            raise refuse(f"column {name} of the body", allowed, shown=str(kind))
    size = sum(unfolded(kind, table.num_rows) for kind in kinds)
    check_size(size, most)
    if size > MAX_EXPANSION * len(body):
        raise InvalidValueError(NOT_ARROW)
    try:
        columns = {name: _validated(table.column(name)) for name in names}
    except (pa.ArrowException, ValueError):
        raise InvalidValueError(NOT_ARROW) from None
    check_size(size + sum(_times(each.type) * int(each.nbytes) for each in columns.values()), most)
    return pa.table({name: each.combine_chunks() for name, each in columns.items()})


def unfolded(kind: Any, rows: int) -> int:
    """The bytes that a column takes as floats; of values of any length, their references.

    >>> unfolded(pa.list_(pa.bool_(), 10), 100), unfolded(pa.string(), 100)
    (8000, 800)
    """
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * unfolded(kind.value_type, rows)
    return rows * (4 if kind == pa.float32() else 8)


def _times(kind: Any) -> int:
    """The most bytes that a byte of a value of any length becomes; 0 for others.

    >>> _times(pa.binary()), _times(pa.list_(pa.float32())), _times(pa.list_(pa.bool_()))
    (4, 2, 64)
    >>> _times(pa.int8()), _times(pa.list_(pa.int8(), 10))
    (0, 0)
    """
    if kind in BYTES:
        return BYTES_PER_CHARACTER
    varies = pa.types.is_nested(kind) and not pa.types.is_fixed_size_list(kind)
    return max(1, 64 // int(kind.value_type.bit_width)) if varies else 0


def _validated(column: Any) -> Any:
    """The column, validated, its texts as bytes."""
    if is_text(column.type):
        wide = pa.types.is_large_string(column.type)
        column = column.cast(pa.large_binary() if wide else pa.binary())
    inner = getattr(column.type, "value_type", column.type)
    # A decimal with too many digits is harmless and affects only its own record.
    column.validate(full=not pa.types.is_decimal(inner))
    return column


def matrix(column: Any) -> NDArray[Any]:
    """A column of fixed-size lists of numbers as a matrix; a null list becomes NaN."""
    lists, width = column.combine_chunks(), column.type.list_size
    flat = values(lists.values.slice(lists.offset * width, len(lists) * width))
    rows = flat.reshape(len(lists), width)
    return np.where(nulls(lists)[:, None], np.nan, rows) if lists.null_count else rows


def decoded(table: Any) -> Any:
    """The table with its bytes as text; null if they are not UTF-8."""
    return pa.table({name: _text(table.column(name)) for name in table.column_names})


def unchecked(table: Any) -> Any:
    """The table with its bytes as text, also if they are not UTF-8: columns with kinds see that."""
    columns = [each.combine_chunks() for each in table.columns]
    texts = [each.view(BYTES.get(each.type, each.type)) for each in columns]
    return pa.table(texts, names=table.column_names)


def _text(column: Any) -> Any:
    if column.type not in BYTES:
        return column
    try:
        return column.cast(pa.large_string())
    except pa.ArrowInvalid:
        return pa.array([_utf8(each) for each in column.to_pylist()], pa.large_string())


def _utf8(given: bytes | None) -> str | None:
    try:
        return None if given is None else given.decode()
    except UnicodeDecodeError:
        return None

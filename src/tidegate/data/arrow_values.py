"""Arrow arrays: which types are read, and their values as Python objects."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

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

"""The bytes of an Arrow array, for digests of what was read."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.data.values import is_flat, is_list, is_text, plain

Bytes = bytes | memoryview


def arrow_bytes(array: pa.Array) -> list[Bytes]:
    """The values of an array as a few byte strings, as many as its type needs.

    They depend on the values and the type alone, not on how the array was sliced or on what its
    buffers hold under a null. The strings of two arrays, joined one by one, are those of the joined
    array: so a digest of each does not depend on how rows are divided into pieces.

    >>> whole, halves = pa.array(["a", None, "bc"]), (pa.array(["a", None]), pa.array(["bc"]))
    >>> [bytes(each) for each in arrow_bytes(whole)] == [
    ...     bytes(one) + bytes(other) for one, other in zip(*map(arrow_bytes, halves))]
    True
    """
    present = array.is_valid().to_numpy(zero_copy_only=False).view(np.uint8).data
    if is_text(array.type):
        return [present, *_texts(array)]
    if not (is_flat(array.type) or is_list(array.type)):  # nothing more of them is read
        return [present]
    if pa.types.is_nested(array.type):
        lengths = _lengths(pc.fill_null(pc.list_value_length(array), 0))
        return [present, lengths, *arrow_bytes(plain(array.flatten()))]
    return [present, _numbers(array)]


def _lengths(values: Any) -> Bytes:
    return np.ascontiguousarray(values.to_numpy(zero_copy_only=False).astype("<i8")).data


def _texts(array: pa.Array) -> list[Bytes]:
    """The length of each text, 0 for null, and the bytes of all texts, one after the other."""
    wide = np.int64 if pa.types.is_large_string(array.type) else np.int32
    if array.null_count:  # what a buffer holds under a null does not count
        array = pc.fill_null(array, "")
    _, ends, data = array.buffers()
    if not len(array) or ends is None:
        return [b"", b""]
    offsets = np.frombuffer(ends, wide)[array.offset :][: len(array) + 1]
    content = b"" if data is None else memoryview(data)[int(offsets[0]) : int(offsets[-1])]
    return [np.diff(offsets).astype("<i8").data, content]


def _numbers(array: pa.Array) -> Bytes:
    """Numbers, flags and times, with 0 for null; others as text, each with its length."""
    kind = array.type
    if pa.types.is_temporal(kind):
        wide = pa.int32() if kind.bit_width == 32 else pa.int64()
        array = array.view(wide) if kind.bit_width in {32, 64} else array
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        texts = [str(each).encode(errors="surrogatepass") for each in array.to_pylist()]
        return b"".join(b"%d:%b" % (len(each), each) for each in texts)
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(0, array.type))
    filled = array.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(filled).data

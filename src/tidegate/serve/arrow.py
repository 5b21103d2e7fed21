"""Arrow bodies, whose size once read is computed before anything is read.

Compressed streams and dictionaries are refused, because a few bytes of them can expand to any
size. Booleans grow from a bit to a float, and several columns may share the same bytes. So the
size is computed from the schema and the number of rows that the messages declare, and from the
lengths of texts and lists. Only then are the needed columns copied.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.features.arrow_values import BYTES, is_text
from tidegate.gate.sources.columns import as_json
from tidegate.gate.sources.columns import row_of as in_batch
from tidegate.gate.sources.parquet import values

NOT_ARROW = "the body must be an Arrow IPC stream, without compression and dictionaries"

MAX_EXPANSION = 64
"""The most that a body can grow if no two columns share bytes: a bit becomes 8 bytes."""

BYTES_PER_CHARACTER = 4
"""The most bytes that a byte of text takes in a Python string."""

CHUNK = 2**16
"""Values converted at a time."""

MIN_ROWS = 1024
"""Batches with fewer rows are joined, up to this many, because each batch takes extra memory."""


@dataclass(frozen=True)
class Stream:
    """An Arrow IPC stream whose record batches have not been read yet."""

    body: Any
    schema: Any
    rows: int  # the number of rows that all record batches declare

    def check(self, names: Sequence[str], most: int) -> None:
        """Refuse a stream in which these columns take too many bytes once read."""
        kinds = {name: self.schema.field(name).type for name in names}
        size = sum(unfolded(kind, self.rows) for kind in kinds.values())
        check_size(size, most)
        if size > MAX_EXPANSION * len(self.body):
            raise InvalidValueError(NOT_ARROW)
        if any_length := [name for name, kind in kinds.items() if _is_any_length(kind)]:
            for batch in self._validated(any_length):
                size += sum(_times(column.type) * int(column.nbytes) for column in batch.columns)
                check_size(size, most)

    def batches(self, names: Sequence[str]) -> Iterator[Any]:
        """The record batches that have rows, with these columns, validated.

        Text is returned as bytes, so that invalid UTF-8 affects only its own record.
        """
        group = list[Any]()
        for batch in self._validated(names):
            group.append(batch)
            if sum(each.num_rows for each in group[-2:]) >= MIN_ROWS or len(group) >= MIN_ROWS:
                yield _joined(group)
                group = []
        if group:
            yield _joined(group)

    def _validated(self, names: Sequence[str]) -> Iterator[Any]:
        """The record batches that have rows; their columns refer to the body."""
        places = [self.schema.get_field_index(name) for name in dict.fromkeys(names)]
        options = pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)
        left = self.rows
        try:
            for batch in pa.ipc.open_stream(self.body, options=options):
                left -= batch.num_rows
                if batch.num_rows:
                    yield _checked(batch)
        except (pa.ArrowException, ValueError, OSError):
            raise InvalidValueError(NOT_ARROW) from None
        if left:
            raise InvalidValueError(NOT_ARROW)


def check_size(size: int, most: int) -> None:
    """Refuse a body that is too large once read."""
    if size > most:
        wrong = f"the values of the body take {size} bytes, but at most {most} are allowed"
        raise InvalidValueError(f"{wrong}: send fewer records at a time")


def stream(body: Any) -> Stream:
    """Open a body as a stream; only the metadata of its messages is read."""
    try:
        return _stream(pa.py_buffer(body))
    except (pa.ArrowException, struct.error, ValueError, OSError):
        raise InvalidValueError(NOT_ARROW) from None


def _stream(body: Any) -> Stream:
    rows = 0
    for message in pa.ipc.MessageReader.open_stream(body):
        if message.type == "record batch":
            rows += _declared(memoryview(message.metadata))
        elif message.type != "schema":
            raise pa.ArrowInvalid
    schema = pa.ipc.open_stream(body).schema
    _ = schema.names, [getattr(kind, "tz", None) for kind in schema.types]  # not UTF-8: an error
    return Stream(body, schema, rows)


def unfolded(kind: Any, rows: int) -> int:
    """The bytes that a column takes as floats; of values of any length, their references.

    >>> unfolded(pa.list_(pa.bool_(), 10), 100), unfolded(pa.string(), 100)
    (8000, 800)
    """
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size) * unfolded(kind.value_type, rows)
    return rows * (4 if kind == pa.float32() else 8)


def _times(kind: Any) -> int:
    """The most bytes that a byte of a text, or of a list of numbers, becomes.

    >>> _times(pa.string()), _times(pa.list_(pa.float32())), _times(pa.list_(pa.bool_()))
    (4, 2, 64)
    """
    return (
        max(1, 64 // int(kind.value_type.bit_width))
        if pa.types.is_nested(kind)
        else BYTES_PER_CHARACTER
    )


def _is_any_length(kind: Any) -> bool:
    """Whether the bytes of a value differ from one to the next: a text, or a list."""
    return (
        is_text(kind)
        or kind in BYTES
        or bool(pa.types.is_nested(kind) and not pa.types.is_fixed_size_list(kind))
    )


def matrix(batches: Sequence[Any], name: str, kind: Any) -> NDArray[Any]:
    """A column of fixed-size lists of numbers as a matrix; a null list becomes NaN."""
    width, inner = kind.list_size, kind.value_type
    columns = [batch.column(name) for batch in batches]
    plain = inner in {pa.float32(), pa.float64()}
    if plain and len(columns) == 1 and not columns[0].null_count:
        return values(_values(columns[0], width)).reshape(len(columns[0]), width)  # without a copy
    rows = sum(map(len, columns))
    made = np.empty((rows, width), np.float32 if inner == pa.float32() else np.float64)
    stop = 0
    for column in columns:
        part, stop = made[stop : stop + len(column)], stop + len(column)
        flat, given = part.reshape(-1), _values(column, width)
        for start in range(0, flat.size, CHUNK):
            flat[start : start + CHUNK] = values(given.slice(start, CHUNK))
        if column.null_count:
            part[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return made


def _values(column: Any, width: int) -> Any:
    """The values of a column of lists, including those of null lists."""
    return column.values.slice(column.offset * width, len(column) * width)


def _joined(batches: Sequence[Any]) -> Any:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _checked(batch: Any) -> Any:
    """The batch with validated columns, its texts as bytes."""
    columns = []
    for column in batch.columns:
        if is_text(column.type):
            binary = pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary()
            column = column.cast(binary)  # noqa: PLW2901
        inner = getattr(column.type, "value_type", column.type)
        # A decimal with too many digits is harmless and affects only its own record.
        column.validate(full=not pa.types.is_decimal(inner))
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def decoded(batch: Any) -> Any:
    """The batch with its bytes as text; null if they are not UTF-8."""
    columns = [_text(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def unchecked(batch: Any) -> Any:
    """The batch with its bytes as text, also if they are not UTF-8: columns with kinds see that."""
    kinds = {pa.binary(): pa.string(), pa.large_binary(): pa.large_string()}
    columns = [each.view(kinds.get(each.type, each.type)) for each in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _text(column: Any) -> Any:
    if column.type not in {pa.binary(), pa.large_binary()}:
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


def row_of(batches: Sequence[Any]) -> Any:
    """A function that returns a row of these batches as JSON text."""
    starts = list(accumulate((batch.num_rows for batch in batches), initial=0))

    def shown(slot: int) -> str:
        which = bisect_right(starts, slot) - 1
        return as_json(in_batch(batches[which], slot - starts[which]))

    return shown


def _declared(metadata: memoryview) -> int:
    """The number of rows that a record batch declares; a compressed batch is refused.

    The metadata is a FlatBuffer. A table starts with the distance back to its vtable. The vtable
    holds two sizes, then the offset of each field in the table, 0 if it is absent. Field 2 of a
    message is the record batch; field 0 of that is its number of rows, field 3 its compression.
    """

    def field(table: int, index: int) -> int:
        fields = table - struct.unpack_from("<i", metadata, table)[0]
        if 4 + 2 * index >= struct.unpack_from("<H", metadata, fields)[0]:
            return 0
        offset: int = struct.unpack_from("<H", metadata, fields + 4 + 2 * index)[0]
        return table + offset if offset else 0

    def follow(place: int) -> int:
        return place + int(struct.unpack_from("<I", metadata, place)[0])

    header = field(follow(0), 2)
    batch = follow(header) if header else 0
    rows = field(batch, 0) if header else 0
    declared = int(struct.unpack_from("<q", metadata, rows)[0]) if rows else 0
    if not header or field(batch, 3) or declared < 0:
        raise pa.ArrowInvalid
    return declared

"""Segments: consecutive records as Arrow IPC files, which can be memory-mapped."""

import os
import secrets
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tidegate.checks import StoreError
from tidegate.data.records import Records, Slots
from tidegate.data.rows import Rows
from tidegate.state.damage import DAMAGED, RESTORE
from tidegate.state.segment_folder import SegmentFolder, Where, fetched

OWNED = ", owned"
"""The end of the kind of rows whose persons are known."""


class Written(NamedTuple):
    """A written file: its name, size in bytes and checksum."""

    file: str
    size: int
    checksum: int


def kind(records: Records) -> str:
    """The kind of rows, which all records of a stream share.

    >>> kind(Records(np.zeros((5, 3)), np.zeros(5, np.intp), np.ones(5, np.bool_)))
    'dense float64, 3 features'
    """
    layout = "dense" if isinstance(records.X, np.ndarray) else "sparse"
    rows = f"{layout} {records.X.dtype}, {records.X.shape[1]} features"
    return rows if records.owners is None else f"{rows}{OWNED}"


def form(kind: str) -> Rows:
    """An empty array of a kind.

    >>> form("dense float64, 3 features").shape, form("sparse float32, 5 features, owned").dtype
    ((0, 3), dtype('float32'))
    """
    layout, dtype, width, _ = kind.removesuffix(OWNED).replace(",", "").split()
    empty = np.empty((0, int(width)), dtype)
    return empty if layout == "dense" else csr_array(empty)


def pack(records: Records) -> Any:
    """Records as one Arrow IPC buffer, uncompressed so that a mapped file needs no decoding.

    Dense rows are fixed-size lists; sparse rows are lists of (column, value), whose offsets,
    columns and values are the three arrays of CSR. Owners are fixed-size lists of two words.
    """
    X, width = records.X, records.X.shape[1]
    if isinstance(X, np.ndarray):
        rows = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), width)
    else:
        entries = pa.StructArray.from_arrays(
            [pa.array(X.indices), pa.array(X.data)], ["column", "value"]
        )
        lists = pa.LargeListArray if X.indptr.dtype == np.int64 else pa.ListArray
        rows = lists.from_arrays(pa.array(X.indptr), entries)
    usable = records.usable.view(np.uint8)  # Arrow packs booleans into bits, which cannot be mapped
    columns = {
        "x": rows,
        "y": pa.array(records.y.astype(np.int64, copy=False)),
        "usable": pa.array(usable),
    }
    if records.owners is not None:
        words = pa.array(np.ascontiguousarray(records.owners).reshape(-1))
        columns["owner"] = pa.FixedSizeListArray.from_arrays(words, 2)
    fields = [(name, column.type) for name, column in columns.items()]
    schema = pa.schema(fields, metadata={"width": str(width)})
    table = pa.record_batch(list(columns.values()), schema=schema)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_batch(table)
    return sink.getvalue()


def unpack(buffer: Any) -> Records:
    """The records in a buffer, as read-only views; ValueError for anything but what `pack` made.

    Whoever made it may mean harm, so no length in it is trusted, and nothing is unpacked: Arrow
    would decompress a file of a megabyte to a gigabyte.
    """
    table = _batch(pa.py_buffer(buffer))
    rows, width = table.column("x"), int(table.schema.metadata[b"width"])
    X: Any
    if pa.types.is_fixed_size_list(rows.type):
        X = _view(rows.values).reshape(table.num_rows, width)
    else:
        columns, values = rows.values.flatten()
        parts = (_view(values), _view(columns), _view(rows.offsets))
        X = csr_array(parts, shape=(table.num_rows, width), copy=False)
    y = _view(table.column("y")).view(np.intp)
    owners = None
    if "owner" in table.schema.names:
        owners = _view(table.column("owner").values).reshape(table.num_rows, 2)
    return Records(X, y, _view(table.column("usable")).view(np.bool_), owners=owners)


MAGIC = b"ARROW1\0\0"
"""How an Arrow IPC file begins; its messages follow."""

COMPRESSION = 3
"""The number of the field of a record batch's header that says how it is compressed."""


def _batch(buffer: Any) -> Any:
    """The only record batch of a file, whose buffers are as long as it says."""
    if bytes(buffer[: len(MAGIC)]) != MAGIC:
        raise ValueError("not an Arrow file")
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(buffer.slice(len(MAGIC))))
    first, message = messages.read_next_message(), messages.read_next_message()
    if (first.type, message.type) != ("schema", "record batch"):
        raise ValueError("not a schema and its records")  # Arrow takes anything for them
    schema = pa.ipc.read_schema(first)
    if _compressed(message.metadata.to_pybytes()):
        raise ValueError("compressed")
    table = pa.ipc.read_record_batch(message, schema)
    table.validate(full=True)
    return table


def _compressed(message: bytes) -> bool:
    """Whether the header of a record batch, a FlatBuffer, says that it is compressed."""

    def field(table: int, number: int) -> int | None:
        """Where a field of a table is; None if it is left out."""
        (back,) = struct.unpack_from("<i", message, table)
        (size,) = struct.unpack_from("<H", message, table - back)
        if 4 + 2 * number >= size:
            return None
        (offset,) = struct.unpack_from("<H", message, table - back + 4 + 2 * number)
        return table + offset if offset else None

    header = field(struct.unpack_from("<I", message, 0)[0], 2)
    if header is None:
        raise ValueError("no header")
    return field(header + struct.unpack_from("<I", message, header)[0], COMPRESSION) is not None


def _view(column: Any) -> NDArray[Any]:
    array: NDArray[Any] = column.to_numpy(zero_copy_only=True)
    return array


def part(records: Records, start: int, stop: int) -> Records:
    """Consecutive slots as views; SciPy's slicing would copy sparse rows."""
    if isinstance(records.X, np.ndarray):
        return records.take(slice(start, stop))
    X = records.X
    first, last = X.indptr[start], X.indptr[stop]
    rows = csr_array((stop - start, X.shape[1]), dtype=X.dtype)
    rows.data, rows.indices = X.data[first:last], X.indices[first:last]
    rows.indptr = X.indptr[start : stop + 1] - first
    owners = None if records.owners is None else records.owners[start:stop]
    return Records(rows, records.y[start:stop], records.usable[start:stop], owners=owners)


def checksum(buffer: Any) -> int:
    """The CRC-32 of a buffer.

    It detects accidental damage (all but one in 2^32 cases) at three times the speed of SHA-256. No
    checksum inside the state helps against somebody who can write to it.
    """
    return zlib.crc32(buffer)


def write(folder: SegmentFolder, stem: str, records: Records) -> Written:
    """Write a segment atomically; it is durable after the folder's `sync`."""
    buffer = pack(records)
    name = f"{stem}-{secrets.token_hex(8)}.arrow"  # no name is used twice
    folder.write(name, buffer)
    return Written(name, buffer.size, checksum(buffer))


@dataclass(frozen=True, kw_only=True)
class Stored:
    """Slots of a segment: a `Piece` that any machine can load if it can read the segment's file.

    `sound` has the files whose checksum was verified; it is empty in another process.
    """

    where: Where  # the file that holds the segment, or the database
    data: bytes | None = field(repr=False)  # with the database's pad, if there is no file
    size: int  # bytes in the segment
    checksum: int
    count: int  # slots in the segment
    slots: slice | Slots  # the slots of this piece
    sound: set[str] = field(repr=False, compare=False)

    @property
    def n(self) -> int:
        """See `Piece`."""
        if isinstance(self.slots, slice):
            return int(self.slots.stop - self.slots.start)
        return len(self.slots)

    @property
    def place(self) -> Path | None:
        """See `Piece`; None for a URI, which can be read from any machine."""
        return self.where if self.data is None and isinstance(self.where, Path) else None

    def ahead(self) -> None:
        """See `Piece`."""
        if self.place is not None and hasattr(os, "posix_fadvise"):
            with suppress(OSError):  # `load` reports it
                file = os.open(self.place, os.O_RDONLY)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_WILLNEED)
                os.close(file)

    def load(self) -> Records:
        """See `Piece`; views of the mapped file, or copies of single slots."""
        try:
            buffer = fetched(self.where) if self.data is None else self.data.lstrip(b"\0")
        except OSError as error:  # missing, unreadable or empty
            remote = isinstance(self.where, str) and not isinstance(error, FileNotFoundError)
            advice = "check that it can be reached, then try again" if remote else RESTORE
            raise StoreError(f"{self.where}: {error.strerror or error}: {advice}") from None
        if self.place is None or self.place.name not in self.sound:
            if memoryview(buffer).nbytes != self.size or checksum(buffer) != self.checksum:
                raise StoreError(f"{self.where}: {DAMAGED}")
            if self.place is not None:
                self.sound.add(self.place.name)
        try:
            records = unpack(buffer)
        except Exception as error:  # its checksum is right, but Arrow can raise anything
            raise StoreError(f"{self.where}: it holds no records: {RESTORE}") from error
        if records.n != self.count:
            raise StoreError(f"{self.where}: {DAMAGED}")
        if isinstance(self.slots, slice):
            return part(records, self.slots.start, self.slots.stop)
        return records.take(self.slots)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "sound": set()}

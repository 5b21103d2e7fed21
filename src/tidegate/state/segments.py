"""Segments: consecutive records as Arrow IPC files, in a local folder or at any URI.

A file can be memory-mapped. It is written once, read and deleted.
"""

import errno
import os
import secrets
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import fs
from scipy.sparse import csr_array

from tidegate.checks import StoreError
from tidegate.data.records import Records, Slots
from tidegate.data.rows import Rows
from tidegate.failpoints import failpoint
from tidegate.state.damage import DAMAGED, RESTORE
from tidegate.whole_file import make_folder, open_ordinary, sync_folder, write_whole

Where = Path | str
"""The location of a segment: a local path, or a URI that any machine can read."""


class SegmentFolder(Protocol):
    """Files that are written once, read and deleted; no name is used twice."""

    def make(self) -> None:
        """Create the folder if missing, accessible only to its owner."""

    def where(self, name: str) -> Where:
        """The location of a file, which `fetched` can read in any process."""

    def write(self, name: str, buffer: Any) -> None:
        """Write a file, durable after `sync`; leave nothing behind on failure."""

    def sync(self) -> None:
        """Make the names of all files durable."""

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    def names(self) -> set[str]:
        """The names of the files, including unfinished ones."""


class LocalFolder:
    """A local folder, whose files are memory-mapped; see `SegmentFolder`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self) -> None:
        """Create the folder if missing, accessible only to its owner."""
        make_folder(self._path)
        self._path.chmod(0o700)

    def where(self, name: str) -> Where:
        """The absolute path of a file."""
        if not plain(name):
            raise StoreError(f"{name!r} is not the name of a segment: {RESTORE}")
        return (self._path / name).absolute()

    def write(self, name: str, buffer: Any) -> None:
        """Write a file atomically, under a temporary name first."""
        write_whole(self._path / name, buffer, point="segment", mode=0o600)

    def sync(self) -> None:
        """Make the names of all files durable."""
        failpoint("segment.folder")
        sync_folder(self._path)

    def delete(self, name: str) -> None:
        """Delete a file, if it exists; existing mappings of it stay valid."""
        (self._path / name).unlink(missing_ok=True)

    def names(self) -> set[str]:
        """The names of the files, including unfinished ones."""
        return set(os.listdir(self._path))


class RemoteFolder:
    """A folder at a URI, such as S3; see `SegmentFolder`.

    A file is complete once it is closed. It has its final name from the start, but is ignored until
    a row of the database names it.

    Args:
        uri: A URI that pyarrow supports; credentials come from the environment.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def make(self) -> None:
        """Create the folder if missing."""
        with _one_line(self._uri):
            files, path = _filesystem(self._uri)
            files.create_dir(path)

    def where(self, name: str) -> Where:
        """The URI of a file."""
        return inside(self._uri, name)

    def write(self, name: str, buffer: Any) -> None:
        """Write a file."""
        failpoint("segment.write")
        try:
            with _one_line(inside(self._uri, name)):
                files, path = _filesystem(self._uri)
                with files.open_output_stream(f"{path}/{name}") as stream:
                    stream.write(buffer)
        except OSError:
            with suppress(OSError):
                self.delete(name)
            raise

    def sync(self) -> None:
        """Do nothing: a closed file is durable."""
        failpoint("segment.folder")

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with _one_line(inside(self._uri, name)), suppress(FileNotFoundError):
            files, path = _filesystem(self._uri)
            files.delete_file(f"{path}/{name}")

    def names(self) -> set[str]:
        """The names of the files."""
        with _one_line(self._uri):
            files, path = _filesystem(self._uri)
            infos = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
            return {info.base_name for info in infos if info.type == fs.FileType.File}


def plain(name: str) -> bool:
    """Whether a name leads to a file of its folder, and nowhere else.

    >>> plain("records-0-5c0e.arrow"), plain("../state.db"), plain("/dev/zero"), plain("")
    (True, False, False, False)
    """
    return bool(name) and Path(name).name == name and "\0" not in name


def segment_folder(place: str) -> SegmentFolder:
    """The folder at an absolute path or a URI."""
    url = urlsplit(place)
    if url.scheme == "file":
        return LocalFolder(Path(unquote(url.path)))
    return RemoteFolder(place) if url.scheme else LocalFolder(Path(place))


def inside(uri: str, name: str) -> str:
    """The URI of a file in the folder at another URI.

    >>> inside("s3://bucket/records?region=eu-west-1", "a.arrow")
    's3://bucket/records/a.arrow?region=eu-west-1'
    """
    url = urlsplit(uri)
    return url._replace(path=f"{url.path.rstrip('/')}/{name}").geturl()


def fetched(where: Where) -> Any:
    """The bytes of a file. A local file is memory-mapped.

    Mapped bytes stay valid even if the file is deleted.
    """
    if isinstance(where, Path):
        open_ordinary(where).close()  # a link or a FIFO is not waited for
        with pa.memory_map(str(where)) as file:
            return file.read_buffer()
    folder, _, name = urlsplit(where).path.rpartition("/")
    with _one_line(where):
        files, path = _filesystem(urlsplit(where)._replace(path=folder).geturl())
        with files.open_input_file(f"{path}/{name}") as file:
            return file.read_buffer()


@cache
def _filesystem(uri: str) -> tuple[Any, str]:
    """The pyarrow file system of a URI, and the path in it."""
    files, path = fs.FileSystem.from_uri(uri)
    return files, path


@contextmanager
def _one_line(where: str) -> Iterator[None]:
    """Raise errors as an OSError with a one-line message that names the location."""
    try:
        yield
    except Exception as error:  # an installed file system can raise anything
        missing = isinstance(error, FileNotFoundError)
        said = " ".join(str(error).split()) or type(error).__name__
        message = "No such file" if missing else said
        raise OSError(errno.ENOENT if missing else errno.EIO, message, where) from error


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

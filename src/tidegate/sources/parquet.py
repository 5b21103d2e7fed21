"""Parquet files: each row is a slot."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidegate.data.columns import Table
from tidegate.data.values import is_flat, is_list, is_text, plain
from tidegate.sources.arrow_records import ArrowRecords
from tidegate.sources.configured import Follow, register
from tidegate.sources.file_offset import Chain, ChangedError, Seen, Start, resumed
from tidegate.sources.files import Files, Named, Part
from tidegate.sources.lines import Ends, check_passed, check_same, multiples, stops
from tidegate.sources.source import MOST, RawBatch, SourceError


@register
@dataclass(frozen=True, kw_only=True)
class Parquet(Files):
    """Reads Parquet files, see `ArrowRecords`: positions are rows."""

    type = "parquet"
    about = "Parquet files"
    suffix = ".parquet"

    @property
    def _rows(self) -> ArrowRecords:
        return ArrowRecords(columns=self.columns)

    def parts(self, path: Path, start: Start, follow: Follow | None) -> Iterator[Part]:  # noqa: ARG002
        """See `Files`; only the columns that are read are digested. A file cannot grow."""
        with self._opened(path) as file:
            end, named = file.metadata.num_rows, _digest(file.schema_arrow)
            check_passed(str(path), end, start.passed)
            if 0 < start.seen.at == end and not start.seen.digested:
                return  # nothing new, and no digest to check
            chain = self._chain(start, end, named, self._lane_count(file.schema_arrow))
            before = start.seen.at or start.passed
            for batch in self._pieces(file, chain, stops([before], multiples(chain.block))):
                if chain.at > before:
                    yield batch, chain.seen(chain.at, named), chain.at == end
                elif chain.at == before and start.seen.digested:
                    check_same(chain, start.seen)

    def _lane_count(self, schema: pa.Schema) -> int:
        """How many byte strings the records of a file become, with their labels."""
        return len(_lanes(self._rows.part(schema.empty_table()).X)) + 1

    def _chain(self, start: Start, end: int, named: str, lanes: int) -> Chain:
        """The chain to check what was read before."""
        seen = start.seen
        if seen.at > end:
            raise ChangedError(f"has {end} rows, but {seen.at} were read before")
        if not seen.digested:
            return Chain(self._count, lanes=lanes)
        if seen.header != named:
            raise ChangedError("has other columns than when it was read")
        return resumed(seen, lanes=lanes, thorough=start.thorough)

    def tails(self, path: Path, seen: list[Seen]) -> dict[Seen | None, str]:
        """See `Files`."""
        digests: dict[Seen | None, str] = {}
        with self._opened(path) as file:
            for block in {self._count, *(each.block for each in seen)}:
                chain = Chain(block, lanes=self._lane_count(file.schema_arrow))
                wanted = {each.at: each for each in seen if each.block == block}
                for _ in self._pieces(file, chain, stops(wanted, multiples(block))):
                    if chain.at in wanted:
                        digests[wanted[chain.at]] = chain.tail
                if block == self._count:
                    digests[None] = chain.tail
        return digests

    def records(self, path: Path) -> int:
        """See `Files`."""
        with self._opened(path) as file:
            return int(file.metadata.num_rows)

    def header(self, path: Path) -> list[Named]:
        """See `Files`."""
        with _file_at(path) as file:
            return list(map(Named, file.schema_arrow.names, file.schema_arrow.types))

    def check_types(self, path: Path) -> None:
        """See `Files`."""
        with _file_at(path) as file:
            self._rows.check_types(file.schema_arrow, str(path))

    @property
    def _count(self) -> int:
        """Four times as many records as in a batch of lines, whose text takes memory too."""
        return self.count or min(4 * self.columns.batch, MOST)

    @contextmanager
    def _opened(self, path: Path) -> Iterator[pq.ParquetFile]:
        with _file_at(path) as file:
            self._rows.check(file.schema_arrow, str(path))
            yield file

    def _pieces(self, file: pq.ParquetFile, chain: Chain, ends: Ends) -> Iterator[RawBatch]:
        """The rows after a chain's position, in pieces by count; adds them to it."""
        held: list[pa.RecordBatch] = []
        room = ends(chain.at) - chain.at
        for batch in self._rows_from(file, chain.at):
            rest = batch
            while rest.num_rows:
                held.append(rest.slice(0, room))
                rest, room = rest.slice(room), room - held[-1].num_rows
                if not room:
                    yield self._added(chain, held)
                    held, room = [], ends(chain.at) - chain.at
        if held:
            yield self._added(chain, held)

    def _rows_from(self, file: pq.ParquetFile, at: int) -> Iterator[pa.RecordBatch]:
        """The rows of a file from a position on, in batches of any size."""
        groups, skip = _groups_from(file.metadata, at)
        names = list(dict.fromkeys(map(self.columns.called, self.columns.read)))
        for read in file.iter_batches(self._count, row_groups=groups, columns=names):
            batch = read.slice(min(skip, read.num_rows))
            skip -= read.num_rows - batch.num_rows
            yield batch

    def _added(self, chain: Chain, batches: list[pa.RecordBatch]) -> RawBatch:
        raw = self._rows.part(batches[0] if len(batches) == 1 else pa.Table.from_batches(batches))
        # Without the ids of persons: a holdout with the same records may have none.
        chain.add(raw.n, *_lanes(raw.X), _bytes(raw.y))
        return raw


@contextmanager
def _file_at(path: Path) -> Iterator[pq.ParquetFile]:
    """A Parquet file; refused if it cannot be read."""
    try:
        with pq.ParquetFile(path, pre_buffer=False) as file:  # a buffer would keep all data
            yield file
    except pa.ArrowException as error:
        wrong = f"{path} is not a readable Parquet file"
        raise SourceError(f"{wrong}: restore it, or write it again") from error


def _groups_from(metadata: pq.FileMetaData, at: int) -> tuple[list[int], int]:
    """The row groups from a position on, and how many of their rows to skip."""
    groups = list(range(metadata.num_row_groups))
    while groups and metadata.row_group(groups[0]).num_rows <= at:
        at -= metadata.row_group(groups.pop(0)).num_rows
    return groups, at


def _digest(schema: pa.Schema) -> str:
    """The SHA-256 of the names and types of columns."""
    fields = zip(schema.names, map(str, schema.types), strict=True)
    text = "".join(f"{len(name)} {name} {kind}\n" for name, kind in fields)
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


Lane = bytes | memoryview


def arrow_bytes(array: pa.Array) -> list[Lane]:
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
        return [present, *_texts_as_bytes(array)]
    if not (is_flat(array.type) or is_list(array.type)):  # nothing more of them is read
        return [present]
    if pa.types.is_nested(array.type):
        lengths = _lengths_as_bytes(pc.fill_null(pc.list_value_length(array), 0))
        return [present, lengths, *arrow_bytes(plain(array.flatten()))]
    return [present, _numbers_as_bytes(array)]


def _lengths_as_bytes(values: Any) -> Lane:
    return np.ascontiguousarray(values.to_numpy(zero_copy_only=False).astype("<i8")).data


def _texts_as_bytes(array: pa.Array) -> list[Lane]:
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


def _numbers_as_bytes(array: pa.Array) -> Lane:
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


def _lanes(X: Any) -> list[Lane]:
    """The byte strings of records: one, or a few for each column of any kind."""
    if not isinstance(X, Table):
        return [_bytes(X)]
    return [lane for column in X.columns.values() for lane in arrow_bytes(column)]


def _bytes(array: NDArray[Any]) -> Lane:
    """Values as bytes, the same however rows are divided into pieces."""
    if array.dtype != object:
        return np.ascontiguousarray(array).data
    texts = (each if each is None else str(each) for each in array)  # of flags beside nulls
    encoded = (None if each is None else each.encode(errors="surrogatepass") for each in texts)
    return b"".join(b"-" if each is None else b"%d:%b" % (len(each), each) for each in encoded)

"""The Parquet format: each row is a slot."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidegate.features.arrow_values import BYTES, as_objects, is_number, is_text, plain
from tidegate.features.columns import Columns, Table
from tidegate.features.columns.table import one_array
from tidegate.features.spelling import only_texts
from tidegate.gate.sources.arrow_bytes import arrow_bytes
from tidegate.gate.sources.chain import Chain, ChangedError, Seen, Start, resumed
from tidegate.gate.sources.columns import MOST, SourceColumns, as_json, numbers, row_of
from tidegate.gate.sources.files import Follow, Part
from tidegate.gate.sources.lines import Ends, check_passed, check_same, multiples, stops
from tidegate.gate.sources.source import RawBatch, SourceError, objects

FLOATS = {pa.float32(), pa.float64()}

LABELS = {
    True: ": list whole numbers in records.classes, or convert the column",
    False: ": convert the column, or list its texts in records.classes",
}
"""What to do if labels should be texts (True) or numbers (False), but are not."""


@dataclass(frozen=True, kw_only=True)
class Parquet:
    """Reads Parquet files: positions are rows.

    A null is a value that cannot be used, and so is one of a type that its column cannot have. The
    type of a column refuses no file by rule 2 of spelling: one record may have changed it.
    """

    columns: SourceColumns
    count: int | None = None  # records in a batch; by default it depends on the columns

    suffix = ".parquet"

    def parts(self, path: Path, start: Start, follow: Follow | None) -> Iterator[Part]:  # noqa: ARG002
        """See `Format`; only the columns that are read are digested. A file cannot grow."""
        with self._opened(path) as file:
            end, named = file.metadata.num_rows, _digest(file.schema_arrow)
            check_passed(str(path), end, start.passed)
            if start.seen is not None and start.seen.at == end and start.seen.chain is None:
                return  # nothing new, and no digest to check
            chain = self._chain(start, end, named, self._lane_count(file.schema_arrow))
            before = start.passed if start.seen is None else start.seen.at
            for batch in self._pieces(file, chain, stops([before], multiples(chain.block))):
                if chain.at > before:
                    yield batch, chain.seen(chain.at, named), chain.at == end
                elif chain.at == before and start.seen is not None and start.seen.chain is not None:
                    check_same(chain, start.seen)

    def _lane_count(self, schema: pa.Schema) -> int:
        """How many byte strings the records of a file become, with their labels."""
        if self.columns.kinds is None:
            return 2
        nothing = [pa.array([], kind) for kind in schema.types]
        return len(_lanes(self.part(pa.RecordBatch.from_arrays(nothing, schema=schema)).X)) + 1

    def _chain(self, start: Start, end: int, named: str, lanes: int) -> Chain:
        """The chain to check what was read before."""
        seen = start.seen
        if seen is not None and seen.at > end:
            raise ChangedError(f"has {end} rows, but {seen.at} were read before")
        if seen is None or seen.chain is None:
            return Chain(self._count, lanes=lanes)
        if seen.header != named:
            raise ChangedError("has other columns than when it was read")
        return resumed(seen, lanes=lanes, thorough=start.thorough)

    def tails(self, path: Path, seen: list[Seen]) -> dict[Seen | None, str]:
        """See `Format`."""
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
        """See `Format`."""
        with self._opened(path) as file:
            return int(file.metadata.num_rows)

    @property
    def _count(self) -> int:
        """Four times as many records as in a batch of lines, whose text takes memory too."""
        return self.count or min(4 * self.columns.batch, MOST)

    @contextmanager
    def _opened(self, path: Path) -> Iterator[pq.ParquetFile]:
        try:
            with pq.ParquetFile(path, pre_buffer=False) as file:  # a buffer would keep all data
                self.check(file.schema_arrow, str(path))
                yield file
        except pa.ArrowException as error:
            wrong = f"{path} is not a readable Parquet file"
            raise SourceError(f"{wrong}: restore it, or write it again") from error

    def _pieces(self, file: pq.ParquetFile, chain: Chain, ends: Ends) -> Iterator[RawBatch]:
        """The rows after a chain's position, in pieces by count; adds them to it."""
        held: list[pa.RecordBatch] = []
        room = ends(chain.at) - chain.at
        for batch in self._batches(file, chain.at):
            rest = batch
            while rest.num_rows:
                held.append(rest.slice(0, room))
                rest, room = rest.slice(room), room - held[-1].num_rows
                if not room:
                    yield self._added(chain, held)
                    held, room = [], ends(chain.at) - chain.at
        if held:
            yield self._added(chain, held)

    def _batches(self, file: pq.ParquetFile, at: int) -> Iterator[pa.RecordBatch]:
        """The rows of a file from a position on, in batches of any size."""
        groups, skip = _groups_from(file.metadata, at)
        names = list(dict.fromkeys(map(self.columns.called, self.columns.read)))
        for read in file.iter_batches(self._count, row_groups=groups, columns=names):
            batch = read.slice(min(skip, read.num_rows))
            skip -= read.num_rows - batch.num_rows
            yield batch

    def _added(self, chain: Chain, batches: list[pa.RecordBatch]) -> RawBatch:
        raw = self.part(batches[0] if len(batches) == 1 else pa.Table.from_batches(batches))
        # Without the ids of persons: a holdout with the same records may have none.
        chain.add(raw.n, *_lanes(raw.X), _bytes(raw.y))
        return raw

    def check(self, schema: pa.Schema, where: str) -> None:
        """Refuse a table that lacks a column; by rule 1, also one with a column of a wrong type."""
        places = self.columns.find(schema.names, where)
        if self.columns.spelling == 1:
            self.check_types(schema, where)
        elif self.columns.person is not None:
            self._check_ids(schema.types[places[-1]], where)

    def check_types(self, schema: pa.Schema, where: str) -> None:
        """Refuse a table with a column none of whose values could be used."""
        kinds, places = schema.types, self.columns.find(schema.names, where)
        textual = {
            self.columns.text: True,
            self.columns.label: not self.columns.number_labels,
        }
        sound: set[tuple[pa.DataType, bool]] = set()
        if self.columns.kinds is not None:
            self._check_kinds(self.columns.kinds, schema, where)
        own = 0 if self.columns.kinds is None else len(self.columns.features)
        if self.columns.kinds is not None and self.columns.label in self.columns.features:
            own += 1  # no label is read
        for name, place in list(zip(self.columns.names, places, strict=False))[own:]:
            kind, text = kinds[place], textual.get(name, False)
            if (kind, text) in sound:
                continue
            held = _value_type(kind)
            if not (is_text(held) if text else is_number(held)):
                wanted = "text" if text else "numbers"
                wrong = f"column {name} of {where} must hold {wanted}, got {held}"
                raise SourceError(wrong + LABELS[text] * (name == self.columns.label))
            sound.add((kind, text))
        if self.columns.person is not None:
            self._check_ids(kinds[places[-1]], where)

    def _check_ids(self, kind: pa.DataType, where: str) -> None:
        if not holds_ids(held := _value_type(kind)):
            wanted = "text or whole numbers, because it is person.id"
            raise SourceError(
                f"column {self.columns.person} of {where} must hold {wanted}, got {held}"
            )

    def _check_kinds(self, columns: Columns, schema: pa.Schema, where: str) -> None:
        for each in columns.checked:
            held = _value_type(schema.field(self.columns.called(each.name)).type)
            if not each.takes(held):
                wrong = f"column {each.name} of {where} holds {held}"
                raise SourceError(f"{wrong}, which a {each.kind} column cannot be: change its kind")

    def part(self, batch: pa.RecordBatch | pa.Table) -> RawBatch:
        """A batch of rows."""
        places = self.columns.find(batch.schema.names, "the batch")
        read, label, ids = self.columns.divided([batch.column(place) for place in places])
        X: Any
        rule = self.columns.spelling
        if self.columns.kinds is not None:
            X = self.columns.table(list(map(whole_array, read)), batch.num_rows)
        elif self.columns.text is None:
            of_any = values if rule == 1 else partial(numbers_of, rule=rule)
            X = self.columns.matrix(list(map(of_any, read)), batch.num_rows)
        elif rule == 1:
            X = values(read[0])
        else:
            X = objects(only_texts(as_objects(whole_array(read[0])), rule))
        persons = None if ids is None else _readable(whole_array(ids))
        y = values(label) if rule == 1 else labels_of(label)
        return RawBatch(X=X, y=y, arrived=partial(_arrived, batch), persons=persons)


def _groups_from(metadata: pq.FileMetaData, at: int) -> tuple[list[int], int]:
    """The row groups from a position on, and how many of their rows to skip."""
    groups = list(range(metadata.num_row_groups))
    while groups and metadata.row_group(groups[0]).num_rows <= at:
        at -= metadata.row_group(groups.pop(0)).num_rows
    return groups, at


def holds_ids(kind: pa.DataType) -> bool:
    """Whether a column of this type can hold the ids of persons."""
    return is_text(kind) or bool(pa.types.is_integer(kind))


def _value_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, which a dictionary may hold."""
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


def values(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """A column as an array: texts as objects, numbers as floats, nulls as None or NaN.

    Numbers other than float32 and float64 are always converted to float64: the rounding of a value
    must not depend on whether others are null.
    """
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([values(chunk) for chunk in column.chunks])
    if column.type not in FLOATS:
        column = plain(column)
        if is_text(column.type):
            return objects(_readable(column))
        if column.type not in FLOATS:
            column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def numbers_of(column: pa.Array | pa.ChunkedArray, rule: int) -> NDArray[Any]:
    """A column as numbers, each by itself; NaN for what is none, also where texts are."""
    column = whole_array(column)
    if column.type in BYTES:
        column = pa.array(_readable(column.view(BYTES[column.type])), pa.large_string())
    if is_text(column.type):
        return numbers(pa.array(_readable(column), pa.large_string()), rule)
    return values(column) if is_number(column.type) else np.full(len(column), np.nan)


def labels_of(column: pa.Array | pa.ChunkedArray) -> NDArray[Any]:
    """A column of labels: texts as objects, numbers as floats, flags; None for what is none."""
    column = whole_array(column)
    if column.type in BYTES:
        column = column.view(BYTES[column.type])
    if pa.types.is_boolean(column.type) and not column.null_count:
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if pa.types.is_boolean(column.type):
        return objects(column.to_pylist())
    known = is_text(column.type) or is_number(column.type)
    return values(column) if known else objects([None] * len(column))


def _readable(column: pa.Array) -> list[Any]:
    """Texts or ids; None for one that is not UTF-8, which Parquet files do not rule out."""
    return [None if isinstance(each, tuple) else each for each in as_objects(column)]


def _digest(schema: pa.Schema) -> str:
    """The SHA-256 of the names and types of columns."""
    fields = zip(schema.names, map(str, schema.types), strict=True)
    text = "".join(f"{len(name)} {name} {kind}\n" for name, kind in fields)
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def whole_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without a dictionary."""
    return plain(one_array(column))


def _lanes(X: Any) -> list[bytes | memoryview]:
    """The byte strings of records: one, or a few for each column of any kind."""
    if not isinstance(X, Table):
        return [_bytes(X)]
    return [lane for column in X.columns.values() for lane in arrow_bytes(column)]


def _bytes(array: NDArray[Any]) -> bytes | memoryview:
    """Values as bytes, the same however rows are divided into pieces."""
    if array.dtype != object:
        return np.ascontiguousarray(array).data
    texts = (each if each is None else str(each) for each in array)  # of flags beside nulls
    encoded = (None if each is None else each.encode(errors="surrogatepass") for each in texts)
    return b"".join(b"-" if each is None else b"%d:%b" % (len(each), each) for each in encoded)


def _arrived(batch: pa.RecordBatch | pa.Table, index: int) -> str:
    return as_json(row_of(batch, index))

"""Parquet: a row is a slot."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidegate.checks import whole
from tidegate.gate.sources.columns import Columns, as_json
from tidegate.gate.sources.files import Files, Follow, Part
from tidegate.gate.sources.source import SourceError, objects


def parquet_source(
    name: str, path: str | Path, columns: Columns, *, follow: Follow | None = None
) -> Files:
    """The rows of a Parquet file or of a folder of them; `follow` is for a folder that grows."""
    return Files(name=name, path=Path(path), format=Parquet(columns=columns), follow=follow)


@dataclass(frozen=True, kw_only=True)
class Parquet:
    """How a Parquet file is read: positions are rows.

    The types of the columns are facts of the whole file, so a file whose types do not fit is
    refused; a null is a value that cannot be used.

    Args:
        columns: Which columns are read.
        rows: Most rows of a batch.
    """

    columns: Columns
    rows: int = 2**16

    suffix = ".parquet"

    def parts(self, path: Path, at: int, follow: Follow | None) -> Iterator[Part]:  # noqa: ARG002
        """See `Format`; a Parquet file cannot grow."""
        try:
            yield from self._parts(path, at)
        except pa.ArrowException as error:
            raise SourceError(f"{path} is not a readable Parquet file") from error

    def _parts(self, path: Path, at: int) -> Iterator[Part]:
        with pq.ParquetFile(path, pre_buffer=False) as file:  # it would keep all it has read
            self.check(file.schema_arrow, str(path))
            end = file.metadata.num_rows
            if whole("at", at, least=0) > end:
                raise SourceError(
                    f"{path} has {end} rows, but {at} were read before: it may only grow"
                )
            groups, skip = _groups_from(file.metadata, at)
            names = list(dict.fromkeys(self.columns.names))
            for read in file.iter_batches(self.rows, row_groups=groups, columns=names):
                batch = read.slice(min(skip, read.num_rows))
                skip -= read.num_rows - batch.num_rows
                if batch.num_rows:
                    at += batch.num_rows
                    yield self.part(batch, at, last=at == end)

    def check(self, schema: pa.Schema, where: str) -> None:
        """Refuse a table that has not the columns, or has them of other types."""
        self.columns.find(schema.names, where)
        for name in self.columns.names:
            kind = schema.field(name).type
            if isinstance(kind, pa.DictionaryType):
                kind = kind.value_type
            text = name == self.columns.text or (
                name == self.columns.label and not self.columns.whole_labels
            )
            if not (is_text(kind) if text else is_number(kind)):
                wanted = "text" if text else "numbers"
                raise SourceError(f"column {name} of {where} must hold {wanted}, it holds {kind}")

    def part(self, batch: pa.RecordBatch, at: int, *, last: bool) -> Part:
        """The slots of some rows."""
        columns = [values(batch.column(name)) for name in self.columns.names]
        X: Any = columns[0]
        if self.columns.text is None:
            X = self.columns.matrix(columns[:-1], batch.num_rows)
        return Part(X, columns[-1], partial(_arrived, batch), {}, at, last)


def _groups_from(metadata: pq.FileMetaData, at: int) -> tuple[list[int], int]:
    """The row groups that hold the rows from a position on, and how many rows to skip in them."""
    groups = list(range(metadata.num_row_groups))
    while groups and metadata.row_group(groups[0]).num_rows <= at:
        at -= metadata.row_group(groups.pop(0)).num_rows
    return groups, at


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type holds numbers."""
    kinds = pa.types
    numeric = kinds.is_integer, kinds.is_floating, kinds.is_boolean, kinds.is_decimal
    return any(is_kind(kind) for is_kind in numeric)


def values(column: pa.Array) -> NDArray[Any]:
    """A column as an array: texts as objects, anything else as floats; a null is unusable.

    What is no float32 or float64 goes through float64, nulls or not: how a value is rounded
    must not depend on whether its neighbours are null.
    """
    if isinstance(column.type, pa.DictionaryType):
        column = column.dictionary_decode()
    if is_text(column.type):
        return objects(column.to_pylist())
    if column.type not in {pa.float32(), pa.float64()}:
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _arrived(batch: pa.RecordBatch, index: int) -> str:
    return as_json(batch.slice(index, 1).to_pylist()[0])

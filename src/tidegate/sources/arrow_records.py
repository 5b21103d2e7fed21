"""Records that are rows of an Arrow table: of a Parquet file, or the body of a request."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.data.columns import TableColumns
from tidegate.data.values import BYTES, as_objects, is_number, is_text, one_array, only_texts, plain
from tidegate.sources.source import (
    RawBatch,
    SourceColumns,
    SourceError,
    as_json,
    numbers,
    objects,
    row_of,
)

FLOATS = {pa.float32(), pa.float64()}

LABELS = {
    True: ": list whole numbers in records.classes, or convert the column",
    False: ": convert the column, or list its texts in records.classes",
}
"""What to do if labels should be texts (True) or numbers (False), but are not."""


@dataclass(frozen=True, kw_only=True)
class ArrowRecords:
    """Reads the rows of Arrow tables.

    A null is a value that cannot be used, and so is one of a type that its column cannot have. The
    type of a column refuses no table by rule 2 of spelling: one record may have changed it.
    """

    columns: SourceColumns

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
        if self.columns.kinds is not None:
            self._check_kinds(self.columns.kinds, schema, where)
        own = 0 if self.columns.kinds is None else len(self.columns.features)
        if self.columns.kinds is not None and self.columns.label in self.columns.features:
            own += 1  # no label is read
        for name, place in list(zip(self.columns.names, places, strict=False))[own:]:
            kind, text = kinds[place], textual.get(name, False)
            held = _value_type(kind)
            if not (is_text(held) if text else is_number(held)):
                wanted = "text" if text else "numbers"
                wrong = f"column {name} of {where} must hold {wanted}, got {held}"
                raise SourceError(wrong + LABELS[text] * (name == self.columns.label))
        if self.columns.person is not None:
            self._check_ids(kinds[places[-1]], where)

    def _check_ids(self, kind: pa.DataType, where: str) -> None:
        if not holds_ids(held := _value_type(kind)):
            wanted = "text or whole numbers, because it is person.id"
            raise SourceError(
                f"column {self.columns.person} of {where} must hold {wanted}, got {held}"
            )

    def _check_kinds(self, columns: TableColumns, schema: pa.Schema, where: str) -> None:
        for each in columns.checked:
            held = _value_type(schema.field(self.columns.called(each.name)).type)
            if not each.takes(held):
                wrong = f"column {each.name} of {where} holds {held}"
                raise SourceError(f"{wrong}, which a {each.kind} column cannot be: change its kind")

    def part(self, batch: pa.RecordBatch | pa.Table) -> RawBatch:
        """A batch of rows."""
        places = self.columns.find(batch.schema.names, "the batch")
        read, label, ids = self.columns.divided([batch.column(place) for place in places])
        rule = self.columns.spelling
        texts = values if rule == 1 else partial(texts_of, rule=rule)
        numbers = values if rule == 1 else partial(numbers_of, rule=rule)
        X = self.columns.records(
            read,
            batch.num_rows,
            values=whole_array,
            texts=texts,
            numbers=lambda columns: list(map(numbers, columns)),
        )
        persons = None if ids is None else _readable(whole_array(ids))
        y = values(label) if rule == 1 else labels_of(label)
        return RawBatch(X=X, y=y, arrived=partial(_arrived, batch), persons=persons)


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


def texts_of(column: pa.Array | pa.ChunkedArray, rule: int) -> list[str | None]:
    """A column as texts, each by itself; None for what is none."""
    return only_texts(as_objects(whole_array(column)), rule)


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


def whole_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without a dictionary."""
    return plain(one_array(column))


def _arrived(batch: pa.RecordBatch | pa.Table, index: int) -> str:
    return as_json(row_of(batch, index))

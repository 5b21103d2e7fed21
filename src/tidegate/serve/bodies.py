"""Reads records from the body of a request, JSON or Arrow, each record in its slot.

A body is refused only for a fault of the whole: it is not JSON, lacks a column, or is not a matrix.
A record that cannot be used keeps its slot, and no response mentions it. No message quotes a value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, refuse
from tidegate.features.arrow_values import as_objects, is_flat, is_list, is_number, is_text
from tidegate.features.columns import Column, Columns, Table, Text
from tidegate.features.columns.columns import WIDEST
from tidegate.features.columns.table import as_table
from tidegate.features.numbers import number_of
from tidegate.features.spelling import only_texts
from tidegate.gate.config import Config
from tidegate.gate.sources import RawBatch, SourceColumns
from tidegate.gate.sources.absent import Unseen
from tidegate.gate.sources.columns import as_json
from tidegate.gate.sources.json_lines import JsonLines
from tidegate.gate.sources.parquet import Parquet, holds_ids, labels_of, values
from tidegate.gate.sources.source import check_columns, check_ids, objects
from tidegate.serve import arrow
from tidegate.serve.framing import NOT_JSON, Body, Unreadable, check_number, framed
from tidegate.serve.limits import Limits

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"

NO_RECORDS = 'the body must have "x" and "y", or "records"'
NO_MATRIX = "x must be a matrix: one list of numbers per record, all of the same length"
NO_ROWS = "x must have a list of values for each record, in the order of the columns"
NO_COLUMNS = 'the gate\'s configuration names no columns: send "x" and "y"'

PERSONS = "persons"
NO_IDS = "persons must be one list or column of ids, texts or whole numbers, one per record"

MAX_TEXT_LENGTH = 2**16
"""The most characters of a text: its n-grams take hundreds of times its size."""

MAX_COLUMNS_NAMED = 12
"""The most columns that an error names."""

CHUNK = 4096
"""Rows that are read, or numbers that are written, at a time."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads bodies whose records are described by a configuration.

    >>> from tidegate.gate.config import example
    >>> reader = Reader(config=Config.parse(example("independent")))
    >>> reader.batch(JSON, b'{"x": [[1, 2.5], ["?", null]], "y": [0, 1]}').X
    array([[1. , 2.5],
           [nan, nan]])
    """

    config: Config
    limits: Limits = Limits()

    @property
    def most(self) -> int:
        """The most bytes of a body."""
        return self.limits.text_body if self.text else self.limits.body

    @property
    def text(self) -> bool:
        """Whether records are, or contain, texts that are hashed or encoded."""
        return any(each.takes_text for each in self.config.features[:1]) or bool(self._texts)

    @cached_property
    def _kinds(self) -> Columns | None:
        """The columns of any kind that records have, if they do."""
        return self.config.column_map()

    @cached_property
    def _most_records(self) -> int:
        """The most records of a body: fewer if each is run through a network."""
        encoding = (*self._columns_of_any_kind, *self.config.maps())
        slow = any(str(getattr(each, "encoder", "")).endswith(".onnx") for each in encoding)
        return self.limits.encoded if slow else self.limits.records

    @cached_property
    def _texts(self) -> list[str]:
        """The names of the columns of text."""
        return [each.name for each in self._columns_of_any_kind if isinstance(each, Text)]

    @property
    def _columns_of_any_kind(self) -> tuple[Column, ...]:
        return () if self._kinds is None else self._kinds.checked

    def batch(self, kind: str, body: Body, *, labelled: bool = True) -> RawBatch:
        """The records of a body, which is read as JSON unless its media type is `ARROW`.

        Labels are read only if `labelled`; records to predict have none.
        """
        raw = (self._of_arrow if kind == ARROW else self._of_json)(body, labelled)
        check_columns(raw, "the body")
        if labelled and len(raw.y) != raw.n:
            raise refuse("y", f"as long as x ({raw.n})", len(raw.y))
        if labelled:
            check_ids(raw, protected=self.config.person is not None)
        if raw.persons is not None and len(raw.persons) != raw.n:
            raise refuse(PERSONS, f"as long as x ({raw.n})", len(raw.persons))
        if isinstance(raw.X, Table):
            return self._checked(raw)
        columns = self.config.records.columns
        if columns is not None and raw.n and raw.X.shape[1] != len(columns):
            raise refuse("x", f"of {len(columns)} columns ({_few(columns)})", raw.X.shape[1])
        if raw.n and 0 in raw.X.shape:
            raise InvalidValueError(NO_MATRIX)
        return _without_long_texts(raw) if self.text else raw

    def _checked(self, raw: RawBatch) -> RawBatch:
        """Refuse more records of any kind than fit, and mark too long texts as unusable."""
        if self._kinds is not None:
            arrow.check_size(4 * raw.n * min(self._kinds.width, WIDEST), self.limits.unfolded)
        for name in self._texts:
            raw = _without_long_values(raw, name)
        return raw

    def _of_json(self, body: Body, labelled: bool) -> RawBatch:
        given = _object(body, self._most_records)
        if isinstance(rows := given.get("records"), list):
            check_number(len(rows), self._most_records)
            objs = [row if isinstance(row, dict) else {} for row in rows]
            columns = self._columns(labelled)
            if not labelled:
                _check_columns(objs, columns.names[:-1])
            reader, unseen = JsonLines(columns=columns), Unseen(columns.read)
            X, y = reader.slots(objs)
            if all(isinstance(row, dict) for row in rows):  # another might have had the column
                unseen.look(rows)
            return RawBatch(
                X=X,
                y=y,
                arrived=lambda slot: as_json(_raw(rows[slot])),
                persons=reader.persons(objs),
                reasons=_reasons(rows),
                absent=unseen.found(),
            )
        x, labels = given.get("x"), given.get("y") if labelled else []
        persons = given.get(PERSONS) if labelled else None
        if not isinstance(persons, list | None):
            raise InvalidValueError(NO_IDS)
        if not isinstance(x, list) or not isinstance(labels, list):
            raise InvalidValueError(NO_RECORDS)
        check_number(len(x), self._most_records)
        lists = {"x": x, "y": labels, **({} if persons is None else {PERSONS: persons})}
        return RawBatch(
            X=self._rows(x),
            y=objects(_readable(labels)),
            arrived=lambda slot: as_json({n: _raw(each[slot]) for n, each in lists.items()}),
            persons=None if persons is None else _readable(persons),
            reasons={**_reasons(persons or []), **_reasons(labels), **_reasons(x)},
        )

    def _rows(self, x: list[Any]) -> Any:
        """The records of "x": texts, rows of columns of any kind, or rows of numbers."""
        if self._kinds is not None:
            names = self._kinds.names
            rows: list[Any] = [row.blank if isinstance(row, Unreadable) else row for row in x]
            if not all(isinstance(row, list) for row in rows):
                raise InvalidValueError(NO_ROWS)
            for width in {len(row) for row in rows} - {len(names)}:
                raise refuse("x", f"of {len(names)} columns ({_few(names)})", width)
            return as_table(rows, names) if rows else Table({name: [] for name in names}, 0)
        if self.text:
            return objects(only_texts(x, self.config.records.rule))
        return _matrix(x, self.limits.unfolded, self.config.records.rule)

    def _of_arrow(self, body: Body, labelled: bool) -> RawBatch:
        stream = arrow.stream(body)
        check_number(stream.rows, self._most_records)
        names = stream.schema.names
        if names.count("x") == 1 and pa.types.is_fixed_size_list(stream.schema.field("x").type):
            return self._of_matrix(stream, labelled)
        reader = Parquet(columns=self._columns(labelled))
        reader.check(stream.schema, "the body")
        _check_plain(stream.schema, reader.columns.read)
        stream.check(reader.columns.read, self.limits.unfolded)
        batches = list(stream.batches(reader.columns.read))
        if reader.columns.kinds is not None:
            return _of_any_kind(reader, batches)
        X, y, stop = _room(stream.rows, reader.columns), list[NDArray[Any]](), 0
        persons = list[Any]()
        for batch in batches:
            for start in range(0, batch.num_rows, CHUNK):
                part = reader.part(arrow.decoded(batch.slice(start, CHUNK)))
                X[stop : stop + len(part.y)] = part.X
                y.append(part.y)
                persons += part.persons or ()
                stop += len(part.y)
        ids = None if reader.columns.person is None else persons
        return RawBatch(X=X, y=_joined(y), arrived=arrow.row_of(batches), persons=ids)

    def _of_matrix(self, stream: arrow.Stream, labelled: bool) -> RawBatch:
        kind = stream.schema.field("x").type
        if not is_number(kind.value_type):
            raise InvalidValueError(NO_MATRIX)
        names = stream.schema.names
        if labelled and (names.count("y") != 1 or not self._holds_labels(stream.schema)):
            raise InvalidValueError(
                "y must be one column of labels, of the type of records.classes, or of targets"
            )
        owned = labelled and PERSONS in names
        if owned and (
            names.count(PERSONS) != 1 or not holds_ids(stream.schema.field(PERSONS).type)
        ):
            raise InvalidValueError(NO_IDS)
        read = ["x", *["y"] * labelled, *[PERSONS] * owned]
        stream.check(read, self.limits.unfolded)
        batches = list(stream.batches(read))
        X, y = arrow.matrix(batches, "x", kind), objects([])
        if labelled:
            of = values if self.config.records.rule == 1 else labels_of
            y = _joined([of(arrow.decoded(batch).column("y")) for batch in batches])
        ids = _ids(batches) if owned else None
        return RawBatch(
            X=X, y=y, arrived=lambda slot: record_as_json(X[slot], y[slot]), persons=ids
        )

    def _holds_labels(self, schema: Any) -> bool:
        """Whether the column "y" can hold labels: by rule 2 of spelling, in any plain type."""
        kind, records = schema.field("y").type, self.config.records
        if records.rule > 1:
            return is_flat(kind)
        return is_number(kind) if records.number_labels else is_text(kind)

    def _columns(self, labelled: bool) -> SourceColumns:
        """The columns that the configuration names."""
        table = self.config.records
        names = self.config.read
        if names is None or (labelled and table.label is None):
            raise InvalidValueError(NO_COLUMNS)
        if labelled:
            return self.config.source_columns()
        built = replace(table, label="?").build(self._kinds)
        return replace(built, label=names[0], number_labels=True)  # it exists in any case


def _of_any_kind(reader: Parquet, batches: Sequence[Any]) -> RawBatch:
    """Records with columns of any kind."""
    table = pa.Table.from_batches([arrow.unchecked(each) for each in batches] or [_empty(reader)])
    return replace(reader.part(table), arrived=arrow.row_of(batches))


def _empty(reader: Parquet) -> Any:
    return pa.RecordBatch.from_pydict({name: [] for name in dict.fromkeys(reader.columns.read)})


def _ids(batches: Sequence[Any]) -> list[Any]:
    columns = (arrow.decoded(batch).column(PERSONS) for batch in batches)
    return [each for column in columns for each in column.to_pylist()]


def _check_plain(schema: Any, names: Sequence[str]) -> None:
    """Refuse columns whose values may take more memory than their bytes say."""
    for name in names:
        kind = schema.field(name).type
        if not (is_flat(kind) or is_list(kind)):
            allowed = "texts, numbers, flags, times or lists of numbers"
            raise refuse(f"column {name} of the body", allowed, shown=str(kind))


def _check_columns(objs: list[dict[str, Any]], names: list[str]) -> None:
    """Refuse records to predict that lack a column."""
    missing = [name for name in names if not all(name in each for each in objs)]
    if missing:
        wrong = f"records lack column {_few(missing)}; each must have {_few(names)}"
        raise InvalidValueError(wrong)


def _few(names: Sequence[str]) -> str:
    return ", ".join([*names[:MAX_COLUMNS_NAMED], *["..."] * (len(names) > MAX_COLUMNS_NAMED)])


def _room(n: int, columns: SourceColumns) -> NDArray[Any]:
    """An empty array for `n` records."""
    if columns.text is not None:
        return np.empty(n, object)
    return np.empty((n, len(columns.features)), columns.dtype)


def _joined(labels: list[NDArray[Any]]) -> NDArray[Any]:
    return np.concatenate(labels) if labels else objects([])


def _object(body: Body, most: int) -> Mapping[str, Any]:
    """The members of a JSON body, parsed as a whole, or record by record if that fails."""
    try:
        given = orjson.loads(body)
    except ValueError:
        return framed(body, {"x", "y", PERSONS, "records"}, most)
    if not isinstance(given, dict):
        raise InvalidValueError(NOT_JSON)
    return given


def _reasons(elements: list[Any]) -> dict[int, str]:
    """The reasons of the elements that are not JSON, by slot."""
    return {slot: each.reason for slot, each in enumerate(elements) if isinstance(each, Unreadable)}


def _readable(elements: list[Any]) -> list[Any]:
    """The elements, with None for those that are not JSON."""
    return [None if isinstance(each, Unreadable) else each for each in elements]


def _raw(element: Any) -> Any:
    """An element as it arrived: its value, or its bytes if it is not JSON."""
    return element.raw if isinstance(element, Unreadable) else element


def _without_long_texts(raw: RawBatch) -> RawBatch:
    """The batch with too long texts marked as unusable."""
    reason = f"longer than {MAX_TEXT_LENGTH} characters"
    long = [
        slot for slot, text in enumerate(raw.X) if text is not None and len(text) > MAX_TEXT_LENGTH
    ]
    texts = raw.X.copy()
    texts[long] = None
    return replace(raw, X=texts, reasons={**raw.reasons, **dict.fromkeys(long, reason)})


def _without_long_values(raw: RawBatch, name: str) -> RawBatch:
    """The batch, whose records with a too long text in a column are marked as unusable."""
    given = raw.X.columns[name]
    values = as_objects(given) if isinstance(given, pa.Array) else list(given)
    long = [
        slot for slot, v in enumerate(values) if isinstance(v, str) and len(v) > MAX_TEXT_LENGTH
    ]
    if not long:
        return raw
    for slot in long:
        values[slot] = ()  # neither a text nor missing
    reason = f"{name} is longer than {MAX_TEXT_LENGTH} characters"
    table = replace(raw.X, columns={**raw.X.columns, name: values})
    return replace(raw, X=table, reasons={**raw.reasons, **dict.fromkeys(long, reason)})


def _matrix(x: list[Any], most: int, rule: int) -> NDArray[np.float64]:
    """Rows as a matrix of at most `most` bytes; NaN for anything that is not a number."""
    rows: list[Any] = [row.blank if isinstance(row, Unreadable) else row for row in x]
    if not all(isinstance(row, list) for row in rows) or len(set(map(len, rows))) > 1:
        raise InvalidValueError(NO_MATRIX)
    if not rows:
        return np.empty((0, 0))
    arrow.check_size(8 * len(rows) * len(rows[0]), most)
    if set(map(type, chain.from_iterable(rows))) <= {float, int, bool}:
        return np.array(rows, np.float64)
    # np.array would reserve space for the longest text in every entry.
    numbers = np.fromiter((_number(v, rule) for v in chain.from_iterable(rows)), np.float64)
    return numbers.reshape(len(rows), -1)


def _number(value: Any, rule: int) -> float:
    """One entry as a float; NaN for anything that is not a number."""
    return number_of(value, rule) if isinstance(value, float | int | str) else np.nan


def record_as_json(record: Any, label: Any) -> str:
    """A record as JSON text, written a few numbers at a time so that other threads can run.

    >>> record_as_json(np.array([1.5, np.nan]), 0)
    '{"x": [1.5,null], "y": 0}'
    """
    if isinstance(record, Table):
        return as_json({"x": record.row(0), "y": label})
    if not isinstance(record, np.ndarray):
        return as_json({"x": record, "y": label})
    few = (record[start : start + CHUNK] for start in range(0, record.size, CHUNK))
    numbers = b",".join(orjson.dumps(each, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1] for each in few)
    return f'{{"x": [{numbers.decode()}], "y": {as_json(label)}}}'

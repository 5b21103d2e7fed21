"""Reads records from the body of a request, JSON or Arrow, each record in its slot.

A body is refused only for a fault of the whole: it is not JSON, lacks a column, or is not a matrix.
A record that cannot be used keeps its slot, and no response mentions it. No message quotes a value.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, refuse
from tidegate.data.columns import Table, Text
from tidegate.data.columns.table import WIDEST, as_table
from tidegate.data.values import as_objects, is_flat, is_number, is_text, number_of, only_texts
from tidegate.run.config import Config
from tidegate.serve import arrow
from tidegate.serve.framing import NOT_JSON, Body, Unreadable, framed
from tidegate.serve.limits import Limits, check_members, check_number, check_size
from tidegate.sources import RawBatch, SourceColumns
from tidegate.sources.arrow_records import ArrowRecords, holds_ids, labels_of, values
from tidegate.sources.json_records import Unseen
from tidegate.sources.source import as_json, check_columns, check_ids, objects, row_of

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"

NO_RECORDS = 'the body must have "x" and "y", or "records"'
NO_MATRIX = "x must be a matrix: one list of numbers per record, all of the same length"
NO_ROWS = "x must have a list of values for each record, in the order of the columns"
NO_COLUMNS = 'the gate\'s configuration names no columns: send "x" and "y"'
NO_LABELS = "y must be one column of labels, of the type of records.classes, or of targets"

PERSONS = "persons"
NO_IDS = "persons must be one list or column of ids, texts or whole numbers, one per record"

MAX_TEXT_LENGTH = 2**16
"""The most characters of a text: its n-grams take hundreds of times its size."""

MAX_COLUMNS_NAMED = 12
"""The most columns that an error names."""

CHUNK = 4096
"""Numbers that are written at a time."""

NO_LABEL = objects([])
"""The labels of records to predict."""

PLAIN = {float, int, bool}
"""Types of numbers in JSON."""

Read = Callable[[Any], float]
"""Reads one value as a number, NaN if it is none."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads bodies whose records are described by a configuration.

    Attributes:
        config: The configuration.
        limits: Limits on the size of a body.
        labelled: Whether records have labels, and persons; those to predict have neither.

    >>> from tidegate.run.config import example
    >>> reader = Reader(config=Config.parse(example("independent")))
    >>> reader.batch(JSON, b'{"x": [[1, 2.5], ["?", null]], "y": [0, 1]}').X
    array([[1. , 2.5],
           [nan, nan]])
    """

    config: Config
    limits: Limits = Limits()
    labelled: bool = True

    @cached_property
    def most(self) -> int:
        """The most bytes of a body."""
        return self.limits.text_body if self.text else self.limits.body

    @cached_property
    def text(self) -> bool:
        """Whether records are, or contain, texts that are hashed or encoded."""
        return any(each.takes_text for each in self.config.features[:1]) or bool(self._texts)

    @cached_property
    def _kinds(self) -> Any:
        """The columns of any kind that records have; None if they have none."""
        return self.config.column_map()

    @cached_property
    def _texts(self) -> list[str]:
        """The names of the columns of text."""
        columns = self._kinds.checked if self._kinds else ()
        return [each.name for each in columns if isinstance(each, Text)]

    @cached_property
    def _most_records(self) -> int:
        """The most records of a body: fewer if each is run through a network."""
        encoding = (*(self._kinds.checked if self._kinds else ()), *self.config.maps())
        slow = any(str(getattr(each, "encoder", "")).endswith(".onnx") for each in encoding)
        return self.limits.encoded if slow else self.limits.records

    @cached_property
    def _columns(self) -> SourceColumns:
        """The columns that the configuration names."""
        table, names = self.config.records, self.config.read
        if not names or (self.labelled and not table.label):
            raise InvalidValueError(NO_COLUMNS)
        if self.labelled:
            return self.config.source_columns()
        built = replace(table, label="?").build(self._kinds)
        return replace(built, label=names[0], number_labels=True)  # it exists in any case

    @cached_property
    def _names(self) -> list[str]:
        """The names of the columns of a record, without its label."""
        return self._columns.names[:-1]

    def batch(self, kind: str, body: Body) -> RawBatch:
        """The records of a body, which is read as JSON unless its media type is `ARROW`."""
        raw = self._of_arrow(body) if kind == ARROW else self._of_json(body)
        if self.labelled:
            self._check_labels(raw)
        if isinstance(raw.X, Table):
            return self._checked(raw)
        n, columns = len(raw.X), self.config.records.columns
        if columns and n and raw.X.shape[1] != len(columns):
            raise refuse("x", f"of {len(columns)} columns ({_few(columns)})", raw.X.shape[1])
        if n and 0 in raw.X.shape:
            raise InvalidValueError(NO_MATRIX)
        return _without_long_texts(raw) if self.text else raw

    def _check_labels(self, raw: RawBatch) -> None:
        """Refuse a body that lacks a column in every record, or a label or id for each."""
        check_columns(raw, "the body")
        check_ids(raw, protected=self.config.person is not None)
        owned = {} if raw.persons is None else {PERSONS: raw.persons}
        for name, given in {"y": raw.y, **owned}.items():
            if len(given) != raw.n:
                raise refuse(name, f"as long as x ({raw.n})", len(given))

    def _checked(self, raw: RawBatch) -> RawBatch:
        """Refuse more records of any kind than fit, and mark too long texts as unusable."""
        width = min(self._kinds.width if self._kinds else 0, WIDEST)
        check_size(4 * raw.n * width, self.limits.unfolded)
        for name in self._texts:
            raw = _without_long_values(raw, name)
        return raw

    def _of_json(self, body: Body) -> RawBatch:
        given = _object(body, self._most_records)
        if isinstance(rows := given.get("records"), list):
            check_number(len(rows), self._most_records)
            return self._named(rows)
        wanted = ["x", "y", PERSONS] if self.labelled else ["x"]
        lists = {name: given[name] for name in wanted if given.get(name) is not None}
        if not isinstance(lists.get(PERSONS, []), list):
            raise InvalidValueError(NO_IDS)
        if not all(isinstance(lists.get(name), list) for name in wanted[:2]):
            raise InvalidValueError(NO_RECORDS)
        check_number(len(lists["x"]), self._most_records)
        return RawBatch(
            X=self._rows(lists["x"], partial(_number, rule=self.config.records.rule)),
            y=objects(_readable(lists.get("y", []))),
            arrived=lambda slot: as_json({n: _raw(each[slot]) for n, each in lists.items()}),
            persons=_readable(lists[PERSONS]) if PERSONS in lists else None,
            reasons={k: v for each in reversed(lists.values()) for k, v in _reasons(each).items()},
        )

    def _named(self, rows: list[Any]) -> RawBatch:
        """Records whose values have names."""
        columns, names = self._columns, self._names
        objs = [row if isinstance(row, dict) else {} for row in rows]
        cells = [[row.get(name) for name in names] for row in objs]
        if not self.labelled:
            _check_complete(rows, names)
        X = self._rows([row[0] for row in cells] if columns.text else cells, _strict_number)
        if isinstance(X, np.ndarray) and X.dtype != object:
            with np.errstate(over="ignore"):  # a record with an infinite value cannot be used
                X = X.astype(columns.dtype)
        if not self.labelled:
            return RawBatch(X=X, y=NO_LABEL, arrived=as_json)
        unseen = Unseen(columns.read)
        if all(isinstance(row, dict) for row in rows):  # another might have had the column
            unseen.look(rows)
        return RawBatch(
            X=X,
            y=objects([row.get(columns.label) for row in objs]),
            arrived=lambda slot: as_json(_raw(rows[slot])),
            persons=[row.get(columns.person) for row in objs] if columns.person else None,
            reasons=_reasons(rows),
            absent=unseen.found(),
        )

    def _rows(self, x: list[Any], read: Read) -> Any:
        """Texts, rows of columns of any kind, or rows of numbers."""
        if self._kinds:
            names = self._kinds.names
            rows: list[Any] = [row.blank if isinstance(row, Unreadable) else row for row in x]
            if not all(isinstance(row, list) for row in rows):
                raise InvalidValueError(NO_ROWS)
            for width in {len(row) for row in rows} - {len(names)}:
                raise refuse("x", f"of {len(names)} columns ({_few(names)})", width)
            return as_table(rows, names) if rows else Table({name: [] for name in names}, 0)
        if self.text:
            return objects(only_texts(x, self.config.records.rule))
        return _matrix(x, self.limits.unfolded, read)

    def _of_arrow(self, body: Body) -> RawBatch:
        table = arrow.table_of(body, self._most_records)
        names = table.column_names
        if names.count("x") == 1 and pa.types.is_fixed_size_list(table.schema.field("x").type):
            return self._of_matrix(table, body)
        reader = ArrowRecords(columns=self._columns)
        reader.check(table.schema, "the body")
        table = arrow.chosen(table, reader.columns.read, body, self.limits.unfolded)
        raw = reader.part((arrow.unchecked if self._kinds else arrow.decoded)(table))
        return replace(raw, arrived=lambda slot: as_json(row_of(table, slot)))

    def _of_matrix(self, table: Any, body: Body) -> RawBatch:
        schema, names = table.schema, table.column_names
        if not is_number(schema.field("x").type.value_type):
            raise InvalidValueError(NO_MATRIX)
        wanted = ["x", "y"] if self.labelled else ["x"]
        if self.labelled and (names.count("y") != 1 or not self._holds_labels(schema)):
            raise InvalidValueError(NO_LABELS)
        if self.labelled and PERSONS in names:
            if names.count(PERSONS) != 1 or not holds_ids(schema.field(PERSONS).type):
                raise InvalidValueError(NO_IDS)
            wanted.append(PERSONS)
        found = arrow.decoded(arrow.chosen(table, wanted, body, self.limits.unfolded))
        X, y = arrow.matrix(found.column("x")), NO_LABEL
        if self.labelled:
            of = values if self.config.records.rule == 1 else labels_of
            y = of(found.column("y"))
        return RawBatch(
            X=X,
            y=y,
            arrived=lambda slot: record_as_json(X[slot], y[slot]),
            persons=found.column(PERSONS).to_pylist() if PERSONS in wanted else None,
        )

    def _holds_labels(self, schema: Any) -> bool:
        """Whether the column "y" can hold labels: by rule 2 of spelling, in any plain type."""
        kind, records = schema.field("y").type, self.config.records
        if records.rule > 1:
            return is_flat(kind)
        return is_number(kind) if records.number_labels else is_text(kind)


def _check_complete(rows: list[Any], names: list[str]) -> None:
    """Refuse records to predict that are no objects or lack a column."""
    for place, row in enumerate(rows):
        if not isinstance(row, dict):
            reason = row.reason if isinstance(row, Unreadable) else "not a JSON object"
            raise InvalidValueError(f"records[{place}] is {reason}: correct it, or leave it out")
    missing = [name for name in names if not all(name in each for each in rows)]
    if missing:
        wrong = f"records lack column {_few(missing)}; each must have {_few(names)}"
        raise InvalidValueError(wrong)


def _few(names: Sequence[str]) -> str:
    return ", ".join([*names[:MAX_COLUMNS_NAMED], *["..."] * (len(names) > MAX_COLUMNS_NAMED)])


def _object(body: Body, most: int) -> Mapping[str, Any]:
    """The members of a JSON body, parsed as a whole, or record by record if that fails."""
    try:
        given = orjson.loads(body)
    except ValueError:
        return framed(body, {"x", "y", PERSONS, "records"}, most)
    if not isinstance(given, dict):
        raise InvalidValueError(NOT_JSON)
    check_members(len(given))
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


def _matrix(x: list[Any], most: int, read: Read) -> NDArray[np.float64]:
    """Rows as a matrix of at most `most` bytes; NaN for anything that is not a number."""
    rows: list[Any] = [row.blank if isinstance(row, Unreadable) else row for row in x]
    if not all(isinstance(row, list) for row in rows) or len(set(map(len, rows))) > 1:
        raise InvalidValueError(NO_MATRIX)
    if not rows:
        return np.empty((0, 0))
    check_size(8 * len(rows) * len(rows[0]), most)
    if set(map(type, chain.from_iterable(rows))) <= PLAIN:
        return np.array(rows, np.float64)
    # np.array would reserve space for the longest text in every entry.
    numbers = np.fromiter(map(read, chain.from_iterable(rows)), np.float64)
    return numbers.reshape(len(rows), -1)


def _number(value: Any, rule: int) -> float:
    """An entry of a matrix as a float, also of a text; NaN for anything that is not a number."""
    return number_of(value, rule) if isinstance(value, float | int | str) else math.nan


def _strict_number(value: Any) -> float:
    """A value with a name as a float: a text is not a number, even if it looks like one."""
    return float(value) if isinstance(value, float | int) else math.nan


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

"""Records in the body of a request: JSON or Arrow, each record in its slot.

A body is refused only for what is true of it as a whole: it is no JSON, has not the columns, is no
matrix. What is wrong with one record is that record's affair: it keeps its slot, and nobody is
told. No message quotes a value.
"""

import json
import struct
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, refuse
from tidegate.features.numbers import as_numbers
from tidegate.gate.config import Config
from tidegate.gate.sources import Columns, RawBatch
from tidegate.gate.sources.columns import as_json
from tidegate.gate.sources.json_lines import JsonLines
from tidegate.gate.sources.parquet import Parquet, is_number, is_text, values
from tidegate.gate.sources.source import objects

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"

NOT_JSON = "the body must be a JSON object"
NOT_ARROW = "the body must be an Arrow IPC stream, without compression and dictionaries"
NO_RECORDS = 'the body must have "x" and "y", or "records"'
NO_MATRIX = "x must be a matrix: a list of as many numbers for every record"
NO_COLUMNS = 'the gate\'s configuration names no columns: send "x" and "y"'


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Reads bodies as a configuration says what a record is.

    Args:
        config: What the gate was told.
        most: Records that a body may have.

    >>> from tidegate.gate.config import example
    >>> reader = Reader(config=Config.parse(example("independent")))
    >>> reader.batch(JSON, b'{"x": [[1, 2.5], ["?", null]], "y": [0, 1]}').X
    array([[1. , 2.5],
           [nan, nan]])
    """

    config: Config
    most: int = 100_000

    def batch(self, kind: str, body: bytes, *, labelled: bool = True) -> RawBatch:
        """The records of a body.

        Args:
            kind: The body's media type: `ARROW`, anything else is read as JSON.
            body: The bytes.
            labelled: Whether there are labels; those of records to be predicted are not read.
        """
        raw = (self._of_arrow if kind == ARROW else self._of_json)(body, labelled)
        if labelled and len(raw.y) != raw.n:
            raise refuse("y", f"as long as x ({raw.n})", len(raw.y))
        columns = self.config.records.columns
        if columns is not None and raw.n and raw.X.shape[1] != len(columns):
            raise refuse("x", f"of {len(columns)} columns", raw.X.shape[1])
        if raw.n and 0 in raw.X.shape:
            raise InvalidValueError(NO_MATRIX)
        return raw

    def _of_json(self, body: bytes, labelled: bool) -> RawBatch:
        given = _object(body)
        if isinstance(rows := given.get("records"), list):
            self._check_number(len(rows))
            objs = [row if isinstance(row, dict) else {} for row in rows]
            X, y = JsonLines(columns=self._columns(labelled)).slots(objs)
            return RawBatch(X=X, y=y, offset="", arrived=lambda slot: as_json(rows[slot]))
        x, labels = given.get("x"), given.get("y") if labelled else []
        if not isinstance(x, list) or not isinstance(labels, list):
            raise InvalidValueError(NO_RECORDS)
        self._check_number(len(x))
        X = _texts(x) if self._text else _matrix(x)
        return RawBatch(X=X, y=objects(labels), offset="", arrived=partial(_arrived, x, labels))

    def _of_arrow(self, body: bytes, labelled: bool) -> RawBatch:
        try:
            table = _record_batch(body)
        except (pa.ArrowException, struct.error, ValueError, OSError):
            raise InvalidValueError(NOT_ARROW) from None
        self._check_number(table.num_rows)
        names = table.schema.names
        if names.count("x") == 1 and pa.types.is_fixed_size_list(table.schema.field("x").type):
            return self._of_matrix(table, labelled)
        reader = Parquet(columns=self._columns(labelled))
        reader.check(table.schema, "the body")
        part = reader.part(table)
        return RawBatch(X=part.X, y=part.y, offset="", arrived=part.arrived)

    def _of_matrix(self, table: Any, labelled: bool) -> RawBatch:
        rows, kind = table.column("x"), table.schema.field("x").type
        if not is_number(kind.value_type):
            raise InvalidValueError(NO_MATRIX)
        if rows.null_count:  # each such record is nothing but what cannot be used
            none = [None] * kind.list_size
            X = as_numbers([none if row is None else row for row in rows.to_pylist()])
        else:
            X = values(rows.flatten()).reshape(table.num_rows, kind.list_size)
        y: NDArray[Any] = objects([])
        if labelled:
            of_kind = is_number if isinstance(self.config.records.classes[0], int) else is_text
            if table.schema.names.count("y") != 1 or not of_kind(table.schema.field("y").type):
                raise InvalidValueError(
                    "y must be a column of labels, numbers or text as those are"
                )
            y = values(table.column("y"))
        return RawBatch(X=X, y=y, offset="", arrived=partial(_arrived, X, y))

    @property
    def _text(self) -> bool:
        return any(each.map == "text" for each in self.config.features[:1])

    def _columns(self, labelled: bool) -> Columns:
        """The columns that the configuration names."""
        known = self.config.records
        if (known.columns is None and known.text is None) or (labelled and known.label is None):
            raise InvalidValueError(NO_COLUMNS)
        if labelled:
            return known.build()
        first = (known.columns or (known.text,))[0]  # is there anyway, and read as it is
        return replace(replace(known, label="?").build(), label=str(first), whole_labels=True)

    def _check_number(self, n: int) -> None:
        if n > self.most:
            raise refuse("a body", f"of at most {self.most} records", n)


def _object(body: bytes) -> dict[str, Any]:
    try:
        given = orjson.loads(body)
    except ValueError:
        given = lenient(body)
    if not isinstance(given, dict):
        raise InvalidValueError(NOT_JSON)
    return given


def lenient(body: bytes) -> Any:
    """JSON and a little more: NaN, a number too large and half a character are records' affairs.

    What the fast reader accepts means the same here, or what one record is read as would depend
    on whether there is such a thing in another.

    >>> lenient(b"[NaN, 1e999, 18446744073709551616]")
    [nan, inf, 1.8446744073709552e+19]
    """
    try:
        return json.loads(body, parse_int=_whole)
    except (ValueError, RecursionError):
        return None


def _whole(digits: str) -> int | float:
    """A whole number of 64 bits, or the nearest float."""
    number = int(digits) if len(digits) <= 20 else 2**64
    return number if -(2**63) <= number < 2**64 else float(digits)


def _texts(x: list[Any]) -> NDArray[np.object_]:
    return objects([text if isinstance(text, str) else None for text in x])


def _matrix(x: list[Any]) -> Any:
    if not all(isinstance(row, list) for row in x) or len(set(map(len, x))) > 1:
        raise InvalidValueError(NO_MATRIX)
    return as_numbers(x) if x else np.empty((0, 0))


def _arrived(x: Any, y: Any, slot: int) -> str:
    record = x[slot]
    return as_json({"x": getattr(record, "tolist", lambda: record)(), "y": y[slot]})


def _record_batch(body: bytes) -> Any:
    """The one batch that a stream amounts to.

    A few bytes of a compressed stream can stand for any number, and so can a dictionary's: both
    are refused before they are unfolded. What is left is no larger than the body.
    """
    for message in pa.ipc.MessageReader.open_stream(body):
        plain = message.type == "record batch" and not _compressed(message.metadata)
        if not plain and message.type != "schema":
            raise pa.ArrowInvalid
    table = pa.ipc.open_stream(body).read_all()
    table.validate(full=True)
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _compressed(metadata: Any) -> bool:
    """Whether a record batch says how it is compressed: field 3 of its table.

    The metadata is a FlatBuffer. A table starts with how far before it its list of fields lies,
    which holds two sizes and then for each field where it is in the table, 0 if it is not there.
    """
    data = memoryview(metadata)

    def field(table: int, index: int) -> int:
        fields = table - struct.unpack_from("<i", data, table)[0]
        if 4 + 2 * index >= struct.unpack_from("<H", data, fields)[0]:
            return 0
        offset: int = struct.unpack_from("<H", data, fields + 4 + 2 * index)[0]
        return table + offset if offset else 0

    def follow(place: int) -> int:
        return place + int(struct.unpack_from("<I", data, place)[0])

    header = field(follow(0), 2)
    return not header or bool(field(follow(header), 3))

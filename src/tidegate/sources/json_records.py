"""Records that are JSON objects: lines of a file or a pipe, messages, or the body of a request."""

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tidegate.data.values import only_texts
from tidegate.sources.absent import Unseen
from tidegate.sources.lines import MAX_LINE_BYTES
from tidegate.sources.source import RawBatch, joined, objects
from tidegate.sources.source_columns import CHUNK, SourceColumns, as_json


def json_batch(block: list[bytes], columns: SourceColumns) -> RawBatch:
    """A batch of lines or messages, each a slot: a JSON object with the columns as its keys.

    What is not such an object, or lacks a column, cannot be used. Text is not a number, even if it
    looks like one.
    """
    reasons: dict[int, str] = {}
    made, unseen = [], Unseen(map(columns.called, columns.read))
    for start in range(0, max(len(block), 1), CHUNK):  # objects take more memory than floats
        rows = [parsed(line) for line in block[start : start + CHUNK]]
        reasons |= {start + i: row for i, row in enumerate(rows) if isinstance(row, str)}
        made.append(_slots([{} if isinstance(row, str) else row for row in rows], columns))
        unseen.look([row for row in rows if not isinstance(row, str)])
    X, y, ids = zip(*made, strict=True)
    return RawBatch(
        X=joined(X),
        y=joined(y),
        arrived=partial(_arrived, block),
        persons=None if columns.person is None else [each for some in ids for each in some],
        reasons=reasons,
        absent=unseen.found(),
    )


def _slots(objs: Sequence[Mapping[str, Any]], columns: SourceColumns) -> tuple[Any, Any, Any]:
    """The records, labels and ids of some objects, with NaN or None for missing keys."""

    def values(name: str) -> list[Any]:
        return [row.get(name) for row in objs]

    *record, label = map(columns.called, columns.names)
    X = columns.records(
        record,
        len(objs),
        values=values,
        texts=lambda name: only_texts(values(name), columns.spelling),
        numbers=lambda names: [np.array([_number(row.get(n)) for row in objs]) for n in names],
    )
    ids = [] if columns.person is None else values(columns.called(columns.person))
    return X, objects(values(label)), ids


def parsed(line: bytes) -> dict[str, Any] | str:
    """The object in a line, or the reason why it cannot be read."""
    if len(line) > MAX_LINE_BYTES:
        return f"longer than {MAX_LINE_BYTES} bytes"
    try:
        value = json.loads(line.decode())
    except UnicodeDecodeError:
        return "not UTF-8"
    except (ValueError, RecursionError):
        return "not JSON"
    return value if isinstance(value, dict) else "not a JSON object"


def _number(value: object) -> float:
    if not isinstance(value, int | float):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _arrived(block: list[bytes], index: int) -> str:
    line = block[index]
    return as_json({"line": line}) if isinstance(parsed(line), str) else line.decode()

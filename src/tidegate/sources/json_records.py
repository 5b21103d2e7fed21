"""Records that are JSON objects: lines of a file or a pipe, messages, or the body of a request.

A missing key is a gap, so a misspelt column would be learnt from as nothing but gaps. If no record
of a batch has a column, that is said; another name is proposed only if every record has it.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from heapq import nsmallest
from typing import Any, NamedTuple

import numpy as np

from tidegate.data.values import only_texts
from tidegate.sources.lines import MAX_LINE_BYTES
from tidegate.sources.source import (
    CHUNK,
    RawBatch,
    SourceColumns,
    as_json,
    joined,
    objects,
)


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


# --- columns that no record has


MAX_NAMES = 12
"""The most columns that a message names."""

MAX_CANDIDATES = 256
"""The most names that a misspelt one is compared with."""


class Absent(NamedTuple):
    """Columns that no record has.

    Attributes:
        names: The columns.
        near: A name that every record has and that looks like one of them; None if there is none.
    """

    names: tuple[str, ...]
    near: str | None

    def in_words(self, where: str) -> str:
        """Say what is missing and what to do, in one line.

        >>> Absent(("pressure",), "presure").in_words("the body")
        'no record of the body has column pressure (did you mean presure?): correct the name, in \
the records or in the configuration; write null where a value is missing'
        """
        shown = ", ".join(self.names[:MAX_NAMES]) + ", ..." * (len(self.names) > MAX_NAMES)
        hint = "" if self.near is None else f" (did you mean {self.near}?)"
        return (
            f"no record of {where} has column {shown}{hint}: correct the name, in the records or "
            "in the configuration; write null where a value is missing"
        )


class Unseen:
    """Looks for columns that no record has, some records at a time.

    Args:
        names: The columns, as they are called in the records.

    >>> unseen = Unseen(["age", "pressure"])
    >>> unseen.look([{"age": 61, "Pressure": 140}, {"age": None, "Pressure": 121, "x": 1}])
    >>> unseen.found()
    Absent(names=('pressure',), near='Pressure')
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = self._left = tuple(dict.fromkeys(names))
        self._common: set[str] | None = None  # the names that all records have

    def look(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Look at some records."""
        self._left = tuple(n for n in self._left if not any(n in record for record in records))
        if self._left and records:  # else nothing is proposed
            shared = set(records[0]).intersection(*records[1:])
            self._common = shared if self._common is None else self._common & shared

    def found(self) -> Absent | None:
        """The columns that none had; None if there are none, or if there was no record."""
        if not self._left or self._common is None:
            return None
        others = self._common.difference(self._names)
        nears = (near(name, others) for name in self._left[:MAX_NAMES])
        return Absent(self._left, next(filter(None, nears), None))


def near(name: str, others: Iterable[str]) -> str | None:
    """The name that looks most like another one, whatever its case; None if none does."""
    alike = (each for each in others if len(each) <= 2 * len(name) + 8)
    short = nsmallest(MAX_CANDIDATES, alike)
    folded = {each.casefold(): each for each in short}
    found = get_close_matches(name.casefold(), folded, n=1)
    return folded[found[0]] if found else None

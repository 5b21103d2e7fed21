"""Reads bodies in processes of their own, one for JSON and one for Arrow, which send back arrays.

Reading holds the interpreter lock, JSON takes up to 40 times the size of the body, and a few bytes
of Arrow may expand to any size. So these processes have limited memory, and limited time for each
body. Only small bodies are read where they arrive.
"""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import sklearn.utils  # noqa: F401 (hashed categories need it: loaded before memory is limited)
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.data.columns import Table
from tidegate.run.config import Config
from tidegate.serve.bodies import ARROW, JSON, Reader, record_as_json
from tidegate.serve.process import Answer, Bounds, Process
from tidegate.sources import RawBatch
from tidegate.sources.source import objects

MEMORY = 2**30
"""The most bytes that reading a body may take."""

TOO_LARGE = "the body takes too much memory to read: send fewer records at a time"

Wrong = Mapping[str, NDArray[np.bool_]]


class Parser:
    """Reads one JSON and one Arrow body at a time, and one body of each token at a time.

    So a token with slow bodies waits for itself, and others wait for at most one of its bodies.
    """

    def __init__(self, reader: Reader) -> None:
        self._lanes = {kind: Lane(kind, reader) for kind in (JSON, ARROW)}
        self._turns: dict[str, asyncio.Lock] = {}

    def start(self) -> None:
        """Start the processes, so that the first sender does not wait for that."""
        for each in self._lanes.values():
            each.start()

    async def batch(self, token: str, question: "Question") -> RawBatch:
        """The records of a body of a token; the body is emptied."""
        async with self._turns.setdefault(token, asyncio.Lock()):
            return await self._lanes[question.kind].batch(question)

    def close(self) -> None:
        """Stop the threads and the processes."""
        for each in self._lanes.values():
            each.close()


class Lane:
    """A process that reads bodies, and the thread that waits for it."""

    def __init__(self, kind: str, reader: Reader) -> None:
        bounds = Bounds(seconds=reader.limits.patience, memory=MEMORY)
        self._process = Process("parsing", _reading, reader, bounds=bounds)
        self._thread = ThreadPoolExecutor(1, kind)

    def start(self) -> None:
        """Start the process."""
        self._thread.submit(self._process.start)

    async def batch(self, question: "Question") -> RawBatch:
        """The records of a body."""
        return await asyncio.wrap_future(self._thread.submit(self._parsed, question))

    def _parsed(self, question: "Question") -> RawBatch:
        try:
            # The body is not needed meanwhile: it may take as much memory as what is read.
            parsed: Parsed = self._process.ask(question, sent=question.body.clear)
        except Exception:  # it may have died: the next sender should not wait for another
            self.start()
            raise
        return parsed.batch()

    def close(self) -> None:
        """Stop the thread and the process."""
        self._process.end()  # whoever waits for it gets an error
        self._thread.shutdown(cancel_futures=True)
        self._process.end()  # if it was being started


class Question(NamedTuple):
    """A body to read: its media type, its bytes, and whether its records have labels."""

    kind: str
    body: bytearray
    labelled: bool


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """A `RawBatch` that can be sent between processes."""

    X: Any
    y: NDArray[Any]  # None if it cannot be a label
    persons: list[Any] | None  # an empty tuple if it cannot be an id
    reasons: Mapping[int, str]
    odd: Mapping[int, str]  # what arrived in the slots that cannot be used

    def batch(self) -> RawBatch:
        """The batch."""
        return RawBatch(
            X=self.X, y=self.y, arrived=self._arrived, persons=self.persons, reasons=self.reasons
        )

    def _arrived(self, slot: int) -> str:
        if slot in self.odd:
            return self.odd[slot]
        record = self.X[slot : slot + 1] if isinstance(self.X, Table) else self.X[slot]
        return record_as_json(record, self.y[slot])


@contextmanager
def _reading(reader: Reader) -> Iterator[Answer]:
    pa.allocate_buffer(1)  # Arrow reserves a gigabyte at first, which must not count
    readers = {labelled: replace(reader, labelled=labelled) for labelled in (True, False)}

    def read(question: Question) -> Parsed:
        asked = readers[question.labelled]
        try:
            return _sendable(asked.batch(question.kind, question.body), asked)
        except MemoryError:
            raise InvalidValueError(TOO_LARGE) from None

    yield read


def _sendable(raw: RawBatch, reader: Reader) -> Parsed:
    """Records without wrong values, which may be nested too deep to send, or take much memory."""
    wrong = _wrong(raw, reader.config)
    odd = _odd(raw, wrong, reader.config) if reader.labelled else []
    X, y = raw.X, raw.y
    if isinstance(X, Table):
        columns = {name: _without(values, wrong[name]) for name, values in X.columns.items()}
        X = replace(X, columns=columns)
    if y.dtype == object:
        y = objects([each if isinstance(each, str | int | float) else None for each in y])
    return Parsed(
        X=X,
        y=y,
        persons=None if raw.persons is None else list(map(_id, raw.persons)),
        reasons=raw.reasons,
        odd={slot: raw.arrived(slot) for slot in odd},
    )


def _wrong(raw: RawBatch, config: Config) -> Wrong:
    """Which values contradict the kinds of their columns, if these have kinds."""
    kinds = config.column_map()
    return {} if kinds is None else kinds.bad(raw.X)


def _without(values: Any, wrong: NDArray[np.bool_]) -> Any:
    """Values with an empty tuple, which no kind of column takes, for the wrong ones."""
    if isinstance(values, pa.Array) or not wrong.any():
        return values
    return [() if bad else value for bad, value in zip(wrong.tolist(), values, strict=True)]


def _odd(raw: RawBatch, wrong: Wrong, config: Config) -> list[int]:
    """The slots whose record or label cannot be used."""
    bad = np.zeros(raw.n, np.bool_)
    if isinstance(raw.X, Table):
        for each in wrong.values():
            bad |= each
    elif raw.X.dtype == object:
        bad = np.array([text is None for text in raw.X], np.bool_)
    else:
        bad = ~np.isfinite(raw.X).all(axis=1)
    if raw.persons is not None:
        bad |= np.array([not _is_id(each) for each in raw.persons], np.bool_)
    bad |= ~config.records.predicted.read(raw.y, raw.n, config.records.rule)[1]
    return [int(slot) for slot in np.flatnonzero(bad)]


def _id(given: Any) -> Any:
    """An id as it arrived, or what is no id either but can be sent between processes."""
    return given if _is_id(given) or given is None else ()


def _is_id(given: Any) -> bool:
    """Whether a value can be an id, unless it is too long."""
    match given:
        case bool():
            return False
        case float():
            return given.is_integer()
        case int():
            return True
    return isinstance(given, str) and bool(given)

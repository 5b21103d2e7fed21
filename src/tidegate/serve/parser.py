"""Reads bodies outside of the thread that serves requests.

Arrow is read on a thread: that releases the interpreter lock, and its memory was checked before.
JSON is read in a separate process, which sends back arrays: that holds the lock all the time, and
takes up to 40 times the size of the body.
"""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import StoreError
from tidegate.features.columns import Table
from tidegate.gate.config import Config
from tidegate.gate.sources import RawBatch
from tidegate.gate.sources.source import objects
from tidegate.learn.labels import class_codes, cut_codes
from tidegate.serve.bodies import ARROW, Reader, record_as_json
from tidegate.serve.process import Answer, Process

Wrong = Mapping[str, NDArray[np.bool_]]


class Parser:
    """Reads one JSON and one Arrow body at a time, and one body of each token at a time.

    So a token with slow bodies waits for itself, and others wait for at most one of its bodies.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._process = Process("parsing", _reading, reader)
        self._json, self._arrow = ThreadPoolExecutor(1, "json"), ThreadPoolExecutor(1, "arrow")
        self._turns: dict[str, asyncio.Lock] = {}

    def start(self) -> None:
        """Start the process, so that the first sender does not wait for that."""
        self._json.submit(self._process.start)

    async def batch(self, token: str, kind: str, body: bytearray, *, labelled: bool) -> RawBatch:
        """The records of a body."""
        async with self._turns.setdefault(token, asyncio.Lock()):
            if kind == ARROW:
                reading = self._arrow.submit(self._reader.batch, kind, body, labelled=labelled)
            else:
                reading = self._json.submit(self._parsed, kind, body, labelled)
            return await asyncio.wrap_future(reading)

    def _parsed(self, kind: str, body: bytearray, labelled: bool) -> RawBatch:
        try:
            parsed: Parsed = self._process.ask(kind, body, labelled)
        except StoreError:  # it has died: the next sender should not wait for another
            self.start()
            raise
        return parsed.batch()

    def close(self) -> None:
        """Stop the threads and the process."""
        self._process.end()  # whoever waits for it gets an error
        self._json.shutdown(cancel_futures=True)
        self._process.end()  # if it was being started
        self._arrow.shutdown()


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """A `RawBatch` that can be sent between processes."""

    X: Any
    y: list[Any]  # None if it cannot be a label
    persons: list[Any] | None  # an empty tuple if it cannot be an id
    reasons: Mapping[int, str]
    odd: Mapping[int, str]  # what arrived in the slots that cannot be used

    def batch(self) -> RawBatch:
        """The batch."""
        y = objects(self.y)

        def arrived(slot: int) -> str:
            return (
                self.odd[slot]
                if slot in self.odd
                else record_as_json(_record(self.X, slot), y[slot])
            )

        return RawBatch(X=self.X, y=y, arrived=arrived, persons=self.persons, reasons=self.reasons)


def _record(X: Any, slot: int) -> Any:
    return X[slot : slot + 1] if isinstance(X, Table) else X[slot]


@contextmanager
def _reading(reader: Reader) -> Iterator[Answer]:
    def read(kind: str, body: bytearray, labelled: bool) -> Parsed:
        raw = reader.batch(kind, body, labelled=labelled)
        wrong = _wrong(raw, reader.config)
        odd = _odd(raw, wrong, reader.config) if labelled else []
        return Parsed(
            X=_sendable(raw.X, wrong),
            y=[each if isinstance(each, str | int | float) else None for each in raw.y],
            persons=None if raw.persons is None else list(map(_id, raw.persons)),
            reasons=raw.reasons,
            odd={slot: raw.arrived(slot) for slot in odd},
        )

    yield read


def _wrong(raw: RawBatch, config: Config) -> Wrong:
    """Which values contradict the kinds of their columns, if these have kinds."""
    kinds = config.column_map()
    return {} if kinds is None else kinds.bad(raw.X)


def _sendable(X: Any, wrong: Wrong) -> Any:
    """Records without wrong values, which may be nested too deep to send, or take much memory."""
    if not isinstance(X, Table):
        return X
    columns = {name: _without(values, wrong[name]) for name, values in X.columns.items()}
    return replace(X, columns=columns)


def _without(values: Any, wrong: NDArray[np.bool_]) -> Any:
    """Values with an empty tuple, which no kind of column takes, for the wrong ones."""
    if not wrong.any():
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
    target = config.records.predicted
    if target is not None:
        bad |= ~target.codes(raw.y, config.records.rule)[1]
    else:
        bad |= _codes(raw, config) < 0
    return [int(slot) for slot in np.flatnonzero(bad)]


def _codes(raw: RawBatch, config: Config) -> NDArray[np.intp]:
    cuts = config.records.cuts
    if cuts is not None:
        return cut_codes(list(raw.y), cuts, config.records.rule)
    return class_codes(list(raw.y), config.records.groups, config.records.rule)


def _id(given: Any) -> Any:
    """An id as it arrived, or what is no id either but can be sent between processes."""
    return given if _is_id(given) or given is None else ()


def _is_id(given: Any) -> bool:
    """Whether a value can be an id, unless it is too long."""
    whole = isinstance(given, int) and not isinstance(given, bool)
    whole |= isinstance(given, float) and given.is_integer()
    return whole or (isinstance(given, str) and bool(given))

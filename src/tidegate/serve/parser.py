"""Where bodies are read: not where the service answers.

Reading Arrow leaves the interpreter to others and takes no more memory than was checked before: a
thread does it. Reading JSON takes the interpreter for as long as it lasts, and up to 40 times the
body's size: a process of its own does it, which hands back arrays.
"""

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.gate.sources import RawBatch
from tidegate.gate.sources.source import objects
from tidegate.learn.labels import class_codes
from tidegate.serve.bodies import ARROW, Reader, shown
from tidegate.serve.process import Answer, Process


class Parser:
    """Reads bodies one at a time of each kind, those of each token one after the other.

    So whoever sends bodies that take long waits for their end, and others for one of them.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._process = Process("parsing", _reading, reader)
        self._json, self._arrow = ThreadPoolExecutor(1, "json"), ThreadPoolExecutor(1, "arrow")
        self._turns: dict[str, asyncio.Lock] = {}

    async def batch(self, token: str, kind: str, body: bytearray, *, labelled: bool) -> RawBatch:
        """The records of a body."""
        async with self._turns.setdefault(token, asyncio.Lock()):
            if kind == ARROW:
                reading = self._arrow.submit(self._reader.batch, kind, body, labelled=labelled)
            else:
                reading = self._json.submit(lambda: self._process.ask(kind, body, labelled).batch())
            return await asyncio.wrap_future(reading)

    def close(self) -> None:
        """Read no more."""
        self._process.end()
        self._json.shutdown()
        self._arrow.shutdown()


@dataclass(frozen=True, kw_only=True)
class Parsed:
    """A `RawBatch` that can be sent from process to process."""

    X: Any
    y: list[Any]  # None for what cannot be a label
    reasons: Mapping[int, str]
    odd: Mapping[int, str]  # what arrived in slots that X and y do not show

    def batch(self) -> RawBatch:
        """The same as a batch."""
        y = objects(self.y)

        def arrived(slot: int) -> str:
            return self.odd[slot] if slot in self.odd else shown(self.X[slot], y[slot])

        return RawBatch(X=self.X, y=y, arrived=arrived, reasons=self.reasons)


@contextmanager
def _reading(reader: Reader) -> Iterator[Answer]:
    def read(kind: str, body: bytearray, labelled: bool) -> Parsed:
        raw = reader.batch(kind, body, labelled=labelled)
        odd = _odd(raw, reader.config.records.classes) if labelled else []
        return Parsed(
            X=raw.X,
            y=[each if isinstance(each, str | int | float) else None for each in raw.y],
            reasons=raw.reasons,
            odd={slot: raw.arrived(slot) for slot in odd},
        )

    yield read


def _odd(raw: RawBatch, classes: Any) -> list[int]:
    """The slots whose record or label is not what it should be."""
    if raw.X.dtype == object:
        bad: NDArray[np.bool_] = np.array([text is None for text in raw.X], np.bool_)
    else:
        bad = ~np.isfinite(raw.X).all(axis=1)
    return [int(slot) for slot in np.flatnonzero(bad | (class_codes(list(raw.y), classes) < 0))]

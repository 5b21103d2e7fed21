"""The GateRunner: one Gate in a process that has other things to do as well."""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tidegate.checks import StoreError
from tidegate.gate.gate import Gate
from tidegate.gate.sources import RawBatch
from tidegate.release import Model, StoredRelease

log = logging.getLogger("tidegate.serve")

PATIENCE = 5.0
"""Seconds after which training is tried again that the disk has kept from its end."""


class BusyError(RuntimeError):
    """More is waiting to be made durable than may wait: come back later."""


@dataclass(frozen=True, eq=False)
class Current:
    """A release that is ready to predict."""

    release: StoredRelease

    @cached_property
    def model(self) -> Model:
        """What predicts, made once."""
        return self.release.model()


class GateRunner:
    """Takes records in on one thread and trains on another, so that neither waits for the other.

    A batch is acknowledged when it is durable. Training starts when a step is complete; what it
    has published is `current` from then on, and whoever watches is told.

    Args:
        gate: What to keep, open for writing. It is closed by `close`.
        most_waiting: Bytes of batches that may wait to be made durable.
    """

    def __init__(self, gate: Gate, *, most_waiting: int = 2**26) -> None:
        self.gate = gate
        self.training = False  # whether a step is being carried out
        self.trouble: str | None = None  # what keeps it from being carried out
        self.news = 0  # counts what has changed
        newest = gate.store.newest()
        self.current = None if newest is None else Current(newest)
        self.waiting = 0  # batches on their way in
        self._counts = {stream: gate.store.count(stream) for stream in gate.streams}
        self._most_waiting, self._bytes_waiting = most_waiting, 0
        self._waiting_of: Counter[str | None] = Counter()  # batches, by who sent them
        self._counting = threading.Lock()
        self._ingest = ThreadPoolExecutor(1, "ingest")
        self._due, self._closing = threading.Event(), threading.Event()
        self._watchers: set[Callable[[], None]] = set()
        self._trainer = threading.Thread(target=self._train, name="training", daemon=True)
        self._due.set()  # for what a stop left undone
        self._trainer.start()

    def take(
        self,
        raw: RawBatch,
        *,
        size: int,
        stream: str | None = None,
        key: str | None = None,
        sender: str | None = None,
    ) -> "Future[tuple[int, int]]":
        """Make a batch durable, after those that came before.

        The result is how many records the stream has then, and how many of them are new: 0 for a
        batch that was there already.

        Args:
            raw: The records.
            size: Bytes that it takes while it waits.
            stream: "source" or "target", where there are two.
            key: A name for the batch: the second batch of that name is not added.
            sender: Who sent it. A batch of one who has none waiting is never refused.
        """
        with self._counting:
            if self._waiting_of[sender] and self._bytes_waiting + size > self._most_waiting:
                raise BusyError
            self._count(sender, 1, size)
        return self._ingest.submit(self._take, raw, size, stream, key, sender)

    def _count(self, sender: str | None, batches: int, size: int) -> None:
        self._waiting_of[sender] += batches
        self.waiting += batches
        self._bytes_waiting += size

    def _take(
        self, raw: RawBatch, size: int, stream: str | None, key: str | None, sender: str | None
    ) -> tuple[int, int]:
        try:
            name = self.gate.stream(stream)
            count = self.gate.take(raw, stream=stream, key=key)
        except StoreError:
            self._due.set()  # training asks the store again until it answers: its trouble is told
            raise
        finally:
            with self._counting:
                self._count(sender, -1, -size)
        before, self._counts[name] = self._counts[name], count
        if self.gate.progress.complete(name):
            self._due.set()
        self._tell()
        return count, count - before

    def _train(self) -> None:
        while not self._closing.is_set():
            self._due.wait()
            self._due.clear()
            try:
                self._advance()
                self.trouble = None
            except StoreError as error:  # nothing of the step is seen or charged: make it again
                if self._closing.is_set():
                    return
                log.error("training: %s", error)  # noqa: TRY400 (the line says what to do)
                self.trouble = str(error)
                self._closing.wait(PATIENCE)
                self._due.set()
            except Exception as error:  # ours; the records are safe, a restart may help
                log.exception("training has ended")
                self.trouble = f"a bug in tidegate ({type(error).__name__})"
                return
            finally:
                self.training = False
                self._tell()

    def _advance(self) -> None:
        if self.trouble is not None:  # a step may be committed whose release nobody was shown
            self.gate.catch_up()
            newest = self.gate.store.newest()
            self.current = None if newest is None else Current(newest)
        self.training = any(map(self.gate.progress.complete, self.gate.streams))
        self._tell()
        for release in self.gate.advance():
            self.current = Current(release)
            self._tell()
            if self._closing.is_set():
                return

    # --- who wants to know

    def _tell(self) -> None:
        with self._counting:
            self.news += 1
        for tell in list(self._watchers):
            tell()

    @contextmanager
    def watched(self) -> Iterator[asyncio.Event]:
        """An event of the running loop that is set whenever there is news."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(news.set)

        self._watchers.add(tell)
        try:
            yield news
        finally:
            self._watchers.discard(tell)

    def close(self) -> None:
        """Let what was taken in become durable, then close the gate.

        A fit that is in hand for long is given up: nothing of it was seen, so nothing is charged.
        """
        self._ingest.shutdown()
        self._closing.set()
        self._due.set()
        self._trainer.join(PATIENCE)
        self.gate.close()

    def __enter__(self) -> "GateRunner":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

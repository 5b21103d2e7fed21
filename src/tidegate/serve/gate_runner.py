"""Runs a gate on background threads, beside a server in the same process."""

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from tidegate.checks import StoppedError, StoreError
from tidegate.release import Model, RegressionModel, StoredRelease
from tidegate.release.model import Scorer
from tidegate.schedule.progress import BEHIND
from tidegate.sources import RawBatch
from tidegate.state.erasure import Erasure
from tidegate.state.quality import alarm_in_words, alarm_row

if TYPE_CHECKING:
    from tidegate.gate import Gate

log = logging.getLogger("tidegate.serve")

PATIENCE = 5.0
"""Seconds after which failed training is tried again."""

MAX_WAITING_ERASURES = 256
"""The most erasures that may wait; a step that is being trained can make them wait."""


class BusyError(RuntimeError):
    """Too many batches wait to be made durable, or too many erasures; try again later."""


@dataclass(frozen=True, eq=False)
class Current:
    """A release that is ready to predict: what does not depend on a request is computed once."""

    release: StoredRelease

    @cached_property
    def number(self) -> int:
        """The number of the release."""
        return self.release.number

    @property
    def tag(self) -> str:
        """Its ETag."""
        return f'"{self.release.hash}"'

    @cached_property
    def model(self) -> Model | RegressionModel:
        """The model of the release."""
        return self.release.model()

    @cached_property
    def scorer(self) -> Scorer:
        """What computes its margins."""
        return self.model.scorer()

    @cached_property
    def classes(self) -> list[Any]:
        """The labels that it predicts; none if it predicts a number."""
        return self.model.classes.tolist() if isinstance(self.model, Model) else []


@dataclass(frozen=True)
class NothingYet:
    """Stands for the current release before there is one."""

    number: int = -1
    tag: str = ""


def newest_of(gate: "Gate") -> Current | NothingYet:
    """The newest release of a gate."""
    newest = gate.store.newest()
    return NothingYet() if newest is None else Current(newest)


class GateRunner:
    """Takes records, trains and erases on a thread each, so that records wait for neither.

    A batch is acknowledged when it is durable. Training starts when a step is complete. Each new
    release becomes `current`, and watchers are notified.

    Args:
        gate: The gate to run, open for writing. `close` closes it.
        most_waiting: The most bytes of batches that may wait to be made durable.
    """

    def __init__(self, gate: "Gate", *, most_waiting: int = 2**26) -> None:
        self.gate = gate
        self.training = False  # whether a step is being trained
        self.trouble = ""  # why training fails; empty if it does not
        self.stopped = False  # whether the state is stopped: it takes no records
        self.behind = False  # whether complete steps wait for others
        self.news = 0  # the number of changes so far
        self.current = newest_of(gate)
        self.waiting = 0  # batches that are not durable yet
        self._counts = {stream: gate.store.count(stream) for stream in gate.streams}
        self._most_waiting, self._bytes_waiting = most_waiting, 0
        self._waiting_of: Counter[str | None] = Counter()  # batches by sender
        self._counting, self._looking = threading.Lock(), threading.Lock()
        self.erasures_waiting = 0
        self._ingest = ThreadPoolExecutor(1, "ingest")
        self._erasing = ThreadPoolExecutor(1, "erasing")
        self._due, self._closing = threading.Event(), threading.Event()
        self._view = gate.ledger_view()
        self._view.read()  # no snapshot: the other thread may be writing
        self._view.measured.skip()  # alarms of earlier runs
        self._watchers: set[Callable[[], None]] = set()
        self._trainer = threading.Thread(target=self._train, name="training", daemon=True)
        self._due.set()  # finish what an earlier stop left undone
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
        """Make a batch durable, after those before it.

        The result is the number of records in the stream, and how many of them are new: 0 for a
        batch that was added before.

        Args:
            raw: The records.
            size: The bytes that the batch takes while it waits.
            stream: "source" or "target", if there are two streams.
            key: A name for the batch: a second batch with this name is not added.
            sender: Who sent it. A sender with no waiting batch is never refused.
        """
        with self._counting:
            if self._waiting_of[sender] and self._bytes_waiting + size > self._most_waiting:
                raise BusyError
            self._count(sender, 1, size)
        return self._ingest.submit(self._take, raw, size, stream, key, sender)

    def erase(
        self, *, record: int | None = None, stream: str | None = None, person: Any = None
    ) -> "Future[Erasure]":
        """Erase a record or a person, after the batches before it. See `Gate.erase`.

        Erasures that wait are carried out together. They wait for neither batches nor each other,
        only for a step that they have made begin again too often (see `Attempts`).
        """
        with self._counting:
            if self.erasures_waiting >= MAX_WAITING_ERASURES:
                raise BusyError
            self.erasures_waiting += 1
        answer: Future[Erasure] = Future()
        answer.add_done_callback(self._erased)
        self._ingest.submit(self._ask_to_erase, answer, record=record, stream=stream, person=person)
        return answer

    def _ask_to_erase(self, answer: "Future[Erasure]", **target: Any) -> None:
        try:
            asked = self.gate.ask_to_erase(**target)
        except Exception as error:  # the one who waits for the answer handles it
            answer.set_exception(error)
        else:
            asked.add_done_callback(partial(copied, answer))
            self._erasing.submit(self.gate.erase_waiting)

    def _erased(self, answer: "Future[Erasure]") -> None:
        with self._counting:
            self.erasures_waiting -= 1
        if isinstance(answer.exception(), StoreError):
            self._due.set()  # the training thread retries the store and reports `trouble`

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
            self._due.set()  # the training thread retries the store and reports `trouble`
            raise
        finally:
            with self._counting:
                self._count(sender, -1, -size)
        before, self._counts[name] = self._counts[name], count
        if self.gate.progress.complete(name):
            self._due.set()
        self._look_behind()
        self._tell()
        return count, count - before

    def _train(self) -> None:
        while not self._closing.is_set():
            self._due.wait()
            self._due.clear()
            try:
                self._advance()
                self.trouble = ""
            except StoreError as error:  # nothing was released or charged: try the step again
                if self._closing.is_set():
                    return
                log.error("training failed, trying again: %s", error)  # noqa: TRY400
                self.trouble = str(error)
                self._closing.wait(PATIENCE)
                self._due.set()
            except StoppedError as error:
                log.error("%s", error)  # noqa: TRY400 (no bug)
                self.stopped = True
                return
            except Exception as error:
                log.exception("training stopped by a bug; no record is lost: restart the service")
                self.trouble = f"a bug in tidegate ({type(error).__name__})"
                return
            finally:
                self.training = False
                self._tell()

    def _advance(self) -> None:
        if self.trouble:  # a step may be committed but its release not shown
            self.gate.catch_up()
            self.current = newest_of(self.gate)
        self.training = any(map(self.gate.progress.complete, self.gate.streams))
        self._look_behind()
        self._tell()
        for release in self.gate.advance():
            self.current = Current(release)
            self._look_behind()
            self._tell()
            self._log_alarms()
            if self._closing.is_set():
                return
        self._look_behind()
        self._log_alarms()  # of steps without a release

    def _look_behind(self) -> None:
        """Note whether training is behind; log it when that changes."""
        with self._looking:
            waiting = max(map(self.gate.progress.steps_waiting, self.gate.streams))
            before, self.behind = self.behind, waiting >= BEHIND
            if self.behind and not before:
                log.warning("training is behind: %d complete steps wait to be trained", waiting)
            if before and not self.behind:
                log.warning("training has caught up")

    def _log_alarms(self) -> None:
        """Log the drift alarms of new steps."""
        self._view.read()  # no snapshot: the other thread may be writing
        for each in self._view.measured.fresh(full=0):
            if each.alarm:
                words = alarm_in_words(alarm_row(each), streams=len(self.gate.streams))
                log.warning("drift: %s", words)

    # --- watchers

    def _tell(self) -> None:
        with self._counting:
            self.news += 1
        for tell in list(self._watchers):
            tell()

    @contextmanager
    def watched(self) -> Iterator[asyncio.Event]:
        """An event of the running loop that is set at every change."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(news.set)

        self._watchers.add(tell)
        try:
            yield news
        finally:
            self._watchers.discard(tell)

    def close(self) -> None:
        """Make the waiting batches durable, then close the gate.

        A fit that takes long is abandoned. Nothing of it was released, so nothing is charged.
        """
        self._ingest.shutdown()
        self._closing.set()
        self._due.set()
        self._trainer.join(PATIENCE)
        self.gate.end_fits()  # erasures that wait for the step are carried out now
        self._trainer.join(PATIENCE)
        self._erasing.shutdown(wait=not self._trainer.is_alive())
        self.gate.close()

    def __enter__(self) -> "GateRunner":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def copied(answer: "Future[Any]", asked: "Future[Any]") -> None:
    """Give one future the result of another."""
    if error := asked.exception():
        answer.set_exception(error)
    else:
        answer.set_result(asked.result())

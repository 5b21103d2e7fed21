"""Attempts to carry out a step, which an erasure ends: a step never mixes old and new content.

Attempts and erasures take turns, first come, first served. An attempt has its turn when it begins,
an erasure from before its commit until the old content is destroyed. So an erasure ends an attempt
that runs, and the step begins again after it. After `RESTARTS` of those the next attempt keeps its
turn until it ends, and erasures wait. Hence no erasure waits for more than one attempt, and no step
is attempted more than RESTARTS + 1 times because of erasures, whatever comes (docs/erasure.md).
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import TypeVar

from tidegate.checks import StoppedError, StoreError
from tidegate.data.records import Parts, Piece, Records
from tidegate.data.rows import Rows
from tidegate.run.engine import Engine
from tidegate.state.store import ErasedError, Store

RESTARTS = 2
"""How often erasures may make a step begin again; the attempt after that keeps them waiting."""

Result = TypeVar("Result")


class Turns:
    """A lock whose next owner is always the thread that has waited longest.

    A plain lock may be taken again and again by the thread that has just released it.

    >>> turns = Turns()
    >>> with turns:
    ...     turns.waiting
    0
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[object] = deque()  # the owner, then those that wait

    @property
    def waiting(self) -> int:
        """How many threads wait."""
        return max(0, len(self._queue) - 1)

    def __enter__(self) -> None:
        mine = object()
        with self._changed:
            self._queue.append(mine)
            try:
                self._changed.wait_for(lambda: self._queue[0] is mine)
            except BaseException:  # interrupted while waiting: let those behind move up
                self._queue.remove(mine)
                self._changed.notify_all()
                raise

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._queue.popleft()
            self._changed.notify_all()


class Attempts:
    """The attempts of one thread to carry out steps; other threads may erase records meanwhile.

    Args:
        store: The store, which counts erasures.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._turns = Turns()
        self._ended = threading.Event()  # set while no attempt runs
        self._ended.set()
        self.erasures: int | None = None  # how many there were when the newest attempt began
        self.restarts = 0  # of the step in progress, because of erasures

    def until_done(self, attempt: Callable[[], Result], again: Callable[[], bool]) -> Result:
        """Carry out a step, again from its beginning if records are erased meanwhile.

        Args:
            attempt: Carries the step out. Nobody has seen anything of it if it raises.
            again: Returns whether the step is still to be done, after an attempt that raised.
        """
        while True:
            try:
                with self._one():
                    result = attempt()
                    self.restarts = 0
                    return result
            except StoppedError:
                raise
            except Exception:  # whatever a fit does whose files and workers are gone
                if not self._outdated() or not again():
                    raise
                self.restarts += 1

    @contextmanager
    def _one(self) -> Iterator[None]:
        """Make an attempt, which lasts as long as the context."""
        with ExitStack() as turn:
            turn.enter_context(self._turns)
            self.erasures = self._store.erasures()
            self._ended.clear()
            try:
                if self.restarts < RESTARTS:
                    turn.close()  # otherwise erasures wait until the attempt has ended
                yield
            finally:
                self._ended.set()

    def _outdated(self) -> bool:
        """Whether records were erased since the newest attempt began."""
        try:
            return self._store.erasures() != self.erasures
        except StoreError:  # the store is closed
            return False

    def check(self) -> None:
        """Raise ErasedError if records were erased since the newest attempt began."""
        if self._outdated():
            raise ErasedError("records were erased since this step began: it begins again")

    def erasing(self) -> AbstractContextManager[None]:
        """The turn of an erasure: no attempt begins, and none that keeps its turn runs."""
        return self._turns

    def end_outdated(self, end: Callable[[], object]) -> None:
        """In the turn of an erasure, after its commit: call `end`, and wait until no attempt runs.

        An attempt that `end` comes too early for sees that it is outdated before it trains a fit.
        """
        end()
        self._ended.wait()


@dataclass(frozen=True)
class CheckedEngine:
    """An engine whose fits end at once if their step is outdated by the time they have records.

    A cluster that starts with a fit cannot be ended before it runs, so it is checked after that.
    """

    engine: Engine
    attempts: Attempts

    def parts(self, pieces: Sequence[Piece], form: Rows) -> Parts[Records]:
        """See `Engine`."""
        parts = self.engine.parts(pieces, form)
        self.attempts.check()
        return parts

    def close(self) -> None:
        """See `Engine`."""
        self.engine.close()

"""Attempts to carry out a step, which an erasure ends: a step never mixes old and new content."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidegate.checks import StoreError
from tidegate.gate.store import Store


class Attempts:
    """The attempts of one thread to carry out steps; another thread may erase records meanwhile.

    Args:
        store: The store, which counts erasures.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._begun = self._ended = 0
        self.erasures: int | None = None  # how many there were when the newest attempt began

    @contextmanager
    def one(self) -> Iterator[None]:
        """Make an attempt, which lasts as long as the context."""
        with self._changed:
            self.erasures = self._store.erasures()
            self._begun += 1
        try:
            yield
        finally:
            with self._changed:
                self._ended = self._begun
                self._changed.notify_all()

    def outdated(self) -> bool:
        """Whether records were erased since the newest attempt began."""
        try:
            return self._store.erasures() != self.erasures
        except StoreError:  # the store is closed
            return False

    def end_outdated(self, end: Callable[[], object]) -> None:
        """Call `end`, and wait until an outdated attempt has ended. No attempt begins meanwhile.

        An attempt that began after the erasure goes on, without a call of `end`.
        """
        with self._changed:
            if self._ended == self._begun:
                end()
            elif self.outdated():
                begun = self._begun
                end()
                self._changed.wait_for(lambda: self._ended >= begun)

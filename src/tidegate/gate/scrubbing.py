"""What is deleted from a database leaves its files as well, as soon as nobody reads in them."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

EVERY = 0.25
"""Seconds between two tries: also a stream of many small steps is not held up by them."""


class Scrubbing:
    """Scrubs a database at once, or a little later on a thread of its own.

    Later, if it has been scrubbed just now, or while somebody reads what is to go.

    Args:
        turn: Held by whoever uses the database.
        attempt: Scrubs it; False if that must be tried again.
    """

    def __init__(self, turn: threading.RLock, attempt: Callable[[], bool]) -> None:
        self._turn, self._attempt = turn, attempt
        self._last = -EVERY
        self._waiting = False  # a thread sees to it
        self._closed = threading.Event()

    def scrub(self) -> None:
        """See that it is scrubbed, within a second unless somebody reads for longer."""
        with self._turn:
            rests = time.monotonic() < self._last + EVERY
            if not self._waiting and (rests or not self._scrubbed()):
                self._waiting = True
                threading.Thread(target=self._try_again, name="scrubbing", daemon=True).start()

    def _scrubbed(self) -> bool:
        done, self._last = self._attempt(), time.monotonic()
        return done

    def _try_again(self) -> None:
        while not self._closed.wait(EVERY):
            with self._turn:
                if not self._closed.is_set():
                    self._finish()
                if not self._waiting:
                    return

    def _finish(self) -> None:
        with suppress(Exception):  # what is wrong with a database is told to who uses it
            self._waiting = not self._scrubbed()

    def close(self) -> None:
        """Do what still waits, if it can be done, and no more after that."""
        with self._turn:
            self._closed.set()
            if self._waiting:
                self._finish()

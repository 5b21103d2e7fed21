"""Erase deleted rows from the files of a database, as soon as no reader needs them."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress

SCRUB_INTERVAL = 0.25
"""Seconds between two attempts, so that many small steps are not slowed down."""


class Scrubbing:
    """Scrubs a database at once, or a little later on its own thread.

    It waits if the last attempt was less than `SCRUB_INTERVAL` seconds ago or a reader blocked it.

    Args:
        mutex: Held while the database is used.
        attempt: Scrubs the database; returns False if that must be tried again.
    """

    def __init__(self, mutex: threading.RLock, attempt: Callable[[], bool]) -> None:
        self._mutex, self._attempt = mutex, attempt
        self._last = -SCRUB_INTERVAL
        self._waiting = False  # a thread will try again
        self._closed = threading.Event()

    def scrub(self, *, now: bool = False) -> None:
        """Scrub the database soon: within a second, unless a reader takes longer.

        Args:
            now: Try it before returning, however short ago the last attempt was.
        """
        with self._mutex:
            if now and self._scrubbed():
                return
            too_soon = time.monotonic() < self._last + SCRUB_INTERVAL
            if not self._waiting and (too_soon or not self._scrubbed()):
                self._waiting = True
                threading.Thread(target=self._try_again, name="scrubbing", daemon=True).start()

    def _scrubbed(self) -> bool:
        done, self._last = self._attempt(), time.monotonic()
        return done

    def _try_again(self) -> None:
        while not self._closed.wait(SCRUB_INTERVAL):
            with self._mutex:
                if not self._closed.is_set():
                    self._finish()
                if not self._waiting:
                    return

    def _finish(self) -> None:
        with suppress(Exception):  # the next use of the database raises it
            self._waiting = not self._scrubbed()

    def close(self) -> None:
        """Make a last attempt if one is due, and stop."""
        with self._mutex:
            self._closed.set()
            if self._waiting:
                self._finish()

"""A lock that serves threads in the order in which they asked for it."""

import threading
from collections import deque


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

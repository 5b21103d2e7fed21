"""A log filter that limits repeated lines, so that clients cannot fill the log."""

import logging
import threading

from tidegate.serve.limits import Bucket

RATE, BURST = 1 / 60, 5
"""Lines of one kind per second on average, and at once."""


class Quiet(logging.Filter):
    """Passes a few log lines of each kind, and later adds how many were left out.

    Lines are of one kind if the same statement logs them.

    >>> quiet = Quiet()
    >>> same = lambda: logging.makeLogRecord({"msg": "bad request", "pathname": "server.py"})
    >>> sum(quiet.filter(same()) for _ in range(1000))
    5
    """

    def __init__(self) -> None:
        super().__init__()
        self._buckets: dict[tuple[str, int], Bucket] = {}
        self._left_out: dict[tuple[str, int], int] = {}
        self._counting = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log a line."""
        kind = (record.pathname, record.lineno)
        with self._counting:
            bucket = self._buckets.setdefault(kind, Bucket(rate=RATE, burst=BURST))
            if bucket.wait():
                self._left_out[kind] = self._left_out.get(kind, 0) + 1
                return False
            left_out = self._left_out.pop(kind, 0)
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out} more like this were not logged)"
            record.args = None
        return True

"""A log that strangers cannot fill."""

import logging
import threading

from tidegate.serve.limits import Bucket

RATE, BURST = 1 / 60, 5
"""Lines of one kind: so many a second on average, and so many at once."""


class Quiet(logging.Filter):
    """Lets through a few log lines of each kind, and later says how many it left out.

    Lines are of one kind if they come from the same statement, whatever values they quote.

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

"""The audit log: who did what, when, and what came of it. Never a record, never a token."""

import json
import os
import threading
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

FILE = "audit.jsonl"


class UnnotedError(RuntimeError):
    """The disk has refused a line of the log."""


class Audit:
    """A line of JSON for each request that needs a token, in a file that its owner can read.

    The file may be moved away at any time: the next line starts a new one.
    """

    def __init__(self, folder: Path) -> None:
        self._file = Path(folder) / FILE
        self._writing = threading.Lock()
        with suppress(OSError), self._file.open("r+b") as log:  # a power failure tears lines
            log.seek(-1, os.SEEK_END)
            if log.read(1) != b"\n":
                log.write(b"\n")

    def note(self, token: str | None, what: str, outcome: int, **more: Any) -> None:
        """Add a line.

        Args:
            token: The name of the token, None if there was no valid one.
            what: The method and the route.
            outcome: The status of the answer.
            more: What else is public: how many records, from where.
        """
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        row = {"time": time, "token": token, "what": what, "outcome": outcome, **more}
        line = f"{json.dumps(row)}\n".encode()
        try:
            with self._writing, self._opened() as log:
                log.write(line)
        except OSError as error:
            raise UnnotedError(f"{self._file}: {error.strerror or error}") from error

    def _opened(self) -> BinaryIO:
        how = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        return open(os.open(self._file, how, 0o600), "ab", buffering=0)

    def last(self, most: int) -> list[dict[str, Any]]:
        """The newest lines, the oldest of them first."""
        try:
            with self._file.open(encoding="utf-8", errors="replace") as lines:
                newest = deque(lines, maxlen=most)
        except FileNotFoundError:
            return []
        return [row for row in map(_read, newest) if row is not None]


def _read(line: str) -> dict[str, Any] | None:
    """A line, None for one that is torn."""
    try:
        row: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    return row

"""The audit log: who did what and when, and the outcome. It never holds a record or a token."""

import json
import os
import threading
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

FILE = "audit.jsonl"


class UnnotedError(RuntimeError):
    """A line could not be written to the audit log."""


class Audit:
    """Writes one line of JSON per request with a token, to a file that only its owner can read.

    The file may be moved away at any time: the next line starts a new one.
    """

    def __init__(self, folder: Path) -> None:
        self._file = Path(folder) / FILE
        self._writing = threading.Lock()
        with suppress(OSError), self._file.open("r+b") as log:  # complete a line cut by a crash
            log.seek(-1, os.SEEK_END)
            if log.read(1) != b"\n":
                log.write(b"\n")

    def note(self, token: str | None, what: str, outcome: int, **more: Any) -> None:
        """Add a line: the name of a valid token, method and route, status, other public facts."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        row = {"time": time, "token": token, "what": what, "outcome": outcome, **more}
        line = f"{json.dumps(row)}\n".encode()
        try:
            owner_only = partial(os.open, mode=0o600)
            with self._writing, open(self._file, "ab", buffering=0, opener=owner_only) as log:
                log.write(line)
        except OSError as error:
            reason = f"cannot write to the audit log {self._file}: {error.strerror or error}"
            raise UnnotedError(f"{reason}; requests fail until it is writable") from error

    def last(self, most: int) -> list[dict[str, Any]]:
        """The newest lines, the oldest of them first."""
        try:
            with self._file.open(encoding="utf-8", errors="replace") as lines:
                newest = deque(lines, maxlen=most)
        except FileNotFoundError:
            return []
        rows = list[dict[str, Any]]()
        for line in newest:
            with suppress(ValueError):  # a line cut by a crash
                rows.append(json.loads(line))
        return rows

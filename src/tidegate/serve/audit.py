"""The audit log: who did what, when, and what came of it. Never a record, never a token."""

import json
import os
import threading
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

FILE = "audit.jsonl"


class Audit:
    """A line of JSON for each request that needs a token, in a file that its owner can read.

    The file may be moved away at any time: the next line starts a new one.

    Args:
        folder: The state.
    """

    def __init__(self, folder: Path) -> None:
        self._file = Path(folder) / FILE
        self._writing = threading.Lock()

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
        with self._writing:
            file = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                os.write(file, line)
            finally:
                os.close(file)

    def last(self, most: int) -> list[dict[str, Any]]:
        """The newest lines, the oldest of them first."""
        try:
            with self._file.open(encoding="utf-8") as lines:
                return [json.loads(line) for line in deque(lines, maxlen=most)]
        except (FileNotFoundError, ValueError):  # ValueError: a power failure has torn a line
            return []

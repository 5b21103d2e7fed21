"""One Gate per state: the operating system's lock, and a witness of what has been committed."""

import fcntl
import os
from pathlib import Path

from tidegate.checks import StoreError


class Lock:
    """Held from construction to `close`, or to the end of the process however it ends.

    The file also says which process holds it and how many transactions that process has seen
    committed. A database that knows of fewer has lost some: the one kind of damage that SQLite
    takes for an ordinary crash.

    Args:
        folder: The state to lock.
    """

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder, _ = self._read()
            os.close(self._file)
            raise StoreError(f"{folder} is in use by process {holder}: stop that first") from None
        self.committed = self._read()[1]
        self.witness(self.committed)

    def _read(self) -> tuple[int, int]:
        """The process and its count; zeros if the file is new, or was torn by a power failure."""
        words = os.pread(self._file, 64, 0).split()
        if len(words) != 2 or not all(word.isdigit() for word in words):
            return 0, 0
        return int(words[0]), int(words[1])

    def witness(self, committed: int) -> None:
        """Note that this many transactions are durable."""
        os.pwrite(self._file, b"%20d %20d\n" % (os.getpid(), committed), 0)

    def close(self) -> None:
        """Let another Gate have the state."""
        os.close(self._file)


def held(folder: Path) -> bool:
    """Whether somebody holds the lock of a folder."""
    try:
        file = os.open(folder / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False

"""The lock that lets one gate open a state, and its count of committed transactions."""

import errno
import fcntl
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tidegate.checks import StoreError
from tidegate.whole_file import LARGEST_NOTE, read_whole

FILE = "lock"

LOCKLESS = {errno.EBADF, errno.EINVAL, errno.EISDIR, errno.EOPNOTSUPP}
"""Errors of file systems that cannot lock a folder, such as network file systems."""


class Lock:
    """Held from construction to `close`, or until the process ends, even if it is killed.

    Both the folder and the file `lock` in it are locked: if only the file were, deleting it would
    let a second gate create and lock a new one.

    The file also records the holder's process number and the number of committed transactions. If
    the database has fewer, it has lost some; SQLite alone would take that for an ordinary crash. If
    the file is deleted, the next transaction writes it again.
    """

    held = True

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            free = _lock_folder(self._folder, fcntl.LOCK_EX)
            self._file = self._open()
        except BaseException:
            os.close(self._folder)
            raise
        if not (free and _lock(self._file, fcntl.LOCK_EX)):
            holder = _parse(os.pread(self._file, 64, 0))
            self.close()
            by = f"process {holder.process}" if holder else "another process"
            raise StoreError(f"{folder} is in use by {by}: stop it first")
        last = _parse(os.pread(self._file, 64, 0))  # None if new, or torn by a power failure
        self.committed = 0 if last is None else last.committed
        self.witness(self.committed)
        os.ftruncate(self._file, len(_line(0, 0)))  # a damaged file may be longer

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)

    def witness(self, committed: int) -> None:
        """Record the number of durable transactions."""
        if not self._in_place():
            new = self._open()
            with suppress(OSError):  # the lock on the folder is enough
                _lock(new, fcntl.LOCK_EX)
            os.close(self._file)
            self._file = new
        os.pwrite(self._file, _line(os.getpid(), committed), 0)

    def _in_place(self) -> bool:
        """Whether the locked file is still the one at its path."""
        try:
            return os.path.samestat(os.lstat(self._path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Release the lock."""
        os.close(self._file)
        os.close(self._folder)


class NotLocked:
    """The lock of a state that is closed or open for reading only: nothing is held."""

    held, committed = False, 0

    def witness(self, committed: int) -> None:
        """Do nothing: only who holds the lock commits."""

    def close(self) -> None:
        """Do nothing."""


class Witness(NamedTuple):
    """The last process that held a state, and its number of committed transactions."""

    process: int
    committed: int


def witness_of(folder: Path) -> Witness | None:
    """Read the file `lock`; None if it is missing or damaged."""
    try:
        return _parse(read_whole(folder / FILE, LARGEST_NOTE))
    except OSError:
        return None


def _line(process: int, committed: int) -> bytes:
    text = b"%20d %20d" % (process, committed)
    return b"%s %08x\n" % (text, zlib.crc32(text))


def _parse(data: bytes) -> Witness | None:
    """Parse the line in `lock`; version 0.1.0 wrote it without a checksum."""
    words = data[:64].split()  # a damaged file may have very long words
    if not all(word.isdigit() for word in words[:2]) or len(words) not in (2, 3):
        return None
    witness = Witness(int(words[0]), int(words[1]))
    return witness if data in (_line(*witness), b"%20d %20d\n" % witness) else None


def is_locked(folder: Path) -> bool:
    """Whether any process holds the lock of a folder."""
    for path in (folder, folder / FILE):
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                if not _lock_folder(descriptor, fcntl.LOCK_SH):
                    return True
            finally:
                os.close(descriptor)
    return False


def _lock_folder(descriptor: int, how: int) -> bool:
    """Lock a folder if the file system can; False if another process holds the lock."""
    try:
        return _lock(descriptor, how)
    except OSError as error:
        if error.errno not in LOCKLESS:
            raise
        return True


def _lock(descriptor: int, how: int) -> bool:
    """Lock a file or a folder; False if another process holds the lock."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

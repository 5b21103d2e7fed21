"""One Gate per state: the operating system's lock, and a witness of what has been committed."""

import errno
import fcntl
import os
import zlib
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tidegate.checks import StoreError

FILE = "lock"

LOCKLESS = {errno.EBADF, errno.EINVAL, errno.EISDIR, errno.EOPNOTSUPP}
"""What a file system says that cannot lock a folder, as that of a network."""


class Lock:
    """Held from construction to `close`, or to the end of the process however it ends.

    Both the folder and the file `lock` in it are locked: a file that is deleted takes its lock
    along, and whoever creates it again could lock the new one.

    The file also says which process holds it and how many transactions that process has seen
    committed. A database that knows of fewer has lost some: the one kind of damage that SQLite
    takes for an ordinary crash. If the file is deleted, the next transaction writes it again.
    """

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
            raise StoreError(f"{folder} is in use by {by}: stop that first")
        known = _parse(os.pread(self._file, 64, 0))  # none if new, or torn by a power failure
        self.committed = 0 if known is None else known.committed
        self.witness(self.committed)
        os.ftruncate(self._file, len(_line(0, 0)))  # a damaged one may be longer

    def _open(self) -> int:
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)

    def witness(self, committed: int) -> None:
        """Note that this many transactions are durable."""
        if not self._in_place():
            made = self._open()
            with suppress(OSError):  # the folder is what counts
                _lock(made, fcntl.LOCK_EX)
            os.close(self._file)
            self._file = made
        os.pwrite(self._file, _line(os.getpid(), committed), 0)

    def _in_place(self) -> bool:
        """Whether the file that is locked still has its name."""
        try:
            return os.path.samestat(os.lstat(self._path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    def close(self) -> None:
        """Let another Gate have the state."""
        os.close(self._file)
        os.close(self._folder)


class Witness(NamedTuple):
    """Which process held a state last, and how many transactions it has seen committed."""

    process: int
    committed: int


def witness_of(folder: Path) -> Witness | None:
    """What the file `lock` says; None if it is missing or damaged."""
    try:
        return _parse((folder / FILE).read_bytes())
    except OSError:
        return None


def _line(process: int, committed: int) -> bytes:
    text = b"%20d %20d" % (process, committed)
    return b"%s %08x\n" % (text, zlib.crc32(text))


def _parse(data: bytes) -> Witness | None:
    """What a line says, with its checksum or as version 0.1.0 wrote it, without one."""
    words = data[:64].split()  # no number has thousands of digits
    if not all(word.isdigit() for word in words[:2]) or len(words) not in (2, 3):
        return None
    found = Witness(int(words[0]), int(words[1]))
    return found if data in (_line(*found), b"%20d %20d\n" % found) else None


def held(folder: Path) -> bool:
    """Whether somebody holds the lock of a folder."""
    for path in (folder, folder / FILE):
        with suppress(FileNotFoundError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                if not _lock_folder(descriptor, fcntl.LOCK_SH):
                    return True
            finally:
                os.close(descriptor)
    return False


def _lock_folder(descriptor: int, how: int) -> bool:
    """Lock a folder, where that can be done; False if somebody else has."""
    try:
        return _lock(descriptor, how)
    except OSError as error:
        if error.errno not in LOCKLESS:
            raise
        return True


def _lock(descriptor: int, how: int) -> bool:
    """Lock a file or a folder; False if somebody else has."""
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

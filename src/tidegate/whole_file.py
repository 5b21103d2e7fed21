"""Write files atomically, without following links.

Whoever can write to a folder can plant links in it. So a new file is created under a random name
and then renamed, which replaces whatever had its name.
"""

import errno
import fcntl
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from tidegate.failpoints import failpoint

LARGEST_MODEL = 2**31
"""Most bytes of a model's file: 256 million numbers."""

LARGEST_CARD = 2**27
"""Most bytes of a card. One with the centre and spread of a million features has 40 MB."""

LARGEST_NOTE = 2**20
"""Most bytes of a small file of a state, such as its tokens."""

HOLES, MANY = 256, 2**20
"""A file is mostly holes if it is this many times as large as what it takes on the disk plus this
many bytes: a file system that compresses saves less."""

UNFINISHED = re.compile(r"\.(.+)\.[0-9a-f]{16}\.unfinished")
"""The temporary name of a file, such as `.latest.0123456789abcdef.unfinished`."""


def write_whole(path: Path, data: Any, *, point: str, mode: int = 0o666) -> None:
    """Write a file so that a crash leaves the old file or the new one, never a partial one.

    The name is durable once the folder has been synchronised too.

    Args:
        path: The file; a link of that name is replaced, not followed.
        data: Bytes, or an object with the buffer interface.
        point: The prefix of the failpoints on the way.
        mode: The permissions of the file, before the umask.
    """
    with new_file(path, point=point, mode=mode) as file:
        file.write(data)


@contextmanager
def new_file(path: Path, *, point: str, mode: int = 0o666) -> Iterator[BinaryIO]:
    """A file to write, which gets its name when it is complete; an error leaves the old file.

    Args:
        path: The file; a link of that name is replaced, not followed.
        point: The prefix of the failpoints on the way.
        mode: The permissions of the file, before the umask.
    """
    failpoint(f"{point}.write")
    descriptor, unfinished = _create(path, mode)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            failpoint(f"{point}.fsync")
            os.fsync(file.fileno())
            failpoint(f"{point}.rename")
            unfinished.rename(path)
    except BaseException:  # leave no unusable file, as on a full disk
        with suppress(OSError):
            unfinished.unlink()
        raise


def read_whole(path: Path, most: int = LARGEST_MODEL, *, follow: bool = False) -> bytes:
    """Read a regular file of any origin; raise OSError for anything that could harm the reader.

    That is a link, a FIFO or a device, which may never end, and a file that is too large or that
    consists of holes, which takes no space on the disk that it came from.

    Args:
        path: The file.
        most: Its largest size in bytes.
        follow: Follow a link, because the user named it.
    """
    with open_ordinary(path, most, follow=follow) as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise _unfit(path, f"Larger than {most:,} bytes")
    return data


def open_ordinary(path: Path, most: int | None = None, *, follow: bool = False) -> BinaryIO:
    """Open a regular file to read it; see `read_whole`."""
    file = open(path, "rb", opener=_open_linked if follow else _open)  # noqa: SIM115 (returned)
    try:
        check_ordinary(os.fstat(file.fileno()), path, most)
    except BaseException:
        file.close()
        raise
    return file


def check_ordinary(status: os.stat_result, path: Path, most: int | None = None) -> None:
    """Raise OSError unless this is the status of a regular file that is safe to read."""
    if not stat.S_ISREG(status.st_mode):
        raise _unfit(path, "Not a regular file")
    if most is not None and status.st_size > most:
        raise _unfit(path, f"Larger than {most:,} bytes")
    if status.st_size > HOLES * (512 * status.st_blocks + MANY):
        raise _unfit(path, "Mostly holes")


def _unfit(path: Path, why: str) -> OSError:
    return OSError(errno.EINVAL, why, str(path))


def delete_unfinished(folder: Path, name: str | None = None) -> None:
    """Delete unfinished files of killed processes, of one name or all in a folder.

    A file is locked while it is written, and the lock ends with its process.
    """
    names = os.listdir(folder) if folder.is_dir() and os.access(folder, os.R_OK) else []
    for match in filter(None, map(UNFINISHED.fullmatch, names)):
        if name in (None, match[1]):
            with suppress(OSError):  # finished by now, in use, or not ours
                _delete_abandoned(folder / match[0])


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """Create a folder and its parents if missing, and make their names durable."""
    if not folder.parent.exists():
        make_folder(folder.parent)
    folder.mkdir(mode, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names of the files in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _open_linked(path: str | Path, how: int) -> int:
    return os.open(path, how | os.O_NONBLOCK)


def _open(path: str | Path, how: int) -> int:
    # without O_NONBLOCK, opening a FIFO would block until somebody writes to it
    return os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK)


def _delete_abandoned(path: Path) -> None:
    descriptor = _open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)


def _create(path: Path, mode: int) -> tuple[int, Path]:
    """Create and lock a temporary file next to a path: its descriptor and name."""
    while True:
        unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}.unfinished")
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(unfinished, how, mode)
        with suppress(OSError):  # without locks, files are never deleted as abandoned
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, unfinished
        os.close(descriptor)  # another process deleted it before it was locked

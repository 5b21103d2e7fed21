"""Files that appear whole or not at all, and are never written to by way of a link.

Whoever can write to a folder can plant links in it. So a file is written under a name that nobody
can guess, is created and never opened, and then takes the place of whatever had its name.
"""

import fcntl
import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from tidegate.gate.failpoints import failpoint

UNFINISHED = re.compile(r"\.(.+)\.[0-9a-f]{16}\.unfinished")
"""The name of a file while it is written: of the file `latest` for example
`.latest.0123456789abcdef.unfinished`."""


def write_whole(path: Path, data: Any, *, point: str, mode: int = 0o666) -> None:
    """Put data in a file so that a crash leaves the old file or the new one, never a part.

    The name is durable once the folder has been synchronised too.

    Args:
        path: The file; a link of that name is replaced, not followed.
        data: Bytes, or anything that has some.
        point: What the failpoints on the way are called.
        mode: Who may do what with the file, but for what the umask takes away.
    """
    failpoint(f"{point}.write")
    descriptor, unfinished = _create(path, mode)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            failpoint(f"{point}.fsync")
            os.fsync(file.fileno())
            failpoint(f"{point}.rename")
            unfinished.rename(path)
    except OSError:  # on a full disk, what cannot be used must not stay
        with suppress(OSError):
            unfinished.unlink()
        raise


def read_whole(path: Path) -> bytes:
    """The content of a regular file; a link or anything else of that name is an OSError."""
    with open(path, "rb", opener=_open) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(None, "Not a regular file", str(path))
        return file.read()


def delete_unfinished(folder: Path, name: str | None = None) -> None:
    """Delete what killed processes have left half written, of one file or of all in a folder.

    Who writes a file has it locked; a lock ends with its process, however that ends.
    """
    found = os.listdir(folder) if folder.is_dir() and os.access(folder, os.R_OK) else []
    for match in filter(None, map(UNFINISHED.fullmatch, found)):
        if name in (None, match[1]):
            with suppress(OSError):  # it is finished by now, in use, or not for us to delete
                _delete_abandoned(folder / match[0])


def _open(path: str | Path, how: int) -> int:
    # without O_NONBLOCK a FIFO would keep us waiting for somebody to write to it
    return os.open(path, how | os.O_NOFOLLOW | os.O_NONBLOCK)


def _delete_abandoned(path: Path) -> None:
    descriptor = _open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    finally:
        os.close(descriptor)


def _create(path: Path, mode: int) -> tuple[int, Path]:
    """A new file beside another one, locked, and its name."""
    while True:
        unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}.unfinished")
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = os.open(unfinished, how, mode)
        with suppress(OSError):  # on a file system without locks nothing is taken for abandoned
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return descriptor, unfinished
        os.close(descriptor)  # it was deleted as abandoned before it was locked

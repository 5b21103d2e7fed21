"""The key of a state, under which the ids of persons are kept.

It is in the file `person.key` of the state folder, or in an environment variable. Without it nobody
can tell which person a keyed id belongs to, and the state cannot recognise a person again.
"""

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path

from tidegate.checks import StoreError
from tidegate.whole_file import (
    LARGEST_NOTE,
    delete_unfinished,
    open_ordinary,
    sync_folder,
    write_whole,
)

FILE = "person.key"
BYTES = 32
PURPOSE = b"tidegate: the key of persons"


def made_key(folder: Path, variable: str | None) -> bytes:
    """The key of a new state: from an environment variable, or drawn and written to its file.

    A key that an interrupted creation has left there is used.
    """
    path = folder / FILE
    if variable is None and not path.exists():
        delete_unfinished(folder, FILE)
        write_whole(path, f"{secrets.token_hex(BYTES)}\n".encode(), point="key", mode=0o600)
        sync_folder(folder)
    return read_key(folder, variable)


def new_key(variable: str | None, folder: Path) -> str:
    """Make the key of a new state; return its check value."""
    return check_value(made_key(folder, variable))


def read_key(folder: Path, variable: str | None) -> bytes:
    """The key of a state; a missing, readable or malformed one is refused in one line.

    Args:
        folder: The state folder.
        variable: The environment variable that holds the key; None if the file does.
    """
    if variable is not None:
        text, where = os.environ.get(variable), f"the environment variable {variable}"
        if text is None:
            advice = f"set it to the state's key, {2 * BYTES} hexadecimal digits"
            raise StoreError(f"{where} is not set: {advice}")
        return _parsed(text, where)
    path = folder / FILE
    try:
        file = open_ordinary(path, LARGEST_NOTE)
    except OSError as error:
        restore = "restore it from a copy, or no person can be recognised again"
        raise StoreError(f"{path}: {error.strerror}: {restore}") from None
    with file:
        if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
            raise StoreError(f"{path} can be read or written by others: chmod 600 it")
        return _parsed(file.read(1024).decode("ascii", "replace"), str(path))


def _parsed(text: str, where: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != BYTES:
        allowed = f"must hold {2 * BYTES} hexadecimal digits and nothing else"
        raise StoreError(f"{where} {allowed}: restore the state's key")
    return key


def check_value(key: bytes) -> str:
    """What a state keeps of its key, to recognise it: nothing can be computed back from it.

    >>> len(check_value(bytes(32)))
    64
    """
    return hmac.new(key, PURPOSE, hashlib.sha256).hexdigest()


def checked_key(folder: Path, variable: str | None, kept: str) -> bytes:
    """The key of a state, whose check value must be the one that the state keeps."""
    key = read_key(folder, variable)
    if not hmac.compare_digest(check_value(key), kept):
        where = folder / FILE if variable is None else f"the environment variable {variable}"
        wrong = "is not the key that this state was created with"
        raise StoreError(f"{where} {wrong}: every person would count as new; restore the key")
    return key

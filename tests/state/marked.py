"""Records and texts that can be found again in any file, by their bytes."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.data.records import Records
from tidegate.state.store import Batch, Quarantined

_MARK = 0x3FE55AA5
"""The upper half of a float64 near 2/3, whose lower half is the number of a record and what that
lacks to 2^16 - 1: a pointer of SQLite in the middle of a value does not look like that."""

_NUMBERS = re.compile(rb"(.{2})(.{2})" + _MARK.to_bytes(4, "little"), re.DOTALL)
_DECIMALS = re.compile(rb"0\.66[0-9]+")
_TEXTS = re.compile(rb"~([0-9]{9})~")


def numbers(start: int, n: int, width: int) -> NDArray[np.float64]:
    """Rows of which every entry tells which record it is of."""
    slots = np.arange(start, start + n, dtype=np.uint64)
    bits = slots | (slots ^ np.uint64(0xFFFF)) << np.uint64(16) | np.uint64(_MARK << 32)
    return np.repeat(bits.view(np.float64)[:, None], width, axis=1)


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def text(record: int, times: int = 1) -> str:
    """A text that tells again and again which record it is of."""
    return f"~{record:09}~" * times


def batch(stream: str, start: int, n: int, *, first: int = 0, **how: Any) -> Batch:
    """A batch whose records, and every third of its quarantine, are marked.

    Args:
        stream: Its stream.
        start: The slot of its first record.
        n: How many records.
        first: The mark of the stream's first record.
        how: The `width` of the rows and how many `times` a text is repeated; the rest of a Batch.
    """
    width, times = how.pop("width", 3), how.pop("times", 1)
    X = numbers(first + start, n, width)
    bad = tuple(
        Quarantined(slot=slot, reason="text", payload=text(first + start + slot, times))
        for slot in range(0, n, 3)
    )
    usable = np.ones(n, np.bool_)
    records = Records(X, np.zeros(n, np.intp), usable)
    return Batch(stream=stream, records=records, quarantine=bad, **how)


def found(folder: Path) -> set[int]:
    """The records of which something is in any file of a folder.

    Another process reads them: if one that has a database open closes any file of it, it loses
    SQLite's locks on it.
    """
    files = [str(path) for path in folder.rglob("*") if path.is_file()]
    reading = ["cat", "--", *files, os.devnull]  # what was deleted just now it leaves out
    return marks(subprocess.run(reading, capture_output=True, check=False).stdout)


def marks(data: bytes) -> set[int]:
    """The records of which something is in some data: bytes, digits or texts."""
    data += b"".join(np.float64(each).tobytes() for each in set(_DECIMALS.findall(data)))
    pairs = {(_number(slot), _number(lacks)) for slot, lacks in _NUMBERS.findall(data)}
    texts = {int(each) for each in _TEXTS.findall(data)}
    return texts | {slot for slot, lacks in pairs if slot ^ lacks == 0xFFFF}

"""Reads texts of one form as times, all at once: far faster than one by one."""

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

FORMS = {10: "9999-99-99", 16: "9999-99-99T99:99", 19: "9999-99-99T99:99:99"}
FORMS[20] = f"{FORMS[19]}Z"
"""The forms of times by their length: 9 is any digit, T also a space."""


def clock_times(texts: pa.Array) -> NDArray[np.int64] | None:
    """Seconds since 1970 of texts that all have one of the forms; None for any others.

    >>> clock_times(pa.array(["1970-01-02T00:00:05Z", "1970-01-01 00:01:00Z"])).tolist()
    [86405, 60]
    >>> clock_times(pa.array(["1970-01-02", "1970-02-30"]))
    """
    written = _letters(texts)
    if written is None:
        return None
    digits = written - np.uint8(ord("0"))
    for place, form in enumerate(FORMS[written.shape[1]]):
        column = written[:, place]
        if form == "9":
            good = digits[:, place] <= 9
        elif form == "T":
            good = (column == ord("T")) | (column == ord(" "))
        else:
            good = column == ord(form)
        if not good.all():
            return None
    return _seconds(digits)


def _letters(texts: pa.Array) -> NDArray[np.uint8] | None:
    """The bytes of texts of one length, shape (n, length); None unless it is that of a form."""
    if not len(texts) or texts.null_count:
        return None
    _, ends, data = texts.buffers()
    wide = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    offsets = np.frombuffer(ends, wide)[texts.offset :][: len(texts) + 1]
    lengths = np.diff(offsets)
    length = int(lengths[0])
    if length not in FORMS or not (lengths == length).all():
        return None
    letters = np.frombuffer(data, np.uint8)[offsets[0] : offsets[-1]]
    return letters.reshape(len(texts), length)


def _seconds(digits: NDArray[np.uint8]) -> NDArray[np.int64] | None:
    """Seconds since 1970; None if there is no such day or time."""

    def number(start: int, stop: int) -> Any:
        made = np.zeros(len(digits), np.int64)
        for place in range(start, min(stop, digits.shape[1])):
            made = made * 10 + digits[:, place]
        return made

    year, month, day = number(0, 4), number(5, 7), number(8, 10)
    if year.min() < 1 or month.min() < 1 or month.max() > 12 or day.min() < 1:
        return None
    first = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    start, after = (each.astype("datetime64[D]").astype(np.int64) for each in (first, first + 1))
    if (day > after - start).any():
        return None
    hour, minute, second = number(11, 13), number(14, 16), number(17, 19)
    if hour.max() > 23 or minute.max() > 59 or second.max() > 59:
        return None
    seconds: NDArray[np.int64] = (start + day - 1) * 86_400 + hour * 3600 + minute * 60 + second
    return seconds

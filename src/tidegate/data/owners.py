"""Turns the ids of persons into owners: keyed ids, which tell nothing without the key."""

import math
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from tidegate.checks import InvalidValueError, refuse
from tidegate.data.records import Owners, Records, zeroed

MAX_ID_BYTES = 1024
"""The most bytes of an id, as UTF-8."""

BLOCK = 64
"""The block of SHA-256, in bytes."""

NOT_IDS = tuple("fcbmM")
"""The kinds of NumPy and pandas arrays that hold no ids: floats, booleans and times."""

NOT_ARROW_IDS = ("halffloat", "float", "double", "bool", "decimal", "date", "time", "duration")
"""The same for Arrow, by the beginnings of names of types."""

MAX_EXACT_INTEGER = 2**53
"""Larger whole numbers are not exact as floats: two persons could have one."""

NOBODY = bytes(16)
"""The owner of a slot without one."""

MISSING = "the person's id is missing"
EMPTY = "the person's id is empty"
TOO_LONG = f"the person's id is longer than {MAX_ID_BYTES} bytes"
WRONG_TYPE = "the person's id is neither text nor a whole number"
BAD_TEXT = "the person's id is not valid text"
WHY_NOBODY = {MISSING, EMPTY, TOO_LONG, WRONG_TYPE, BAD_TEXT}
"""Why a slot has no owner."""


class Keyed(NamedTuple):
    """The owners of a batch.

    Attributes:
        owners: The keyed id of each slot's person; (0, 0) where there is none.
        reasons: For slots without an owner, why; no reason quotes an id.
    """

    owners: Owners
    reasons: Mapping[int, str]


def owners_of(ids: Any, key: bytes) -> Keyed:
    """The owner of each slot: the first 16 bytes of HMAC-SHA-256 of its person's id.

    A whole number is the text of its decimal digits, so 17 in JSON and "17" in CSV are one person,
    and so are 17.0 and "17.0", which tools make of whole numbers in a column with gaps.

    Args:
        ids: The ids as they arrived: a list, a NumPy or Arrow array or a pandas Series.
        key: The secret key, of at most 64 bytes.

    >>> owners, reasons = owners_of([17, "17", "", None], bytes(32))
    >>> bool((owners[0] == owners[1]).all()), bool(owners[2:].any()), sorted(reasons)
    (True, False, [2, 3])
    """
    if len(key) > BLOCK:
        raise refuse("key", f"at most {BLOCK} bytes", shown=f"{len(key)} bytes")
    # HMAC by its definition: hmac.digest takes twice as long.
    padded = key.ljust(BLOCK, b"\0")
    inner, outer = (bytes(each ^ mask for each in padded) for mask in (0x36, 0x5C))
    reasons: dict[int, str] = {}
    digests: list[bytes] = []
    for slot, each in enumerate(as_list(ids)):
        try:
            plain = type(each) is str and "." not in each
            message = each.encode() if plain else _encoded(each)
        except _NoIdError as error:
            reasons[slot] = str(error)
        except UnicodeEncodeError:  # its text would quote the id
            reasons[slot] = BAD_TEXT
        else:
            if 0 < len(message) <= MAX_ID_BYTES:
                digests.append(sha256(outer + sha256(inner + message).digest()).digest()[:16])
                continue
            reasons[slot] = TOO_LONG if message else EMPTY
        digests.append(NOBODY)
    words = np.frombuffer(b"".join(digests), ">u8").reshape(-1, 2)
    return Keyed(words.astype(np.uint64), reasons)


def as_list(ids: Any) -> list[Any]:
    """The ids as Python objects, whatever holds them."""
    for name in ("to_pylist", "tolist"):  # of Arrow; of NumPy and pandas
        if callable(method := getattr(ids, name, None)):
            return list(method())
    return list(ids)


def check_type(ids: Any) -> None:
    """Refuse an array that cannot hold ids, such as one of floats.

    pandas makes floats of whole numbers with a gap, so one missing id would cost all others their
    owners, without a word.

    >>> check_type([1, None])  # a list is read one by one
    >>> check_type(np.array([1, 2]))
    """
    kind = getattr(getattr(ids, "dtype", None), "kind", "O")
    arrow = str(getattr(ids, "type", ""))  # of Arrow
    if kind in NOT_IDS or arrow.startswith(NOT_ARROW_IDS):
        error = refuse(
            "persons", "text or whole numbers", shown=f"an array of {arrow or ids.dtype}"
        )
        advice = "if some are missing, use pandas' Int64, or a list with None"
        raise InvalidValueError(f"{error}: {advice}")


def owned_by(records: Records, owners: Owners) -> Records:
    """The records with their owners; a slot without one becomes unusable: zeros and label 0.

    >>> records = Records(np.eye(2), np.ones(2, np.intp), np.ones(2, np.bool_))
    >>> owned_by(records, np.array([[0, 0], [7, 7]], np.uint64)).usable
    array([False,  True])
    """
    if owners.shape != (records.n, 2) or owners.dtype != np.uint64:
        raise refuse("owners", f"uint64 of shape ({records.n}, 2)", shown=f"shape {owners.shape}")
    nobody = (owners == 0).all(axis=1)
    if not nobody.any():
        return replace(records, owners=owners)
    return replace(
        records,
        X=zeroed(records.X, nobody),
        y=np.where(nobody, 0, records.y),
        usable=records.usable & ~nobody,
        owners=owners,
    )


class _NoIdError(ValueError):
    """Says why a slot has no owner."""


def _encoded(value: Any) -> bytes:
    """The bytes of an id that is not a string without a point."""
    if isinstance(value, str):
        digits, _, zeros = value.partition(".")
        whole = zeros and not zeros.strip("0") and digits.removeprefix("-").isdecimal()
        return (digits if whole and digits.isascii() else str(value)).encode()
    if isinstance(value, (float, np.floating)) and abs(float(value)) <= MAX_EXACT_INTEGER:
        if not float(value).is_integer():
            raise _NoIdError(WRONG_TYPE)
        value = int(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        number = int(value)
        if number.bit_length() > 4 * MAX_ID_BYTES:  # so long that Python may refuse to write it
            raise _NoIdError(TOO_LONG)
        return str(number).encode()
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    raise _NoIdError(MISSING if missing else WRONG_TYPE)

"""Splits JSON bodies into records, for bodies in which some record is not valid JSON.

A valid body is parsed as a whole, which is fast. Other bodies are split here: strings and brackets
alone decide where the members of the object and the elements of its lists end. So a record that is
nested too deep, is not UTF-8 or is not JSON affects only its own slot. A body that is cut short or
lacks a bracket is refused as a whole.

The result for an element depends on its own bytes alone, not on other elements, and not on whether
the body is parsed as a whole or split.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.serve.limits import Body, check_members, check_number

NOT_JSON = "the body must be a JSON object"
BLANKS = b" \t\n\r"

DEEPEST = 1022
"""The deepest nesting that orjson reads: 1,024 less the outer object and list."""

DEEPEST_LENIENT = 100
"""The deepest nesting for the lenient parser, which is recursive."""


@dataclass(frozen=True)
class Unreadable:
    """An element that is not JSON, and why."""

    reason: str
    raw: bytes
    width: int | None  # its number of elements, if it is a list by its brackets

    @property
    def blank(self) -> list[None] | None:
        """A list of the same length with None as elements; None if it is not a list."""
        return None if self.width is None else [None] * self.width


class Text(NamedTuple):
    """A body and its frame, which has one value per byte."""

    body: bytes
    plain: NDArray[np.uint8]  # the bytes, with 0 for those inside strings
    depth: NDArray[np.int32]  # how many brackets of any kind are open after the byte

    def marks(self, mark: bytes, depth: int, start: int, stop: int) -> NDArray[np.intp]:
        """The positions of a character outside strings at a bracket depth."""
        here = slice(start, stop)
        matches = (self.plain[here] == mark[0]) & (self.depth[here] == depth)
        return np.flatnonzero(matches) + start

    def strip(self, start: int, stop: int) -> tuple[int, int]:
        """The bounds of a part of the body without surrounding blanks."""
        part = self.body[start:stop]
        return stop - len(part.lstrip(BLANKS)), start + len(part.rstrip(BLANKS))


def framed(body: Body, names: set[str], most: int) -> dict[str, Any]:
    r"""The lists of an object by name; an element that is not JSON is an `Unreadable`.

    A named member that is not a list is None. A list of more than `most` elements is refused.

    >>> framed(b'{"x": [[1, NaN], [2, "\xff"], 3], "z": 4}', {"x", "z"}, 9)["x"]
    [[1, nan], Unreadable(reason='not UTF-8', raw=b'[2, "\xff"]', width=2), 3]
    """
    text = _frame(bytes(body))
    lists: dict[str, Any] = {}
    for name, start, stop in _members(text):
        if name in names:
            lists[name] = _elements(text, start, stop, most)
    return lists


def _frame(body: bytes) -> Text:
    """The frame of a body that is one object."""
    data = np.frombuffer(body, np.uint8)
    quotes = data == ord('"')
    if b"\\" in body:
        quotes &= ~_escaped(data)
    inside = (np.cumsum(quotes, dtype=np.uint8) & 1).astype(np.bool_)  # with the opening quote
    plain = np.where(inside | quotes, np.uint8(0), data)
    opening = (plain == ord("[")) | (plain == ord("{"))
    closing = (plain == ord("]")) | (plain == ord("}"))
    depth = np.cumsum(opening.view(np.int8) - closing.view(np.int8), dtype=np.int32)
    stripped = body.strip(BLANKS)
    start, stop = body.find(stripped), body.find(stripped) + len(stripped)
    whole = (
        stripped[:1] == b"{"
        and stripped[-1:] == b"}"
        and not inside[-1]
        and depth[-1] == 0
        and bool((depth[start : stop - 1] > 0).all())
    )
    if not whole:
        raise InvalidValueError(NOT_JSON)
    return Text(body, plain, depth)


def _escaped(data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether each byte has an odd number of backslashes right before it."""
    places = np.arange(data.size, dtype=np.int32)
    last = np.maximum.accumulate(np.where(data == ord("\\"), np.int32(-1), places))
    escaped = np.zeros(data.size, np.bool_)
    escaped[1:] = (places[:-1] - last[:-1]) % 2 == 1
    return escaped


def _members(text: Text) -> Iterator[tuple[str | None, int, int]]:
    """The name of each member of the object, and where its value is."""
    start, stop = text.strip(0, len(text.body))
    if text.strip(start + 1, stop - 1)[0] == stop - 1:
        return  # it is empty
    commas, colons = text.marks(b",", 1, start, stop), text.marks(b":", 1, start, stop)
    if colons.size != commas.size + 1:
        raise InvalidValueError(NOT_JSON)
    check_members(colons.size)
    starts, stops = np.append(start, commas), np.append(commas, stop - 1)
    places = zip(starts.tolist(), colons.tolist(), stops.tolist(), strict=True)
    for left, colon, right in places:
        key, value = text.strip(left + 1, colon), text.strip(colon + 1, right)
        if not left < colon < right or value[0] >= value[1] or text.body[key[0]] != ord('"'):
            raise InvalidValueError(NOT_JSON)
        yield _name(text.body[slice(*key)]), *value


def _name(key: bytes) -> str | None:
    """The name of a member; None if it is not a JSON string."""
    try:
        name: str = orjson.loads(key)
    except ValueError:
        return None
    return name


def _elements(text: Text, start: int, stop: int, most: int) -> list[Any] | None:
    """The elements of a list; None if it is not a list."""
    if text.body[start : start + 1] != b"[":
        return None
    if text.body[stop - 1 : stop] != b"]" or (text.depth[start : stop - 1] < 2).any():
        raise InvalidValueError(NOT_JSON)
    if not text.body[start + 1 : stop - 1].strip(BLANKS):
        return []
    commas = text.marks(b",", 2, start, stop)
    check_number(commas.size + 1, most)
    starts, stops = np.append(start + 1, commas + 1), np.append(commas, stop - 1)
    depths = np.maximum.reduceat(text.depth[:stop], starts) - 2
    inner = text.marks(b",", 3, start, stop)
    widths = np.searchsorted(inner, stops) - np.searchsorted(inner, starts) + 1
    bounds = zip(starts.tolist(), stops.tolist(), depths.tolist(), widths.tolist(), strict=True)
    return [_element(text.body[a:b].strip(BLANKS), depth, width) for a, b, depth, width in bounds]


def _element(raw: bytes, depth: int, width: int) -> Any:
    """The value of an element, or an `Unreadable`."""
    if not raw:
        raise InvalidValueError(NOT_JSON)
    if depth <= DEEPEST:
        try:
            return orjson.loads(raw)
        except ValueError:
            pass
    try:
        text = raw.decode()
        if depth <= DEEPEST_LENIENT:
            return lenient(text)
        reason = "nested too deep"
    except UnicodeDecodeError:
        reason = "not UTF-8"
    except ValueError:
        reason = "not JSON"
    is_list, is_empty = raw[:1] == b"[", not raw[1:-1].strip(BLANKS)
    return Unreadable(reason, raw, (0 if is_empty else width) if is_list else None)


def lenient(text: str) -> Any:
    """Parse JSON that may also contain NaN, numbers out of range and lone surrogates.

    Anything that orjson accepts has the same value here: otherwise the value of one record would
    depend on other records.

    >>> lenient("[NaN, 1e999, 18446744073709551616]")
    [nan, inf, 1.8446744073709552e+19]
    """
    return json.loads(text, parse_int=_whole)


def _whole(digits: str) -> int | float:
    """An integer if it fits into 64 bits, otherwise the nearest float."""
    number = int(digits) if len(digits) <= 20 else 2**64
    return number if -(2**63) <= number < 2**64 else float(digits)

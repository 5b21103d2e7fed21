"""How values are spelled: the text that stands for a value in a category, a label or a text.

Libraries give a whole column one type because of one odd value: 1 becomes 1.0 or "1", and True
becomes "True". So that no record's meaning depends on the others, a value is known by its spelling,
whatever type holds it. The rules are numbered: states and cards say by which one they read.

Rule 1 leaves every text as it is; a label must also be of the type of its class. Rule 2 spells the
text of a plain number as that number, and True or TRUE as true.
"""

import math
import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from typing import Any

import numpy as np

from tidegate.checks import InvalidValueError, refuse

NEWEST = 2
"""The rule of new states and releases."""

RULES = (1, NEWEST)

PLAIN_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?"
"""What rule 2 takes for the text of a number."""

_PLAIN = re.compile(PLAIN_NUMBER)

TRUTHS = {
    spelling: word for word in ("true", "false") for spelling in (word, word.title(), word.upper())
}
"""The texts of true and false, as readers of files know them."""

TRUTH_NUMBERS = {spelling: float(word == "true") for spelling, word in TRUTHS.items()}
"""The numbers of true and false."""

TWINS = {"true": "1", "1": "true", "false": "0", "0": "false"}
"""In a list, true and 1 are one value, and so are false and 0: libraries mix them up."""

WHOLE = 2**64
"""Whole numbers smaller than this are spelled without a point or an exponent."""


class Odd(Enum):
    """What a value is that its column cannot encode as itself."""

    GAP = "missing: the record can be used"
    WRONG = "not of the column's kind: the record cannot be used"


def a_rule(name: str, value: object) -> int:
    """Check the number of a rule."""
    if isinstance(value, bool) or value not in RULES:
        raise refuse(name, f"one of {', '.join(map(str, RULES))}", value)
    return int(str(value))


def scalar(value: object) -> Any:
    """A value as a Python object; NaN, and what stands for nothing in pandas, becomes None.

    A complex number that is real becomes a float: beside one that is not, pandas makes all complex.
    A long float becomes a float: beside one, NumPy makes all long.
    """
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else value
    if isinstance(value, np.longdouble | np.clongdouble):  # their item() is no Python number
        value = complex(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, complex) and (value.imag == 0 or value != value):  # noqa: PLR0124
        value = value.real if value.imag == 0 else math.nan
    nan = isinstance(value, float) and value != value  # noqa: PLR0124
    return None if nan or type(value).__name__ in {"NAType", "NaTType"} else value


def spelled(value: object, rule: int = NEWEST) -> Any:  # noqa: PLR0911 (a table of types)
    """A value as its text; an `Odd` if it has none.

    Numbers are spelled alike whatever type holds them, so that 3 and 3.0 are one category: pandas
    turns whole numbers into floats if another record has none. So those above 2^53 are rounded.

    >>> spelled("UA"), spelled(3), spelled(3.0), spelled(True), spelled(2.5)
    ('UA', '3', '3', 'true', '2.5')
    >>> spelled("3.0"), spelled("TRUE"), spelled("007"), spelled("3.0", rule=1)
    ('3', 'true', '007', '3.0')
    >>> spelled(2**60 + 1), spelled(2.0**60)
    ('1152921504606846976', '1152921504606846976')
    """
    if isinstance(value, str):
        return respelled(value, rule) or Odd.GAP
    if value is None:
        return Odd.GAP
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes) and rule > 1:
        return spelled(as_read(value, rule), rule)
    if not isinstance(value, int | float | Decimal):
        return Odd.WRONG
    try:
        number = float(value)
    except (OverflowError, ValueError):  # too large, or a signalling NaN
        return Odd.WRONG
    if math.isnan(number):  # of a Decimal
        return Odd.GAP
    return _of_number(number)


def respelled(text: str, rule: int = NEWEST) -> str:
    """A text as a rule spells it; rule 1 leaves it as it is.

    >>> respelled("-0.50"), respelled("True"), respelled("1e3"), respelled(" 1")
    ('-0.5', 'true', '1e3', ' 1')
    """
    if spells_number(text, rule):
        return _of_number(float(text))
    return text if rule == 1 else TRUTHS.get(text, text)


def spells_number(text: str, rule: int = NEWEST) -> bool:
    """Whether a rule spells a text as its number; rule 1 spells none so."""
    return rule > 1 and bool(_PLAIN.fullmatch(text)) and math.isfinite(float(text))


def truths_of(rule: int) -> Mapping[str, float]:
    """The texts that stand for 1 and 0 where numbers are read; rule 1 has none."""
    return TRUTH_NUMBERS if rule > 1 else {}


def _of_number(number: float) -> str:
    whole_number = number.is_integer() and abs(number) < WHOLE
    return str(int(number)) if whole_number else repr(number)


def as_read(value: object, rule: int) -> object:
    """A value as it is read: by rule 2 bytes are texts, and wrong for any kind if they are none.

    Arrow has bytes beside a text that is not UTF-8.
    """
    if rule == 1 or not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return ()


_CHANGED = re.compile(
    r"\s*[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\s*"  # numbers, plain or not
    r"|[+-]?(?:inf|infinity|nan)|#?n/?a|<na>|null|none"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}.*|[0-9]{2}:[0-9]{2}(?::[0-9]{2})?",
    re.IGNORECASE,
)
"""Texts that a reader of files may take for a number, a gap or a time."""

EXACT_DIGITS = 15
"""A number of so many digits is the same after any reader."""


def changed_by_readers(value: object) -> bool:
    """Whether a library that infers types may give a category, label or text another spelling.

    >>> [text for text in ("UA", "7", "2.50", "007", "1e5", " 7", "NA") if changed_by_readers(text)]
    ['007', '1e5', ' 7', 'NA']
    >>> changed_by_readers(2**53 + 1), changed_by_readers("2013-01-31"), changed_by_readers("true")
    (True, True, False)
    """
    if isinstance(value, str):
        if _PLAIN.fullmatch(value):
            return sum(map(str.isdigit, value)) > EXACT_DIGITS
        return bool(_CHANGED.fullmatch(value))
    return isinstance(value, int | float | Decimal) and not -(2**53) <= value <= 2**53


def as_texts(X: Any, rule: int = NEWEST) -> Any:
    """Records that are texts; by rule 2 a number is the text that it is spelled as.

    >>> as_texts(["high tide", 3.0, None, ""])
    ['high tide', '3', None, '']
    """
    if rule == 1 or isinstance(X, str) or getattr(X, "ndim", 1) != 1 or not hasattr(X, "__iter__"):
        return X
    return only_texts(X, rule)


def only_texts(values: Iterable[Any], rule: int) -> list[str | None]:
    """Values as texts; None for those that are none by the rule."""
    return [_text(value, rule) for value in values]


def _text(value: Any, rule: int) -> str | None:
    if isinstance(value, str):
        return respelled(value, rule)
    text = Odd.WRONG if rule == 1 else spelled(scalar(value), rule)
    return text if isinstance(text, str) else None


def key_of(value: object, rule: int = NEWEST) -> Hashable:
    """By what a value is found in a list: its spelling, or the value itself if it has none."""
    if rule == 1:
        return value
    plain = scalar(value)
    text = spelled(plain, rule)
    return text if isinstance(text, str) else plain


def places_in(name: str, listed: Sequence[Any], rule: int = NEWEST) -> dict[Hashable, int]:
    """The place of each value of a public list by its key; refuse values that are spelled alike.

    >>> places_in("classes", [0, 1])
    {'0': 0, '1': 1, 'true': 1, 'false': 0}
    >>> places_in("classes", ["1", "1.0"])
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: classes must differ by rule 2 of spelling, got '1' and \
'1.0', which are both 1
    """
    twins = TWINS if rule > 1 else {}
    places: dict[Hashable, int] = {}
    for place, value in enumerate(listed):
        key = key_of(value, rule)
        same = [each for each in (key, twins.get(str(key), key)) if each in places]
        if same:
            both = [f"{each!r:.60}" for each in (listed[places[same[0]]], value)]
            raise InvalidValueError(
                f"{name} must differ by rule {rule} of spelling, got {both[0]} and {both[1]}, "
                f"which are both {str(same[0])[:60]}"
            )
        places[key] = place
    return places | {twins[key]: places[key] for key in twins if key in places}

"""Checks of values, whose errors name the thing, its value and what is allowed."""

import json
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from fractions import Fraction
from importlib import import_module
from numbers import Integral, Real
from typing import Any, NoReturn

MAX_DIGITS = 20
"""Most digits of a whole number in JSON that is read: those of 2^64."""

MAX_PATH = 4096
"""The longest path of Linux: errors show no longer ones."""

MAX_COUNT = 2**53
"""Largest count accepted anywhere: above it, floats and JSON cannot hold every whole number."""


class InvalidValueError(ValueError):
    """A value the caller gave is not allowed; the message is one line and is safe to show."""


class StoppedError(InvalidValueError):
    """Most records of a stream's first step cannot be used; the message names what to check."""


class FewAdmittedWarning(UserWarning):
    """Few records of the newest step count: most of its persons have reached their limit."""


class SpentAgainWarning(UserWarning):
    """Records are learnt from again: two fits, each with a budget of its own."""


class UnprotectedInputWarning(UserWarning):
    """Records were prepared by a step that learns from them, which no budget covers."""


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn, and name the line outside this package that led here."""
    level, frame = 1, sys._getframe()
    while frame.f_back and str(frame.f_globals.get("__name__")).partition(".")[0] == "tidegate":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


class StoreError(RuntimeError):
    """A state does not allow this, or is damaged; the message says where and what to do."""


class ComputeError(StoreError):
    """An engine failed to train a fit; nothing is charged, and the fit can be repeated."""


def refuse(
    name: str, allowed: str, value: object = None, *, shown: str | None = None
) -> InvalidValueError:
    """Build the error for a value that is not allowed.

    Args:
        name: The name of the value.
        allowed: What it must be.
        value: What it is; text is shown in quotes, so that "1" is not taken for 1.
        shown: Text to show instead of the value.

    >>> print(refuse("epsilon", "a finite number above 0", "1"))
    epsilon must be a finite number above 0, got '1'
    >>> print(refuse("X", "two-dimensional", shown="no rows"))
    X must be two-dimensional, got no rows
    >>> print(refuse("step", "at most 2^53", 1 << 100_000))
    step must be at most 2^53, got a number of too many digits
    """
    text = _quoted(value) if shown is None else shown
    return InvalidValueError(f"{name} must be {allowed}, got {shortened(text, 60)}")


def shortened(text: str, most: int = MAX_PATH) -> str:
    """The beginning of a text that is too long for a line.

    >>> shortened("records.csv"), shortened("a" * 100, most=3)
    ('records.csv', 'aaa…')
    """
    return text if len(text) <= most else f"{text[:most]}…"


def _quoted(value: object) -> str:
    """A value as Python writes it; a whole number may have too many digits for that."""
    try:
        return repr(value)
    except ValueError:
        return "a number of too many digits"


def written(value: object) -> str:
    """A value as text; empty for a whole number of too many digits.

    >>> written(1.5), written(1 << 100_000)
    ('1.5', '')
    """
    try:
        return str(value)
    except ValueError:
        return ""


def whole(name: str, value: object, *, least: int = 1, most: int = MAX_COUNT) -> int:
    """Check that a value is a whole number in a range (a bool is not a number here).

    >>> whole("step", 1024)
    1024
    >>> whole("step", 0)
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: step must be a whole number from 1 to 9007199254740992, got 0
    """
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or not least <= number <= most:
        raise refuse(name, f"a whole number from {least} to {most}", value)
    return number


def optional(name: str, value: object) -> int | None:
    """Check that a value is a positive whole number or None.

    >>> optional("sample", None), optional("sample", 5)
    (None, 5)
    """
    return None if value is None else whole(name, value)


def real(value: object) -> float:
    """A real number as a float, infinite if it is too large for one; NaN for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def positive(name: str, value: object) -> float:
    """Check that a value is a finite number above 0, and return it as a float.

    >>> positive("epsilon", 1)
    1.0
    >>> positive("epsilon", float("nan"))
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: epsilon must be a finite number above 0, got nan
    """
    number = real(value)
    if not 0 < number < math.inf:
        raise refuse(name, "a finite number above 0", value)
    return number


def between(name: str, value: object, low: float, high: float) -> float:
    """Check that a value is strictly between two bounds, and return it as a float.

    >>> between("delta", 1e-6, 0, 1)
    1e-06
    """
    number = real(value)
    if not low < number < high:
        raise refuse(name, f"a number above {low:.4g} and below {high:.4g}", value)
    return number


def ratio(name: str, value: object) -> Fraction:
    """Check that a value is a ratio above 0 and below 1, such as "7/10" or 0.7; return it exactly.

    >>> ratio("rate", "7/10")
    Fraction(7, 10)
    """
    try:
        text = str(value) if isinstance(value, str | float | Fraction) else ""
        # No longer exponent than a float's: 10 to the power of a billion would take for ever.
        exact = Fraction(text) if len(text.lower().partition("e")[2]) <= len("-324") else None
    except (ValueError, ZeroDivisionError):
        exact = None
    if not exact or not 0 < exact < 1 or exact.denominator > 10**30:
        raise refuse(name, 'a ratio above 0 and below 1, such as 0.7 or "7/10"', value)
    return exact


EXACT = re.compile(r"[0-9]{1,4300}(/[0-9]{1,4300})?")


def exact(text: object) -> Fraction:
    """A fraction as cards and ledgers write it, "4/7"; ValueError for anything else.

    Whoever wrote it may mean harm: Fraction("1e9999999") would take hours.

    >>> exact("4/7"), exact("1")
    (Fraction(4, 7), Fraction(1, 1))
    """
    if not isinstance(text, str) or not EXACT.fullmatch(text):
        raise ValueError("not a fraction of whole numbers")
    return Fraction(text)


def check_numbers(values: Iterable[object]) -> None:
    """Raise ValueError unless all are whole numbers or None; a text can be a number without end."""
    if not all(value is None or type(value) is int for value in values):
        raise ValueError("not a whole number")


def json_of(text: str | bytes) -> Any:
    """The value of a JSON text that may come from anywhere; ValueError if it is not plain JSON.

    Whole numbers have at most 20 digits; NaN and infinite numbers are no JSON.

    >>> json_of('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    return json.loads(text, parse_int=_short_int, parse_constant=_no_number)


def _short_int(text: str) -> int:
    if len(text) > MAX_DIGITS + 1:
        raise ValueError("a whole number of too many digits")
    return int(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def fraction(name: str, value: object) -> Fraction:
    """An exact fraction from 0 to 1: "3/10", 0.3 or a Fraction.

    >>> fraction("forget", 0.3), fraction("forget", "1")
    (Fraction(3, 10), Fraction(1, 1))
    """
    ends = {"0": Fraction(0), "0.0": Fraction(0), "1": Fraction(1), "1.0": Fraction(1)}
    if written(value) in ends:
        return ends[written(value)]
    try:
        return ratio(name, value)
    except InvalidValueError:
        raise refuse(name, 'a fraction from 0 to 1, such as 0.3 or "3/10"', value) from None


def flag(name: str, value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise refuse(name, "true or false", value)
    return value


def nothing(*_: object) -> None:
    """Do nothing: the default of a callback that is not needed."""


def not_installed(package: object, extra: str) -> str:
    """Say which package is missing, and how to install the extra that brings it.

    >>> print(not_installed("onnx", "onnx"))
    onnx is not installed: in your clone of Tidegate, run pip install '.[onnx]'
    """
    return f"{package} is not installed: in your clone of Tidegate, run pip install '.[{extra}]'"


def optional_module(name: str, extra: str) -> Any:
    """Import a module that an extra installs."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise InvalidValueError(not_installed(error.name, extra)) from None


class Later:
    """A module that is imported when something of it is first used, because that takes long.

    >>> Later("fractions").Fraction("0.5")
    Fraction(1, 2)
    """

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)


def one_of(*allowed: str) -> Callable[[str, object], str]:
    """A check that a value is one of some words."""

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise refuse(name, f"one of {', '.join(allowed)}", value)
        return value

    return check


def word(name: str, value: object) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise refuse(name, "a text that is not empty", value)
    return value


def place(name: str, value: object) -> str:
    """A path or an address: a text that no operating system refuses to look up."""
    text = word(name, value)
    if "\0" in text:
        raise refuse(name, "a path or an address without a NUL character", text)
    return text


def words(name: str, value: object) -> tuple[str, ...]:
    """A list of different texts, at least one."""
    named = isinstance(value, list | tuple) and all(isinstance(v, str) and v for v in value)
    if not isinstance(value, list | tuple) or not named or not value:
        raise refuse(name, "a list of one or more texts", value)
    if len(set(value)) != len(value):
        raise refuse(name, "a list without repeats", value)
    return tuple(value)

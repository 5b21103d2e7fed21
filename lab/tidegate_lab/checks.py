"""Refusals in the words of Tidegate: the name, what is allowed, and what was given."""

from typing import Any

from tidegate import InvalidValueError


def refuse(name: str, allowed: str, value: Any) -> InvalidValueError:
    """The error that names a value that is not allowed.

    >>> refuse("batch", "at least 1", 0)
    InvalidValueError('batch must be at least 1, got 0')
    """
    return InvalidValueError(f"{name} must be {allowed}, got {value!r}")


def whole(name: str, value: int, *, least: int = 1, most: float = float("inf")) -> int:
    """A whole number from `least` to `most`."""
    if value != int(value) or not least <= value <= most:
        above = "" if most == float("inf") else f" and at most {most}"
        raise refuse(name, f"a whole number of at least {least}{above}", value)
    return value


def positive(name: str, value: float) -> float:
    """A finite number above 0."""
    if not 0 < value < float("inf"):
        raise refuse(name, "above 0", value)
    return value


def from_zero_below_one(name: str, value: float) -> float:
    """A number that is at least 0 and below 1."""
    if not 0 <= value < 1:
        raise refuse(name, "at least 0 and below 1", value)
    return value

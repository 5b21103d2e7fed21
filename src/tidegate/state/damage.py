"""Damage to a state: how it is noticed when data is read, and how it is reported."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass

from tidegate.checks import InvalidValueError, StoreError

RESTORE = "restore it from a copy, see docs/store.md"
DAMAGED = f"checksum mismatch; {RESTORE}"

UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that parsing damaged data can raise."""


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Report errors of parsing stored data as damage, in one line."""
    try:
        yield
    except InvalidValueError:  # parsed, and its own message is better
        raise
    except UNREADABLE as error:
        raise StoreError(f"{what} is damaged: {RESTORE}") from error


@dataclass(frozen=True)
class Problem:
    """A problem that `verify` found."""

    where: str  # the file, fit or stream
    what: str  # what is wrong, and what to do


def damage(where: str, what: str) -> Problem:
    """A problem whose repair is to restore a copy."""
    return Problem(where, f"{what}: {RESTORE}")


def reported(
    where: str,
    problems: Iterator[Problem],
    explained: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Iterator[Problem]:
    """Yield problems; end with one more if reading fails on the way."""
    try:
        with readable(where), explained():
            yield from problems
    except StoreError as error:
        yield Problem(where, str(error))

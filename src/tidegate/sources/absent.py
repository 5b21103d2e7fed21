"""Columns that no record of a batch of JSON objects has: most likely their names are misspelt.

A missing key is a gap, so a misspelt column would be learnt from as nothing but gaps. What is said
about it follows from all records of the batch: a name is proposed only if every record has it.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from heapq import nsmallest
from typing import Any, NamedTuple

MAX_NAMES = 12
"""The most columns that a message names."""

MAX_CANDIDATES = 256
"""The most names that a misspelt one is compared with."""


class Absent(NamedTuple):
    """Columns that no record has.

    Attributes:
        names: The columns.
        near: A name that every record has and that looks like one of them; None if there is none.
    """

    names: tuple[str, ...]
    near: str | None

    def in_words(self, where: str) -> str:
        """Say what is missing and what to do, in one line.

        >>> Absent(("pressure",), "presure").in_words("the body")
        'no record of the body has column pressure (did you mean presure?): correct the name, in \
the records or in the configuration; write null where a value is missing'
        """
        shown = ", ".join(self.names[:MAX_NAMES]) + ", ..." * (len(self.names) > MAX_NAMES)
        hint = "" if self.near is None else f" (did you mean {self.near}?)"
        return (
            f"no record of {where} has column {shown}{hint}: correct the name, in the records or "
            "in the configuration; write null where a value is missing"
        )


class Unseen:
    """Looks for columns that no record has, some records at a time.

    Args:
        names: The columns, as they are called in the records.

    >>> unseen = Unseen(["age", "pressure"])
    >>> unseen.look([{"age": 61, "Pressure": 140}, {"age": None, "Pressure": 121, "x": 1}])
    >>> unseen.found()
    Absent(names=('pressure',), near='Pressure')
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = self._left = tuple(dict.fromkeys(names))
        self._common: set[str] | None = None  # the names that all records have

    def look(self, records: Sequence[Mapping[str, Any]]) -> None:
        """Look at some records."""
        self._left = tuple(n for n in self._left if not any(n in record for record in records))
        if self._left and records:  # else nothing is proposed
            shared = set(records[0]).intersection(*records[1:])
            self._common = shared if self._common is None else self._common & shared

    def found(self) -> Absent | None:
        """The columns that none had; None if there are none, or if there was no record."""
        if not self._left or self._common is None:
            return None
        others = self._common.difference(self._names)
        nears = (near(name, others) for name in self._left[:MAX_NAMES])
        return Absent(self._left, next(filter(None, nears), None))


def near(name: str, others: Iterable[str]) -> str | None:
    """The name that looks most like another one, whatever its case; None if none does."""
    alike = (each for each in others if len(each) <= 2 * len(name) + 8)
    short = nsmallest(MAX_CANDIDATES, alike)
    folded = {each.casefold(): each for each in short}
    found = get_close_matches(name.casefold(), folded, n=1)
    return folded[found[0]] if found else None

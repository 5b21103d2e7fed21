"""The public range of a number to predict, and how such a number is stored.

A target is clipped into its range, mapped to t in [-1, 1], so that the middle of the range is 0,
and stored as a whole number of 2^-24, its *code*. Codes fit where class indices fit, so records
are stored, joined and erased in the same way for both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, between, refuse
from tidegate.data.labels import as_labels
from tidegate.data.numbers import as_numbers, as_real
from tidegate.data.records import Records
from tidegate.data.spelling import NEWEST

Codes = NDArray[np.intp]
Usable = NDArray[np.bool_]
Kind = Literal["classes", "target"]

BITS = 24
"""Fractional bits of a code: float32 holds every code exactly."""

RESOLUTION = 2.0**-BITS
"""What a code counts, in units of half the range."""

MAX_RANGE_END = 2.0**1000
"""The ends of a range are smaller than this, and its width is larger than its inverse."""


class Predicted:
    """What is predicted: here nothing, and records have no labels.

    Attributes:
        kind: Which measures there are of it.
        counted: What surveys count, as their cards call it.
        changes: What a drift alarm says if these counts differ.
        labels: What surveys count: the classes, or names of the parts of a target's range.

    >>> NOTHING.read(None, 2, 2), NOTHING.entries()
    ((array([0, 0]), array([ True,  True])), {'classes': None})
    """

    kind: ClassVar[Kind] = "classes"
    counted: ClassVar[str] = "classes"
    changes: ClassVar[str] = "classes"
    labels: Sequence[Any] = ()

    @property
    def label_words(self) -> list[str]:
        """The labels for people who read a card."""
        return [f"class {label}" for label in self.labels]

    @property
    def missing(self) -> str:
        """Why a record cannot be used for its label."""
        return "the label is not a class"

    def read_as(self, plain: str) -> str:
        """How its column is read, in words, given how a plain label would be."""
        return plain

    def check(self, y: Any, rule: int) -> None:
        """Refuse a batch whose labels are of another kind, by the rules of spelling that say so."""

    def read(self, y: Any, slots: int, rule: int) -> tuple[Codes, Usable]:  # noqa: ARG002
        """The code of each record's label, and whether it can be used.

        Args:
            y: The labels of a batch; each is read independently of the others.
            slots: How many records the batch has.
            rule: The rule of spelling, see `tidegate.data.spelling`.
        """
        return np.zeros(slots, np.intp), np.ones(slots, np.bool_)

    def entries(self) -> dict[str, Any]:
        """What a card says about it."""
        return {"classes": None}

    def rows(self) -> dict[str, str]:
        """The same for people."""
        return {"classes": ", ".join(map(str, self.labels))} if self.labels else {}


NOTHING = Predicted()


@dataclass(frozen=True)
class Target(Predicted):
    """A number to predict, which lies in a public range.

    Args:
        low: The least value; what is below it counts as `low`.
        high: The largest value; what is above it counts as `high`.

    >>> minutes = Target(-60, 180)
    >>> codes, usable = minutes.codes([60, 200.0, "90", None, float("inf")])
    >>> minutes.values(codes), usable
    (array([ 60., 180.,  90.,  60.,  60.]), array([ True,  True,  True, False, False]))
    """

    kind: ClassVar[Kind] = "target"
    counted: ClassVar[str] = "parts"
    changes: ClassVar[str] = "targets"

    parts: ClassVar[int] = 8
    """Surveys count targets in this many equal parts of the range."""

    low: float
    high: float

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            end = between(
                f"the target's {name}", getattr(self, name), -MAX_RANGE_END, MAX_RANGE_END
            )
            object.__setattr__(self, name, end)
        if not self.high - self.low > 1 / MAX_RANGE_END:
            raise refuse("target", "a range (low, high) with low below high", (self.low, self.high))

    @classmethod
    def of(cls, given: object) -> Self:
        """The target of a pair (low, high).

        >>> Target.of([0, 1])
        Target(low=0.0, high=1.0)
        >>> Target.of("high")
        Traceback (most recent call last):
        tidegate.checks.InvalidValueError: target must be two numbers, (low, high), got 'high'
        """
        if isinstance(given, cls):
            return given
        ends = given.tolist() if isinstance(given, np.ndarray) else given
        if isinstance(ends, str | bytes) or not isinstance(ends, Sequence) or len(ends) != 2:
            raise refuse("target", "two numbers, (low, high)", given)
        return cls(*ends)

    @property
    def middle(self) -> float:
        """The middle of the range."""
        return (self.low + self.high) / 2

    @property
    def half(self) -> float:
        """Half the width of the range."""
        return (self.high - self.low) / 2

    def codes(self, y: Any, rule: int = NEWEST) -> tuple[Codes, NDArray[np.bool_]]:
        """The code of each target, and whether it can be used; unusable ones have the code 0.

        A code depends on its own target alone. What is not a finite number cannot be used.

        Args:
            y: The targets, shape (n,).
            rule: The rule of spelling, see `tidegate.data.spelling`.
        """
        return self.codes_of(numbers_of(y, rule))

    def codes_of(self, numbers: NDArray[Any]) -> tuple[Codes, NDArray[np.bool_]]:
        """The same for an array of numbers."""
        usable = np.isfinite(numbers)
        kept = np.where(usable, numbers, self.middle).astype(np.float64).clip(self.low, self.high)
        scaled = ((kept - self.middle) / self.half).clip(-1, 1)
        return np.rint(scaled * 2.0**BITS).astype(np.intp), usable

    def read(self, y: Any, slots: int, rule: int) -> tuple[Codes, Usable]:  # noqa: ARG002
        """See `Predicted`."""
        return self.codes(y, rule)

    def values(self, codes: Codes) -> NDArray[np.float64]:
        """The targets that codes stand for, in the target's unit."""
        return self.predictions(codes * RESOLUTION)

    def predictions(self, margins: NDArray[Any]) -> NDArray[np.float64]:
        """The predictions that margins stand for, in the target's unit.

        They are clipped into the range: the truth cannot lie outside it.

        >>> Target(0, 10).predictions(np.array([-1.0, 0.25, 7.0]))
        array([ 0.  ,  6.25, 10.  ])
        """
        inside = np.asarray(margins, np.float64).clip(-1, 1)
        return (self.middle + self.half * inside).clip(self.low, self.high)

    def borders(self) -> list[tuple[float, float]]:
        """The ends of the parts in which surveys count targets.

        >>> Target(0, 8).borders()[:2]
        [(0.0, 1.0), (1.0, 2.0)]
        """
        ends = self.predictions(np.linspace(-1, 1, self.parts + 1)).tolist()
        return list(pairwise(ends))

    @property
    def part_names(self) -> tuple[str, ...]:
        """The parts of the range that surveys count, in words.

        >>> Target(0, 100).part_names[:2]
        ('0 to 12.5', '12.5 to 25')
        """
        return tuple(f"{low:g} to {high:g}" for low, high in self.borders())

    @property
    def labels(self) -> Sequence[Any]:  # type: ignore[override]
        """See `Predicted`."""
        return self.part_names

    @property
    def label_words(self) -> list[str]:
        """See `Predicted`."""
        return list(self.part_names)

    @property
    def missing(self) -> str:
        """See `Predicted`."""
        return "the target is missing or not a finite number"

    def on_card(self) -> list[float]:
        """The range as cards state it."""
        return [self.low, self.high]

    def entries(self) -> dict[str, Any]:
        """See `Predicted`."""
        return {"target": self.on_card()}

    def rows(self) -> dict[str, str]:
        """See `Predicted`."""
        return {"target": self.read_as("").replace("number", "a number", 1)}

    def read_as(self, plain: str) -> str:  # noqa: ARG002
        """See `Predicted`."""
        return f"number from {self.low:g} to {self.high:g}"

    @classmethod
    def of_card(cls, card: Mapping[str, Any]) -> Self | None:
        """The target of a card; None if its model predicts classes.

        >>> Target.of_card({"target": [0.0, 1.0]}), Target.of_card({"classes": [0, 1]})
        (Target(low=0.0, high=1.0), None)
        """
        stated = card.get("target")
        return None if stated is None else cls.of(stated)


def part_of(codes: Codes) -> Codes:
    """In which of the `Target.parts` equal parts of its range each target lies, exactly.

    A target on the border of two parts lies in the upper one; the largest lies in the last.

    >>> part_of(np.array([-(2**24), -1, 0, 2**24]))
    array([0, 3, 4, 7])
    """
    width = 2 ** (BITS + 1) // Target.parts
    parts: Codes = ((codes + 2**BITS) // width).clip(0, Target.parts - 1)
    return parts


def by_part(records: Records) -> Records:
    """The records with the part of the range in place of the code, as surveys count them."""
    return replace(records, y=part_of(records.y))


def middle_of(shares: Sequence[float]) -> float:
    """The mean target, in units of half the range, of shares of the parts of the range.

    >>> middle_of([0.0] * 7 + [1.0]), middle_of([0.125] * 8)
    (0.875, 0.0)
    """
    width = 2 / Target.parts
    middles = ((i + 0.5) * width - 1 for i in range(Target.parts))
    return sum(share * middle for share, middle in zip(shares, middles, strict=True))


def numbers_of(y: Any, rule: int = NEWEST) -> NDArray[Any]:
    """The targets as numbers, each by itself; NaN for what is not a number."""
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "biufcmM":
        return as_real(y).astype(np.float64, copy=False)
    values = as_labels(y)
    if not values:
        return np.zeros(0)
    try:
        column = as_numbers([[value] for value in values], rule)
    except InvalidValueError:  # its text is about X
        raise refuse("y", "one number per record", shown="something else") from None
    return np.asarray(column[:, 0], np.float64)

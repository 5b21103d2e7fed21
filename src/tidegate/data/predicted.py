"""What is predicted: one of some classes, a number in a public range (`Target`), or nothing.

All of it is public and fixed before the first record. Records store a *code* for each label: the
index of its class, or a target that is clipped into its range, mapped to t in [-1, 1], so that the
middle of the range is 0, and stored as a whole number of 2^-24. Both fit where the other fits, so
records are stored, joined and erased in the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, between, refuse
from tidegate.data.values import (
    NEWEST,
    as_labels,
    as_numbers,
    as_real,
    key_of,
    places_in,
)

if TYPE_CHECKING:
    from tidegate.data.records import Records


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
            rule: The rule of spelling, see `tidegate.data.values`.
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
            rule: The rule of spelling, see `tidegate.data.values`.
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

    @property
    def labels(self) -> Sequence[Any]:  # type: ignore[override]
        """The parts of the range that surveys count, in words.

        >>> Target(0, 100).labels[:2]
        ('0 to 12.5', '12.5 to 25')
        """
        ends = self.predictions(np.linspace(-1, 1, self.parts + 1)).tolist()
        return tuple(f"{low:g} to {high:g}" for low, high in pairwise(ends))

    @property
    def label_words(self) -> list[str]:
        """See `Predicted`."""
        return list(self.labels)

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


def by_part(records: "Records") -> "Records":
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


@dataclass(frozen=True)
class Classes(Predicted):
    """One of some classes.

    Args:
        labels: All labels, in the order of their codes.
        cuts: Where one class ends and the next begins, if labels are numbers; else empty.

    >>> Classes(["no", "yes"]).read(["yes", "?"], 2, 2)
    (array([ 1, -1]), array([ True, False]))
    >>> Classes(["few", "many"], cuts=[10.0]).read([3, 30], 2, 2)[0]
    array([0, 1])
    """

    labels: Sequence[Any]
    cuts: Sequence[float] = ()

    @property
    def missing(self) -> str:
        """See `Predicted`."""
        return "the label is missing or not a number" if self.cuts else super().missing

    def read_as(self, plain: str) -> str:
        """See `Predicted`."""
        return f"number, {cut_words(self.cuts, self.labels)}" if self.cuts else plain

    def check(self, y: Any, rule: int) -> None:
        """See `Predicted`: by rule 1, numbers are not read as text, nor text as numbers."""
        if rule == 1 and not self.cuts:
            check_kind(y, self.labels)

    def read(self, y: Any, slots: int, rule: int) -> tuple[Codes, Usable]:  # noqa: ARG002
        """See `Predicted`."""
        codes = cut_codes(y, self.cuts, rule) if self.cuts else codes_of(y, self.labels, rule)
        return codes, codes >= 0

    def entries(self) -> dict[str, Any]:
        """See `Predicted`."""
        stated: dict[str, Any] = {"classes": np.asarray(list(self.labels)).tolist()}
        return {**stated, "cuts": self.cuts} if self.cuts else stated


def predicted_of(
    classes: Sequence[Any] | None = None,
    target: Target | None = None,
    cuts: Sequence[float] | None = None,
) -> Predicted:
    """What is predicted, given at most one of classes and a target, with cuts for classes.

    >>> predicted_of([0, 1]), predicted_of(target=Target(0, 1))
    (Classes(labels=[0, 1], cuts=()), Target(low=0.0, high=1.0))
    """
    if target is None:
        return NOTHING if classes is None else Classes(classes, cuts or ())
    if classes is not None:
        raise refuse("classes", "None if there is a target", shown="both")
    return target


def predicted_on_card(card: Mapping[str, Any]) -> Predicted:
    """What the model of a card predicts: its target, or else its classes."""
    return Target.of_card(card) or predicted_of(card.get("classes"), cuts=card.get("cuts"))


def with_predicted(state: dict[str, Any]) -> dict[str, Any]:
    """The state of an object that an earlier version pickled, with `predicted` in place of parts.

    >>> with_predicted({"norm": 1.0, "classes": [0, 1], "target": None})
    {'norm': 1.0, 'predicted': Classes(labels=[0, 1], cuts=())}
    """
    parts = ("classes", "target", "cuts")
    if "predicted" in state:
        return state
    rest = {name: value for name, value in state.items() if name not in parts}
    return {**rest, "predicted": predicted_of(*(state.get(name) for name in parts))}


def check_kind(y: Any, classes: Sequence[Any]) -> None:
    """Refuse text labels for numeric classes, and numeric labels for text classes, by dtype.

    For rule 1 of spelling, by which every record would silently be unusable. Rule 2 reads both.
    """
    kind = getattr(getattr(y, "dtype", None), "kind", None)
    texts = [isinstance(label, str) for label in classes]
    text = kind == "U" or str(getattr(y, "dtype", "")) in {"str", "string"}  # of pandas
    if (kind in {"b", "i", "u", "f"} and all(texts)) or (text and not any(texts)):
        wanted = "text" if all(texts) else "numbers"
        raise refuse("y", f"{wanted}, like the classes", shown=f"dtype {y.dtype}")


def codes_of(y: Any, classes: Sequence[Any], rule: int = NEWEST) -> NDArray[np.intp]:
    """The same as `class_codes`, but vectorised for numbers where that is equally exact.

    >>> codes_of(np.array([3.0, 5.0, np.nan]), [5, 3])
    array([ 1,  0, -1])
    """
    plain = (
        type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iuf" and y.dtype.itemsize <= 8
    )
    if not plain or not all(type(label) is int and abs(label) < 2**53 for label in classes):
        return class_codes(as_labels(y), classes, rule)
    labels = np.array(classes)
    order = np.argsort(labels)
    places = np.searchsorted(labels[order], y).clip(max=labels.size - 1)
    return np.where(labels[order][places] == y, order[places], -1)


def cut_codes(y: Any, cuts: Sequence[float], rule: int = NEWEST) -> NDArray[np.intp]:
    """The class of each number: how many of the cuts it is above; -1 for what is no number.

    >>> cut_codes([3.0, 15, 15.5, None, "20"], [15.0])
    array([ 0,  0,  1, -1,  1])
    """
    numbers = as_numbers([[value] for value in as_labels(y)], rule)
    values = np.asarray(numbers, np.float64).reshape(-1)
    return np.where(np.isnan(values), -1, np.searchsorted(np.asarray(cuts), values))


def cut_words(cuts: Sequence[float], classes: Sequence[Any]) -> str:
    """Which numbers each class has, in words.

    >>> cut_words([40.0], ["low", "normal"]), cut_words([1.0, 2.5], ["a", "b", "c"])
    ('up to 40: low; above: normal', 'up to 1: a; above 1, up to 2.5: b; above: c')
    """
    first, *others = (f"up to {cut:g}: {name}" for cut, name in zip(cuts, classes, strict=False))
    between = [f"above {cut:g}, {each}" for cut, each in zip(cuts, others, strict=False)]
    return "; ".join([first, *between, f"above: {classes[-1]}"])


def predicted_codes(margins: NDArray[Any]) -> NDArray[np.intp]:
    """The index of the class that each record's margins predict.

    Args:
        margins: Shape (n, K), or (n,) for two classes.

    >>> predicted_codes(np.array([0.5, -0.5])), predicted_codes(np.array([[1.0, 3.0, 2.0]]))
    (array([1, 0]), array([1]))
    """
    return (margins > 0).astype(np.intp) if margins.ndim == 1 else margins.argmax(axis=1)


def class_codes(
    labels: Sequence[Any], classes: Sequence[Any], rule: int = NEWEST
) -> NDArray[np.intp]:
    """The index of each label among the classes; -1 for a label that is not a class.

    >>> class_codes([3, 5, 4, [5], "3.0"], [5, 3])
    array([ 1,  0, -1, -1,  1])
    """
    index = places_in("classes", classes, rule)
    seen: dict[tuple[type, Any], int] = {}  # by type, because 1 and True are equal

    def code(label: Any) -> int:
        try:
            known = seen.get((type(label), label))
            if known is None:
                known = seen[type(label), label] = index.get(key_of(label, rule), -1)
        except Exception:  # a label whose lookup fails is not a class
            return -1
        return known

    return np.fromiter(map(code, labels), np.intp, len(labels))

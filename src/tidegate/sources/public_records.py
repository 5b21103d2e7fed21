"""Examine the records of a public file: what cannot be used and why, labels and norms."""

import math
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.data.columns import Category, TableColumns, Text
from tidegate.data.feature_map import FeatureMap
from tidegate.data.owners import owners_of
from tidegate.data.predicted import Classes, Predicted, Target, numbers_of
from tidegate.data.rows import as_rows, row_norms
from tidegate.data.values import PLAIN_NUMBER, as_labels, as_objects
from tidegate.sources import RawBatch, SourceColumns
from tidegate.sources.source import as_json

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)

MAX_DISTINCT_LABELS = 10_000
"""The most unknown labels that are counted apart: a wrong label column may have one per record."""

ANY_KEY = bytes(32)
"""Which ids can be used does not depend on the key."""

SPELLED_KINDS = (Category, Text)
"""The kinds of columns whose values are known by their spelling."""

CONTRADICTIONS = {
    "gaps": "is missing where gaps = false",
    "others": "is not listed where others = false",
}
"""What a value does that contradicts a key."""

EMPTY = np.zeros(0, np.intp)

LABELS_SHOWN = 5
"""How many unknown labels are reported."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the records of a public file show.

    Attributes:
        usable: How many records can be used.
        unusable: How many cannot, by the first rule that each breaks.
        bad_values: How many values of a column cannot be used, for columns with any.
        gaps: How many values of a column are missing, for columns with any.
        others: How many values of a category are not in its list, for columns with any.
        changed: How many categories, labels or texts of a column a library that infers types may
            give another spelling, for columns with any.
        classes: How many usable records each class has, in the order of the configuration; empty if
            a target is predicted.
        unknown_labels: The most frequent labels that are no class, with their counts.
        norms: Quantiles of the norms of usable records, after the feature maps.
        longer: How many usable records are longer than the norm, so that they are scaled down.
        targets: Quantiles of the targets of usable records, if a target is predicted.
        clipped: How many of them are outside of the target's range, so that they are clipped.
    """

    usable: int
    unusable: Mapping[str, int]
    bad_values: Mapping[str, int]
    classes: tuple[tuple[int | str, int], ...]
    unknown_labels: tuple[tuple[str, int], ...]
    norms: tuple[tuple[float, float], ...]
    longer: int
    targets: tuple[tuple[float, float], ...] = ()
    clipped: int = 0
    gaps: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[str, int] = field(default_factory=dict)


Column = tuple[str, NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]
"""The name of a column, and which of its values are wrong, missing, and not listed."""


class Shape(ABC):
    """What a record of a file is: a row of columns with kinds, one text, or numbers.

    Attributes:
        rule: The short name of the rule that a record breaks whose values cannot be used.
        keys: The settings that name its columns.
        norm: A norm that no record exceeds.
        blank: A made-up record.
    """

    rule: ClassVar[str]
    keys: ClassVar[str] = "records.columns, text"
    norm: float = math.inf
    blank: Any

    @abstractmethod
    def read_as(self, name: str) -> tuple[str, str]:
        """The role of a column, and what its values are converted to."""

    @abstractmethod
    def why(self, odd_number: str) -> str:
        """The rule, with what else is no number in such a file."""

    @abstractmethod
    def columns(self, X: Any) -> Iterator[Column]:
        """Examine the columns of a batch."""

    def spelled(self, X: Any) -> dict[str, Any]:
        """The columns of a batch whose values are known by their spelling."""
        del X
        return {}


class OfTable(Shape):
    """A record is a row of columns with kinds."""

    rule: ClassVar[str] = "kind"
    keys: ClassVar[str] = "[[columns]]"

    def __init__(self, kinds: TableColumns) -> None:
        self.kinds, self.norm, self.blank = kinds, kinds.norm, [dict.fromkeys(kinds.names)]

    def read_as(self, name: str) -> tuple[str, str]:
        """See `Shape`."""
        kinds = {each.name: each.explained for each in self.kinds.checked}
        return "feature", kinds[name]

    def why(self, odd_number: str) -> str:
        """See `Shape`: also what contradicts columns that are said to be without gaps or others."""
        del odd_number
        keys = {key for each in self.kinds.checked for key in each.without}
        said = [f", or {words}" for key, words in CONTRADICTIONS.items() if key in keys]
        more = "".join(said) or " (a missing value does not)"
        return f"a value contradicts its column's kind{more}"

    def columns(self, X: Any) -> Iterator[Column]:
        """See `Shape`; what a column is said to be without is looked for, too."""
        for each in self.kinds.checked:
            values = X.columns[each.name]
            read, usual = each.cells(values), each.with_all()
            cells = read if usual is each else usual.cells(values)
            yield each.name, read.wrong, cells.gap, usual.others_in(cells)

    def spelled(self, X: Any) -> dict[str, Any]:
        """See `Shape`."""
        kinds = [each for each in self.kinds.checked if isinstance(each, SPELLED_KINDS)]
        return {each.name: X.columns[each.name] for each in kinds}


class OfText(Shape):
    """A record is one text."""

    rule: ClassVar[str] = "text"
    blank = ("",)

    def __init__(self, name: str) -> None:
        self.name = name

    def read_as(self, name: str) -> tuple[str, str]:
        """See `Shape`."""
        del name
        return "text", "text"

    def why(self, odd_number: str) -> str:
        """See `Shape`."""
        del odd_number
        return "its text is missing"

    def columns(self, X: Any) -> Iterator[Column]:
        """See `Shape`."""
        wrong = np.array([not isinstance(text, str) for text in X], np.bool_)
        yield self.name, wrong, np.zeros_like(wrong), np.zeros_like(wrong)

    def spelled(self, X: Any) -> dict[str, Any]:
        """See `Shape`."""
        return {self.name: X}


class OfNumbers(Shape):
    """A record is a row of numbers."""

    rule: ClassVar[str] = "number"

    def __init__(self, names: Sequence[str], dtype: str) -> None:
        self.names, self.dtype, self.blank = names, dtype, np.zeros((1, len(names)))

    def read_as(self, name: str) -> tuple[str, str]:
        """See `Shape`."""
        del name
        return "feature", self.dtype

    def why(self, odd_number: str) -> str:
        """See `Shape`."""
        odd = f"missing, {odd_number}NaN, or above {float(np.finfo(self.dtype).max):.2g} in size"
        return f"a feature is not a finite {self.dtype} number: {odd}"

    def columns(self, X: Any) -> Iterator[Column]:
        """See `Shape`."""
        for name, wrong in zip(self.names, ~np.isfinite(X).T, strict=True):
            yield name, wrong, np.zeros_like(wrong), np.zeros_like(wrong)


def shape_of(columns: SourceColumns) -> Shape:
    """What the records of a file are."""
    if columns.kinds:
        return OfTable(columns.kinds)
    if columns.text:
        return OfText(columns.text)
    return OfNumbers(columns.features, columns.dtype)


@dataclass(kw_only=True)
class Examined:
    """Adds up what the batches of a file show; a record is used if `Intake` would use it."""

    features: FeatureMap
    predicted: Predicted
    norm: float
    columns: SourceColumns
    _unusable: Counter[str] = field(default_factory=Counter, init=False)
    _bad: Counter[str] = field(default_factory=Counter, init=False)
    _gaps: Counter[str] = field(default_factory=Counter, init=False)
    _others: Counter[str] = field(default_factory=Counter, init=False)
    _changed: Counter[str] = field(default_factory=Counter, init=False)
    _unknown: Counter[str] = field(default_factory=Counter, init=False)
    _labels: list[NDArray[Any]] = field(default_factory=list, init=False)
    _norms: list[NDArray[np.float64]] = field(default_factory=list, init=False)

    def add(self, raw: RawBatch) -> None:
        """Examine a batch."""
        with np.errstate(all="ignore"):
            norms, powers = row_norms(as_rows(self.features.transform(raw.X)))
            norms /= powers
        labels, known = self._read(raw)
        parsed = np.ones(raw.n, np.bool_)
        parsed[list(raw.reasons)] = False
        given = self._given(raw.X, parsed)
        broken = {
            "line": ~parsed,
            self._shape.rule: ~given,
            "map": np.isnan(norms),
            "label": ~known,
            **self._ownerless(raw, parsed),
        }
        left = np.ones(raw.n, np.bool_)
        for rule, breaks in broken.items():
            self._unusable[rule] += int((left & breaks).sum())
            left &= ~breaks
        self._count_labels(as_labels(raw.y), np.flatnonzero(parsed & ~known))
        self._count_changed(raw)
        self._labels.append(labels[left])
        self._norms.append(norms[left])

    def _read(self, raw: RawBatch) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The class index or the target of each record, and whether it has one."""
        if isinstance(self.predicted, Target):
            numbers = numbers_of(raw.y, self.columns.spelling)
            return numbers, np.isfinite(numbers)
        return self.predicted.read(raw.y, raw.n, self.columns.spelling)

    def _given(self, X: Any, parsed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which records have a usable value in every column; counts the others by column."""
        given = np.ones(len(parsed), np.bool_)
        for name, wrong, gap, other in self._shape.columns(X):
            self._bad[name] += int((wrong & parsed).sum())
            self._gaps[name] += int((gap & parsed).sum())
            self._others[name] += int((other & parsed).sum())
            given &= ~wrong
        return given

    @cached_property
    def _shape(self) -> Shape:
        return shape_of(self.columns)

    def _ownerless(self, raw: RawBatch, parsed: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
        """Which slots have no owner, if persons are protected; counts those that were parsed."""
        if raw.persons is None or not self.columns.person:
            return {}
        without = np.zeros(raw.n, np.bool_)
        without[list(owners_of(raw.persons, ANY_KEY).reasons)] = True
        self._bad[self.columns.person] += int((without & parsed).sum())
        return {"person": without}

    def _count_changed(self, raw: RawBatch) -> None:
        """Count the values whose spelling a library that infers types may change."""
        spelled = self._shape.spelled(raw.X)
        if isinstance(self.predicted, Classes) and not self.predicted.cuts:
            spelled[self.columns.label] = raw.y
        for name, values in spelled.items():
            self._changed[name] += _changed(values)

    def _count_labels(self, labels: Sequence[Any], unknown: NDArray[np.intp]) -> None:
        self._bad[self.columns.label] += unknown.size
        for index in unknown.tolist():
            shown = as_json(labels[index])[:60]
            if shown in self._unknown or len(self._unknown) < MAX_DISTINCT_LABELS:
                self._unknown[shown] += 1

    def findings(self) -> Findings:
        """What all batches show."""
        norms = np.concatenate([np.zeros(0), *self._norms])
        at = np.quantile(norms, QUANTILES).tolist() if norms.size else []
        return Findings(
            usable=int(norms.size),
            unusable={rule: count for rule, count in self._unusable.items() if count},
            bad_values={name: count for name, count in self._bad.items() if count},
            unknown_labels=tuple(self._unknown.most_common(LABELS_SHOWN)),
            gaps={name: count for name, count in self._gaps.items() if count},
            others={name: count for name, count in self._others.items() if count},
            changed={name: count for name, count in self._changed.items() if count},
            norms=tuple(zip(QUANTILES, at, strict=False)),
            longer=int((norms > self.norm).sum()),
            **self._found(),
        )

    def _found(self) -> dict[str, Any]:
        """What the labels or targets of usable records show."""
        if not isinstance(self.predicted, Target):
            codes, classes = np.concatenate([EMPTY, *self._labels]), self.predicted.labels
            counts = np.bincount(codes, minlength=len(classes)).tolist()
            return {"classes": tuple(zip(classes, counts, strict=True))}
        values = np.concatenate([np.zeros(0), *self._labels])
        at = np.quantile(values, QUANTILES).tolist() if values.size else []
        outside = (values < self.predicted.low) | (values > self.predicted.high)
        return {
            "classes": (),
            "targets": tuple(zip(QUANTILES, at, strict=False)),
            "clipped": int(outside.sum()),
        }


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
        if re.fullmatch(PLAIN_NUMBER, value):
            return sum(map(str.isdigit, value)) > EXACT_DIGITS
        return bool(_CHANGED.fullmatch(value))
    return isinstance(value, int | float | Decimal) and not -(2**53) <= value <= 2**53


def _changed(values: Any) -> int:
    """How many values a library that infers types may spell otherwise."""
    if isinstance(values, pa.Array):
        counts = values.value_counts()
        pairs = zip(
            as_objects(counts.field("values")), counts.field("counts").to_pylist(), strict=True
        )
        return sum(count for value, count in pairs if changed_by_readers(value))
    return sum(map(changed_by_readers, as_labels(values)))

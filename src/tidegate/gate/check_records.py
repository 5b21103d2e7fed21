"""Examine the records of a public file: what cannot be used and why, labels and norms."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.features.arrow_values import as_objects
from tidegate.features.columns import Category, Text
from tidegate.features.feature_map import FeatureMap
from tidegate.features.rows import as_rows, row_norms
from tidegate.features.spelling import changed_by_readers
from tidegate.gate.sources import RawBatch, SourceColumns
from tidegate.gate.sources.columns import as_json
from tidegate.learn.labels import as_labels, codes_of, cut_codes
from tidegate.learn.owners import owners_of
from tidegate.learn.target import Target, numbers_of

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)

MAX_DISTINCT_LABELS = 10_000
"""The most unknown labels that are counted apart: a wrong label column may have one per record."""

ANY_KEY = bytes(32)
"""Which ids can be used does not depend on the key."""

SPELLED_KINDS = (Category, Text)
"""The kinds of columns whose values are known by their spelling."""

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


@dataclass(kw_only=True)
class Examined:
    """Adds up what the batches of a file show; a record is used if `Intake` would use it."""

    features: FeatureMap
    classes: Sequence[int | str] | None
    norm: float
    columns: SourceColumns
    cuts: Sequence[float] | None = None
    target: Target | None = None
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
        labels, known = self._read(raw.y)
        parsed = np.ones(raw.n, np.bool_)
        parsed[list(raw.reasons)] = False
        given = self._given(raw.X, parsed)
        broken = {
            "line": ~parsed,
            self._rule: ~given,
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

    def _read(self, y: Any) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The class index or the target of each record, and whether it has one."""
        if self.target is not None:
            numbers = numbers_of(y, self.columns.spelling)
            return numbers, np.isfinite(numbers)
        if self.cuts is not None:
            codes = cut_codes(y, self.cuts, self.columns.spelling)
        else:
            codes = codes_of(y, self.classes or (), self.columns.spelling)
        return codes, codes >= 0

    def _given(self, X: Any, parsed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which records have a usable value in every column; counts the others by column."""
        if self.columns.kinds is not None:
            read = self.columns.kinds.cells(X)
            for each in self.columns.kinds.checked:
                self._bad[each.name] += int((read[each.name].wrong & parsed).sum())
                usual = each.with_all()
                cells = read[each.name] if usual is each else usual.cells(X.columns[each.name])
                self._gaps[each.name] += int((cells.gap & parsed).sum())
                if isinstance(usual, Category):
                    self._others[each.name] += int((usual.others_in(cells) & parsed).sum())
            return np.asarray(~np.any([cells.wrong for cells in read.values()], axis=0))
        if self.columns.text is not None:
            good = np.array([[isinstance(text, str)] for text in X], np.bool_)
        else:
            good = np.isfinite(X)
        names = self.columns.names[:-1]
        for name, wrong in zip(names, (~good & parsed[:, None]).sum(axis=0), strict=True):
            self._bad[name] += int(wrong)
        return np.asarray(good.all(axis=1))

    @property
    def _rule(self) -> str:
        """The rule that a record breaks whose values cannot be used."""
        if self.columns.kinds is not None:
            return "kind"
        return "number" if self.columns.text is None else "text"

    def _ownerless(self, raw: RawBatch, parsed: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
        """Which slots have no owner, if persons are protected; counts those that were parsed."""
        if raw.persons is None or self.columns.person is None:
            return {}
        without = np.zeros(raw.n, np.bool_)
        without[list(owners_of(raw.persons, ANY_KEY).reasons)] = True
        self._bad[self.columns.person] += int((without & parsed).sum())
        return {"person": without}

    def _count_changed(self, raw: RawBatch) -> None:
        """Count the values whose spelling a library that infers types may change."""
        spelled: dict[str, Any] = {}
        if self.columns.kinds is not None:
            kinds = [each for each in self.columns.kinds.checked if isinstance(each, SPELLED_KINDS)]
            spelled = {each.name: raw.X.columns[each.name] for each in kinds}
        elif self.columns.text is not None:
            spelled = {self.columns.text: raw.X}
        if self.target is None and self.cuts is None:
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
        if self.target is None:
            codes, classes = (
                np.concatenate([np.zeros(0, np.intp), *self._labels]),
                self.classes or (),
            )
            counts = np.bincount(codes, minlength=len(classes)).tolist()
            return {"classes": tuple(zip(classes, counts, strict=True))}
        values = np.concatenate([np.zeros(0), *self._labels])
        at = np.quantile(values, QUANTILES).tolist() if values.size else []
        outside = (values < self.target.low) | (values > self.target.high)
        return {
            "classes": (),
            "targets": tuple(zip(QUANTILES, at, strict=False)),
            "clipped": int(outside.sum()),
        }


def _changed(values: Any) -> int:
    """How many values a library that infers types may spell otherwise."""
    if isinstance(values, pa.Array):
        counts = values.value_counts()
        pairs = zip(
            as_objects(counts.field("values")), counts.field("counts").to_pylist(), strict=True
        )
        return sum(count for value, count in pairs if changed_by_readers(value))
    return sum(map(changed_by_readers, as_labels(values)))

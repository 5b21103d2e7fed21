"""Examine the records of a public file: what cannot be used and why, classes and norms."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.features.feature_map import FeatureMap
from tidegate.features.rows import as_rows, row_norms
from tidegate.gate.sources import Columns, RawBatch
from tidegate.gate.sources.columns import as_json
from tidegate.learn.labels import as_labels, codes_of
from tidegate.learn.owners import owners_of

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.9, 0.99, 1.0)

DISTINCT = 10_000
"""The most unknown labels that are told apart: a wrong label column may have one per record."""

ANY_KEY = bytes(32)
"""Which ids can be used does not depend on the key."""

SHOWN = 5
"""How many unknown labels are reported."""


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What the records of a public file show.

    Attributes:
        usable: How many records can be used.
        unusable: How many cannot, by the first rule that each breaks.
        bad_values: How many values of a column cannot be used, for columns with any.
        classes: How many usable records each class has, in the order of the configuration.
        unknown_labels: The most frequent labels that are no class, with their counts.
        norms: Quantiles of the norms of usable records, after the feature maps.
        longer: How many usable records are longer than the norm, so that they are scaled down.
    """

    usable: int
    unusable: Mapping[str, int]
    bad_values: Mapping[str, int]
    classes: tuple[tuple[int | str, int], ...]
    unknown_labels: tuple[tuple[str, int], ...]
    norms: tuple[tuple[float, float], ...]
    longer: int


@dataclass(kw_only=True)
class Examined:
    """Adds up what the batches of a file show; a record is used if `Intake` would use it."""

    features: FeatureMap
    classes: Sequence[int | str]
    norm: float
    columns: Columns
    _unusable: Counter[str] = field(default_factory=Counter, init=False)
    _bad: Counter[str] = field(default_factory=Counter, init=False)
    _unknown: Counter[str] = field(default_factory=Counter, init=False)
    _codes: list[NDArray[np.intp]] = field(default_factory=list, init=False)
    _norms: list[NDArray[np.float64]] = field(default_factory=list, init=False)

    def add(self, raw: RawBatch) -> None:
        """Examine a batch."""
        with np.errstate(all="ignore"):
            norms, powers = row_norms(as_rows(self.features.transform(raw.X)))
            norms /= powers
        codes = codes_of(raw.y, self.classes)
        parsed = np.ones(raw.n, np.bool_)
        parsed[list(raw.reasons)] = False
        given = self._given(raw.X, parsed)
        broken = {
            "line": ~parsed,
            "text" if self.columns.text is not None else "number": ~given,
            "map": np.isnan(norms),
            "label": codes < 0,
            **self._ownerless(raw, parsed),
        }
        left = np.ones(raw.n, np.bool_)
        for rule, breaks in broken.items():
            self._unusable[rule] += int((left & breaks).sum())
            left &= ~breaks
        self._count_labels(as_labels(raw.y), np.flatnonzero(parsed & (codes < 0)))
        self._codes.append(codes[left])
        self._norms.append(norms[left])

    def _given(self, X: Any, parsed: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which records have a usable value in every column; counts the others by column."""
        if self.columns.text is not None:
            good = np.array([[isinstance(text, str)] for text in X], np.bool_)
        else:
            good = np.isfinite(X)
        names = self.columns.names[:-1]
        for name, wrong in zip(names, (~good & parsed[:, None]).sum(axis=0), strict=True):
            self._bad[name] += int(wrong)
        return np.asarray(good.all(axis=1))

    def _ownerless(self, raw: RawBatch, parsed: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
        """Which slots have no owner, if persons are protected; counts those that were parsed."""
        if raw.persons is None or self.columns.person is None:
            return {}
        without = np.zeros(raw.n, np.bool_)
        without[list(owners_of(raw.persons, ANY_KEY).reasons)] = True
        self._bad[self.columns.person] += int((without & parsed).sum())
        return {"person": without}

    def _count_labels(self, labels: Sequence[Any], unknown: NDArray[np.intp]) -> None:
        self._bad[self.columns.label] += unknown.size
        for index in unknown.tolist():
            shown = as_json(labels[index])[:60]
            if shown in self._unknown or len(self._unknown) < DISTINCT:
                self._unknown[shown] += 1

    def findings(self) -> Findings:
        """What all batches show."""
        codes = np.concatenate([np.zeros(0, np.intp), *self._codes])
        norms = np.concatenate([np.zeros(0), *self._norms])
        counts = np.bincount(codes, minlength=len(self.classes)).tolist()
        at = np.quantile(norms, QUANTILES).tolist() if norms.size else []
        return Findings(
            usable=int(codes.size),
            unusable={rule: count for rule, count in self._unusable.items() if count},
            bad_values={name: count for name, count in self._bad.items() if count},
            classes=tuple(zip(self.classes, counts, strict=True)),
            unknown_labels=tuple(self._unknown.most_common(SHOWN)),
            norms=tuple(zip(QUANTILES, at, strict=False)),
            longer=int((norms > self.norm).sum()),
        )

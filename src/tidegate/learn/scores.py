"""Scores: noisy counts of how a released model does on the records of the next step.

`StepScores` is what those of classes and of a target have in common. Proof: docs/proofs/quality.md.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import refuse, whole
from tidegate.learn.exact import Floats, array_of
from tidegate.learn.rules import RULES
from tidegate.learn.score_cells import LAYOUTS, Cells, Indices, layout_of
from tidegate.learn.survey import total_of
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import Bits, gaussian, laplace


@dataclass(frozen=True, kw_only=True, eq=False)
class StepScores(ABC):
    """The noisy counts or sums of one step. Anyone may see them.

    Attributes:
        kind: What is predicted.
        suffers: What a drift alarm says if there are more errors.
        slots: The number of slots of the step.
        allowance: What each record paid.
        cells: The number of records in each cell of the tables, plus noise.
        persons: Whether persons are protected: then a person's admitted slots count for one
            together, and others not at all.
    """

    kind: ClassVar[Literal["classes", "target"]]
    suffers: ClassVar[str]

    slots: int
    allowance: Allowance
    cells: Floats
    persons: bool = False

    @property
    @abstractmethod
    def predicted(self) -> dict[str, Any]:
        """What they are about, as cards state it: the number of classes, or the target."""

    @property
    @abstractmethod
    def errors(self) -> float:
        """The noisy number of wrong answers, or sum of errors from 0 to 1 each."""

    @property
    @abstractmethod
    def error_deviation(self) -> float:
        """The deviation of the noise in `errors`."""

    @property
    @abstractmethod
    def over_all(self) -> tuple[float, float]:
        """The headline over all slots, usable or not, and the deviation of its noise."""

    @abstractmethod
    def _counted(self) -> tuple[float, float]:
        """The noisy number of all slots, usable and not, and the deviation of its noise."""

    @property
    def total(self) -> float:
        """How much all slots count together: their number, or an estimate if persons count."""
        return total_of(*self._counted(), self.slots) if self.persons else self.slots

    def as_json(self) -> dict[str, Any]:
        """All of it, for `of_json`."""
        return {
            "slots": self.slots,
            **self.predicted,
            "unit": self.allowance.unit,
            "amount": self.allowance.amount,
            "cells": self.cells.tolist(),
            **({"persons": True} if self.persons else {}),
        }


def shared(stored: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `StepScores`, as stored."""
    return {
        "slots": stored["slots"],
        "allowance": Allowance(stored["unit"], stored["amount"]),
        "cells": array_of(stored["cells"]),
        "persons": bool(stored.get("persons", False)),
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Scores(StepScores):
    """The noisy counts of one step, of classes; `tidegate.learn.measures` reads them.

    Attributes:
        classes: The number of classes.
        counts: The numbers of right and wrong answers and of unusable records, plus noise.
        version: The version of the rules that sized the noise, one of `LAYOUTS`.
    """

    kind: ClassVar[Literal["classes", "target"]] = "classes"
    suffers: ClassVar[str] = "accuracy"

    classes: int
    counts: Floats
    version: int = LAYOUTS[-1]

    def __post_init__(self) -> None:
        if self.counts.shape != (3,) or self.cells.shape != (self.layout.size,):
            shown = f"{self.counts.shape} and {self.cells.shape}"
            raise refuse("scores", f"3 counts and {self.layout.size} cells", shown=shown)

    @cached_property
    def layout(self) -> Cells:
        """What each cell counts."""
        return Cells.of(self.classes, self.slots, self.allowance)

    def _counted(self) -> tuple[float, float]:
        return math.fsum(self.counts.tolist()), math.sqrt(3) * self.count_deviation

    @property
    def count_deviation(self) -> float:
        """The standard deviation of the noise of a count."""
        return self.allowance.deviation(self.layout.count_scale(self.allowance, self.version))

    @property
    def errors(self) -> float:
        """See `StepScores`: the number of wrong answers."""
        return float(self.counts[1])

    @property
    def error_deviation(self) -> float:
        """See `StepScores`."""
        return self.count_deviation

    @property
    def over_all(self) -> tuple[float, float]:
        """See `StepScores`: the accuracy."""
        unit = 1 / self.total
        return unit * float(self.counts[0]), unit * self.count_deviation

    @property
    def cell_deviations(self) -> Floats:
        """The standard deviation of the noise of each cell."""
        scales = self.layout.scales(self.allowance, self.version)
        return np.array([self.allowance.deviation(scale) for scale in scales])

    @property
    def predicted(self) -> dict[str, Any]:
        """See `StepScores`."""
        return {"classes": self.classes}

    def as_json(self) -> dict[str, Any]:
        """See `StepScores`."""
        return {"layout": self.version, **super().as_json(), "counts": self.counts.tolist()}

    @classmethod
    def of_json(cls, stored: Mapping[str, Any]) -> Self:
        """See `StepScores`."""
        version = whole("the layout of scores", stored["layout"], most=LAYOUTS[-1])
        counts = array_of(stored["counts"])
        return cls(**shared(stored), classes=stored["classes"], counts=counts, version=version)


def score(  # noqa: PLR0913 (records are three arrays)
    margins: Floats,
    y: Indices,
    usable: NDArray[np.bool_],
    *,
    classes: int,
    allowance: Allowance,
    bits: Bits,
    person_weights: Floats | None = None,
    rules: int = RULES,
) -> Scores:
    """Count how a released model does on the records of the next step, plus noise.

    Args:
        margins: Of the model on each slot, float64; shape (n,) for two classes, else (n, classes).
        y: The index of each slot's class; ignored where the slot is unusable.
        usable: Whether each slot can be used.
        classes: The number of classes.
        allowance: What each of these records pays, once, for all of it.
        bits: Source of randomness.
        person_weights: How much each slot counts, if persons are protected.
        rules: The number of the public rules that it follows.

    >>> from tidegate.privacy.noise import NotPrivateBits
    >>> y, usable = np.arange(1000) % 2, np.ones(1000, bool)
    >>> scores = score(y - 0.5, y, usable, classes=2, allowance=Allowance("mu", 1.0),
    ...                bits=NotPrivateBits(7))
    >>> scores.counts.round(), scores.count_deviation.__round__(2)
    (array([1002.,   -2.,   -2.]), 2.45)
    """
    layout, version = Cells.of(classes, len(usable), allowance), layout_of(rules)
    counts, cells = layout.count(margins, y, usable, person_weights)
    add_noise = laplace if allowance.unit == "epsilon" else gaussian
    counts = add_noise(counts, layout.count_scale(allowance, version), bits)
    scales = layout.scales(allowance, version)
    for scale in np.unique(scales):  # cells that share a scale are noised together
        cells[scales == scale] = add_noise(cells[scales == scale], float(scale), bits)
    return Scores(
        slots=len(usable),
        classes=classes,
        allowance=allowance,
        counts=counts,
        cells=cells,
        persons=person_weights is not None,
        version=version,
    )

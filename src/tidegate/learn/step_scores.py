"""The noisy sums of one step that measures are read off, whatever is predicted."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from tidegate.learn.exact import Floats, array_of
from tidegate.learn.survey import total_of
from tidegate.privacy.budget import Allowance


@dataclass(frozen=True, kw_only=True, eq=False)
class StepScores:
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
    def predicted(self) -> dict[str, Any]:
        """What they are about, as cards state it: the number of classes, or the target."""
        raise NotImplementedError

    def _counted(self) -> tuple[float, float]:
        """The noisy number of all slots, usable and not, and the deviation of its noise."""
        raise NotImplementedError

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

"""Persons: whose slots are, and what they count for so that a person counts like one record."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidegate.learn.records import Owners

Admitted = NDArray[np.bool_]
"""Which slots of a step count."""


@dataclass(frozen=True, eq=False)
class Owned:
    """Whose the slots of a span are, and which of them count.

    Attributes:
        owners: The keyed id of each slot's person.
        admitted: Whether the slot counts.
    """

    owners: Owners
    admitted: Admitted

"""Releases: published models, each with the card that says what it is and what it cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.privacy import Budget
from tidegate.schedule import Fit


@dataclass(frozen=True, kw_only=True, eq=False)
class Release:
    """An immutable published model.

    Attributes:
        number: Its place among the releases.
        fit: The fit that made it.
        share: What the records of the fit's span have paid for it.
        budget: What the share is a share of.
        weights: The model, read-only; shape (d, K), or (d,) for two classes.
        settings: The public numbers of the fit: noise scale, tolerance, steps ...
        private: False if the noise came from a seed.
    """

    number: int
    fit: Fit
    share: Fraction
    budget: Budget
    weights: NDArray[np.float64]
    settings: Mapping[str, float]
    private: bool

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Weights that were copied or saved and loaded are read-only again."""
        state["weights"].flags.writeable = False
        self.__dict__.update(state)

    def card(self) -> dict[str, Any]:
        """What the release is and what it cost, for people and for JSON."""
        return {
            "release": self.number,
            "fit": self.fit.number,
            "at": self.fit.at,
            "start": self.fit.span.start,
            "stop": self.fit.span.stop,
            "prior": self.fit.prior,
            "share": str(self.share),
            self.budget.unit: self.budget.of_share(self.share),
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta},
            "neighbours": "streams of one length that differ in the content of one record",
            "settings": dict(self.settings),
            "private": self.private,
        }

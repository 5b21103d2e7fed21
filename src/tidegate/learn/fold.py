"""The fold: how a refit changes a model, and how to undo that."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidegate.learn.transform import Transform


class Fold(NamedTuple):
    """What a refit changes: margins are multiplied by e^temperature, then shifted.

    For two classes the temperature multiplies the part of a margin that comes from the features.
    """

    temperature: float = 0.0
    shift: float = 0.0

    def into(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights whose margins are those of `weights` after the fold."""
        result = weights * math.exp(self.temperature)
        if weights.ndim == 1 or weights.shape[1] == 2:
            result[-1] = weights[-1] + self._on_constant(weights)
        return result

    def out_of(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights before the fold, but for rounding; `weights` are those after it.

        >>> fold = Fold(0.5, -1.0)
        >>> fold.out_of(fold.into(np.array([1.0, 2.0, 3.0]))).round(9)
        array([1., 2., 3.])
        """
        if self == Fold():
            return weights
        result = weights * math.exp(-self.temperature)
        if weights.ndim == 1 or weights.shape[1] == 2:
            result[-1] = weights[-1] - self._on_constant(weights)
        return result

    def _on_constant(self, weights: NDArray[np.float64]) -> float | NDArray[np.float64]:
        """What the shift adds to the weights of the constant column."""
        shift = self.shift / Transform.CONSTANT
        return shift if weights.ndim == 1 else np.array([-shift, shift]) / 2

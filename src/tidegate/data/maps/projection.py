"""A random projection drawn from a public seed."""

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from tidegate.checks import whole
from tidegate.data.feature_map import register
from tidegate.data.maps.record_map import RecordMap
from tidegate.data.rows import Rows, exact_product, nan_if_not_finite
from tidegate.kinds import parameter

SPREAD = 8
"""How many features a coordinate is spread over: enough that no single collision spoils it."""


@register
@dataclass(eq=False, repr=False)
class RandomProjection(ClassNamePrefixFeaturesOutMixin, RecordMap):
    """Project records onto fewer coordinates, keeping inner products on average.

    Each coordinate is added with a random sign to 8 of the features (to all if there are fewer),
    one in each eighth of them, and the sum is divided by sqrt(8): the sparse Johnson-Lindenstrauss
    transform of Kane and Nelson. The matrix has 8 entries per coordinate, whatever `n_components`
    is, and depends on the seed alone. The sums are exact; see docs/proofs/exact-products.md.

    Args:
        n_components: the number of features.
        seed: a public number, unrelated to the noise of a private fit.

    >>> projection = RandomProjection(n_components=4, seed=1)
    >>> projection.transform([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [1.0, 2.0, 0.0]])
    array([[ 0.5, -0.5,  0.5, -0.5],
           [ 1. , -1. , -1. , -1. ],
           [ 1.5, -1.5, -0.5, -1.5]])
    """

    kind: ClassVar[str] = "projection"
    about: ClassVar[str] = "random projection to fewer features"

    n_components: int = parameter("the number of features", partial(whole, most=2**20), default=256)
    seed: int = parameter("a public seed of the random map", partial(whole, least=0), default=0)

    @property
    def _n_features_out(self) -> int:
        return self.n_components

    def _map(self, rows: Rows) -> Rows:
        components = whole("n_components", self.n_components, most=2**31)
        matrix = signs(rows.shape[1], components, whole("seed", self.seed, least=0))
        steps, step = exact_product(rows, matrix, bits=0)
        with np.errstate(over="ignore"):  # a record near the largest float may overflow
            return nan_if_not_finite(steps * (step / np.sqrt(min(SPREAD, components))))


@lru_cache(maxsize=4)
def signs(columns: int, components: int, seed: int) -> csr_array:
    """The matrix of the projection before scaling, of shape (columns, components).

    It is made of the raw bits of a bit generator, which are the same in every version of numpy.

    >>> signs(2, 3, 1).toarray()
    array([[ 1., -1.,  1.],
           [-1.,  1., -1.]])
    """
    spread = min(SPREAD, components)
    edges = np.arange(spread + 1, dtype=np.uint64) * np.uint64(components) // np.uint64(spread)
    bits = np.random.PCG64(seed).random_raw(columns * spread).reshape(columns, spread)
    targets = edges[:-1] + (bits >> np.uint64(1)) % np.diff(edges)
    entries = np.where(bits & np.uint64(1), 1.0, -1.0)
    starts = np.arange(columns + 1) * spread
    shape = (columns, components)
    return csr_array((entries.ravel(), targets.ravel().astype(np.int64), starts), shape)

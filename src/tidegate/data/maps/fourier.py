"""Random Fourier features drawn from a public seed."""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from tidegate.checks import positive, whole
from tidegate.data.feature_map import register
from tidegate.data.maps.record_map import RecordMap
from tidegate.data.rows import Rows, exact_product
from tidegate.kinds import parameter

TURN = 2**16
"""Angles are rounded to 1/TURN of a turn, 1e-4 radians: far below the features' sampling error."""

COSINES = np.cos(np.arange(TURN) * (2 * math.pi / TURN))
"""A table, because the rounding of vectorised cosines may depend on values in the same register."""

FRACTION_BITS = 12
FREQUENCY_BITS = FRACTION_BITS + 3
"""Frequencies are normal deviates below 8 = 2^3 in size, in steps of 2^-12."""

LARGEST_GAMMA = 2.0**1000
"""A larger gamma counts as this one: no angle is left of either, and twice it is finite."""


@register
@dataclass(eq=False, repr=False)
class RandomFourier(ClassNamePrefixFeaturesOutMixin, RecordMap):
    """Features whose inner products approximate the Gaussian kernel exp(-gamma ||x - z||^2).

    For each of n_components random frequencies, the features are the cosine and the sine of the
    record's angle (Rahimi and Recht), so every record has norm 1 up to rounding. The angles are
    exact sums; see docs/proofs/exact-products.md. Use it for up to a few thousand columns; if
    there are more, project first.

    Args:
        n_components: the number of frequencies; twice as many features, cosines before sines.
        gamma: the inverse width of the kernel; public, never computed from the records.
        seed: a public number, unrelated to the noise of a private fit.

    >>> fourier = RandomFourier(n_components=2048, gamma=0.5, seed=1)
    >>> x, z = fourier.transform([[0.0, 1.0], [1.0, 1.0]])
    >>> round(float(x @ x), 9), abs(float(x @ z) - math.exp(-0.5)) < 0.02
    (1.0, True)
    """

    kind: ClassVar[str] = "fourier"
    about: ClassVar[str] = "for curved decision boundaries"

    n_components: int = parameter(
        "the number of frequencies", partial(whole, most=2**20), default=256
    )
    gamma: float = parameter("the inverse width of the kernel", positive, default=1.0)
    seed: int = parameter("a public seed of the random map", partial(whole, least=0), default=0)

    @property
    def _n_features_out(self) -> int:
        return 2 * self.n_components

    def _map(self, rows: Rows) -> Rows:
        components = whole("n_components", self.n_components, most=2**30)
        gamma = min(positive("gamma", self.gamma), LARGEST_GAMMA)
        width = math.sqrt(2 * gamma) / (2 * math.pi)
        seed = whole("seed", self.seed, least=0)
        frequencies = lattice_normals(rows.shape[1], components, seed)
        steps, step = exact_product(rows, frequencies, bits=FREQUENCY_BITS)
        # Beyond 2^53 turns rounding leaves nothing of an angle; the cap only prevents overflow.
        turns = steps * (np.minimum(step, 2.0**256) * width * 2.0**-FRACTION_BITS)
        angles = np.rint(np.nan_to_num(turns - np.rint(turns)) * TURN).astype(np.int64)
        amplitude = np.where(np.isnan(step), np.nan, math.sqrt(1 / components))
        cosines, sines = COSINES[angles % TURN], COSINES[(angles - TURN // 4) % TURN]
        return np.hstack([cosines, sines]) * amplitude


@lru_cache(maxsize=4)
def lattice_normals(columns: int, count: int, seed: int) -> NDArray[np.float64]:
    """Normal deviates in whole steps of 2^-12, of shape (columns, count).

    They are computed by inversion from the raw bits of a bit generator, which are the same in every
    version of numpy. With 32 bits each, they are below 6.4 in size.

    >>> lattice_normals(2, 3, 1)
    array([[  121.,  6756., -4349.],
           [ 6684., -2010.,  -792.]])
    """
    bits = np.random.PCG64(seed).random_raw(columns * count) >> np.uint64(32)
    normals = ndtri((bits + 0.5) * 2.0**-32)
    return np.asarray(np.rint(normals * 2**FRACTION_BITS).reshape(columns, count))

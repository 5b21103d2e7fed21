"""Every map of numbers, for the suites that run on all of them."""

from tidegate.features import (
    AppendIntercept,
    NormClip,
    RandomFourier,
    RandomProjection,
    RecordMap,
    Scattering,
)

NUMBER_MAPS: list[RecordMap] = [
    AppendIntercept(value=0.5),
    NormClip(norm=2.0),
    RandomFourier(n_components=10, gamma=0.3, seed=7),
    RandomProjection(n_components=13, seed=7),
    Scattering(width=28),
]

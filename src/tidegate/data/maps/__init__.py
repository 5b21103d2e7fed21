"""Feature maps that learn nothing from data: a record's features depend on that record alone."""

# Imported in the order in which users see them.
# isort: off
from tidegate.data.maps.hashed_text import HashedText
from tidegate.data.maps.intercept import AppendIntercept
from tidegate.data.maps.projection import RandomProjection
from tidegate.data.maps.fourier import RandomFourier
from tidegate.data.maps.scattering import Scattering
from tidegate.data.maps.encoded import EncodedImage, EncodedText
from tidegate.data.maps.clip import NormClip, clip_rows
from tidegate.data.maps.center import CenterScale
from tidegate.data.maps.feature_map import RecordMap
# isort: on

__all__ = [
    "AppendIntercept",
    "CenterScale",
    "EncodedImage",
    "EncodedText",
    "HashedText",
    "NormClip",
    "RandomFourier",
    "RandomProjection",
    "RecordMap",
    "Scattering",
    "clip_rows",
]

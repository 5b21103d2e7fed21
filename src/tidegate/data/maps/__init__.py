"""Feature maps that learn nothing from data: a record's features depend on that record alone."""

# Imported in the order in which users see them.
# isort: off
from tidegate.data.maps.hashed_text import HashedText
from tidegate.data.maps.intercept import AppendIntercept
from tidegate.data.maps.projection import RandomProjection
from tidegate.data.maps.fourier import RandomFourier
from tidegate.data.maps.scattering import Scattering
from tidegate.data.maps.encoded import EncodedImage, EncodedText
from tidegate.data.maps.clip import NormClip
from tidegate.data.rows import clip_rows
from tidegate.data.maps.center import CenterScale
from tidegate.data.maps.record_map import RecordMap
from tidegate.data.maps.columns_map import Columns
from tidegate.data.feature_map import MAPS
# isort: on

__all__ = [
    "MAPS",
    "AppendIntercept",
    "CenterScale",
    "Columns",
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

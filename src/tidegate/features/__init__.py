"""Feature maps that learn nothing from data: a record's features depend on that record alone.

>>> from sklearn.pipeline import make_pipeline
>>> features = make_pipeline(HashedText(n_features=64), AppendIntercept(), NormClip(norm=1.0))
>>> features.transform(["the tide is out", "the gate is shut"]).shape
(2, 65)
"""

# Imported in the order in which users see them.
# isort: off
from tidegate.features.text import HashedText
from tidegate.features.intercept import AppendIntercept
from tidegate.features.projection import RandomProjection
from tidegate.features.fourier import RandomFourier
from tidegate.features.scattering import Scattering
from tidegate.features.encoded import EncodedImage, EncodedText
from tidegate.features.clip import NormClip, clip_rows
from tidegate.features.center import CenterScale
from tidegate.features.feature_map import RecordMap
from tidegate.features.columns import (
    Category,
    Columns,
    Flag,
    Number,
    Text,
    Time,
    Vector,
)
# isort: on

__all__ = [
    "AppendIntercept",
    "Category",
    "CenterScale",
    "Columns",
    "EncodedImage",
    "EncodedText",
    "Flag",
    "HashedText",
    "NormClip",
    "Number",
    "RandomFourier",
    "RandomProjection",
    "RecordMap",
    "Scattering",
    "Text",
    "Time",
    "Vector",
    "clip_rows",
]

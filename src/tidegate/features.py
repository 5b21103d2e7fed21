"""Feature maps that learn nothing from data: a record's features depend on that record alone.

>>> from sklearn.pipeline import make_pipeline
>>> features = make_pipeline(HashedText(n_features=64), AppendIntercept(), NormClip(norm=1.0))
>>> features.transform(["the tide is out", "the gate is shut"]).shape
(2, 65)
"""

from tidegate.data.columns import Category, Flag, Number, Text, Time, Vector
from tidegate.data.maps import (
    AppendIntercept,
    CenterScale,
    Columns,
    EncodedImage,
    EncodedText,
    HashedText,
    NormClip,
    RandomFourier,
    RandomProjection,
    RecordMap,
    Scattering,
    clip_rows,
)

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

__path__: list[str] = []
"""Its modules are in `tidegate.data` now; `tidegate.moved` finds them by their old names."""

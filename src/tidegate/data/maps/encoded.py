"""Feature maps that encode texts and images by public frozen models."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from tidegate.checks import positive, real, refuse, whole
from tidegate.data.encoder import Encoder, OnnxImage, text_encoder
from tidegate.data.encoder.encoder import LENGTH, Vectors, digests, path
from tidegate.data.feature_map import register
from tidegate.data.maps.record_map import RecordMap
from tidegate.data.rows import Rows
from tidegate.kinds import parameter


def per_channel(name: str, value: object) -> tuple[float, ...]:
    """A number for each channel; empty or None for the default."""
    value = () if value is None else value
    if not isinstance(value, list | tuple):
        raise refuse(name, "a list with a number for each channel", value)
    numbers = tuple(map(real, value))
    if not all(map(isfinite, numbers)):
        raise refuse(name, "a list of finite numbers", value)
    return numbers


class FrozenMap(ClassNamePrefixFeaturesOutMixin):
    """A map with public files, which are frozen when they are first used.

    Attributes:
        files: The parameters that are paths of files.
        digest: The SHA-256 of each file, joined by +; None for those of the files as they are.
    """

    files: ClassVar[tuple[str, ...]]
    digest: str | None
    _opened: tuple[Any, Any] = (), None

    @abstractmethod
    def opened(self) -> Any:
        """The encoder, frozen as it was when it was first opened."""

    @property
    def _n_features_out(self) -> int:
        return int(self.opened().width)

    def pinned(self) -> Self:
        """This map with the digests of its files."""
        return type(self)(**{**self.get_params(deep=False), "digest": self.opened().digest})

    def described(self) -> dict[str, Any]:
        """Its parameters for a card: files by name and digest, without folders."""
        parameters: dict[str, Any] = self.pinned().get_params(deep=False)
        names = {name: Path(parameters[name]).name for name in self.files}
        return {"kind": type(self).__name__, **parameters, **names}


@register
@dataclass(eq=False, repr=False)
class EncodedText(FrozenMap, TransformerMixin, BaseEstimator):
    """Turn each text into a vector of norm 1 by a public sentence model or table of vectors.

    The files are frozen when they are first used: their SHA-256 is on the card, and changed files
    are refused. A text's features depend on that text alone. A record that is not a `str` becomes
    a row of NaN.

    Args:
        encoder: the path of an .onnx model or a .safetensors table, relative to the working
            directory.
        tokenizer: the path of its tokenizer.json.
        length: the most tokens of a text that are read.
        digest: the SHA-256 of both files, joined by +; None for those of the files as they are.

    >>> from tempfile import mkdtemp
    >>> from safetensors.numpy import save_file
    >>> from tokenizers import Tokenizer, models, pre_tokenizers
    >>> words = Tokenizer(models.WordLevel({"tide": 0, "gate": 1, "?": 2}, unk_token="?"))
    >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
    >>> table, tokenizer = (f"{mkdtemp()}/{name}" for name in ("t.safetensors", "t.json"))
    >>> words.save(tokenizer)
    >>> save_file({"vectors": np.eye(3, dtype=np.float32)}, table)
    >>> EncodedText(table, tokenizer).transform(["tide gate tide", "", None]).round(3)
    array([[0.894, 0.447, 0.   ],
           [0.   , 0.   , 0.   ],
           [  nan,   nan,   nan]], dtype=float32)
    """

    kind: ClassVar[str] = "encoder"
    about: ClassVar[str] = "text through a public frozen model"
    takes_text: ClassVar[bool] = True
    takes_columns: ClassVar[bool] = False
    files: ClassVar[tuple[str, ...]] = ("encoder", "tokenizer")

    encoder: str = parameter("the path of an .onnx or .safetensors file", path)
    tokenizer: str = parameter("the path of its tokenizer.json", path)
    length: int = parameter(
        "the most tokens of a text that are read",
        partial(whole, least=8, most=2**16),
        default=LENGTH,
    )
    digest: str | None = parameter(
        "the SHA-256 of both files, joined by +; of the files as they are, if left out",
        digests,
        default=None,
    )

    def opened(self) -> Encoder:
        """The encoder, frozen as it was when it was first opened."""
        given = (self.encoder, self.tokenizer, self.length, self.digest)
        if self._opened[0] != given:
            self._opened = given, text_encoder(*given)
        encoder: Encoder = self._opened[1]
        return encoder

    def fit(self, X: Sequence[object], y: object = None) -> Self:  # noqa: ARG002
        """Open the files; no record is read."""
        self.opened()
        return self

    def transform(self, X: Sequence[object]) -> Vectors:
        """The vector of each text, shape (records, features), float32."""
        if isinstance(X, str) or getattr(X, "ndim", 1) != 1:
            raise refuse("the records", "a sequence of texts", shown=type(X).__name__)
        return self.opened().encode(list(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        return tags


@register
@dataclass(eq=False, repr=False)
class EncodedImage(FrozenMap, RecordMap):
    """Turn each image into a vector of norm 1 by a public vision model in ONNX.

    A record is the pixels row by row, and the channels of a pixel side by side. A number v of
    channel c enters the model as (v scale - mean[c]) / deviation[c]. The file is frozen when it is
    first used, as for `EncodedText`.

    Args:
        encoder: the path of an .onnx model, relative to the working directory.
        height: the pixels in a column of the image.
        width: the pixels in a row of the image.
        channels: the numbers of a pixel.
        scale: what each number is multiplied by.
        mean: what is subtracted then, one for each channel; empty for 0.
        deviation: what it is divided by then, one for each channel; empty for 1.
        digest: the SHA-256 of the file; None for that of the file as it is.
    """

    kind: ClassVar[str] = "image_encoder"
    about: ClassVar[str] = "images through a public frozen model: the columns are the pixels"
    files: ClassVar[tuple[str, ...]] = ("encoder",)

    encoder: str = parameter("the path of an .onnx file", path)
    height: int = parameter("pixels in a column", partial(whole, most=2**12))
    width: int = parameter("pixels in a row", partial(whole, most=2**12))
    channels: int = parameter("numbers of a pixel", partial(whole, most=2**8), default=1)
    scale: float = parameter("what each number is multiplied by", positive, default=1 / 255)
    mean: tuple[float, ...] | None = parameter(
        "what is subtracted then, one for each channel", per_channel, default=()
    )
    deviation: tuple[float, ...] | None = parameter(
        "what it is divided by then, one for each channel", per_channel, default=()
    )
    digest: str | None = parameter(
        "the SHA-256 of the file; of the file as it is, if left out", digests, default=None
    )

    def opened(self) -> OnnxImage:
        """The encoder, frozen as it was when it was first opened."""
        shape = (
            whole("height", self.height, most=2**12),
            whole("width", self.width, most=2**12),
            whole("channels", self.channels, most=2**12),
        )
        given = (self.encoder, shape, self.scale, self.mean, self.deviation, self.digest)
        if self._opened[0] != given:
            numbers: dict[str, Any] = {
                "scale": self.scale,
                "mean": self._per_channel("mean", 0.0),
                "deviation": self._per_channel("deviation", 1.0),
            }
            encoder = path("encoder", self.encoder)
            self._opened = given, OnnxImage.open(encoder, shape, digest=self.digest, **numbers)
        opened: OnnxImage = self._opened[1]
        return opened

    def fit(self, X: Any, y: object = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Open the file, and store the number and names of the columns."""
        self._check_columns(self._rows(X, reset=True))
        return self

    def _map(self, rows: Rows) -> Rows:
        self._check_columns(rows)
        return self.opened().encode(rows if isinstance(rows, np.ndarray) else rows.toarray())

    def _check_columns(self, rows: Rows) -> None:
        columns = self.opened().columns
        if rows.shape[1] != columns:
            wanted = f"{columns} numbers: {self.height} x {self.width} x {self.channels}"
            raise refuse("each image", wanted, rows.shape[1])

    def _per_channel(self, name: str, usual: float) -> tuple[float, ...]:
        """The numbers of each channel; none may be 0 unless that is usual."""
        values = per_channel(name, getattr(self, name)) or (usual,) * self.channels
        if len(values) != self.channels or (usual and 0.0 in values):
            allowed = f"a list with a number for each of {self.channels} channels"
            raise refuse(name, f"{allowed}, none 0" if usual else allowed, values)
        return values

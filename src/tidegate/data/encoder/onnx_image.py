"""An image's vector by a vision model in ONNX."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.data.encoder.frozen_file import FrozenFile, frozen, joined
from tidegate.data.encoder.onnx_model import OnnxModel, Row, loaded_model, rows_of
from tidegate.data.encoder.unit_rows import Vectors, unit_rows

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class OnnxImage:
    """The output of a vision model for each image, scaled to norm 1.

    A record is a row of numbers: the pixels row by row, and the channels of a pixel side by side. A
    number v of channel c enters the model as (v scale - mean[c]) / deviation[c], in float32. Each
    image is run by itself.

    Attributes:
        model: An ONNX file with one input, of shape (images, channels, height, width) or (images,
            height, width, channels).
        shape: The height, width and channels of an image.
        scale: What each number is multiplied by.
        mean: What is subtracted then, one for each channel.
        deviation: What it is divided by then, one for each channel.
    """

    model: FrozenFile
    shape: Shape
    scale: float
    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    @classmethod
    def open(  # noqa: PLR0913 (each is one public setting)
        cls,
        model: str,
        shape: Shape,
        *,
        scale: float = 1 / 255,
        mean: tuple[float, ...] = (),
        deviation: tuple[float, ...] = (),
        digest: str | None = None,
    ) -> "OnnxImage":
        """Open a model; without a digest, check the file and freeze it as it is now."""
        (file,) = frozen((model,), digest)
        channels = shape[2]
        opened = cls(file, shape, scale, mean or (0.0,) * channels, deviation or (1.0,) * channels)
        if not digest:
            opened.check()
        return opened

    @property
    def columns(self) -> int:
        """How many numbers an image is."""
        return math.prod(self.shape)

    @property
    def width(self) -> int:
        """How many features an image has."""
        return loaded_model(self.model).width

    @property
    def digest(self) -> str:
        """The SHA-256 of the file."""
        return joined((self.model,))

    def check(self) -> None:
        """Refuse a model that does not take images of this shape."""
        model = loaded_model(self.model)
        name, order = input_of(model, self.shape)
        blank = self._image(np.zeros(self.columns), order)
        model.probe({name: blank}, f"an image of {' x '.join(map(str, self.shape))}")

    def encode(self, rows: NDArray[Any]) -> Vectors:
        """The vector of each image; NaN for one with a number that is not finite.

        Args:
            rows: Shape (images, height x width x channels).
        """
        model = loaded_model(self.model)
        name, order = input_of(model, self.shape)

        def row(pixels: NDArray[Any]) -> Row | None:
            if not np.isfinite(pixels).all():
                return None
            return model.row({name: self._image(pixels, order)})

        return unit_rows(rows_of(row, list(rows), model.width))

    @np.errstate(all="ignore")
    def _image(self, pixels: NDArray[Any], order: tuple[int, ...]) -> NDArray[np.float32]:
        """One image as the model takes it, at an address that depends on no other image."""
        image = pixels.astype(np.float64).reshape(self.shape) * self.scale
        scaled = ((image - self.mean) / self.deviation).transpose(order)
        return aligned(scaled[None].astype(np.float32))


def aligned(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """A copy in C order at an address that is a multiple of 64 bytes, whatever came before.

    How a model rounds may depend on the address of its input.

    >>> aligned(np.ones((1, 3, 5), np.float32)).ctypes.data % 64
    0
    """
    room = np.empty(image.nbytes + 64, np.uint8)
    first = -room.ctypes.data % 64
    moved = room[first : first + image.nbytes].view(np.float32).reshape(image.shape)
    moved[...] = image
    return moved


def input_of(model: OnnxModel, shape: Shape) -> tuple[str, tuple[int, ...]]:
    """The name of the input, and the order in which it takes height, width and channels."""
    what = " x ".join(map(str, shape))
    if len(model.inputs) == 1:
        ((name, only),) = model.inputs.items()
        sizes = list(only.shape or [])
        for order in ((2, 0, 1), (0, 1, 2)):
            image = (1, *(shape[axis] for axis in order))
            if only.type == "tensor(float)" and takes(sizes, image):
                return name, order
    raise InvalidValueError(
        f"{model.path} must have one input of float32 images of {what} (height x width x channels),"
        " channels first or last: check the shape"
    )


def takes(sizes: Sequence[object], image: Sequence[int]) -> bool:
    """Whether an input of these sizes takes an image; a size that is no number takes any.

    >>> takes(["n", 3, 28, 28], (1, 3, 28, 28)), takes(["n", 3, "h", 28], (1, 28, 28, 3))
    (True, False)
    """
    return len(sizes) == len(image) and all(
        own == given or not isinstance(own, int) for own, given in zip(sizes, image, strict=True)
    )

"""Wavelet scattering of images by fixed filters, so nothing is learnt from data."""

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.fft import fft2, ifft2
from sklearn.base import ClassNamePrefixFeaturesOutMixin

from tidegate.checks import whole
from tidegate.data.feature_map import register
from tidegate.data.maps.record_map import RecordMap
from tidegate.data.rows import Rows, chunks, row_exponents
from tidegate.kinds import parameter

ANGLES = 8
CELL = 4
"""Features lie on a grid of cells this many pixels wide: two scales, each a factor of 2."""

CHANNELS = 1 + 2 * ANGLES + ANGLES**2
KINDS = (1, 1 + ANGLES, 1 + 2 * ANGLES)
"""Where the kinds of channels are split: average, fine waves, coarse waves, coarse in fine."""

FREQUENCY, DEVIATION = 3 * math.pi / 4, 0.8
"""The waves of the fine scale: radians per pixel, and deviation of their envelope in pixels."""

SLANT = 4 / ANGLES
"""Height over width of an envelope; below 1 it distinguishes more angles."""

SMALLEST = 2.0**-26
"""Added to sums of squares that could be 0; the largest pixel of an image is 1."""

Floats = NDArray[np.float32]
Waves = NDArray[np.complex64]


@register
@dataclass(eq=False, repr=False)
class Scattering(ClassNamePrefixFeaturesOutMixin, RecordMap):
    """The wavelet scattering of an image: two layers of convolutions with fixed wavelets.

    An image is convolved with Morlet wavelets of two scales and eight angles. The moduli of the
    fine scale are convolved with the coarse wavelets again, and all moduli are averaged over cells
    of about 4 x 4 pixels (Bruna and Mallat). That makes 1 + 16 + 64 channels on a grid: 81 x 7 x 7
    features for 28 x 28 pixels. Each of the four kinds of channels is then normalised by its own
    mean and deviation in this image, which evens out contrast, to norm 1/2: together at most 1.

    The columns of a record are its pixels, row by row. An incomplete last row is padded with zeros,
    and so is the image on all sides. Each record is transformed alone, in arrays whose shape is
    public, so its features cannot depend on other records. Multiplying an image by a positive
    number changes only roundings.

    Args:
        width: the number of pixels in a row of the image.

    >>> images = np.zeros((2, 28, 28))
    >>> images[0, 8:20, 14] = images[1, 9:21, 15] = 255  # one stroke, moved by a pixel
    >>> x, z = Scattering(width=28).transform(images.reshape(2, -1))
    >>> x.shape, round(float(x @ x), 2), float(x @ z) > 0.8
    ((3969,), 1.0, True)
    """

    kind: ClassVar[str] = "scattering"
    about: ClassVar[str] = "images: the columns are the pixels, row by row, `width` pixels per row"

    width: int = parameter("pixels in a row", partial(whole, most=2**12), default=28)

    @property
    def _n_features_out(self) -> int:
        height = -(-self.n_features_in_ // self.width)
        return CHANNELS * cells(height) * cells(self.width)

    def _map(self, rows: Rows) -> Rows:
        width = whole("width", self.width, most=2**12)
        count, columns = rows.shape
        height = -(-columns // width)
        filters = filters_of(height, width)
        features = np.full((count, CHANNELS * cells(height) * cells(width)), np.nan, np.float32)
        usable = row_exponents(rows)[1]
        for part in chunks(rows):
            block = rows[part] if isinstance(rows, np.ndarray) else rows[part].toarray()
            for i in np.flatnonzero(usable[part]):
                pixels = np.zeros(height * width)
                pixels[:columns] = block[i]
                image = unit(pixels.reshape(height, width))
                features[part.start + i] = normalised(scattered(image, filters)).ravel()
        return features.astype(rows.dtype, copy=False)


class Filters(NamedTuple):
    """The filters for images of one shape.

    Attributes:
        fine: spectra of the wavelets of the fine scale, shape (angles, frame height, frame width).
        coarse: the same for the coarse scale.
        means: a matrix for each axis that averages the pixels of the frame over cells.
        half_means: the same for every other pixel.
    """

    fine: Floats
    coarse: Floats
    means: tuple[Floats, Floats]
    half_means: tuple[Floats, Floats]


def cells(pixels: int) -> int:
    """How many cells cover a row of pixels.

    >>> cells(28), cells(29)
    (7, 8)
    """
    return -(-pixels // CELL)


@lru_cache(maxsize=4)
def filters_of(height: int, width: int) -> Filters:
    """The filters for an image placed half a cell inside a frame one cell larger."""
    high, wide = CELL * (cells(height) + 1), CELL * (cells(width) + 1)
    return Filters(
        fine=morlets(high, wide, scale=1),
        coarse=morlets(high, wide, scale=2),
        means=(averages(high, 1), averages(wide, 1)),
        half_means=(averages(high, 2), averages(wide, 2)),
    )


def morlets(high: int, wide: int, scale: int) -> Floats:
    """The spectra of the wavelets of a scale, shape (angles, high, 2 * wide): each entry twice.

    A wavelet is a Gaussian envelope times (e^(i k.u) - c) with a c that makes its sum 0. Its
    spectrum is real: one Gaussian around k minus c times one around 0, both with all aliases.
    """
    y = 2 * math.pi * np.fft.fftfreq(high)[:, None]
    x = 2 * math.pi * np.fft.fftfreq(wide)
    spectra = []
    for angle in np.arange(ANGLES) * (math.pi / ANGLES):
        k = FREQUENCY / scale
        around_k = _envelope(y - k * np.sin(angle), x - k * np.cos(angle), angle, scale)
        around_0 = _envelope(y, x, angle, scale)
        spectra.append(around_k - around_k[0, 0] / around_0[0, 0] * around_0)
    return np.repeat(np.array(spectra, np.float32), 2, axis=-1)


def _envelope(y: NDArray[Any], x: NDArray[Any], angle: float, scale: int) -> NDArray[np.float64]:
    """The spectrum of an envelope of sum 1, on the pixels."""
    total = np.zeros(np.broadcast_shapes(y.shape, x.shape))
    for turns in np.ndindex(5, 5):
        v, u = (w + 2 * math.pi * (turn - 2) for w, turn in zip((y, x), turns, strict=True))
        along, across = u * np.cos(angle) + v * np.sin(angle), v * np.cos(angle) - u * np.sin(angle)
        total += np.exp(-((DEVIATION * scale) ** 2) / 2 * (along**2 + (across / SLANT) ** 2))
    return total


def averages(size: int, every: int) -> Floats:
    """The matrix, shape (cells, pixels), that averages one in `every` pixels over cells."""
    centers = CELL * np.arange(1, size // CELL)
    away = np.abs(centers[:, None] - np.arange(0, size, every))
    bells = np.exp(-(np.minimum(away, size - away) ** 2) / (2 * (2 * DEVIATION) ** 2))
    return np.asarray(bells / bells.sum(axis=1, keepdims=True), np.float32)


def scattered(image: Floats, filters: Filters) -> Floats:
    """The features of one image with largest pixel 1, before normalisation.

    Returns:
        shape (channels, cells high, cells wide).
    """
    high, wide = filters.fine.shape[1], filters.fine.shape[2] // 2
    frame = np.zeros((high, wide), np.float32)
    edge = CELL // 2
    frame[edge : edge + image.shape[0], edge : edge + image.shape[1]] = image
    spectrum = fft2(frame)[None]
    fine = np.abs(ifft2(times(filters.fine, spectrum)))
    coarse = np.abs(ifft2(halved(times(filters.coarse, spectrum))))
    deep = np.abs(ifft2(halved(times(filters.coarse, fft2(fine)))))
    return np.concatenate(
        [
            smooth(np.concatenate([frame[None], fine]), filters.means),
            smooth(np.concatenate([coarse, deep]), filters.half_means),
        ]
    )


def times(spectra: Floats, of: Waves) -> Waves:
    """The spectra of the convolutions of each image with each wavelet, image by image.

    Real and imaginary parts are stored side by side, and each entry of a wavelet's real spectrum is
    stored twice: this is half the work of a complex product.
    """
    product = of.view(np.float32)[:, None] * spectra
    return product.view(np.complex64).reshape(-1, *of.shape[1:])


def halved(spectra: Waves) -> Waves:
    """The spectra of the images without every other pixel; overwrites its argument."""
    high, wide = (size // 2 for size in spectra.shape[1:])
    rows = spectra[:, :high]
    rows += spectra[:, high:]
    halves: Waves = rows[..., :wide] + rows[..., wide:]
    halves *= np.float32(0.25)
    return halves


def smooth(images: Floats, means: tuple[Floats, Floats]) -> Floats:
    """The averages of images over cells."""
    down, across = means
    return np.asarray(down @ (images @ across.T))


def unit(image: NDArray[np.float64]) -> Floats:
    """An image divided by its largest pixel, unless all are 0."""
    largest = np.abs(image).max()
    scaled = image / largest if largest else image
    return scaled.astype(np.float32)


def normalised(channels: Floats) -> Floats:
    """The four kinds of channels, each normalised by itself to norm 1/2.

    Args:
        channels: shape (channels, cells high, cells wide).
    """
    average, *waves = np.split(channels, KINDS)
    parts = [average - average.mean(), *map(contrasts, waves)]
    return np.concatenate([part / (2 * np.sqrt((part * part).sum() + SMALLEST)) for part in parts])


def contrasts(waves: Floats) -> Floats:
    """Waves of one kind minus their mean, cell by cell, scaled by energy.

    Nearly all images have more of every wave in the middle. That says nothing about the angles, and
    would take up most of the norm. A cell is scaled by its own energy plus the mean energy.
    """
    centred = waves - waves.mean(axis=0)
    energy = (centred * centred).mean(axis=0)
    return np.asarray(centred / np.sqrt(energy + energy.mean() + np.float32(SMALLEST)))

"""Scattering against convolutions written out in space, and what it promises of an image."""

import cmath
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tidegate.data.maps.scattering import (
    ANGLES,
    CHANNELS,
    DEVIATION,
    FREQUENCY,
    SLANT,
    filters_of,
    normalised,
    scattered,
)
from tidegate.features import NormClip, Scattering

Image = NDArray[np.float64]
pixels = st.floats(-1, 1, width=32)


def image_of(seed: int, height: int, width: int) -> Image:
    """A random image with largest pixel 1."""
    image = np.random.default_rng(seed).normal(size=(height, width))
    return np.asarray(image / np.abs(image).max())


def wavelet(high: int, wide: int, scale: int, angle: float) -> NDArray[np.complex128]:
    """A Morlet wavelet pixel by pixel, wrapped around a frame."""
    bell = np.zeros((high, wide))
    wave = np.zeros((high, wide), complex)
    reach, sigma = 12 * scale, DEVIATION * scale
    for v in range(-reach, reach + 1):
        for u in range(-reach, reach + 1):
            along = u * math.cos(angle) + v * math.sin(angle)
            across = v * math.cos(angle) - u * math.sin(angle)
            size = math.exp(-(along**2 + (SLANT * across) ** 2) / (2 * sigma**2))
            bell[v % high, u % wide] += size
            wave[v % high, u % wide] += size * cmath.exp(1j * FREQUENCY / scale * along)
    normal = 2 * math.pi * sigma**2 / SLANT
    return np.asarray((wave - wave.sum() / bell.sum() * bell) / normal)


def convolved(image: Image, kernel: NDArray[np.complex128]) -> Image:
    """The modulus of a circular convolution, as a sum over all pairs of pixels."""
    total = np.zeros(image.shape, complex)
    for v, u in np.ndindex(image.shape):
        total += image[v, u] * np.roll(kernel, (v, u), (0, 1))
    return np.abs(total)


def cell_averages(image: Image, every: int) -> Image:
    """Gaussian averages around every fourth pixel, from every so manieth pixel."""
    high, wide = image.shape
    found = np.empty((high // 4 - 1, wide // 4 - 1))
    for i, j in np.ndindex(found.shape):
        weights = np.zeros(image.shape)
        for v, u in np.ndindex(image.shape):
            if v % every == 0 and u % every == 0:
                dv, du = abs(v - 4 * (i + 1)), abs(u - 4 * (j + 1))
                squares = min(dv, high - dv) ** 2 + min(du, wide - du) ** 2
                weights[v, u] = math.exp(-squares / (2 * (2 * DEVIATION) ** 2))
        found[i, j] = (weights * image).sum() / weights.sum()
    return found


def naive(image: Image) -> Image:
    high, wide = (4 * (math.ceil(size / 4) + 1) for size in image.shape)
    frame = np.zeros((high, wide))
    frame[2 : 2 + image.shape[0], 2 : 2 + image.shape[1]] = image
    angles = [math.pi * a / ANGLES for a in range(ANGLES)]
    coarse = [wavelet(high, wide, 2, angle) for angle in angles]
    fine = [convolved(frame, wavelet(high, wide, 1, angle)) for angle in angles]
    channels = [cell_averages(part, 1) for part in (frame, *fine)]
    for part in (frame, *fine):
        channels += [cell_averages(convolved(part, kernel), 2) for kernel in coarse]
    return np.array(channels)


@pytest.mark.parametrize("shape", [(8, 8), (9, 5), (1, 11)])
def test_it_agrees_with_convolutions_in_space(shape: tuple[int, int]) -> None:
    image = image_of(sum(shape), *shape)
    found = scattered(image.astype(np.float32), filters_of(*shape))
    assert found.shape == (81, math.ceil(shape[0] / 4), math.ceil(shape[1] / 4))
    np.testing.assert_allclose(found, naive(image), atol=2e-6)


def test_the_channels_of_an_image_of_28_pixels() -> None:
    feature_map = Scattering(width=28).fit(np.zeros((1, 784)))
    assert feature_map.transform(np.zeros((3, 784))).shape == (3, 81 * 7 * 7)
    assert len(feature_map.get_feature_names_out()) == 3969
    assert CHANNELS == 81


@given(
    images=arrays(np.float64, (2, 70), elements=pixels),
    factor=st.floats(2.0**-900, 2.0**900),
)
def test_features_have_norm_1_at_most_whatever_the_contrast(images: Image, factor: float) -> None:
    feature_map = Scattering(width=9)
    features = feature_map.transform(images)
    # Squares of 8 x 2 cells of 81 channels add up with an error far below 1e-5 in float32.
    assert (np.linalg.norm(features, axis=1) <= 1 + 1e-5).all()
    np.testing.assert_allclose(feature_map.transform(images * factor), features, atol=1e-3)
    assert np.isfinite(NormClip(1.0).transform(features)).all()


def test_an_empty_image_has_no_features() -> None:
    assert not Scattering(width=28).transform(np.zeros((1, 784))).any()


def test_features_move_little_where_an_image_moves_a_pixel() -> None:
    """A drawn arc: nearer to itself moved by a pixel than to itself turned by a right angle."""
    y, x = np.mgrid[:28, :28]
    ring = np.exp(-((np.hypot(y - 13, x - 13) - 6) ** 2) / 2) * (x > 12)
    moved, turned = np.roll(ring, 1, axis=1), ring.T
    a, b, c = Scattering(width=28).transform(np.array([ring, moved, turned]).reshape(3, -1))
    assert a @ b > 0.8
    assert a @ b > a @ c + 0.3


def test_every_kind_of_channel_has_half_of_the_norm() -> None:
    channels = scattered(image_of(3, 28, 28).astype(np.float32), filters_of(28, 28))
    for part in np.split(normalised(channels), [1, 9, 17]):
        assert np.linalg.norm(part) == pytest.approx(0.5, abs=1e-3)


def test_the_features_of_an_image_are_those_of_earlier_releases() -> None:
    """A model is of use only with the features it was fitted on: these may never change."""
    image = np.zeros((1, 64))
    image[0, 20:44] = np.arange(24)
    features = Scattering(width=8).transform(image).reshape(81, 4)
    expected = [0.000698, -0.078572, -0.077249, 0.01209, 0.004111]
    np.testing.assert_allclose(features[[0, 1, 9, 17, 80], 1], expected, atol=1e-5)

"""Noise without floating-point holes: the ideal real-valued output, rounded to a public lattice.

A sample is computed from uniform bits by inversion in float64, with a bound on its error. Where
the bound does not settle which lattice point is nearest, the same bit strings are extended and the
sample is computed again in ball arithmetic. So the result is a function of the ideal output alone,
and has its privacy: see docs/proofs/noise.md, which derives every bound below.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from scipy.special import ndtri

from tidegate.checks import between, positive, refuse
from tidegate.privacy.bits import Bits, Words

Floats = NDArray[np.float64]

FUNCTION_ERROR = 2.0**-47
"""Assumed of `scipy.special.ndtri` and `numpy.log`: |computed - true| <= this * (1 + |true|).

The tests find less than 2**-50 against ball arithmetic, tails included.
"""

SUM_ERROR = 2.0**-46
"""Relative error of radius over norm: two sums of at most 64 levels, and five roundings."""

MILLS = 1.2534
"""Not below sqrt(pi / 2), the most that a normal sample moves when log(u) moves by one."""

SLACK = 1.125
"""Covers the products of small errors, and the rounding of the error bounds themselves."""


class _Inversion(NamedTuple):
    """A nonnegative variable as a decreasing function of a uniform one, twice."""

    fast: Callable[[Floats], Floats]
    exact: Callable[[arb], arb]


_HALF_NORMAL = _Inversion(lambda u: -ndtri(u / 2), lambda u: arb(2).sqrt() * u.erfcinv())
_EXPONENTIAL = _Inversion(lambda u: -np.log(u), lambda u: -u.log())

_Noise = Callable[[Sequence[arb], Sequence[int]], Sequence[arb]]
"""Noise in ball arithmetic, from uniforms and signs."""


def lattice(deviation: float) -> float:
    """The spacing of released values: the largest power of two <= 2**-16 times the deviation.

    >>> lattice(1.0) == lattice(1.99) == 2.0**-16
    True
    """
    # Within these bounds nothing below can overflow, whatever the center, nor lose low bits.
    deviation = between("the noise's deviation", deviation, 2.0**-884, 2.0**884)
    return math.ldexp(1.0, math.frexp(deviation)[1] - 17)


def gaussian(center: Floats, sigma: float, bits: Bits) -> Floats:
    """A normal sample around each coordinate of the center, rounded to `lattice(sigma)`.

    Args:
        center: what to hide, float64 of any shape.
        sigma: the deviation of every coordinate.
        bits: where the randomness comes from.

    >>> from tidegate.privacy.bits import NotPrivateBits
    >>> gaussian(np.zeros(3), 1.0, NotPrivateBits(7))
    array([ 0.72441101, -0.79580688, -0.90969849])
    """
    sigma = positive("sigma", sigma)
    return _independent(center, sigma, lattice(sigma), _HALF_NORMAL, bits)


def laplace(center: Floats, scale: float, bits: Bits) -> Floats:
    """A Laplace sample around each coordinate, independently: for a bound in the L1 norm only.

    Args:
        center: what to hide, float64 of any shape.
        scale: the mean absolute value of the noise; its deviation is sqrt(2) times that.
        bits: where the randomness comes from.

    >>> from tidegate.privacy.bits import NotPrivateBits
    >>> laplace(np.zeros(3), 1.0, NotPrivateBits(7))
    array([ 0.75753784, -0.85296631, -1.01339722])
    """
    scale = positive("scale", scale)
    return _independent(center, scale, lattice(scale * math.sqrt(2)), _EXPONENTIAL, bits)


def l2_laplace(center: Floats, scale: float, bits: Bits) -> Floats:
    """One sample around the whole center, with density proportional to exp(-||noise|| / scale).

    Its direction is uniform on the sphere, its length Gamma(p, scale) for p coordinates, and so
    the deviation of each coordinate is scale * sqrt(p + 1).

    Args:
        center: what to hide, float64 of any shape; the norm is over all of its coordinates.
        scale: the L2 sensitivity over epsilon.
        bits: where the randomness comes from.

    >>> from tidegate.privacy.bits import NotPrivateBits
    >>> l2_laplace(np.zeros(3), 1.0, NotPrivateBits(7))
    array([ 2.09890747, -2.30578613, -2.63580322])
    """
    center, scale = _checked(center), positive("scale", scale)
    p = center.size
    step = lattice(scale * math.sqrt(p + 1))
    words = bits.words(2 * p)
    z, z_error = _invert(_HALF_NORMAL, words[:p])
    x, x_error = _invert(_EXPONENTIAL, words[p:])
    with np.errstate(divide="ignore", invalid="ignore"):  # an inf or nan below is not certified
        gamma, norm = _total(x), np.sqrt(_total(z * z))
        drift = x_error.sum() / gamma + np.linalg.norm(z_error) / norm + SUM_ERROR
        stretch = scale * gamma / norm
        error = stretch * (drift * z + z_error) if drift < 2.0**-10 else np.full(p, np.inf)
        noise = stretch * z * _signs(words[:p])

    def settle(doubtful: NDArray[np.intp], residue: Floats) -> list[int]:
        def exact(uniforms: Sequence[arb], signs: Sequence[int]) -> list[arb]:
            z = [_HALF_NORMAL.exact(u) for u in uniforms[:p]]
            gamma = sum((_EXPONENTIAL.exact(u) for u in uniforms[p:]), arb(0))
            stretch = scale * gamma / sum((x * x for x in z), arb(0)).sqrt()
            return [stretch * z[i] * signs[i] for i in doubtful]

        return _settle(words, bits, exact, residue, step)

    return _round(center, step, noise, error, settle)


def _independent(
    center: Floats, scale: float, step: float, inversion: _Inversion, bits: Bits
) -> Floats:
    """The center plus scale times a symmetric variable in each coordinate, rounded."""
    center = _checked(center)
    words = bits.words(center.size)
    size, error = _invert(inversion, words)

    def exact(uniforms: Sequence[arb], signs: Sequence[int]) -> list[arb]:
        return [scale * s * inversion.exact(u) for s, u in zip(signs, uniforms, strict=True)]

    def settle(doubtful: NDArray[np.intp], residue: Floats) -> list[int]:
        return [
            _settle(words[[i]], bits, exact, residue[[j]], step)[0] for j, i in enumerate(doubtful)
        ]

    return _round(center, step, scale * size * _signs(words), scale * error, settle)


def _checked(center: object) -> Floats:
    """The center as a plain array, refused without quoting it where a sum with it means nothing."""
    if not isinstance(center, np.ndarray) or center.dtype != np.float64:
        raise refuse("center", "a float64 array", told=str(getattr(center, "dtype", type(center))))
    plain = np.asarray(center)  # a mask would hide values that are not finite
    if not np.isfinite(plain).all():
        raise refuse("center", "finite everywhere", told="a value that is not")
    return plain


def _signs(words: Words) -> Floats:
    """The last bit of a word is a sign; the 63 before it begin the bits of a uniform."""
    return 1.0 - 2.0 * (words & np.uint64(1)).astype(np.float64)


def _invert(inversion: _Inversion, words: Words) -> tuple[Floats, Floats]:
    """The variable at the uniforms that begin with these words, and a bound on its error.

    A uniform that begins with the 63 bits k lies in [k, k + 1] / 2**63: its logarithm is known up
    to 1 / k, and not at all for k = 0.
    """
    k = words >> np.uint64(1)
    value = inversion.fast(np.maximum(k, np.uint64(1)) * 2.0**-63)
    with np.errstate(divide="ignore"):
        return value, MILLS * (1 / k + 2.0**-52) + FUNCTION_ERROR * (1 + value)


def _total(values: Floats) -> np.float64:
    """The sum in halves: its relative error grows with the levels, not with the count."""
    while values.size > 1:
        half = values.size // 2
        values = np.append(values[:half] + values[half : 2 * half], values[2 * half :])
    return np.float64(values.sum())


def _round(
    center: Floats,
    step: float,
    noise: Floats,
    error: Floats,
    settle: Callable[[NDArray[np.intp], Floats], list[int]],
) -> Floats:
    """The point of the lattice nearest to the center plus the ideal noise.

    Args:
        center: an array; everything else is about its coordinates in flat order.
        step: the spacing of the lattice.
        noise: the ideal noise up to `error`.
        error: before slack and before the rounding of the sums here.
        settle: says exactly, for coordinates of which the error leaves doubt and what is left of
            their centers when the nearest lattice point is taken out, how many steps remain.
    """
    flat = center.ravel()
    with np.errstate(all="ignore"):  # a warning would tell something about the center
        # From 2**53 steps on, a float64 is on the lattice by itself.
        whole = np.where(np.abs(flat) < 2.0**53 * step, np.rint(flat / step) * step, flat)
        residue = flat - whole
        place = (residue + noise) / step
        nearest = np.rint(place)
        margin = SLACK * (error + 2.0**-52 * np.abs(noise)) / step + 2.0**-52
        doubtful = np.flatnonzero(~(np.abs(place - nearest) < 0.5 - margin))
    if doubtful.size:
        nearest[doubtful] = settle(doubtful, residue[doubtful])
    # Adding zero makes -0.0 into 0.0: its sign would tell on which side of zero the output lay.
    return (whole + nearest * step + 0.0).reshape(center.shape)


def _settle(words: Words, bits: Bits, noise: _Noise, residue: Floats, step: float) -> list[int]:
    """The steps nearest to residue plus noise, from as many more bits as it takes."""
    strings, length = [int(word) >> 1 for word in words], 63
    signs = [1 - 2 * (int(word) & 1) for word in words]
    while True:
        more = bits.words(len(strings))
        strings = [(s << 64) | int(word) for s, word in zip(strings, more, strict=True)]
        length += 64
        with ctx.workprec(length + 64):
            uniforms = [arb(2 * s + 1, 1) * arb((1, -length - 1)) for s in strings]
            places = [
                (arb(rest) + v) / step
                for rest, v in zip(residue.tolist(), noise(uniforms, signs), strict=True)
            ]
            nearest = [(place + 0.5).floor().unique_fmpz() for place in places]
        settled = [int(n) for n in nearest if n is not None]
        if len(settled) == len(nearest):
            return settled

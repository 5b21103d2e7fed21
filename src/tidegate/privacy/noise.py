"""Noise without floating-point holes: the ideal real-valued output, rounded to a public lattice.

A sample is computed from uniform bits by inversion in float64, with a bound on its error. Where
the bound does not settle which lattice point is nearest, the same bit strings are extended and the
sample is computed again in ball arithmetic. So the result is a function of the ideal output alone,
and just as private. docs/proofs/noise.md derives every bound below.

The bits come from the operating system, or from a seed, which is not private.
"""

import math
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from flint import arb, ctx
from numpy.typing import NDArray
from scipy.special import ndtri

from tidegate.checks import between, positive, refuse, whole

Words = NDArray[np.uint64]


class Bits(Protocol):
    """A source of independent fair bits, in words of 64."""

    @property
    def private(self) -> bool:
        """Whether nobody can predict or repeat the bits, which a private release requires."""

    def words(self, count: int) -> Words:
        """The next `count` words; no bit is returned twice."""


class SystemBits:
    """The operating system's cryptographic generator; no state is kept that a fork could copy.

    >>> SystemBits().private, SystemBits().words(3).shape
    (True, (3,))
    """

    private = True

    def words(self, count: int) -> Words:
        """The next `count` words."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


class NotPrivateBits:
    """Bits that anyone who knows the seed can repeat: for studies and tests, never for a release.

    Args:
        seed: A whole number; the same seed gives the same bits on every machine.
        place: Whole numbers that identify one use of the seed; each place has its own bits.

    >>> bits = NotPrivateBits(7)
    >>> bits.private, [hex(word) for word in bits.words(2)]
    (False, ['0x78046c3e44c57fae', '0x6d17e4bdf94f8ac5'])
    >>> bool(NotPrivateBits(7, 0).words(1) == NotPrivateBits(7, 1).words(1))
    False
    """

    private = False

    def __init__(self, seed: int, *place: int) -> None:
        sequence = np.random.SeedSequence(whole("seed", seed, least=0), spawn_key=place)
        self._stream = np.random.Philox(sequence)

    def words(self, count: int) -> Words:
        """The next `count` words."""
        return self._stream.random_raw(count)


Floats = NDArray[np.float64]


def bits_of(seed: int | None, *place: int) -> Bits:
    """Private bits; given a seed, bits for a place that anyone with the seed can repeat.

    >>> bits_of(None).private, bits_of(7, 1).private
    (True, False)
    """
    return SystemBits() if seed is None else NotPrivateBits(seed, *place)


FUNCTION_ERROR = 2.0**-47
"""Assumed of `scipy.special.ndtri` and `numpy.log`: |computed - true| <= this * (1 + |true|).

Tests against ball arithmetic find less than 2**-50, tails included.
"""

SUM_ERROR = 2.0**-46
"""Relative error of radius over norm: two sums of at most 64 levels, and five roundings."""

MILLS = 1.2534
"""At least sqrt(pi / 2), the most that a normal sample moves when log(u) moves by one."""

SLACK = 1.125
"""Covers the products of small errors, and the rounding of the error bounds themselves."""


class _Inversion(NamedTuple):
    """A nonnegative variable as a decreasing function of a uniform one, in floats and in balls."""

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
    # Within these bounds no center makes the code below overflow or lose low bits.
    deviation = between("the noise's deviation", deviation, 2.0**-884, 2.0**884)
    return math.ldexp(1.0, math.frexp(deviation)[1] - 17)


def gaussian(center: Floats, sigma: float, bits: Bits) -> Floats:
    """A normal sample around each coordinate of the center, rounded to `lattice(sigma)`.

    Args:
        center: What to hide, float64 of any shape.
        sigma: The standard deviation of every coordinate.
        bits: The source of random bits.

    >>> from tidegate.privacy.noise import NotPrivateBits
    >>> gaussian(np.zeros(3), 1.0, NotPrivateBits(7))
    array([ 0.72441101, -0.79580688, -0.90969849])
    """
    sigma = positive("sigma", sigma)
    return _independent(center, sigma, lattice(sigma), _HALF_NORMAL, bits)


def laplace(center: Floats, scale: float, bits: Bits) -> Floats:
    """An independent Laplace sample around each coordinate, for an L1 sensitivity only.

    Args:
        center: What to hide, float64 of any shape.
        scale: The mean absolute value of the noise; its standard deviation is sqrt(2) times that.
        bits: The source of random bits.

    >>> from tidegate.privacy.noise import NotPrivateBits
    >>> laplace(np.zeros(3), 1.0, NotPrivateBits(7))
    array([ 0.75753784, -0.85296631, -1.01339722])
    """
    scale = positive("scale", scale)
    return _independent(center, scale, lattice(scale * math.sqrt(2)), _EXPONENTIAL, bits)


def l2_laplace(center: Floats, scale: float, bits: Bits) -> Floats:
    """One sample around the whole center, with density proportional to exp(-||noise|| / scale).

    For p coordinates its direction is uniform on the sphere and its length is Gamma(p, scale). So
    the standard deviation of each coordinate is scale * sqrt(p + 1).

    Args:
        center: What to hide, float64 of any shape; the norm is over all of its coordinates.
        scale: The L2 sensitivity over epsilon.
        bits: The source of random bits.

    >>> from tidegate.privacy.noise import NotPrivateBits
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
    """The center as a plain array; another type or a value not finite is refused, unquoted."""
    if not isinstance(center, np.ndarray) or center.dtype != np.float64:
        raise refuse("center", "a float64 array", shown=str(getattr(center, "dtype", type(center))))
    plain = np.asarray(center)  # a mask would hide values that are not finite
    if not np.isfinite(plain).all():
        raise refuse("center", "finite everywhere", shown="a value that is not finite")
    return plain


def _signs(words: Words) -> Floats:
    """The signs in the last bits of words; the 63 bits before them are the first of a uniform."""
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
    """The sum in halves: its relative error grows with the number of halvings, not of values."""
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
        center: An array; the other arguments are about its coordinates in flat order.
        step: The spacing of the lattice.
        noise: The ideal noise, up to `error`.
        error: A bound on the error of `noise`, without slack and without the roundings made here.
        settle: Computes the exact number of steps for the coordinates in doubt, given their indices
            and their residues: the center minus its nearest lattice point.
    """
    flat = center.ravel()
    with np.errstate(all="ignore"):  # a warning would reveal something about the center
        # A float64 of 2**53 steps or more is a lattice point.
        whole = np.where(np.abs(flat) < 2.0**53 * step, np.rint(flat / step) * step, flat)
        residue = flat - whole
        place = (residue + noise) / step
        nearest = np.rint(place)
        margin = SLACK * (error + 2.0**-52 * np.abs(noise)) / step + 2.0**-52
        doubtful = np.flatnonzero(~(np.abs(place - nearest) < 0.5 - margin))
    if doubtful.size:
        nearest[doubtful] = settle(doubtful, residue[doubtful])
    # Adding zero turns -0.0 into 0.0: the sign would reveal on which side of zero the output lay.
    return (whole + nearest * step + 0.0).reshape(center.shape)


def _settle(words: Words, bits: Bits, noise: _Noise, residue: Floats, step: float) -> list[int]:
    """The whole numbers of steps nearest to residue plus noise, with as many bits as it takes."""
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

"""Noise is rounded exactly, bit for bit, and has the claimed distributions."""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import beta, chi2, gamma, kstest, kstwo, norm
from scipy.stats import laplace as laplace_law

from tidegate.checks import InvalidValueError
from tidegate.privacy import noise
from tidegate.privacy.noise import (
    Bits,
    NotPrivateBits,
    SystemBits,
    Words,
    gaussian,
    l2_laplace,
    laplace,
    lattice,
)

Floats = NDArray[np.float64]
Law = Callable[[Floats, float, Bits], Floats]

LAWS: list[Law] = [gaussian, laplace, l2_laplace]
FALSE_ALARM = 1e-6  # of each single statistical assertion


def deviation(law: Law, scale: float, p: int) -> float:
    factors: dict[Law, float] = {gaussian: 1, laplace: math.sqrt(2), l2_laplace: math.sqrt(p + 1)}
    return scale * factors[law]


class Script:
    """Returns the given words first, then those of a seed, and records each request."""

    private = False

    def __init__(self, words: Sequence[int], seed: int = 0) -> None:
        self.script = list(words)
        self.rest = NotPrivateBits(seed)
        self.asked: list[int] = []

    def words(self, count: int) -> Words:
        self.asked.append(count)
        head, self.script = self.script[:count], self.script[count:]
        return np.append(np.array(head, np.uint64), self.rest.words(count - len(head)))


def word(string: int, sign: int = 0) -> int:
    """The first word of a uniform that begins with the 63 bits `string`."""
    return 2 * string + sign


def ideal(law: Law, p: int, scale: float, strings: Sequence[Sequence[int]]) -> list[arb]:
    """The noise in 400 bits, by other formulas, at the middle of the interval of each string.

    A string is given by its words, the first of which ends with the sign.
    """
    with ctx.workprec(400):
        u = [_middle(words) for words in strings]
        if law is laplace:
            sizes = [(1 / x).log() for x in u]
        else:
            sizes = [arb(2).sqrt() * (1 - x).erfinv() for x in u[:p]]
        if law is l2_laplace:
            product = math.prod(u[p:], start=arb(1))
            squares = sum((z**2 for z in sizes), arb(0))
            sizes = [-product.log() * (z**2 / squares).sqrt() for z in sizes]
        sides = [-scale if words[0] & 1 else scale for words in strings[:p]]
        return [side * size for side, size in zip(sides, sizes, strict=True)]


def reference(law: Law, center: Floats, scale: float, strings: Sequence[Sequence[int]]) -> Floats:
    """The center plus the ideal noise, rounded to the lattice and then to a float."""
    step = Fraction(lattice(deviation(law, scale, center.size)))
    noises = ideal(law, center.size, scale, strings)
    with ctx.workprec(4000):  # enough to add floats of any two exponents
        sums = [arb(c) + x for c, x in zip(center.tolist(), noises, strict=True)]
        steps = [(x / arb(float(step)) + 0.5).floor().unique_fmpz() for x in sums]
    return np.array([float(int(n) * step) for n in steps if n is not None], np.float64)


def _middle(words: Sequence[int]) -> arb:
    """The middle of [k, k + 1] / 2**length, where the words spell k after the sign is cut out."""
    length = 64 * len(words) - 1
    k = words[0] >> 1
    for more in words[1:]:
        k = k * 2**64 + more
    return arb(2 * k + 1) / arb(2) ** (length + 1)


def first_words(words: Sequence[int]) -> list[list[int]]:
    return [[w] for w in words]


centers = st.lists(
    st.floats(-1e6, 1e6) | st.floats(-1, 1) | st.floats(allow_nan=False, allow_infinity=False),
    max_size=5,
).map(lambda values: np.array(values, dtype=np.float64))
scales = st.floats(1e-9, 1e9) | st.floats(1e-250, 1e250)
laws = st.sampled_from(LAWS)
seeds = st.integers(0, 2**32)


# Exactness -------------------------------------------------------------------------------------


@given(laws, centers, scales, seeds)
def test_the_result_is_the_ideal_output_rounded(
    law: Law, center: Floats, scale: float, seed: int
) -> None:
    words = NotPrivateBits(seed).words(2 * center.size if law is l2_laplace else center.size)
    expected = reference(law, center, scale, first_words(words.tolist()))
    assert np.array_equal(law(center, scale, NotPrivateBits(seed)), expected)


@given(laws, centers, scales, seeds, seeds)
def test_refinement_agrees_with_the_fast_path(
    law: Law, center: Floats, scale: float, seed: int, later: int
) -> None:
    words = NotPrivateBits(seed).words(2 * center.size).tolist()
    fast, slow = Script(words, later), Script(words, later)
    expected = law(center, scale, fast)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "FUNCTION_ERROR", 1.0)
        assert np.array_equal(law(center, scale, slow), expected)
    if law is l2_laplace:
        assert fast.asked == [2 * center.size]
        assert slow.asked == [2 * center.size] * (2 if center.size else 1)
    else:
        assert fast.asked == [center.size]
        assert slow.asked == [center.size] + [1] * center.size


def test_a_large_array_agrees_too(monkeypatch: pytest.MonkeyPatch) -> None:
    center = np.random.default_rng(0).normal(size=(40, 25))
    for law in LAWS:
        fast = law(center, 0.3, NotPrivateBits(4))
        with monkeypatch.context() as patch:
            patch.setattr(noise, "FUNCTION_ERROR", math.inf)
            assert np.array_equal(law(center, 0.3, NotPrivateBits(4)), fast)


@pytest.mark.parametrize("law", [gaussian, laplace])
@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("more", [[0], [1], [2**64 - 1], [2**40], [0, 0, 5], [0, 2**63]])
def test_a_tail_draw_reads_on_in_the_same_string(law: Law, sign: int, more: list[int]) -> None:
    # 63 zero bits say only that u <= 2**-63, so every later bit moves the result.
    string = [word(0, sign), *more, 0x0123456789ABCDEF, 0xFEDCBA9876543210]
    bits = Script(string)
    result = law(np.array([0.25]), 3.0, bits)
    assert np.array_equal(result, reference(law, np.array([0.25]), 3.0, [string]))
    assert bits.asked[:2] == [1, 1]
    assert len(bits.asked) <= len(string)


def test_only_the_doubtful_coordinate_is_refined() -> None:
    bits = Script([word(2**61), word(0), word(2**60, 1)])
    alone = Script([word(2**61), word(2**62), word(2**60, 1)])
    result, other = gaussian(np.zeros(3), 1.0, bits), gaussian(np.zeros(3), 1.0, alone)
    assert bits.asked == [3, 1]
    assert result[1] > 9  # u <= 2**-63
    assert np.array_equal(result[[0, 2]], other[[0, 2]])


@pytest.mark.parametrize("zeros", [[0], [3], [0, 5], [0, 1, 2, 3, 4, 5]])
def test_l2_laplace_extends_every_string(zeros: list[int]) -> None:
    first = [0 if i in zeros else word(2**59 * (i + 3), i % 2) for i in range(6)]
    more = NotPrivateBits(9).words(6).tolist()
    bits = Script([*first, *more])
    center = np.array([1.0, -2.0, 0.5])
    expected = reference(l2_laplace, center, 0.7, list(zip(first, more, strict=True)))
    assert np.array_equal(l2_laplace(center, 0.7, bits), expected)
    assert bits.asked == [6, 6]


@pytest.mark.parametrize("first", [[2**64 - 2, 2**62], [2**62, 2**64 - 2], [2**64 - 1] * 2])
def test_one_dimension_survives_a_vanishing_norm_or_radius(first: list[int]) -> None:
    # u = 1 up to 2**-63: in float64 neither the length of the direction nor the radius is certain.
    bits = Script(first, seed=2)
    result = l2_laplace(np.array([0.0]), 1.0, bits)
    sign = 1 - 2 * (first[0] & 1)
    radius = -math.log((first[1] >> 1) / 2**63)
    assert abs(result[0] - sign * radius) <= lattice(math.sqrt(2)) / 2 * (1 + 1e-9)


@pytest.mark.parametrize("law", LAWS)
def test_an_output_at_a_rounding_boundary_is_settled_by_more_bits(law: Law) -> None:
    # Put the center half a step (in float64, so not exactly) beside a sample.
    step = lattice(deviation(law, 1.0, 2))
    count = 4 if law is l2_laplace else 2
    for seed in range(20):
        words, more = NotPrivateBits(seed).words(2 * count).reshape(2, count).tolist()
        center = step * (seed - 9.5) - approximate(law, words)
        bits = Script([*words, *more])
        result = law(center, 1.0, bits)
        expected = reference(law, center, 1.0, list(zip(words, more, strict=True)))
        assert np.array_equal(result, expected)
        assert bits.asked == ([4, 4] if law is l2_laplace else [2, 1, 1])


def approximate(law: Law, words: Sequence[int]) -> Floats:
    """Noise of scale 1 in two dimensions, in float64."""
    u = np.array([(w >> 1) / 2**63 for w in words])
    signs = np.array([1 - 2 * (w & 1) for w in words[:2]])
    if law is laplace:
        return np.asarray(-signs * np.log(u[:2]))
    z = -signs * ndtri(u[:2] / 2)
    return np.asarray(z if law is gaussian else -z * np.log(u[2:]).sum() / np.linalg.norm(z))


# Error bounds ----------------------------------------------------------------------------------


def strings_everywhere(count: int, seed: int) -> Words:
    """63-bit strings in the bulk, in both tails at every scale, and at both ends."""
    rng = np.random.default_rng(seed)
    bulk = rng.integers(1, 2**63, count, dtype=np.uint64)
    tail = (2.0 ** rng.uniform(0, 62.9, count)).astype(np.uint64)
    ends = np.array([1, 2, 3, 2**63 - 1, 2**63 - 2, 2**62, 2**62 - 1, 2**62 + 1], np.uint64)
    return np.concatenate([bulk, tail, np.uint64(2**63) - tail, ends])


def test_the_assumed_errors_of_ndtri_and_log_hold_with_margin() -> None:
    u = strings_everywhere(3000, 1).astype(np.float64) * 2.0**-63
    # Beside the steps of the rational approximations that ndtri is made of.
    joints = np.array([2 * math.exp(-2), 2 * math.exp(-32), 2.0**-63, 1.0])
    u = np.concatenate([u, joints, np.nextafter(joints, 0), np.nextafter(joints, 1)])
    with ctx.workprec(160):
        for inversion in (noise._HALF_NORMAL, noise._EXPONENTIAL):
            for x, fast in zip(u.tolist(), inversion.fast(u).tolist(), strict=True):
                true = inversion.exact(arb(x))
                assert abs(true - fast) <= noise.FUNCTION_ERROR / 8 * (1 + true)


def test_the_error_of_an_inversion_covers_everything_its_string_leaves_open() -> None:
    k = strings_everywhere(1000, 2)
    with ctx.workprec(160):
        for inversion in (noise._HALF_NORMAL, noise._EXPONENTIAL):
            value, error = noise._invert(inversion, k << np.uint64(1))
            for string, v, e in zip(k.tolist(), value.tolist(), error.tolist(), strict=True):
                for end in (string, string + 1):
                    true = inversion.exact(arb(end) * arb((1, -63)))
                    assert abs(true - v) <= e


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("p", [1, 2, 3, 300])
def test_the_error_of_the_noise_covers_the_ideal_noise(
    law: Law, p: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Floats, Floats]] = []

    def watch(center: Floats, _: float, value: Floats, error: Floats, *__: object) -> Floats:
        seen.append((value, np.asarray(noise.SLACK * (error + 2.0**-52 * np.abs(value)))))
        return center

    monkeypatch.setattr(noise, "_round", watch)
    finite = 0
    for seed in range(200 // p + 2):
        words = NotPrivateBits(seed).words(2 * p if law is l2_laplace else p)
        words[seed % words.size] >>= np.uint64(seed % 50)  # now and then a tail
        law(np.zeros(p), 2.5, Script(words.tolist()))
        value, error = seen.pop()
        truth = ideal(law, p, 2.5, first_words(words.tolist()))
        for v, e, true in zip(value.tolist(), error.tolist(), truth, strict=True):
            assert abs(true - v) <= e
            finite += math.isfinite(e)
    assert finite > 100


def test_the_zero_string_is_never_certified() -> None:
    for inversion in (noise._HALF_NORMAL, noise._EXPONENTIAL):
        value, error = noise._invert(inversion, np.array([0, 1], np.uint64))
        assert np.isfinite(value).all()
        assert np.isinf(error).all()


@given(st.lists(st.floats(0, 1e3), max_size=300))
def test_the_sum_in_halves_keeps_its_bound(values: list[float]) -> None:
    exact = sum(map(Fraction, values), Fraction(0))
    levels = math.ceil(math.log2(max(len(values), 1)))
    error = abs(Fraction(float(noise._total(np.array(values)))) - exact)
    assert error <= exact * levels * Fraction(1.01 * 2.0**-53)


# The lattice -----------------------------------------------------------------------------------


@given(st.floats(2.0**-883, 2.0**883))
def test_the_lattice_is_the_largest_power_of_two_below(sigma: float) -> None:
    step = lattice(sigma)
    assert math.frexp(step)[0] == 0.5
    assert Fraction(step) <= Fraction(sigma) / 2**16 < 2 * Fraction(step)


@given(laws, centers, scales, seeds)
def test_results_lie_on_the_lattice_and_zero_has_no_sign(
    law: Law, center: Floats, scale: float, seed: int
) -> None:
    step = Fraction(lattice(deviation(law, scale, center.size)))
    for value in law(center, scale, NotPrivateBits(seed)).tolist():
        assert (Fraction(value) / step).denominator == 1
        assert value != 0 or math.copysign(1, value) == 1


def test_a_zero_reached_from_below_looks_like_any_other() -> None:
    # A sample of -0.1 steps, and centers that round to -0.0 or to 0.0 themselves.
    almost_one = word(round(2**63 * (1 - 0.1 * 2.0**-16)), 1)
    for center in (0.0, -0.0, -0.3 * 2.0**-16, 0.3 * 2.0**-16, -5e-324):
        result = laplace(np.array([center]), 0.75, Script([almost_one]))
        assert result.tobytes() == np.zeros(1).tobytes()


def test_beyond_the_exact_integers_the_lattice_point_is_rounded_once() -> None:
    # 2**53 + 2 and the same plus one step differ as lattice points; float64 shows one of them.
    step, big = lattice(1.0), (2**54 + 4) * lattice(1.0)
    for seed in range(50):
        noise_alone = gaussian(np.zeros(1), 1.0, NotPrivateBits(seed))
        point = 2**54 + 4 + Fraction(noise_alone[0]) / Fraction(step)
        result = gaussian(np.array([big]), 1.0, NotPrivateBits(seed))
        assert result[0] == float(point) * step


def test_the_largest_floats_do_not_overflow() -> None:
    top = np.finfo(np.float64).max
    for law in LAWS:
        for scale in (1e-200, 1.0, 1e250):
            assert law(np.array([top, -top]), scale, NotPrivateBits(1)).tolist() == [top, -top]


# What is accepted ------------------------------------------------------------------------------


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (2, 3), (2, 1, 4)])
def test_the_shape_is_kept(law: Law, shape: tuple[int, ...]) -> None:
    center = np.zeros(shape)
    result = law(center, 1.0, SystemBits())
    assert result.shape == shape
    assert result.dtype == np.float64
    assert not center.any()


def test_the_order_in_memory_does_not_matter() -> None:
    center = np.arange(12.0).reshape(3, 4)
    for law in LAWS:
        expected = law(center, 1.0, NotPrivateBits(1))
        assert np.array_equal(law(np.asfortranarray(center), 1.0, NotPrivateBits(1)), expected)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("scale", [0, -1.0, math.nan, math.inf, 1e-300, 1e300, True, "1", None])
def test_an_impossible_scale_is_refused(law: Law, scale: object) -> None:
    with pytest.raises(InvalidValueError, match=r"(sigma|scale|deviation) must be"):
        law(np.zeros(2), scale, SystemBits())  # type: ignore[arg-type]


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_center_that_is_not_finite_is_refused_without_its_values(law: Law, value: float) -> None:
    with pytest.raises(InvalidValueError, match="center must be finite everywhere") as caught:
        law(np.array([123.25, value]), 1.0, SystemBits())
    assert "123" not in str(caught.value)


def test_a_mask_does_not_hide_what_is_not_finite() -> None:
    masked = np.ma.masked_invalid(np.array([1.0, math.nan]))
    for law in LAWS:
        with pytest.raises(InvalidValueError, match="center must be finite everywhere"):
            law(masked, 1.0, SystemBits())


def test_no_center_raises_a_floating_point_error() -> None:
    center = np.array([5e-324, -1e-310, 1e-200, 0.0, 1e200, -1e308])
    with np.errstate(all="raise"):
        for law in LAWS:
            for scale in (1e-250, 1.0, 1e250):
                assert np.isfinite(law(center, scale, SystemBits())).all()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("center", [[1.0], 1.0, np.zeros(2, np.float32), np.zeros(2, np.int64)])
def test_a_center_of_another_type_is_refused(law: Law, center: object) -> None:
    with pytest.raises(InvalidValueError, match="center must be a float64 array"):
        law(center, 1.0, SystemBits())  # type: ignore[arg-type]


# Laws ------------------------------------------------------------------------------------------
# A Kolmogorov-Smirnov statistic D of n draws exceeds kstwo.isf(FALSE_ALARM, n) with probability
# FALSE_ALARM. Rounding moves a coordinate by at most 2**-17 deviations, and no distribution
# function below by as much as BLUR: lengths and coordinates have a density of at most 1 per
# deviation, and a direction moves by less than 2**-10 unless the length is below 1/30 of the
# scale, which even in two dimensions has probability below 2**-10.

BLUR = 2.0**-9


def ks(sample: Floats, cdf: Callable[[Floats], Floats]) -> bool:
    """Whether the sample may come from this distribution."""
    limit = float(kstwo.isf(FALSE_ALARM, sample.size)) + BLUR
    return float(kstest(sample, cdf).statistic) < limit


def even(counts: Floats) -> bool:
    """Whether all cells may be equally likely; their expectations are in the hundreds."""
    statistic = ((counts - counts.mean()) ** 2 / counts.mean()).sum()
    return bool(statistic < chi2.isf(FALSE_ALARM, counts.size - 1))


def orthants(sample: Floats) -> Floats:
    """How many rows have each pattern of signs; zeros, one in 2**16, are left out."""
    rows = sample[(sample != 0).all(axis=1)]
    pattern = (rows > 0) @ 2 ** np.arange(rows.shape[1])
    return np.bincount(pattern, minlength=2 ** rows.shape[1]).astype(np.float64)


def is_gaussian(sample: Floats, sigma: float) -> list[bool]:
    p = sample.shape[1]
    return [
        ks(sample.ravel(), norm(scale=sigma).cdf),
        ks((sample**2).sum(axis=1) / sigma**2, chi2(p).cdf),
        even(orthants(sample)),
    ]


def is_laplace(sample: Floats, scale: float) -> list[bool]:
    p = sample.shape[1]
    return [
        ks(sample.ravel(), laplace_law(scale=scale).cdf),
        ks(np.abs(sample).sum(axis=1), gamma(p, scale=scale).cdf),
        even(orthants(sample)),
    ]


def is_l2_laplace(sample: Floats, scale: float) -> list[bool]:
    """In three dimensions, where one coordinate has density (1 + |x|) exp(-|x|) / 4."""
    length = np.linalg.norm(sample, axis=1)

    def marginal(x: Floats) -> Floats:
        tail = (2 + np.abs(x) / scale) * np.exp(-np.abs(x) / scale) / 4
        return np.where(x > 0, 1 - tail, tail)

    # A uniform direction: any coordinate of it is uniform on [-1, 1] (Archimedes), whatever the
    # length is; so its products with fixed unit vectors are, too.
    slanted = sample @ np.array([1.0, 1.0, 1.0]) / math.sqrt(3)
    direction = beta(1, 1, loc=-1, scale=2).cdf
    return [
        ks(length, gamma(3, scale=scale).cdf),
        *(ks(sample[:, j], marginal) for j in range(3)),
        *(ks(sample[:, j] / length, direction) for j in range(3)),
        ks(slanted / length, direction),
        ks(sample[length > np.median(length), 0] / length[length > np.median(length)], direction),
        even(orthants(sample)),
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gaussian_law(seed: int) -> None:
    assert all(is_gaussian(gaussian(np.zeros((40_000, 5)), 2.5, NotPrivateBits(seed)), 2.5))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_laplace_law(seed: int) -> None:
    assert all(is_laplace(laplace(np.zeros((40_000, 5)), 0.3, NotPrivateBits(seed)), 0.3))


def l2_sample(n: int, p: int, scale: float, bits: Bits) -> Floats:
    return np.array([l2_laplace(np.zeros(p), scale, bits) for _ in range(n)])


@pytest.mark.parametrize("bits", [NotPrivateBits(1), NotPrivateBits(2), SystemBits()])
def test_l2_laplace_law(bits: Bits) -> None:
    assert all(is_l2_laplace(l2_sample(8000, 3, 1.7, bits), 1.7))


@pytest.mark.parametrize("p", [1, 2, 50, 2000])
def test_l2_laplace_has_its_radius_and_deviation_in_every_dimension(p: int) -> None:
    sample = l2_sample(400, p, 1.0, NotPrivateBits(p))
    assert ks(np.linalg.norm(sample, axis=1), gamma(p).cdf)
    # Given its direction's law, one squared coordinate over the squared length is Beta.
    assert p == 1 or ks(sample[:, 0] ** 2 / (sample**2).sum(axis=1), beta(0.5, (p - 1) / 2).cdf)


def test_in_one_dimension_l2_laplace_is_laplace() -> None:
    assert ks(l2_sample(8000, 1, 0.5, NotPrivateBits(8)).ravel(), laplace_law(scale=0.5).cdf)


@pytest.mark.parametrize("law", LAWS)
def test_the_lowest_bits_are_even(law: Law) -> None:
    # Over 2**17 lattice points a deviation, the law of the point modulo 16 is flat to 2**-30.
    sample = law(np.full(100_000, 0.3), 1.0, NotPrivateBits(6))
    points = np.rint(sample / lattice(deviation(law, 1.0, sample.size))).astype(np.int64)
    assert even(np.bincount(points % 16, minlength=16).astype(np.float64))


def test_the_center_only_shifts() -> None:
    # On the lattice itself, the shift is exact; between its points, the noise's law is unmoved.
    for law in LAWS:
        step = lattice(deviation(law, 1.0, 4))
        shift = step * np.array([3.0, -70_000.0, 1e9, 0.0])
        alone = law(np.zeros(4), 1.0, NotPrivateBits(3))
        assert np.array_equal(law(shift, 1.0, NotPrivateBits(3)), shift + alone)


# The tests above must be able to fail: each of these mistakes was made somewhere.


def sphere(rng: np.random.Generator, n: int) -> Floats:
    z = rng.normal(size=(n, 3))
    return np.asarray(z / np.linalg.norm(z, axis=1, keepdims=True))


MISTAKES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "independent Laplace": lambda rng, n: rng.laplace(size=(n, 3)),
    "independent Laplace, length corrected": lambda rng, n: _lengthened(rng.laplace(size=(n, 3))),
    "exponential radius": lambda rng, n: sphere(rng, n) * rng.gamma(1, size=(n, 1)),
    "one dimension too few": lambda rng, n: sphere(rng, n) * rng.gamma(2, size=(n, 1)),
    "one dimension too many": lambda rng, n: sphere(rng, n) * rng.gamma(4, size=(n, 1)),
    "Gaussian of the same deviation": lambda rng, n: rng.normal(scale=2, size=(n, 3)),
    "direction from a cube": lambda rng, n: _lengthened(rng.uniform(-1, 1, size=(n, 3))),
    "noise without a sign": lambda rng, n: np.abs(sphere(rng, n)) * rng.gamma(3, size=(n, 1)),
}


def _lengthened(sample: Floats) -> Floats:
    """The same directions with the lengths that are right in three dimensions."""
    length = np.random.default_rng(5).gamma(3, size=(len(sample), 1))
    return np.asarray(sample / np.linalg.norm(sample, axis=1, keepdims=True) * length)


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("seed", [1, 2])
def test_mistakes_are_found(mistake: str, seed: int) -> None:
    assert not all(is_l2_laplace(MISTAKES[mistake](np.random.default_rng(seed), 8000), 1.0))


def test_mistakes_in_independent_laws_are_found() -> None:
    rng = np.random.default_rng(1)
    n = 40_000
    assert all(is_gaussian(rng.normal(size=(n, 5)), 1.0))
    assert not all(is_gaussian(rng.normal(scale=1.02, size=(n, 5)), 1.0))
    assert not all(is_gaussian(rng.uniform(-1, 1, (3, n, 5)).sum(axis=0), 1.0))
    assert not all(is_gaussian(np.repeat(rng.normal(size=(n, 1)), 5, axis=1), 1.0))
    assert all(is_laplace(rng.laplace(size=(n, 5)), 1.0))
    assert not all(is_laplace(rng.exponential(size=(n, 5)), 1.0))
    assert not all(is_laplace(np.abs(rng.laplace(size=(n, 5))) * rng.choice([-1, 1], (n, 1)), 1.0))

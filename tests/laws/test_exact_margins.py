"""What a row adds to a sum depends on that row alone: not on its place, its block or the machine.

Margins are exact, so nothing can round them. exp and log are fixed sequences of IEEE operations.
"""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.laws.residuals import LOSSES, WHOLE, Sums, digest, part_of, weights_of
from tidegate.data.columns.time import CYCLES, SHRINK, circle
from tidegate.learn import exact, gradient
from tidegate.learn.exact import (
    Floats,
    exact_margins,
    exact_weights,
    lattice_bits,
    on_lattice,
)
from tidegate.learn.loss import Loss
from tidegate.learn.refit import Exact


def fractions(values: Floats) -> list[Fraction]:
    return [Fraction(float(value)) for value in values.ravel()]


def margins_are_exact(rows: Floats, weights: Floats, norm: float, bits: int) -> bool:
    """Whether margins are those of whole numbers, and the weights have hardly moved."""
    kept = exact_weights(weights, norm=norm, bits=bits)
    on = np.asarray(on_lattice(rows, bits))
    found = exact_margins(kept, on)
    columns = kept.reshape(len(kept), -1)
    wanted = [
        sum((a * b for a, b in zip(fractions(row), fractions(column), strict=True)), Fraction(0))
        for column in columns.T
        for row in on
    ]
    within = np.linalg.norm(weights.reshape(len(kept), -1), axis=0).max() + 1 / norm
    near = np.abs(kept - weights).max() <= within * norm * 2.0 ** (bits - 51)
    return bool(near) and fractions(found) == wanted


@given(
    seed=st.integers(0, 2**32),
    n=st.integers(1, 2**29),
    d=st.integers(1, 12),
    size=st.sampled_from([1e-6, 1.0, 300.0, 1e9, 1e30]),
    norm=st.sampled_from([2.0**-60, 0.3, 1.0, 1.0111874208078344, 50.0, 2.0**60]),
    classes=st.integers(0, 3),
)
@example(seed=0, n=1, d=12, size=1.0, norm=1.0, classes=0)
def test_margins_are_those_of_whole_numbers(  # noqa: PLR0917 - drawn by name
    seed: int, n: int, d: int, size: float, norm: float, classes: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(4, d))
    rows *= norm * (1 - 1e-9) / np.linalg.norm(rows, axis=1)[:, None]
    weights = rng.normal(size=(d, classes) if classes else d) * size / norm
    rows[0] = (
        norm
        * (1 - 1e-9)
        / np.linalg.norm(weights.reshape(d, -1)[:, 0])
        * (weights.reshape(d, -1)[:, 0])
    )  # the largest margin that there is
    assert margins_are_exact(rows, weights, norm, lattice_bits(n, norm, norm / 2)[0])


def long_margins() -> tuple[Floats, Floats]:
    """A margin close to its bound, whose sum needs every bit."""
    rng = np.random.default_rng(1)
    weights = rng.uniform(0.99, 1.01, size=40)
    weights *= 0.999 / np.linalg.norm(weights)
    return np.array([weights * 1.0001, weights]), weights


@pytest.mark.parametrize("more", [0, 2, 30])
def test_a_finer_lattice_is_caught(more: int) -> None:
    """On any machine: the exact sum is compared with whole numbers."""
    rows, weights = long_margins()
    assert margins_are_exact(rows, weights, 1.0, 26)
    truncate = exact.truncate
    finer = lambda values, bits: truncate(values, bits + (more if values.ndim == 1 else 0))  # noqa: E731
    with patch.object(exact, "truncate", finer):
        assert margins_are_exact(rows, weights, 1.0, 26) == (more == 0)


def test_squared_lengths_are_exact() -> None:
    for n, norm in ((1, 1.0), (1, 0.3), (60_000, 50.0)):
        rows = np.random.default_rng(n).normal(size=(5, 30))
        rows *= norm * (1 - 1e-9) / np.linalg.norm(rows, axis=1)[:, None]
        on = np.asarray(on_lattice(rows, lattice_bits(n, norm, norm)[0]))
        squares = np.einsum("ij,ij->i", on, on)
        assert fractions(squares) == [sum(x * x for x in fractions(row)) for row in on]


# --- the place of a row


def blocks(n: int) -> Iterator[list[slice]]:
    """Ways to cut n rows: one by one, in twos, and in blocks with a short last one."""
    for size in (1, 2, 3, 7, 8, 16, 33):
        yield [slice(start, min(start + size, n)) for start in range(0, n, size)]


def moved(part: Exact, place: int) -> Exact:
    """The part with rows at another address."""
    assert isinstance(part.rows, np.ndarray)
    room = np.empty(part.rows.size + 16)
    rows = room[place : place + part.rows.size].reshape(part.rows.shape)
    rows[...] = part.rows
    return part._replace(rows=rows)


def of_rows(sums: Sums, part: Exact, chosen: slice, place: int = 0) -> Floats:
    """The residuals of some rows of a part, as a block of their own."""
    rows, lengths, y, *more = part
    few = Exact(
        np.ascontiguousarray(rows[chosen]),
        lengths[chosen],
        y[chosen],
        *(None if each is None else each[chosen] for each in more),
    )
    return sums(moved(few, place))


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_a_residual_is_the_same_at_every_place_of_every_block(loss: Loss, scale: float) -> None:
    part, sums = part_of(loss, 100), Sums(loss, weights_of(loss, scale))
    whole = sums(part)
    for cut in blocks(100):
        for place in (0, 1, 3):
            found = [of_rows(sums, part, chosen, place) for chosen in cut]
            assert np.concatenate(found).tobytes() == whole.tobytes()
    backwards = Exact(part.rows[::-1], part.lengths[::-1], part.y[::-1], None)
    assert sums(backwards)[::-1].tobytes() == whole.tobytes()


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_sparse_rows_have_the_residuals_of_dense_ones(loss: Loss) -> None:
    part, sums = part_of(loss, 50), Sums(loss, weights_of(loss, 3.0))
    sparse = part._replace(rows=csr_array(part.rows))
    assert sums(sparse).tobytes() == sums(part).tobytes()


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_sums_are_the_same_in_any_cut(name: str) -> None:
    """Refits, scores and counts: exact sums over any blocks add up to those of the whole."""
    whole = WHOLE[name]
    wanted = whole(slice(0, 90))
    for cut in blocks(90):
        assert np.array_equal(sum(whole(chosen) for chosen in cut), wanted)


# --- the machine


def features() -> list[str]:
    """The instructions of this machine that NumPy can do without."""
    umath: Any = import_module("numpy._core._multiarray_umath")
    return [name for name in umath.__cpu_dispatch__ if umath.__cpu_features__[name]]


MACHINES: dict[str, Callable[[], dict[str, str]]] = {
    "two threads": lambda: {"OPENBLAS_NUM_THREADS": "2"},
    "an old processor": lambda: {
        "OPENBLAS_CORETYPE": "Prescott",
        "NPY_DISABLE_CPU_FEATURES": " ".join(features()),
    },
    "a newer one": lambda: {
        "OPENBLAS_CORETYPE": "Haswell",
        "NPY_DISABLE_CPU_FEATURES": " ".join(features()[1:]),
    },
}


def elsewhere(machine: str, planted: str = "") -> str:
    """The digest of all residuals, refits and scores on another machine."""
    code = f"from tests.laws import residuals\n{planted}\nprint(residuals.digest())"
    chosen = {**os.environ, **MACHINES[machine]()}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=chosen, check=True, capture_output=True, text=True
    )
    return ended.stdout.strip()


@pytest.mark.thorough
@pytest.mark.parametrize("machine", MACHINES)
def test_every_machine_computes_the_same_bits(machine: str) -> None:
    assert elsewhere(machine) == digest()


PLANTED = {
    # What a library's exp does where it has code for some processors: the last bit differs there.
    "an exp of the processor": "import os; import numpy as np\n"
    "from tidegate.learn import exact as e\n"
    "more = np.inf if os.environ.get('OPENBLAS_CORETYPE') == 'Prescott' else 0\n"
    "e._exp = lambda x, result, room: np.nextafter(np.exp(x), more, out=result)",
    "weights that are not on a lattice": "residuals.exact_weights = lambda weights, **_: weights",
}


@pytest.mark.thorough
@pytest.mark.parametrize("mistake", PLANTED)
def test_mistakes_show_on_some_machine(mistake: str) -> None:
    """The second needs a processor with other instructions; whole numbers catch it anywhere."""
    if mistake == "weights that are not on a lattice" and not features():
        return
    digests = {elsewhere(machine, PLANTED[mistake]) for machine in MACHINES}
    assert len(digests) > 1


def test_sums_that_depend_on_their_block_are_caught() -> None:
    """Planted: residuals whose last row of a block is rounded otherwise, as some kernels do."""
    loss = LOSSES[0]
    part, right = part_of(loss, 50), Sums(loss, weights_of(loss, 1.0))

    def last_otherwise(weights: Floats, rows: Any) -> Floats:
        margins = exact_margins(weights, rows)
        margins[..., -1] *= 1 + 2.0**-20
        return margins

    with patch.object(gradient, "exact_margins", last_otherwise):
        found = np.concatenate([of_rows(right, part, cut) for cut in next(blocks(50))])
        assert found.tobytes() != right(part).tobytes()


@pytest.mark.thorough
@pytest.mark.parametrize("part", CYCLES)
def test_points_on_circles_are_the_same_on_every_machine(part: str) -> None:
    """Workers make them by the C library's cos and sin, which may differ in their last bits.

    Rounded to float32 they cannot: none is nearer to a tie than 2**-40 of its size.
    """
    points = circle(CYCLES[part])
    down, up = (np.nextafter(points, np.float32(side)).astype(float) for side in (-2, 2))
    ties = np.stack([points + down, points + up], axis=2) / 2
    before, ctx.prec = ctx.prec, 120
    try:
        for place, near in enumerate(ties.tolist()):
            angle = arb(2 * math.pi * place / len(points))
            for value, pair in zip((angle.cos(), angle.sin()), near, strict=True):
                if value != 0:
                    exact = value * SHRINK
                    assert all(abs(exact - tie) > abs(exact) * 2.0**-40 for tie in pair)
    finally:
        ctx.prec = before

"""Exact noise beside unsafe NumPy noise and OpenDP's exact Gaussian."""

from collections.abc import Callable
from functools import partial
from unittest.mock import patch

import numpy as np

from tidegate.privacy import noise
from tidegate.privacy.noise import SystemBits
from tidegate_lab.bench.peers import opendp_gaussians
from tidegate_lab.bench.table import Run, faster, medians, show, within

P = 7850  # ten classes of MNIST with an intercept
CENTER = np.random.default_rng(0).normal(size=P)
UNSAFE = np.random.default_rng(1)
ROUNDS = 1000
SLOW_ROUNDS = 3


def numpy_l2_laplace() -> object:
    z = UNSAFE.normal(size=P)
    return CENTER + z * (UNSAFE.gamma(P) / np.linalg.norm(z))


UNSAFE_LAWS: dict[str, Run] = {
    "gaussian": lambda: CENTER + UNSAFE.normal(size=P),
    "laplace": lambda: CENTER + UNSAFE.laplace(size=P),
    "l2_laplace": numpy_l2_laplace,
}
BARS = {"l2_laplace": 25}


def in_balls(law: Callable[..., object]) -> object:
    """A draw with no trust in float64 at all: what a refinement costs at most."""
    with patch.object(noise, "FUNCTION_ERROR", np.inf):
        return law(CENTER, 1.0, SystemBits())


def rows(name: str, exact: dict[str, Run]) -> list[list[str]]:
    """One law by everyone: quick ones in many turns, exact ones in few."""
    law = getattr(noise, name)
    quick: dict[str, Run] = {
        "Tidegate": partial(law, CENTER, 1.0, SystemBits()),
        "NumPy, unsafe": UNSAFE_LAWS[name],
    }
    took = medians(quick, ROUNDS)
    ours = took["Tidegate"]
    took |= medians({"ball arithmetic alone": partial(in_balls, law), **exact}, SLOW_ROUNDS)
    unsafe = within(name, "NumPy, unsafe", ours, took["NumPy, unsafe"], BARS.get(name))
    slow = [rival for rival in took if rival not in quick]
    return [unsafe] + [
        faster(name, rival, ours, took[rival], 20 if rival in exact else None) for rival in slow
    ]


def main() -> None:
    exact = {"gaussian": opendp_gaussians(CENTER)}
    laws = [row for name in UNSAFE_LAWS for row in rows(name, exact.get(name, {}))]
    show(f"Exact noise, one vector of {P} coordinates", laws)

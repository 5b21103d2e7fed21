"""Exact noise beside unsafe NumPy noise and OpenDP's exact Gaussian: `python -m bench.noise`."""

import time
from collections.abc import Callable
from statistics import median
from unittest.mock import patch

import numpy as np

from tidegate.privacy import noise
from tidegate.privacy.bits import SystemBits, Words

P = 7850  # ten classes of MNIST with an intercept
CENTER = np.random.default_rng(0).normal(size=P)
UNSAFE = np.random.default_rng(1)
ROUNDS = 1000
Draw = Callable[[], object]


class CountedBits:
    """Counts how often bits are asked for: more than once a vector means refinement."""

    private = True

    def __init__(self) -> None:
        self.asked = 0

    def words(self, count: int) -> Words:
        self.asked += 1
        return SystemBits().words(count)


def numpy_l2_laplace() -> object:
    z = UNSAFE.normal(size=P)
    return CENTER + z * (UNSAFE.gamma(P) / np.linalg.norm(z))


UNSAFE_LAWS: dict[str, Draw] = {
    "gaussian": lambda: CENTER + UNSAFE.normal(size=P),
    "laplace": lambda: CENTER + UNSAFE.laplace(size=P),
    "l2_laplace": numpy_l2_laplace,
}


def opendp_gaussians() -> dict[str, Draw]:
    """OpenDP's vector Gaussian on its default lattice and on ours; nothing if not installed."""
    try:
        import opendp.prelude as dp  # noqa: PLC0415 (a peer that need not be there)
    except ImportError:
        return {}
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=P), dp.l2_distance(T=float)
    default = dp.m.make_gaussian(*space, scale=1.0)
    coarse = dp.m.make_gaussian(*space, scale=1.0, k=-16)
    values = CENTER.tolist()
    return {"OpenDP": lambda: default(values), "OpenDP, k=-16": lambda: coarse(values)}


def in_balls(law: Callable[..., object]) -> object:
    """A draw with no trust in float64 at all: what a refinement costs at most."""
    with patch.object(noise, "FUNCTION_ERROR", np.inf):
        return law(CENTER, 1.0, SystemBits())


def seconds(rivals: dict[str, Draw], rounds: int) -> dict[str, float]:
    """The median time of each, taken in turns so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(rounds):
        for name, draw in rivals.items():
            start = time.perf_counter()
            draw()
            times[name].append(time.perf_counter() - start)
    return {name: median(taken) for name, taken in times.items()}


def compare(name: str, slow: dict[str, Draw]) -> dict[str, float]:
    """Times of one law by everyone, printed; returned as multiples of Tidegate's."""
    law, bits = getattr(noise, name), CountedBits()
    took = seconds({"Tidegate": lambda: law(CENTER, 1.0, bits), "NumPy": UNSAFE_LAWS[name]}, ROUNDS)
    took |= seconds({"only balls": lambda: in_balls(law), **slow}, 3)
    ratios = {rival: taken / took["Tidegate"] for rival, taken in took.items()}
    print(f"{name}, {bits.asked - ROUNDS} refinements in {ROUNDS} vectors")
    for rival, taken in took.items():
        print(f"  {rival:14}{1e3 * taken:10.3f} ms{ratios[rival]:12.3f}")
    return ratios


def main() -> None:
    print(f"One vector of {P} coordinates: median time, and its ratio to Tidegate's")
    opendp = opendp_gaussians()
    gaussian = compare("gaussian", opendp)
    compare("laplace", {})
    l2_laplace = compare("l2_laplace", {})
    for rival in opendp:
        print(f"Gaussian: {gaussian[rival]:.0f} times faster than {rival} (bar: at least 20)")
    if not opendp:
        print("Gaussian: not compared with OpenDP, which is not installed (pip install opendp)")
    print(f"L2-Laplace: {1 / l2_laplace['NumPy']:.1f} times unsafe NumPy (bar: at most 25)")


if __name__ == "__main__":
    main()

"""Samples of slots without replacement, drawn afresh for every fit and never stored."""

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import whole
from tidegate.privacy.noise import Bits


def draw(sample: int, size: int, bits: Bits) -> NDArray[np.intp]:
    """A uniformly drawn subset of `sample` of the slots 0 ... size - 1, ascending.

    Floyd's algorithm: its cost grows with the sample, not with the span.

    >>> from tidegate.privacy.noise import NotPrivateBits
    >>> draw(3, 100, NotPrivateBits(7))
    array([23, 69, 90])
    """
    whole("size", size)
    whole("sample", sample, most=size)
    chosen: set[int] = set()
    for last in range(size - sample, size):
        slot = below(last + 1, bits)
        chosen.add(last if slot in chosen else slot)
    return np.array(sorted(chosen), np.intp)


def below(bound: int, bits: Bits) -> int:
    """An exactly uniform number below a bound: words past its last multiple are discarded."""
    fair = 2**64 - 2**64 % bound
    while (word := int(bits.words(1)[0])) >= fair:
        pass
    return word % bound

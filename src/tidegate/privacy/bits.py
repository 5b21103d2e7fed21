"""Sources of random bits: the operating system, or a seed, which is not private."""

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import whole

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

"""What an encoder is: a public, frozen model that turns a text into features."""

from collections.abc import Sequence
from typing import Any, Protocol

from tidegate.features.encoder.unit_rows import Vectors


class Encoder(Protocol):
    """Turns each text into a vector by itself, with a model that never changes.

    The vector of a text depends on that text and the files alone, bit for bit, in any batch and at
    any place in it: docs/proofs/encoders.md. An encoder can be pickled; it holds paths and digests.
    """

    @property
    def width(self) -> int:
        """How many features a text has."""

    @property
    def digest(self) -> str:
        """The SHA-256 of each file that it reads, joined by +."""

    def encode(self, texts: Sequence[object]) -> Vectors:
        """The vector of each text, of exact norm 1 at most; NaN for what is not a text."""

    def described(self) -> dict[str, Any]:
        """What a card says about it; files without folders."""

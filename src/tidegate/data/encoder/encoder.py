"""What an encoder is: a public, frozen model that turns a text into features."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

from tidegate.data.encoder.frozen_file import FrozenFile, frozen, joined
from tidegate.data.encoder.tokens import LENGTH
from tidegate.data.encoder.unit_rows import Vectors


class Encoder(ABC):
    """Turns each text into a vector by itself, with a model that never changes.

    The vector of a text depends on that text and the files alone, bit for bit, in any batch and at
    any place in it: docs/proofs/encoders.md. An encoder can be pickled; it holds paths and digests.
    Kinds are dataclasses of two files, the model and its tokenizer, and the most tokens of a text.
    """

    @abstractmethod
    def __init__(self, *files_and_length: Any) -> None: ...

    @classmethod
    def open(
        cls, model: str, tokenizer: str, length: int = LENGTH, digest: str | None = None
    ) -> Self:
        """Open a model; without a digest, check the files and freeze them as they are now."""
        opened = cls(*frozen((model, tokenizer), digest), length)
        if not digest:
            opened.check()
        return opened

    @property
    @abstractmethod
    def files(self) -> tuple[FrozenFile, ...]:
        """The files that it reads."""

    @property
    def digest(self) -> str:
        """The SHA-256 of each file that it reads, joined by +."""
        return joined(self.files)

    @property
    @abstractmethod
    def width(self) -> int:
        """How many features a text has."""

    @abstractmethod
    def check(self) -> None:
        """Refuse files that do not go together."""

    @abstractmethod
    def encode(self, texts: Sequence[object]) -> Vectors:
        """The vector of each text, of exact norm 1 at most; NaN for what is not a text."""

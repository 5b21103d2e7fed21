"""What an encoder is: a public model that turns a text into features, and never changes.

It reads files that are frozen by their SHA-256: a file that has changed is never used.
"""

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, refuse, shortened
from tidegate.data.rows import clip_in_place, row_norms

Vectors = NDArray[np.float32]

LENGTH = 256
"""How many tokens of a text are read, unless a setting says otherwise."""


DIGITS = 64
"""Hexadecimal digits of a SHA-256."""

PLACES: dict[str, str] = {}
"""Where this process was told to find a file, by its SHA-256; cards name files without folders."""


@dataclass(frozen=True)
class FrozenFile:
    """A file with the SHA-256 that it had when it was opened first; nothing else is ever read.

    It can be pickled: it holds a path, not the content. Files of one digest are equal, wherever
    they are.

    Attributes:
        path: Where the file is, relative to the working directory.
        digest: The SHA-256 of its content, in hexadecimal.
    """

    path: str = field(compare=False)
    digest: str

    def __post_init__(self) -> None:
        if len(self.digest) != DIGITS or set(self.digest) - set("0123456789abcdef"):
            raise refuse("digest", "a SHA-256 in 64 hexadecimal digits for each file", self.digest)
        if Path(self.path).name != self.path:
            PLACES[self.digest] = self.path

    @classmethod
    def of(cls, path: str) -> "FrozenFile":
        """Freeze a file as it is now."""
        return cls(path, hashlib.sha256(_content(path)).hexdigest())

    @property
    def name(self) -> str:
        """Its name without folders, as cards show it."""
        return Path(self.path).name

    def read(self) -> bytes:
        """Its content; refuse a file that has changed."""
        places = dict.fromkeys([PLACES.get(self.digest, self.path), self.path])
        present = [place for place in places if Path(place).is_file()]
        for place in present:
            content = _content(place)
            if hashlib.sha256(content).hexdigest() == self.digest:
                return content
        if not present:
            raise InvalidValueError(
                f"{self.path} is missing: put the file with SHA-256 {self.digest} there"
            )
        raise InvalidValueError(
            f"{present[0]} changed since it was first used: restore the file with SHA-256 "
            f"{self.digest}, or start a new state"
        )


def path(name: str, value: object) -> str:
    """Check that a value is a path, as a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise refuse(name, "the path of a file", value)
    return value


def _content(path: str) -> bytes:
    file = Path(path)
    try:
        if file.is_file() or not file.exists():  # a FIFO would block
            return file.read_bytes()
    except (OSError, ValueError) as error:  # a path with a null character is a ValueError
        why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else "no path"
        raise InvalidValueError(
            f"{shortened(path)} cannot be read: {why}; check the path"
        ) from None
    raise InvalidValueError(f"{shortened(path)} is not a file: check the path")


def frozen(paths: tuple[str, ...], digest: str | None) -> tuple[FrozenFile, ...]:
    """Files with the digests in `digest` (see `joined`), or with those they have now.

    With a digest the files are not read until they are used.
    """
    if digest is None:
        return tuple(map(FrozenFile.of, paths))
    digests = digest.split("+")
    if len(digests) != len(paths):
        raise refuse("digest", f"{len(paths)} SHA-256 joined by +, one for each file", digest)
    return tuple(map(FrozenFile, paths, digests))


def joined(files: tuple[FrozenFile, ...]) -> str:
    """The SHA-256 of each file, joined by +."""
    return "+".join(file.digest for file in files)


def digests(name: str, value: object) -> str | None:
    """One or more SHA-256 joined by +, or None."""
    if value is not None and not isinstance(value, str):
        raise refuse(name, "the SHA-256 of each file, joined by +", value)
    return value


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


MAX_WIDTH = 2**16
"""The most features that an encoder may make of a record."""


@np.errstate(all="ignore")
def unit_rows(rows: NDArray[np.float64]) -> Vectors:
    """Each row divided by its norm, in float32; the exact norm of the result is at most 1.

    Every row is scaled by itself, bit for bit. A row of zeros stays one; a row that is not finite
    becomes NaN.

    >>> unit_rows(np.array([[3.0, 4.0], [0.0, 0.0], [1.0, np.inf]])).round(6)
    array([[0.6, 0.8],
           [0. , 0. ],
           [nan, nan]], dtype=float32)
    """
    norms, powers = row_norms(rows)
    scaled = rows * powers[:, None] / np.where(norms == 0, 1, norms)[:, None]
    stored: Vectors = scaled.astype(np.float32)
    clip_in_place(stored, 1.0)
    return stored

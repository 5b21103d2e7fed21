"""A text as the mean of its tokens' vectors, from a public table."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import safetensors.numpy as safetensors
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tidegate.checks import InvalidValueError
from tidegate.data.encoder.encoder import LENGTH, MAX_WIDTH, Encoder, FrozenFile, Vectors, unit_rows
from tidegate.data.encoder.tokens import Ids, largest_id, tokens_of

BITS = 30
"""Entries of a table are whole numbers of at most 2^30 in size, so that sums are exact."""

Table = NDArray[np.int32]


@dataclass(frozen=True)
class TokenTable(Encoder):
    """The mean of the vectors of a text's tokens, scaled to norm 1.

    Entries are rounded to a lattice that comes from the table, so every sum is exact and a text's
    vector does not depend on the order of additions. A text without tokens has the vector 0.

    Attributes:
        table: A safetensors file with one tensor, of shape (tokens, features).
        tokenizer: A tokenizer.json.
        length: The most tokens of a text that are read.
    """

    table: FrozenFile
    tokenizer: FrozenFile
    length: int = LENGTH

    @property
    def width(self) -> int:
        """How many features a text has."""
        return int(loaded_table(self.table).shape[1])

    @property
    def files(self) -> tuple[FrozenFile, ...]:
        """See `Encoder`."""
        return self.table, self.tokenizer

    def check(self) -> None:
        """Refuse files that do not go together."""
        rows = len(loaded_table(self.table))
        last = largest_id(self.tokenizer, self.length)
        if last >= rows:
            raise InvalidValueError(
                f"{self.table.path} has vectors of {rows} tokens, but {self.tokenizer.path} "
                f"numbers tokens up to {last}: give files of one model"
            )

    def encode(self, texts: Sequence[object]) -> Vectors:
        """The vector of each text; NaN for what is not a text."""
        table = loaded_table(self.table)
        tokens = tokens_of(texts, self.tokenizer, length=self.length, special=False)
        vectors = np.empty((len(tokens), table.shape[1]), np.float32)
        for start in range(0, len(tokens), RUN):
            part = slice(start, start + RUN)
            vectors[part] = unit_rows(sums(table, tokens[part]))
        return vectors


RUN = 1024
"""Texts whose vectors are gathered at a time."""


def sums(table: Table, tokens: Sequence[Ids | None]) -> NDArray[np.float64]:
    """The exact sum of the vectors of each text's tokens; NaN where there are no tokens to read.

    >>> sums(np.array([[1, 2], [10, 20]], np.int32), [np.array([0, 1, 1]), np.array([], int), None])
    array([[21., 42.],
           [ 0.,  0.],
           [nan, nan]])
    """
    kept = [ids for ids in tokens if ids is not None]
    every = np.concatenate([*kept, np.zeros(0, np.int64)])
    used, columns = np.unique(every, return_inverse=True)
    ends = np.cumsum([0, *(0 if ids is None else len(ids) for ids in tokens)])
    counts = csr_array((np.ones(every.size), columns, ends), (len(tokens), used.size))
    found = np.asarray(counts @ table[used].astype(np.float64))
    found[[ids is None for ids in tokens]] = np.nan
    return found


@lru_cache(maxsize=4)
def loaded_table(file: FrozenFile) -> Table:
    """The vectors of a file as whole numbers; their scale does not matter for a direction."""
    content = file.read()
    try:
        tensors = safetensors.load(content)
    except Exception:
        raise InvalidValueError(
            f"{file.path} is not a safetensors file that NumPy can hold: convert its tensor to F32"
        ) from None
    shapes = [tensor.shape for tensor in tensors.values()]
    vectors = next(iter(tensors.values()), np.zeros(0))
    if len(shapes) != 1 or vectors.ndim != 2 or vectors.dtype.kind != "f" or not vectors.size:
        raise InvalidValueError(
            f"{file.path} must hold one tensor of floats, of shape (tokens, features), "
            f"got {len(shapes)} of shape {', '.join(map(str, shapes))}"[:300]
        )
    if vectors.shape[1] > MAX_WIDTH:
        raise InvalidValueError(
            f"{file.path} has vectors of {vectors.shape[1]} features: the most is {MAX_WIDTH}"
        )
    if not np.isfinite(vectors).all():
        raise InvalidValueError(f"{file.path} has entries that are not finite: repair the table")
    return lattice_of(vectors)


def lattice_of(vectors: NDArray[Any]) -> Table:
    """Vectors times a power of two that makes the largest entry about 2^30, rounded.

    >>> lattice_of(np.array([[0.5, -0.25]])).tolist()
    [[536870912, -268435456]]
    """
    exponent = int(np.frexp(np.abs(vectors).max())[1])
    table = np.empty(vectors.shape, np.int32)
    for start in range(0, len(vectors), 2**12):  # in parts, to save memory
        part = slice(start, start + 2**12)
        table[part] = np.rint(np.ldexp(vectors[part].astype(np.float64), BITS - exponent))
    return table

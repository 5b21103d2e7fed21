"""Columns of text: hashed words, or the vectors of a public frozen model."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array, hstack

from tidegate.checks import InvalidValueError, Later, refuse, whole
from tidegate.data.columns.column import Cells, Floats, OneVector, none, register, unless_none
from tidegate.data.encoder import Encoder, text_encoder
from tidegate.data.encoder.encoder import LENGTH, digests, path
from tidegate.data.feature_map import Graph
from tidegate.data.rows import clip_rows
from tidegate.data.values import Odd, is_text, respelled, spelled
from tidegate.kinds import parameter

if TYPE_CHECKING:
    from tidegate.data import maps
    from tidegate.data.maps import HashedText
else:
    maps = Later("tidegate.data.maps")


def lengths(name: str, value: object) -> tuple[int, ...]:
    """The least and greatest length of n-grams, or an empty list for none."""
    if not isinstance(value, list | tuple) or len(value) not in {0, 2}:
        raise refuse(name, "[least, greatest], or [] for none", value)
    if not value:
        return ()
    least = whole(name, value[0], most=100)
    return least, whole(name, value[1], least=least, most=100)


@register
@dataclass(frozen=True, kw_only=True)
class Text(OneVector):
    """Text as hashed words, or through an encoder, of norm 1; one more feature says it is missing.

    Args:
        name: The name of the column.
        size: The number of features that words are hashed into. If a table has more than 4,096
            features, its rows are sparse.
        words: Lengths of the word n-grams, least and greatest; empty for no words.
        characters: Lengths of the character n-grams, least and greatest; empty for none.
        encoder: The path of an .onnx or .safetensors file: a public model that turns texts into
            vectors. Words are not hashed then.
        tokenizer: The path of the encoder's tokenizer.json.
        length: The most tokens of a text that the encoder reads.
        digest: The SHA-256 of the encoder's files, joined by +; None for those of the files as they
            are.
        gaps: Texts that stand for a missing one; False if none is ever missing.

    >>> note = Text("note", size=4)
    >>> out = np.zeros((2, 5), np.float32)
    >>> note.encode(note.cells(["high tide, low tide", None]), out)
    >>> round(float((out[0] ** 2).sum()), 3), out[1]
    (1.0, array([0., 0., 0., 0., 1.], dtype=float32))
    """

    kind: ClassVar[str] = "text"
    about: ClassVar[str] = "text: hashed words, or a public encoder"
    dtype: ClassVar[Any] = object
    blank: ClassVar[str] = ""
    files: ClassVar[tuple[str, ...]] = ("encoder", "tokenizer")

    size: int = parameter(
        "the number of features that words are hashed into",
        partial(whole, least=2, most=2**24),
        default=1024,
    )
    words: Sequence[int] = parameter(
        "the least and greatest length of word n-grams; [] for none", lengths, default=(1, 1)
    )
    characters: Sequence[int] = parameter(
        "the least and greatest length of character n-grams; [] for none", lengths, default=()
    )
    encoder: str | None = parameter(
        "a public model instead of hashed words: the path of an .onnx or .safetensors file",
        unless_none(path),
        default=None,
    )
    tokenizer: str | None = parameter(
        "the path of the encoder's tokenizer.json", unless_none(path), default=None
    )
    length: int = parameter(
        "the most tokens of a text that the encoder reads",
        partial(whole, least=8, most=2**16),
        default=LENGTH,
    )
    digest: str | None = parameter(
        "the SHA-256 of the encoder's files, joined by +; of the files as they are, if left out",
        digests,
        default=None,
    )

    def check(self) -> None:
        """Refuse a column that counts nothing, and half an encoder."""
        if not self.words and not self.characters:
            raise self.mistake("words or characters must be given, got neither")
        if bool(self.encoder) != bool(self.tokenizer):
            raise self.mistake("encoder and tokenizer must be given together")
        if self.encoder:
            try:
                object.__setattr__(self, "digest", self._encoder.digest)
            except InvalidValueError as error:
                raise self.mistake(str(error)) from None
        elif self.digest:
            raise self.mistake("digest must be left out without an encoder")

    @cached_property
    def _encoder(self) -> Encoder:
        return text_encoder(self.encoder or "", self.tokenizer or "", self.length, self.digest)

    @cached_property
    def _size(self) -> int:
        return self._encoder.width if self.encoder else self.size

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        what = "encoded" if self.encoder else "hash"
        return (*(f"{what} {index}" for index in range(self._size)), *self.gap_feature)

    @property
    def width(self) -> int:
        """See `Column`."""
        return self._size + len(self.gap_feature)

    @property
    def reading(self) -> str:
        """See `Column`."""
        if self.encoder:
            return f"text, {self._size:,} features by {Path(self.encoder).name}"
        return f"text, hashed into {self.size:,} features"

    def described(self) -> dict[str, Any]:
        """See `Column`; an encoder's files by name and digest, without folders."""
        known = super().described()
        if not self.encoder:
            return {key: v for key, v in known.items() if key != "length"}
        names = {name: Path(known[name]).name for name in self.files}
        own = ("kind", "name", "gaps", "length", "digest")
        return {**{key: known[key] for key in own if key in known}, **names}

    def read(self, value: object) -> Any:
        """See `Column`."""
        if self.spelling == 1 and not isinstance(value, str | None):
            return Odd.WRONG
        text = spelled(value, self.spelling)
        return Odd.GAP if value in self.gap_texts or text in self.spelled_gaps else text

    def of_arrow(self, values: pa.Array) -> Cells:
        """See `Column`."""
        if not is_text(values.type):
            return super().of_arrow(values)
        try:
            given = [each or "" for each in values.to_pylist()]
        except UnicodeDecodeError:
            return super().of_arrow(values)
        missing = {"", *self.gap_texts}
        texts = ["" if each in missing else respelled(each, self.spelling) for each in given]
        gap = [not each or each in self.spelled_gaps for each in texts]
        return Cells(self._stacked(texts), np.array(gap, np.bool_), none(len(values)))

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`."""
        made = self._vectors(cells) if self.encoder else self._hashed(cells).toarray()
        out[:, : self._size], out[:, self._size :] = made, cells.gap[:, None]

    def sparse(self, cells: Cells) -> csr_array:
        """See `Column`."""
        made = csr_array(self._vectors(cells)) if self.encoder else self._hashed(cells)
        last = csr_array(cells.gap.astype(np.float32)[:, None])
        return csr_array(hstack([made, last], format="csr")) if self.gap_feature else made

    @cached_property
    def _hasher(self) -> "HashedText":
        return maps.HashedText(
            n_features=self.size, words=self.words or None, characters=self.characters or None
        )

    def _vectors(self, cells: Cells) -> Floats:
        """The encoder's vectors; zero where there is no text, or it cannot be encoded."""
        made = np.zeros((len(cells.gap), self._size), np.float32)
        given = ~(cells.gap | cells.wrong)
        if given.any():
            made[given] = np.nan_to_num(self._encoder.encode(cells.values[given].tolist()))
        return made

    def _hashed(self, cells: Cells) -> csr_array:
        texts = np.where(cells.gap, "", cells.values)
        counts = self._hasher.transform(texts.tolist())
        counts.sum_duplicates()
        squares = np.add.reduceat(np.append(counts.data**2, 0.0), counts.indptr[:-1])
        filled = np.diff(counts.indptr) > 0  # sums of whole numbers: exact in any order
        lengths = np.sqrt(np.where(filled & (squares > 0), squares, 1.0))
        counts.data = counts.data / np.repeat(lengths, np.diff(counts.indptr))
        if not counts.shape[0]:
            return counts.astype(np.float32)
        return clip_rows(counts.astype(np.float32), 1.0)

    def takes(self, kind: pa.DataType) -> bool:
        """See `Column`; by rule 2 a number is the text that it is spelled as."""
        return super().takes(kind) if self.spelling > 1 else is_text(kind) or kind == pa.null()

    def onnx(self, graph: Graph, values: str) -> str:
        """Refuse it: ONNX has no words as Unicode has them, and no tokenizers."""
        del graph, values
        raise self.mistake(
            "a text cannot be part of an ONNX file: export another kind, such as .safetensors "
            "or .joblib, or predict with the service or tidegate predict"
        )

"""Columns of text: hashed words, or the vectors of a public frozen model."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array, hstack

from tidegate.checks import InvalidValueError, whole
from tidegate.features.arrow_values import is_text, nulls
from tidegate.features.clip import clip_rows
from tidegate.features.columns.column import (
    Cells,
    Column,
    Floats,
    none,
    register,
)
from tidegate.features.columns.unpacking import unpack_vector
from tidegate.features.encoder import Encoder, text_encoder
from tidegate.features.encoder.frozen_file import digests, path
from tidegate.features.encoder.tokens import LENGTH
from tidegate.features.feature_map import Graph
from tidegate.features.spelling import Odd, respelled, spelled
from tidegate.features.text import HashedText, lengths
from tidegate.kinds import parameter


@register
@dataclass(frozen=True)
class Text(Column):
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
    files: ClassVar[tuple[str, ...]] = ("encoder", "tokenizer")
    onnx_type: ClassVar[str] = "string"

    size: int = parameter(
        "the number of features that words are hashed into",
        partial(whole, least=2, most=2**24),
        default=1024,
        kw_only=True,
    )
    words: Sequence[int] = parameter(
        "the least and greatest length of word n-grams; [] for none",
        lengths,
        default=(1, 1),
        kw_only=True,
    )
    characters: Sequence[int] = parameter(
        "the least and greatest length of character n-grams; [] for none",
        lengths,
        default=(),
        kw_only=True,
    )

    encoder: str | None = parameter(
        "a public model instead of hashed words: the path of an .onnx or .safetensors file",
        path,
        default=None,
        kw_only=True,
    )
    tokenizer: str | None = parameter(
        "the path of the encoder's tokenizer.json", path, default=None, kw_only=True
    )
    length: int = parameter(
        "the most tokens of a text that the encoder reads",
        partial(whole, least=8, most=2**16),
        default=LENGTH,
        kw_only=True,
    )
    digest: str | None = parameter(
        "the SHA-256 of the encoder's files, joined by +; of the files as they are, if left out",
        digests,
        default=None,
        kw_only=True,
    )

    squared_norm = 1

    def check(self) -> None:
        """Refuse a column that counts nothing, and half an encoder."""
        if not self.words and not self.characters:
            raise self.mistake("words or characters must be given, got neither")
        if (self.encoder is None) != (self.tokenizer is None):
            raise self.mistake("encoder and tokenizer must be given together")
        if self.encoder is None and self.digest is not None:
            raise self.mistake("digest must be left out without an encoder")
        if self.encoder is not None:
            try:
                object.__setattr__(self, "digest", self._encoder.digest)
            except InvalidValueError as error:
                raise self.mistake(str(error)) from None

    @cached_property
    def _encoder(self) -> Encoder:
        return text_encoder(self.encoder or "", self.tokenizer or "", self.length, self.digest)

    @cached_property
    def _size(self) -> int:
        return self.size if self.encoder is None else self._encoder.width

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        what = "hash" if self.encoder is None else "encoded"
        return (*(f"{what} {index}" for index in range(self._size)), *self.gap_feature)

    @property
    def width(self) -> int:
        """See `Column`."""
        return self._size + len(self.gap_feature)

    @property
    def reading(self) -> str:
        """See `Column`."""
        if self.encoder is not None:
            return f"text, {self._size:,} features by {Path(self.encoder).name}"
        return f"text, hashed into {self.size:,} features"

    def described(self) -> dict[str, Any]:
        """See `Column`; an encoder's files by name and digest, without folders."""
        known = super().described()
        if self.encoder is None:
            return {key: v for key, v in known.items() if key != "length"}
        names = {name: Path(known[name]).name for name in self.files}
        own = ("kind", "name", "gaps", "length", "digest")
        return {**{key: known[key] for key in own if key in known}, **names}

    def read(self, value: object) -> Any:
        """See `Column`."""
        if self.spelling == 1 and not isinstance(value, str | None):
            return Odd.WRONG
        text = spelled(value, self.spelling)
        return Odd.GAP if value in self.gap_texts or text in self._gaps else text

    @cached_property
    def _gaps(self) -> frozenset[str]:
        """The texts that stand for a missing one, by the rule of spelling, too."""
        also = map(respelled, self.gap_texts) if self.spelling > 1 else ()
        return frozenset([*self.gap_texts, *also])

    def stacked(self, values: list[Any]) -> NDArray[np.object_]:
        """See `Column`."""
        return np.fromiter(("" if each is None else each for each in values), object, len(values))

    def of_arrow(self, values: pa.Array) -> Cells | None:
        """See `Column`."""
        if not is_text(values.type):
            return None
        try:
            texts = values.to_pylist()
        except UnicodeDecodeError:
            return None
        if self.spelling > 1:
            texts = [None if each in self.gap_texts else each and respelled(each) for each in texts]
        missing = {None, "", *self._gaps}
        gap = np.fromiter((each in missing for each in texts), np.bool_, len(texts))
        return Cells(self.stacked(texts), gap | nulls(values), none(len(values)))

    @property
    def packed_width(self) -> int:
        """See `Column`: the features themselves."""
        return self.width

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`."""
        made = self._vectors(cells) if self.encoder else self._hashed(cells).toarray()
        out[:, : self._size], out[:, self._size :] = made, cells.gap[:, None]

    def unpack(self, packed: Floats, out: Floats) -> None:
        """See `Column`."""
        unpack_vector(packed, out, self._size)

    def sparse(self, cells: Cells) -> csr_array:
        """See `Column`."""
        made = self._hashed(cells) if self.encoder is None else csr_array(self._vectors(cells))
        last = csr_array(cells.gap.astype(np.float32)[:, None])
        return csr_array(hstack([made, last], format="csr")) if self.gap_feature else made

    @cached_property
    def _hasher(self) -> HashedText:
        return HashedText(
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
        """See `Column`; an empty text is a missing one."""
        if self.encoder is not None:
            raise self.mistake(
                "an encoder cannot be part of an ONNX file: export another kind, such as "
                ".safetensors, or predict with the service or tidegate predict"
            )
        counts = self._hasher.onnx(graph, values)
        length = graph.add(f"Max({graph.reduced('ReduceL2', counts)}, {graph.constant(1.0)})")
        gaps = list(dict.fromkeys(["", *self._gaps]))
        missing = graph.labels(values, gaps, [1] * len(gaps), other=0)
        is_gap = graph.add(f"Cast <to = 9> ({missing})")
        return self.with_gap_in_onnx(graph, graph.add(f"Div({counts}, {length})"), is_gap)

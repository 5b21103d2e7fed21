"""Columns of categories: a public list of values, or hashed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils import murmurhash3_32

from tidegate.checks import InvalidValueError, flag, refuse, whole
from tidegate.features.arrow_values import as_objects, is_text, nulls
from tidegate.features.columns.column import (
    Cells,
    Column,
    Floats,
    none,
    register,
)
from tidegate.features.columns.unpacking import places_of
from tidegate.features.feature_map import Graph
from tidegate.features.spelling import TRUTHS, Odd, places_in, respelled, spelled
from tidegate.kinds import parameter

MOST_VALUES = 10_000
"""The most values in a list: every value takes noise, seen or not."""

MOST_BUCKETS = 2**16

OTHER = "other"


def listed(name: str, value: object) -> tuple[str, ...]:
    """Different texts or whole numbers, at least one; numbers become texts."""
    allowed = "a list of different texts or whole numbers"
    if not isinstance(value, list | tuple) or not value:
        raise refuse(name, allowed, value)
    if len(value) > MOST_VALUES:
        advice = f"a list of at most {MOST_VALUES:,} values (use hash = 1024 instead)"
        raise refuse(name, advice, shown=f"{len(value):,}")
    if not all(isinstance(each, str | int) and each != "" for each in value):
        raise refuse(name, allowed, value)
    texts = tuple(spelled(each, rule=1) for each in value)
    if any(isinstance(each, Odd) for each in texts):
        raise refuse(name, f"{allowed} below 2^1024", shown="a larger one")
    if len(set(texts)) != len(texts):
        twice = next(each for each in texts if texts.count(each) > 1)
        raise refuse(name, "a list without repeats", shown=f"{twice!r} twice")
    return texts


def no_others(name: str, value: object) -> Literal[False] | None:
    """False if there are no other values; None, as if it were left out, for true."""
    return None if flag(name, value) else False


@register
@dataclass(frozen=True)
class Category(Column):
    """One of a public list of values, or anything hashed into a number of buckets.

    Each value of the list has a feature, which is 1 where the record has that value. "other" is 1
    for a value that is not listed, and "missing" where there is none. With `hash` there is a
    feature for each bucket instead. A number counts as a text: 3 and 3.0 are both "3".

    Args:
        name: The name of the column.
        values: The list of values; public. Either this or `hash` must be given.
        hash: The number of buckets.
        others: False if there are no values but those of the list. Then "other" is left out, and
            any other value makes a record unusable.
        gaps: Texts that stand for a missing value; False if none is ever missing.

    >>> out = np.zeros((4, 4), np.float32)
    >>> carrier = Category("carrier", values=["AA", "UA"])
    >>> carrier.encode(carrier.cells(["UA", "ZZ", "", "AA"]), out)
    >>> carrier.names
    ('carrier=AA', 'carrier=UA', 'carrier other', 'carrier missing')
    >>> out
    array([[0., 1., 0., 0.],
           [0., 0., 1., 0.],
           [0., 0., 0., 1.],
           [1., 0., 0., 0.]], dtype=float32)
    """

    kind: ClassVar[str] = "category"
    about: ClassVar[str] = "one of a public list of values, or hashed into buckets"
    onnx_type: ClassVar[str] = "string"

    values: Sequence[Any] | None = parameter(
        'the public list of values, such as ["EWR", "JFK"]; others count as "other"',
        listed,
        default=None,
        kw_only=True,
    )
    hash: int | None = parameter(
        "hash values into this many buckets instead",
        partial(whole, least=2, most=MOST_BUCKETS),
        default=None,
        kw_only=True,
    )

    others: Literal[False] | None = parameter(
        "false: there are no values but those listed, so there is no feature for others, and a "
        "record with one is unusable",
        no_others,
        default=None,
        kw_only=True,
    )

    squared_norm = 1

    def check(self) -> None:
        """Refuse both, or neither, of `values` and `hash`, and a value that is a gap."""
        if self.hash is not None and self.others is False:
            raise self.mistake("others = false needs values: with hash every value has a bucket")
        if (self.values is None) == (self.hash is None):
            given = "both" if self.values is not None else "neither"
            raise self.mistake(f"values or hash must be given, got {given}")
        if self.values is not None:
            try:
                places = places_in("values", self.values, self.spelling)
            except InvalidValueError as error:
                raise self.mistake(str(error)) from None
            object.__setattr__(self, "values", tuple(places)[: len(self.values)])
        if both := [each for each in self.values or () if each in self._gaps]:
            raise self.mistake(f"{both[0]!r} must be in values or in gaps, not in both")

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        if self.values is None:
            return (*(f"bucket {bucket}" for bucket in range(self.hash or 0)), *self.gap_feature)
        return (*self.values, *((OTHER,) if self._has_other else ()), *self.gap_feature)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """See `Column`."""
        own = len(self.values or ())
        listed = (f"{self.name}={value}" for value in self.features[:own])
        return (*listed, *(f"{self.name} {each}" for each in self.features[own:]))

    @property
    def reading(self) -> str:
        """See `Column`."""
        if self.values is None:
            return f"category, hashed into {self.hash} buckets"
        return f"category, {len(self.values)} values"

    @property
    def without(self) -> tuple[str, ...]:
        """See `Column`."""
        return (*super().without, *(("others",) if self.others is False else ()))

    @cached_property
    def _has_other(self) -> bool:
        """Whether the column has a feature for values that are not listed."""
        return self.values is not None and self.others is not False

    @cached_property
    def _own(self) -> int:
        """The number of values or buckets, and the code of any other value."""
        return self.hash or 0 if self.values is None else len(self.values)

    @cached_property
    def _gap_code(self) -> int:
        """The code of a missing value: the last feature, if the column may have gaps."""
        return self._own + self._has_other

    @cached_property
    def _codes(self) -> dict[Any, int]:
        """The code of each text in the list, and of its twin; see `places_in`."""
        return places_in("values", self.values or (), self.spelling)

    @cached_property
    def _gaps(self) -> frozenset[str]:
        """The texts that stand for a missing value, by the rule of spelling, too."""
        also = map(respelled, self.gap_texts) if self.spelling > 1 else ()
        return frozenset([*self.gap_texts, *also])

    @cached_property
    def _known(self) -> dict[str, int]:
        """The code of every text that is looked up: those of the list, and gaps."""
        return {**self._codes, **dict.fromkeys(["", *self._gaps], self._gap_code)}

    def _code(self, text: str) -> int | Odd:
        if self.values is not None:
            return self._codes.get(text, self._own if self._has_other else Odd.WRONG)
        return bucket(text, self.hash or 0)

    def read(self, value: object) -> Any:
        """See `Column`."""
        text = spelled(value, self.spelling)
        if isinstance(text, Odd):
            return text
        return Odd.GAP if value in self.gap_texts or text in self._gaps else self._code(text)

    def stacked(self, values: list[Any]) -> NDArray[np.intp]:
        """See `Column`."""
        return np.array([0 if value is None else value for value in values], np.intp)

    def of_arrow(self, values: pa.Array) -> Cells | None:
        """See `Column`."""
        if self.values is None or not is_text(values.type):
            return self._of_few(values)
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:  # a text that is not UTF-8 is wrong, not another value
            return None
        places = pc.index_in(values, pa.array(self._known, values.type))
        found = pc.fill_null(places, -1).to_numpy(zero_copy_only=False)
        gaps, absent = {"", *self._gaps}, nulls(values)
        codes = np.append([*self._known.values()], self._own).astype(np.intp)[found]
        gap = np.array([*(each in gaps for each in self._known), False])[found] | absent
        unknown = (found < 0) & ~absent
        wrong = none(len(values)) if self._has_other else unknown.copy()
        if self.spelling > 1 and unknown.any():
            few = self._of_few(values.filter(pa.array(unknown)))
            if few is None:
                return None
            codes[unknown], gap[unknown], wrong[unknown] = few
        codes[gap | wrong] = 0
        return Cells(codes, gap, wrong)

    def _of_few(self, values: pa.Array) -> Cells | None:
        """Read each different value once."""
        try:
            encoded = values.dictionary_encode(null_encoding="encode")
        except pa.ArrowException:
            return None
        few = [self.read(each) for each in as_objects(encoded.dictionary)]
        places = encoded.indices.to_numpy(zero_copy_only=False)
        odd = [np.array([each is kind for each in few], np.bool_) for kind in Odd]
        own = self.stacked([None if isinstance(each, Odd) else each for each in few])
        if not few:
            return Cells(np.zeros(0, np.intp), none(0), none(0))
        return Cells(own[places], odd[0][places], odd[1][places])

    def others_in(self, cells: Cells) -> NDArray[np.bool_]:
        """Which values are not listed, of a column that may have others."""
        listed = self.values is None or self.others is False
        return none(len(cells.gap)) if listed else (cells.values == self._own) & ~cells.gap

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`."""
        out[:, 0] = np.where(cells.gap, self._gap_code, cells.values)

    def unpack(self, packed: Floats, out: Floats) -> None:
        """See `Column`."""
        out[np.arange(len(packed)), places_of(packed[:, 0], self.width)] = 1

    def sparse(self, cells: Cells) -> csr_array:
        """See `Column`."""
        n, codes = len(cells.gap), np.where(cells.gap, self._gap_code, cells.values)
        return csr_array((np.ones(n, np.float32), codes, np.arange(n + 1)), (n, self.width))

    def onnx(self, graph: Graph, values: str) -> str:
        """See `Column`; an empty text is a missing value."""
        flat = graph.add(f"Reshape({values}, {graph.constant(np.array([-1]))})")
        gaps = list(dict.fromkeys(["", *self._gaps]))
        wrong = graph.constant(np.int64(self.width))  # the code of what makes a record unusable
        gap_code = self._gap_code if self.gap_feature else self.width
        if self.values is not None:
            known = self._in_onnx(gap_code)
            other = self._own if self._has_other else self.width
            code = graph.labels(flat, [*known], [*known.values()], other=other)
        else:
            code = graph.hashed(flat, self.hash or 0)
            missing = graph.labels(flat, gaps, [1] * len(gaps), other=0)
            is_gap = graph.add(f"Cast <to = 9> ({missing})")
            code = graph.add(f"Where({is_gap}, {graph.constant(np.int64(gap_code))}, {code})")
        span = graph.constant(np.array([0, 1], np.float32))  # runtimes have none for float64
        one_hot = graph.add(f"OneHot <axis = 1> ({code}, {wrong}, {span})")
        made = graph.add(f"Cast <to = 11> ({one_hot})")
        if self.gap_feature and self.others is None:
            return made
        column = graph.add(f"Reshape({code}, {graph.constant(np.array([-1, 1]))})")
        is_wrong = graph.add(f"Equal({column}, {wrong})")
        return graph.add(f"Where({is_wrong}, {graph.constant(np.nan)}, {made})")

    def _in_onnx(self, gap_code: int) -> dict[str, int]:
        """The codes of the texts that a graph looks up: by rule 2 also 1.0 for 1, True for true."""
        texts = {**self._codes, **dict.fromkeys(["", *self._gaps], gap_code)}
        if self.spelling == 1:
            return texts
        others = {f"{key}.0": code for key, code in texts.items() if key.isdigit()}
        truths = {each: texts[word] for each, word in TRUTHS.items() if word in texts}
        return {**others, **truths, **texts}


def bucket(text: str, buckets: int) -> int:
    """The bucket of a text: MurmurHash3 of its UTF-8 bytes with seed 0, modulo their number.

    >>> bucket("N14228", 64), bucket("N24211", 64)
    (52, 8)
    """
    return int(murmurhash3_32(text.encode(errors="replace"), 0, positive=True)) % buckets

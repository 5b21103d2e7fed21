"""Columns of categories: a public list of values, or hashed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tidegate.checks import InvalidValueError, Later, flag, refuse, whole
from tidegate.data.columns.column import Cells, Column, Floats, none, register, unless_none
from tidegate.data.columns.unpacking import places_of
from tidegate.data.feature_map import BOOL, DOUBLE, STRING, Graph
from tidegate.data.values import TRUTHS, Odd, places_in, spelled
from tidegate.kinds import parameter

scikit = Later("sklearn.utils")

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
@dataclass(frozen=True, kw_only=True)
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
    dtype: ClassVar[Any] = np.intp
    onnx_type: ClassVar[int] = STRING

    values: Sequence[Any] | None = parameter(
        'the public list of values, such as ["EWR", "JFK"]; others count as "other"',
        unless_none(listed),
        default=None,
    )
    hash: int | None = parameter(
        "hash values into this many buckets instead",
        unless_none(partial(whole, least=2, most=MOST_BUCKETS)),
        default=None,
    )
    others: Literal[False] | None = parameter(
        "false: there are no values but those listed, so there is no feature for others, and a "
        "record with one is unusable",
        unless_none(no_others),
        default=None,
    )

    def check(self) -> None:
        """Refuse both, or neither, of `values` and `hash`, and a value that is a gap."""
        if self.hash and self.others is False:
            raise self.mistake("others = false needs values: with hash every value has a bucket")
        if bool(self.values) == bool(self.hash):
            given = "both" if self.values else "neither"
            raise self.mistake(f"values or hash must be given, got {given}")
        if self.values:
            try:
                places = places_in("values", self.values, self.spelling)
            except InvalidValueError as error:
                raise self.mistake(str(error)) from None
            object.__setattr__(self, "values", tuple(places)[: len(self.values)])
        if both := [each for each in self.values or () if each in self.spelled_gaps]:
            raise self.mistake(f"{both[0]!r} must be in values or in gaps, not in both")

    @cached_property
    def _book(self) -> "Listed | Buckets":
        """What gives each value its code."""
        if self.hash:
            return Buckets(self.hash)
        codes = places_in("values", self.values or (), self.spelling)
        return Listed(tuple(self.values or ()), codes, (OTHER,) * (self.others is not False))

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        return (*self._book.features, *self.gap_feature)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """See `Column`."""
        own = len(self.values or ())
        listed = (f"{self.name}={value}" for value in self.features[:own])
        return (*listed, *(f"{self.name} {each}" for each in self.features[own:]))

    @property
    def reading(self) -> str:
        """See `Column`."""
        return f"category, {self._book.reading}"

    @property
    def without(self) -> tuple[str, ...]:
        """See `Column`."""
        return (*super().without, *(("others",) if self.others is False else ()))

    def read(self, value: object) -> Any:
        """See `Column`."""
        text = spelled(value, self.spelling)
        if isinstance(text, Odd):
            return text
        missing = value in self.gap_texts or text in self.spelled_gaps
        return Odd.GAP if missing else self._book.code(text)

    def of_arrow(self, values: pa.Array) -> Cells:
        """See `Column`."""
        try:
            return self.few_by_few(values)
        except pa.ArrowException:  # a type without a dictionary
            return super().of_arrow(values)

    def others_in(self, cells: Cells) -> NDArray[np.bool_]:
        """See `Column`."""
        return self._book.others_in(cells.values) & ~cells.gap

    def _codes_of(self, cells: Cells) -> NDArray[np.intp]:
        """The place of each cell's feature: that of gaps is the last, if there may be any."""
        return np.where(cells.gap, len(self._book.features), cells.values)

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`."""
        out[:, 0] = self._codes_of(cells)

    def unpack(self, packed: Floats, out: Floats) -> None:
        """See `Column`."""
        out[np.arange(len(packed)), places_of(packed[:, 0], self.width)] = 1

    def sparse(self, cells: Cells) -> csr_array:
        """See `Column`."""
        n = len(cells.gap)
        ends = np.arange(n + 1)
        return csr_array((np.ones(n, np.float32), self._codes_of(cells), ends), (n, self.width))

    def onnx(self, graph: Graph, values: str) -> str:
        """See `Column`; an empty text is a missing value."""
        flat = graph.op("Reshape", values, np.array([-1]))
        wrong = graph.constant(np.int64(self.width))  # the code of what makes a record unusable
        gap_code = len(self._book.features) if self.gap_feature else self.width
        gaps = dict.fromkeys(["", *self.spelled_gaps], gap_code)
        code = self._book.onnx(graph, flat, gaps, self)
        span = np.array([0, 1], np.float32)  # runtimes have none for float64
        one_hot = graph.op("OneHot", code, wrong, span, axis=1)
        made = graph.op("Cast", one_hot, to=DOUBLE)
        if not self.without:
            return made
        column = graph.op("Reshape", code, np.array([-1, 1]))
        return graph.op("Where", graph.op("Equal", column, wrong), np.nan, made)


@dataclass(frozen=True)
class Listed:
    """A public list of values.

    Attributes:
        values: The values.
        codes: The code of each text in the list, and of its twin; see `places_in`.
        other: The name of the feature of all others, if there may be any.
    """

    values: tuple[str, ...]
    codes: Mapping[Any, int]
    other: tuple[str, ...]

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features, by their codes."""
        return self.values + self.other

    @property
    def reading(self) -> str:
        """What it is, in a few words."""
        return f"{len(self.values)} values"

    def code(self, text: str) -> int | Odd:
        """The code of a text."""
        return self.codes.get(text, len(self.values) if self.other else Odd.WRONG)

    def others_in(self, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Which codes are those of values that are not listed."""
        return np.asarray(codes == len(self.values)) & bool(self.other)

    def onnx(self, graph: Graph, texts: str, gaps: Mapping[str, int], column: Column) -> str:
        """Add the code of each text to an ONNX graph: by rule 2 also of 1.0 for 1, True for true.

        Args:
            graph: The graph.
            texts: The name of the texts.
            gaps: The code of each text that stands for a missing value.
            column: The column, whose width is the code of a text that has none.
        """
        known = {**self.codes, **gaps}
        if column.spelling > 1:
            others = {f"{key}.0": code for key, code in known.items() if key.isdigit()}
            truths = {each: known[word] for each, word in TRUTHS.items() if word in known}
            known = {**others, **truths, **known}
        other = len(self.values) if self.other else column.width
        return graph.labels(texts, known, other=other)


@dataclass(frozen=True)
class Buckets:
    """A number of buckets that values are hashed into; see `Listed` for the methods."""

    count: int

    @property
    def features(self) -> tuple[str, ...]:
        """The names of its features, by their codes."""
        return tuple(f"bucket {bucket}" for bucket in range(self.count))

    @property
    def reading(self) -> str:
        """What it is, in a few words."""
        return f"hashed into {self.count} buckets"

    def code(self, text: str) -> int:
        """The bucket of a text."""
        return bucket(text, self.count)

    def others_in(self, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
        """None: every value has a bucket."""
        return none(len(codes))

    def onnx(self, graph: Graph, texts: str, gaps: Mapping[str, int], column: Column) -> str:
        """Add the code of each text to an ONNX graph."""
        del column
        code = graph.hashed(texts, self.count)
        missing = graph.labels(texts, dict.fromkeys(gaps, 1), other=0)
        is_gap = graph.op("Cast", missing, to=BOOL)
        return graph.op("Where", is_gap, np.int64(gaps[""]), code)


def bucket(text: str, buckets: int) -> int:
    """The bucket of a text: MurmurHash3 of its UTF-8 bytes with seed 0, modulo their number.

    >>> bucket("N14228", 64), bucket("N24211", 64)
    (52, 8)
    """
    return int(scikit.murmurhash3_32(text.encode(errors="replace"), 0, positive=True)) % buckets

"""Columns of categories: a public list of values, or hashed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.utils import murmurhash3_32

from tidegate.checks import refuse, whole
from tidegate.features.columns.column import (
    MISSING,
    Cells,
    Column,
    Floats,
    Odd,
    as_objects,
    is_text,
    none,
    nulls,
    places_of,
    register,
)
from tidegate.features.feature_map import Graph
from tidegate.kinds import parameter

MOST_VALUES = 10_000
"""The most values in a list: every value takes noise, seen or not."""

MOST_BUCKETS = 2**16

WHOLE = 2**64
"""Whole numbers smaller than this are spelled without a point or an exponent."""

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
    texts = tuple(spelled(each) for each in value)
    if any(isinstance(each, Odd) for each in texts):
        raise refuse(name, f"{allowed} below 2^1024", shown="a larger one")
    if len(set(texts)) != len(texts):
        twice = next(each for each in texts if texts.count(each) > 1)
        raise refuse(name, "a list without repeats", shown=f"{twice!r} twice")
    return texts


def spelled(value: object) -> Any:  # noqa: PLR0911 (a table of types)
    """A value as the text of its category; an `Odd` if it has none.

    Numbers are spelled alike whatever type holds them, so that 3 and 3.0 are one category: pandas
    turns whole numbers into floats if another record has none. So those above 2^53 are rounded.

    >>> spelled("UA"), spelled(3), spelled(3.0), spelled(True), spelled(2.5)
    ('UA', '3', '3', 'true', '2.5')
    >>> spelled(2**60 + 1), spelled(2.0**60)
    ('1152921504606846976', '1152921504606846976')
    """
    if isinstance(value, str):
        return value or Odd.GAP
    if value is None:
        return Odd.GAP
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, int | float | Decimal):
        return Odd.WRONG
    try:
        number = float(value)
    except (OverflowError, ValueError):  # too large, or a signalling NaN
        return Odd.WRONG
    if math.isnan(number):  # of a Decimal
        return Odd.GAP
    whole_number = number.is_integer() and abs(number) < WHOLE
    return str(int(number)) if whole_number else repr(number)


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
        gaps: Texts that stand for a missing value.

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

    squared_norm = 1

    def check(self) -> None:
        """Refuse both, or neither, of `values` and `hash`, and a value that is a gap."""
        if (self.values is None) == (self.hash is None):
            given = "both" if self.values is not None else "neither"
            raise self.mistake(f"values or hash must be given, got {given}")
        if both := [each for each in self.values or () if each in self.gaps]:
            raise self.mistake(f"{both[0]!r} must be in values or in gaps, not in both")

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        if self.values is None:
            return (*(f"bucket {bucket}" for bucket in range(self.hash or 0)), MISSING)
        return (*self.values, OTHER, MISSING)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """See `Column`."""
        own = len(self.values or ())
        listed = (f"{self.name}={value}" for value in self.features[:own])
        return (*listed, *(f"{self.name} {each}" for each in self.features[own:]))

    @property
    def explained(self) -> str:
        """How values are read."""
        if self.values is None:
            return f"category, hashed into {self.hash} buckets"
        return f"category, {len(self.values)} values"

    @cached_property
    def _codes(self) -> dict[str, int]:
        return {value: code for code, value in enumerate(self.values or ())}

    @cached_property
    def _set(self) -> pa.Array:
        """The values, then the texts that stand for a missing one: looked up in one go."""
        return pa.array([*(self.values or ()), "", *self.gaps], pa.string())

    def _code(self, text: str) -> int:
        if self.hash is None:
            return self._codes.get(text, len(self._codes))
        return bucket(text, self.hash)

    def read(self, value: object) -> Any:
        """See `Column`."""
        text = spelled(value)
        if isinstance(text, Odd):
            return text
        return Odd.GAP if text in self.gaps else self._code(text)

    def stacked(self, values: list[Any]) -> NDArray[np.intp]:
        """See `Column`."""
        return np.array([0 if value is None else value for value in values], np.intp)

    def of_arrow(self, values: pa.Array) -> Cells | None:
        """See `Column`."""
        if not is_text(values.type):
            return self._of_few(values)
        if self.hash is not None:
            return self._of_few(values)
        try:
            values.validate(full=True)
        except pa.ArrowInvalid:  # a text that is not UTF-8 is wrong, not another value
            return None
        places = pc.index_in(values, self._set.cast(values.type))
        found = pc.fill_null(places, -1).to_numpy(zero_copy_only=False)
        own = len(self._codes)
        codes = np.where(found < 0, own, found).astype(np.intp)
        return Cells(codes, (found >= own) | nulls(values), none(len(values)))

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

    def pack(self, cells: Cells, out: Floats) -> None:
        """See `Column`."""
        out[:, 0] = np.where(cells.gap, self.width - 1, cells.values)

    def unpack(self, packed: Floats, out: Floats) -> None:
        """See `Column`."""
        out[np.arange(len(packed)), places_of(packed[:, 0], self.width)] = 1

    def sparse(self, cells: Cells) -> csr_array:
        """See `Column`."""
        n, codes = len(cells.gap), np.where(cells.gap, self.width - 1, cells.values)
        return csr_array((np.ones(n, np.float32), codes, np.arange(n + 1)), (n, self.width))

    def onnx(self, graph: Graph, values: str) -> str:
        """See `Column`; an empty text is a missing value."""
        flat = graph.add(f"Reshape({values}, {graph.constant(np.array([-1]))})")
        gaps = list(dict.fromkeys(["", *self.gaps]))
        last, width = self.width - 1, graph.constant(np.int64(self.width))
        if self.values is not None:
            known = {**{each: code for code, each in enumerate(self.values)}}
            keys = [*known, *(gap for gap in gaps if gap not in known)]
            codes = [last if key in gaps else known[key] for key in keys]
            code = graph.labels(flat, keys, codes, other=len(known))
        else:
            code = graph.hashed(flat, self.hash or 0)
            missing = graph.labels(flat, gaps, [1] * len(gaps), other=0)
            is_gap = graph.add(f"Cast <to = 9> ({missing})")
            code = graph.add(f"Where({is_gap}, {graph.constant(np.int64(last))}, {code})")
        span = graph.constant(np.array([0, 1], np.float32))  # runtimes have none for float64
        return graph.add(
            f"Cast <to = 11> ({graph.add(f'OneHot <axis = 1> ({code}, {width}, {span})')})"
        )


def bucket(text: str, buckets: int) -> int:
    """The bucket of a text: MurmurHash3 of its UTF-8 bytes with seed 0, modulo their number.

    >>> bucket("N14228", 64), bucket("N24211", 64)
    (52, 8)
    """
    return int(murmurhash3_32(text.encode(errors="replace"), 0, positive=True)) % buckets

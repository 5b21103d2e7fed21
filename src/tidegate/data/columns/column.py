"""What a column of a table is: how its values are read, and the bounded numbers they become."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tidegate.checks import InvalidValueError, refuse, shortened
from tidegate.data.columns.unpacking import unpack_number, unpack_vector
from tidegate.data.feature_map import DOUBLE, Graph
from tidegate.data.values import (
    BYTES,
    NEWEST,
    Odd,
    a_rule,
    as_objects,
    as_read,
    is_flat,
    is_number,
    is_text,
    nulls,
    plain,
    respelled,
    scalar,
    spells_number,
)
from tidegate.kinds import Check, parameter, values_of

Floats = NDArray[Any]
Values: TypeAlias = Any
"""The values of a column as they arrived: an Arrow array, or a list of Python objects."""

MISSING = "missing"
"""The end of the name of the feature that is 1 where a value is missing."""

BLANKS = " \t\n\r\v\f"
"""What is stripped from texts that are read as numbers, flags or times: ASCII blanks."""


NULLS = frozenset(
    spelled
    for word in ("na", "n/a", "nan", "null", "none")
    for spelled in (word, word.upper(), word.capitalize())
) | {"NaN", "#N/A"}
"""Texts that stand for a missing number, flag, time or vector; a category may have such a name."""


class Cells(NamedTuple):
    """The values of a column, read but not yet encoded.

    Attributes:
        values: One for each record, in the form that the kind of column encodes; any value where
            one of the others is set.
        gap: Whether the value is missing.
        wrong: Whether the value is not of the column's kind.
    """

    values: Any
    gap: NDArray[np.bool_]
    wrong: NDArray[np.bool_]

    def part(self, rows: Any) -> "Cells":
        """The cells of some records."""
        return Cells(self.values[rows], self.gap[rows], self.wrong[rows])

    def without_gaps(self) -> "Cells":
        """The cells of a column that has no gaps: where a value is missing, it is wrong."""
        return Cells(self.values, none(len(self.gap)), self.gap | self.wrong)


def texts_or_false(name: str, value: object) -> tuple[str, ...] | Literal[False]:
    """A list of different texts, which may be empty; or false."""
    if value is False:
        return False
    good = isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    if not isinstance(value, list | tuple) or not good or len(set(value)) != len(value):
        raise refuse(name, "a list of different texts, or false for a column without gaps", value)
    return tuple(value)


def a_name(name: str, value: object) -> str:
    """The name of a column."""
    if not isinstance(value, str) or not value:
        raise refuse(name, "the name of a column", value)
    return value


def unless_none(check: Check) -> Check:
    """The same check of a setting that may be left out, which is None then."""
    return lambda name, value: None if value is None else check(name, value)


@dataclass(frozen=True)
class Column(ABC):
    """One column of a table; subclasses are the kinds of columns.

    Every value becomes a fixed number of features, whose Euclidean norm is at most the square root
    of `squared_norm`. That holds exactly for the float32 numbers, and for every value that can
    arrive. The features depend on the value and the column's settings alone.

    Attributes:
        name: Its name in files and tables.
        gaps: Texts that stand for a missing value; an empty text, null and NaN always do. So do
            `NULLS`, except in a category or a text, where they are values. False if the column has
            no gaps: then it has no feature for them, and a missing value is wrong.
        spelling: The rule by which values are spelled, see `tidegate.data.values`; the
            `Columns` that a column is in sets it.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
    dtype: ClassVar[Any]
    """The dtype of its cells."""

    name: str = parameter("the name of the column in the file", a_name)
    gaps: Sequence[str] | Literal[False] = parameter(
        'texts that stand for a missing value, such as ["?"]; an empty one always does. Or false: '
        "no value is ever missing, so there is no feature for gaps, and a record with one is "
        "unusable",
        texts_or_false,
        default=(),
        kw_only=True,
    )
    spelling: int = field(default=NEWEST, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        """Check the settings; the error names the column."""
        a_rule("spelling", self.spelling)
        for each in self.__dataclass_fields__.values():
            if declared := each.metadata.get("parameter"):
                try:
                    checked = declared.check(each.name, getattr(self, each.name))
                except InvalidValueError as error:
                    raise self.mistake(str(error)) from None
                object.__setattr__(self, each.name, checked)
        self.check()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Keep rule 1 for a column that an earlier version has pickled."""
        self.__dict__.update({"spelling": 1, **state})

    def mistake(self, what: str) -> InvalidValueError:
        """The error for settings that make no sense."""
        name: object = self.name
        named = f"column {shortened(name, 60)}: " if isinstance(name, str) else ""
        return InvalidValueError(f"{named}{what}")

    def check(self) -> None:  # noqa: B027 (most kinds have nothing to check)
        """Refuse settings that do not fit together."""

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """The names of its features, without that of the column."""

    @property
    def squared_norm(self) -> int:
        """The most that the squares of its features can add up to."""
        return 1

    @property
    def blank(self) -> Any:
        """What a cell holds if there is no value."""
        return 0

    @cached_property
    def gap_texts(self) -> tuple[str, ...]:
        """The texts that `gaps` lists."""
        return tuple(self.gaps or ())

    @property
    def gap_feature(self) -> tuple[str, ...]:
        """The name of the last feature, which is 1 where a value is missing; none without gaps."""
        return () if self.gaps is False else (MISSING,)

    @property
    def width(self) -> int:
        """How many features a value becomes."""
        return len(self.features)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The full names of its features."""
        return tuple(f"{self.name} {each}".rstrip() for each in self.features)

    def cells(self, values: Values) -> Cells:
        """Read all values; each depends on itself alone."""
        found = self._cells(values)
        return found.without_gaps() if self.gaps is False else found

    def _cells(self, values: Values) -> Cells:
        """What `cells` returns for a column that may have gaps."""
        if not isinstance(values, pa.Array):
            return self.one_by_one(values)
        values = plain(values)
        if self.spelling > 1 and values.type in BYTES:  # some may be no UTF-8
            values = values.view(BYTES[values.type])
        if is_flat(values.type) or self.takes(values.type):
            return self.of_arrow(values)
        gap = nulls(values)  # nothing else of such values is read
        return Cells(self._stacked([Odd.WRONG] * len(values)), gap, ~gap)

    def of_arrow(self, values: pa.Array) -> Cells:
        """What `cells` returns for an array without a dictionary; kinds compute it faster."""
        return self.one_by_one(as_objects(values))

    def few_by_few(self, values: pa.Array) -> Cells:
        """What `of_arrow` returns; each different value is read once."""
        encoded = values.dictionary_encode(null_encoding="encode")
        few = self.one_by_one(as_objects(encoded.dictionary))
        return few.part(encoded.indices.to_numpy(zero_copy_only=False))

    def one_by_one(self, values: Sequence[object]) -> Cells:
        """Read Python objects."""
        read = [self._read(value) for value in values]
        gap, wrong = (np.array([each is kind for each in read], np.bool_) for kind in Odd)
        return Cells(self._stacked(read), gap, wrong)

    def _read(self, value: object) -> Any:
        try:
            return self.read(scalar(as_read(value, self.spelling)))
        except Exception:  # an object that raises affects its own record only
            return Odd.WRONG

    def _stacked(self, read: Sequence[Any]) -> Any:
        """Values that `read` returned as one array, blank where they are odd."""
        kept = [self.blank if isinstance(each, Odd) else each for each in read]
        return np.array(kept, self.dtype).reshape(len(kept), *np.shape(self.blank))

    def read(self, value: object) -> Any:
        """One value as `pack` takes it, or an `Odd`; what `cells` does, one by one.

        Args:
            value: A value that `scalar` returned: None stands for NaN, too.
        """
        if isinstance(value, str):
            bare = value.strip(BLANKS)
            missing = not bare or bare in NULLS or value in self.gap_texts or bare in self.gap_texts
            return Odd.GAP if missing else self.of_text(bare)
        return Odd.GAP if value is None else self.of_object(value)

    def of_text(self, text: str) -> Any:
        """What `read` returns for a text without blanks around it that is not missing."""
        del text
        return Odd.WRONG

    def of_object(self, value: object) -> Any:
        """What `read` returns for what is neither a text nor missing."""
        del value
        return Odd.WRONG

    def all_stripped(self, texts: pa.Array) -> pa.Array:
        """Texts without blanks around them, null for those that are missing."""
        bare = pc.ascii_trim_whitespace(texts)
        gaps = pa.array(["", *NULLS, *self.gap_texts], texts.type)
        missing = pc.is_in(bare, gaps)
        if self.gap_texts:
            missing = pc.or_(missing, pc.is_in(texts, gaps))
        if not pc.any(missing).as_py():
            return bare
        return pc.if_else(missing, pa.scalar(None, texts.type), bare)

    @cached_property
    def gap_numbers(self) -> frozenset[float]:
        """The numbers that stand for a missing value: by rule 2 those that `gaps` spells."""
        spelled = (text for text in self.gap_texts if spells_number(text, self.spelling))
        return frozenset(map(float, spelled))

    @cached_property
    def spelled_gaps(self) -> frozenset[str]:
        """The texts that stand for a missing value, as the rule of spelling spells them, too."""
        return frozenset(self.gap_texts) | {respelled(e, self.spelling) for e in self.gap_texts}

    @property
    def packed_width(self) -> int:
        """How many numbers hold a value, missing or not, until its features are needed."""
        return 1

    @abstractmethod
    def pack(self, cells: Cells, out: Floats) -> None:
        """Write cells into an array of shape (n, packed_width), float32, as finite numbers.

        Cells that are wrong may become any numbers.
        """

    @abstractmethod
    def unpack(self, packed: Floats, out: Floats) -> None:
        """Write the features of packed values into zeros of shape (n, width), float32.

        They keep `squared_norm` for any packed numbers, also for those that no value becomes.
        """

    def encode(self, cells: Cells, out: Floats) -> None:
        """Write the features of cells into zeros of shape (n, width), float32."""
        packed = np.zeros((len(cells.gap), self.packed_width), np.float32)
        self.pack(cells, packed)
        self.unpack(packed, out)

    def sparse(self, cells: Cells) -> csr_array:
        """The features of cells as a sparse matrix."""
        out = np.zeros((len(cells.gap), self.width), np.float32)
        self.encode(cells, out)
        return csr_array(out)

    def takes(self, kind: pa.DataType) -> bool:
        """Whether values of a type can be right; where it is not, all but gaps are wrong."""
        return is_text(kind) or is_number(kind) or bool(pa.types.is_null(kind))

    def described(self) -> dict[str, Any]:
        """Its kind and settings for a card, from which `column_of` builds it again."""
        given = {key: value for key, value in values_of(self).items() if value != ()}
        return {"kind": self.kind, **given}

    @property
    def reading(self) -> str:
        """How values that are not missing are read, in a few words."""
        return self.kind

    @property
    def explained(self) -> str:
        """How values are read, in a few words, and what the column is said to be without."""
        return ", ".join([self.reading, *(f"no {each}" for each in self.without)])

    @property
    def without(self) -> tuple[str, ...]:
        """The keys that are false: what the column is said to be without."""
        return ("gaps",) if self.gaps is False else ()

    def with_all(self) -> Self:
        """The column as if it had said nothing about what it is without."""
        usual: Any = {key: self.__dataclass_fields__[key].default for key in self.without}
        return replace(self, **usual) if usual else self

    def others_in(self, cells: Cells) -> NDArray[np.bool_]:
        """Which values are not listed, of a category that may have others."""
        return none(len(cells.gap))

    @property
    def shown(self) -> str:
        """Its name and `without`, for messages about records that contradict the column."""
        keys = ", ".join(f"{each} = false" for each in self.without)
        return f"{self.name} ({keys})" if keys else self.name

    onnx_type: ClassVar[int] = DOUBLE
    """The type of its input in an ONNX graph."""

    @property
    def onnx_width(self) -> int:
        """The number of columns of its input in an ONNX graph."""
        return 1

    @abstractmethod
    def onnx(self, graph: Graph, values: str) -> str:
        """Add the column to an ONNX graph.

        Args:
            graph: The graph.
            values: The name of its input, of shape (n, 1).

        Returns:
            The name of the features, of shape (n, width), float64.
        """

    def with_gap_in_onnx(self, graph: Graph, values: str, missing: str) -> str:
        """Add the feature for gaps to values of an ONNX graph; NaN for gaps if there is none."""
        if self.gap_feature:
            return graph.with_gap(values, missing)
        return graph.op("Where", missing, np.nan, values)


class OneNumber(Column):
    """A kind whose values become one number in [-1, 1], and a feature for gaps."""

    @cached_property
    def features(self) -> tuple[str, ...]:
        """See `Column`."""
        return ("", *self.gap_feature)

    def unpack(self, packed: Floats, out: Floats) -> None:
        """See `Column`."""
        unpack_number(packed[:, 0], out)

    def missing_in_onnx(self, graph: Graph, values: str) -> str:
        """Add which numbers of an ONNX graph are missing: NaN, and `gap_numbers`."""
        missing = graph.op("IsNaN", values)
        for number in sorted(self.gap_numbers):
            missing = graph.op("Or", missing, graph.op("Equal", values, number))
        return missing


class OneVector(Column):
    """A kind whose values become a vector within norm 1, and a feature for gaps."""

    @property
    def packed_width(self) -> int:
        """See `Column`: the features themselves."""
        return self.width

    def unpack(self, packed: Floats, out: Floats) -> None:
        """See `Column`."""
        unpack_vector(packed, out, self.width - len(self.gap_feature))


C = TypeVar("C", bound=type[Column])

KINDS: dict[str, type[Column]] = {}
"""Every kind of column, by its name."""


def register(kind: C) -> C:
    """Add a kind of column; that its features keep `squared_norm` must be proved."""
    KINDS[kind.kind] = kind
    return kind


def column_of(given: Mapping[str, Any], spelling: int = NEWEST) -> Column:
    """Build a column from its description.

    >>> from tidegate.data.columns import Number
    >>> column_of({"kind": "number", "name": "age", "low": 0, "high": 120}).described()
    {'kind': 'number', 'name': 'age', 'low': 0.0, 'high': 120.0, 'log': False}
    """
    keys = dict(given)
    kind = keys.pop("kind", None)
    if kind not in KINDS:
        raise refuse("the kind of a column", f"one of {', '.join(KINDS)}", kind)
    parameters: Any = {key: tuple(v) if isinstance(v, list) else v for key, v in keys.items()}
    return KINDS[kind](**parameters, spelling=spelling)


def none(n: int) -> NDArray[np.bool_]:
    """No record."""
    return np.zeros(n, np.bool_)

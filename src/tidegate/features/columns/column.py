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

from tidegate.checks import InvalidValueError, refuse
from tidegate.features.arrow_values import (
    BYTES,
    as_objects,
    is_flat,
    is_number,
    is_text,
    nulls,
    plain,
)
from tidegate.features.feature_map import Graph
from tidegate.features.spelling import (
    NEWEST,
    Odd,
    a_rule,
    decoded,
    plain_number,
    scalar,
    truth_number,
)
from tidegate.kinds import parameter, values_of

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

    def part(self, rows: slice) -> "Cells":
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
        spelling: The rule by which values are spelled, see `tidegate.features.spelling`; the
            `Columns` that a column is in sets it.
    """

    kind: ClassVar[str]
    about: ClassVar[str]
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
            if (declared := each.metadata.get("parameter")) is None:
                continue
            value = getattr(self, each.name)
            if value is None and each.default is None:
                continue
            try:
                checked = declared.check(each.name, value)
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
        return InvalidValueError(f"column {name}: {what}" if isinstance(name, str) else what)

    def check(self) -> None:  # noqa: B027 (most kinds have nothing to check)
        """Refuse settings that do not fit together."""

    @property
    @abstractmethod
    def squared_norm(self) -> int:
        """The most that the squares of its features can add up to."""

    @property
    @abstractmethod
    def features(self) -> tuple[str, ...]:
        """The names of its features, without that of the column."""

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

    @abstractmethod
    def read(self, value: object) -> Any:
        """One value as `encode` takes it, or an `Odd`; what `cells` does, one by one.

        Args:
            value: A value that `scalar` returned: None stands for NaN, too.
        """

    @abstractmethod
    def stacked(self, values: list[Any]) -> Any:
        """Values that `read` returned as one array; None stands for an odd one."""

    def cells(self, values: Values) -> Cells:
        """Read all values; each depends on itself alone."""
        found = self._cells(values)
        return found.without_gaps() if self.gaps is False else found

    def _cells(self, values: Values) -> Cells:
        """What `cells` returns for a column that may have gaps."""
        if isinstance(values, pa.Array):
            values = plain(values)
            if self.spelling > 1 and values.type in BYTES:  # some may be no UTF-8
                values = values.view(BYTES[values.type])
            if not (is_flat(values.type) or self.takes(values.type)):
                gap = nulls(values)  # nothing else of such values is read
                return Cells(self.stacked([None] * len(values)), gap, ~gap)
            found = self.of_arrow(values)
            if found is not None:
                return found
            values = as_objects(values)
        read = [self._read(value) for value in values]
        return Cells(
            self.stacked([None if isinstance(each, Odd) else each for each in read]),
            np.array([each is Odd.GAP for each in read], np.bool_),
            np.array([each is Odd.WRONG for each in read], np.bool_),
        )

    def _read(self, value: object) -> Any:
        try:
            if self.spelling > 1 and isinstance(value, bytes):
                value = decoded(value) or ()
            return self.read(scalar(value))
        except Exception:  # an object that raises affects its own record only
            return Odd.WRONG

    def of_arrow(self, values: pa.Array) -> Cells | None:
        """What `cells` returns, computed faster; None if it cannot be.

        Args:
            values: An array without a dictionary.
        """
        del values
        return None

    @cached_property
    def gap_numbers(self) -> frozenset[float]:
        """The numbers that stand for a missing value: by rule 2 those that `gaps` spells."""
        found = {plain_number(each) for each in self.gap_texts} if self.spelling > 1 else set()
        return frozenset(each for each in found if each is not None)

    def missing_in_onnx(self, graph: Graph, values: str) -> str:
        """Add which numbers of an ONNX graph are missing: NaN, and `gap_numbers`."""
        missing = graph.add(f"IsNaN({values})")
        for number in sorted(self.gap_numbers):
            equal = graph.add(f"Equal({values}, {graph.constant(number)})")
            missing = graph.add(f"Or({missing}, {equal})")
        return missing

    def truth(self, text: str) -> float | None:
        """1 or 0 if rule 2 reads a text as true or false; None for another."""
        return truth_number(text) if self.spelling > 1 else None

    def stripped(self, text: str) -> str | None:
        """A text without blanks around it; None if it stands for a missing value."""
        bare = text.strip(BLANKS)
        missing = not bare or bare in NULLS or text in self.gap_texts or bare in self.gap_texts
        return None if missing else bare

    def all_stripped(self, texts: pa.Array) -> pa.Array:
        """What `stripped` returns for each text, with null for None."""
        bare = pc.ascii_trim_whitespace(texts)
        gaps = pa.array(["", *NULLS, *self.gap_texts], texts.type)
        missing = pc.is_in(bare, gaps)
        if self.gap_texts:
            missing = pc.or_(missing, pc.is_in(texts, gaps))
        if not pc.any(missing).as_py():
            return bare
        return pc.if_else(missing, pa.scalar(None, texts.type), bare)

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

    @property
    def shown(self) -> str:
        """Its name and `without`, for messages about records that contradict the column."""
        keys = ", ".join(f"{each} = false" for each in self.without)
        return f"{self.name} ({keys})" if keys else self.name

    def onnx(self, graph: Graph, values: str) -> str:
        """Add the column to an ONNX graph.

        Args:
            graph: The graph.
            values: The name of its input, of shape (n, 1).

        Returns:
            The name of the features, of shape (n, width), float64.
        """
        del graph, values
        allowed = "kinds that ONNX can encode (other export kinds take all)"
        raise refuse("the columns", allowed, shown=f"{self.name}: {self.kind}")

    def with_gap_in_onnx(self, graph: Graph, values: str, missing: str) -> str:
        """Add the feature for gaps to values of an ONNX graph; NaN for gaps if there is none."""
        if self.gap_feature:
            return graph.with_gap(values, missing)
        return graph.add(f"Where({missing}, {graph.constant(np.nan)}, {values})")

    onnx_type: ClassVar[str] = "double"
    """The type of its input in an ONNX graph."""

    @property
    def onnx_width(self) -> int:
        """The number of columns of its input in an ONNX graph."""
        return 1


C = TypeVar("C", bound=type[Column])

KINDS: dict[str, type[Column]] = {}
"""Every kind of column, by its name."""


def register(kind: C) -> C:
    """Add a kind of column; that its features keep `squared_norm` must be proved."""
    KINDS[kind.kind] = kind
    return kind


def column_of(given: Mapping[str, Any], spelling: int = NEWEST) -> Column:
    """Build a column from its description.

    >>> from tidegate.features.columns import Number
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

"""The protocol of a source, the batches that it yields, and which columns of a record are read."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError, refuse, shortened
from tidegate.data.columns import Category, Table, TableColumns
from tidegate.data.columns.column import Values
from tidegate.data.values import NEWEST, as_object, truths_of

if TYPE_CHECKING:
    from tidegate.sources.json_records import Absent


OTHER_SOURCE = "earlier records came from another kind of source; use that one"
"""What to do about an offset that a source cannot read."""


class SourceError(InvalidValueError):
    """A source as a whole cannot be read; the message is one line and quotes no record."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RawBatch:
    """Records as they arrived, each in its slot, ready for `tidegate.data.intake.clean`.

    Attributes:
        X: One row per slot: numbers of shape (n, d) with NaN for missing values, texts of shape
            (n,) with None for missing ones, or a `Table` of columns of any kind.
        y: One label per slot; None or NaN if it is missing.
        arrived: Returns what arrived in a slot, as JSON text. Only the operator may see it.
        persons: The id of each slot's person as it arrived, of any type, None if it is missing;
            None if no ids are read.
        reasons: Why a slot cannot be used, for slots that could not even be parsed.
        absent: Columns that none of its records has, if they are JSON objects and some are missing.
        offset: The position after this batch; `batches(offset)` continues from there. Empty if
            the records do not come from a source.
    """

    X: Any
    y: NDArray[Any]
    arrived: Callable[[int], str]
    persons: Sequence[Any] | None = None
    reasons: Mapping[int, str] = field(default_factory=dict)
    absent: "Absent | None" = None
    offset: str = ""

    @property
    def n(self) -> int:
        """The number of slots."""
        return int(self.X.shape[0])


def check_columns(raw: RawBatch, where: str) -> None:
    """Refuse a first batch that lacks a column in every record, before any record is taken."""
    if raw.absent is not None:
        raise SourceError(raw.absent.in_words(where))


def checked_first(batches: Iterable[RawBatch], where: str) -> Iterator[RawBatch]:
    """The batches; refused before the first with records if that lacks a column in all of them."""
    started = False
    for raw in batches:
        if not started:
            check_columns(raw, where)
        started = started or raw.n > 0
        yield raw


def check_ids(raw: RawBatch, *, protected: bool) -> None:
    """Refuse a batch without ids if persons are protected, or with ids if records are."""
    if protected and raw.persons is None:
        wrong = "persons is missing: the configuration has [person]"
        raise InvalidValueError(f"{wrong}, so give the id of each record's person")
    if not protected and raw.persons is not None:
        wrong = "persons must not be given: the configuration has no [person]"
        raise InvalidValueError(f"{wrong}, so records are protected, not persons")


class Source(Protocol):
    """A stream of records that can be resumed at an offset."""

    @property
    def name(self) -> str:
        """The name under which its offset is kept."""

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """The records after an offset, or all of them if it is None.

        Where a batch ends depends only on counts or on when records arrive, never on their length
        or content. The store and the fits divide records again, by counts.
        """


def joined(parts: Sequence[Any]) -> Any:
    """The records of several parts, one after the other: arrays, or tables of lists."""
    if not isinstance(parts[0], Table):
        return np.concatenate(parts)
    names = parts[0].columns
    columns = {name: [v for part in parts for v in part.columns[name]] for name in names}
    return Table(columns, sum(part.n for part in parts))


def objects(values: list[Any]) -> NDArray[np.object_]:
    """Values of any kind as a one-dimensional array.

    >>> objects([[1, 2], [3, 4]]).shape
    (2,)
    """
    return np.fromiter(values, object, len(values))  # np.array would unpack lists


Dtype = Literal["float32", "float64"]
Column = TypeVar("Column")

NUMERAL = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, kw_only=True)
class SourceColumns:
    """The columns of a file that make up a record and its label.

    Args:
        label: The column of labels.
        features: The columns of numbers that make up a record, in this order.
        text: The one column of text, instead of `features`.
        number_labels: Whether labels are numbers rather than text.
        dtype: The type of the numbers; a number too large for it cannot be used.
        person: The column that says whose a record is, if persons are protected.
        kinds: What the columns of `features` are, if they are not all numbers. Then records are
            read as they are, into a `Table`.
        aliases: The names of columns that are called otherwise in this file, by their own names.
        spelling: The rule by which values are read, see `tidegate.data.values`.
    """

    label: str
    features: tuple[str, ...] = ()
    text: str | None = None
    number_labels: bool = False
    dtype: Dtype = "float32"
    person: str | None = None
    kinds: TableColumns | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    spelling: int = NEWEST

    @classmethod
    def of_any_kind(cls, names: Sequence[str]) -> "SourceColumns":
        """All columns of a file, as they are, without a label; the file must have some."""
        if not names:
            raise SourceError("the file has no columns: its first line must name them")
        kinds = TableColumns([Category(name, hash=2) for name in names])
        return cls(label=names[0], features=tuple(names), kinds=kinds)

    @property
    def names(self) -> list[str]:
        """The columns of a record, then the label."""
        return [*(self.features if self.text is None else [self.text]), self.label]

    @property
    def read(self) -> list[str]:
        """All columns that are read: `names`, then the one that says whose a record is."""
        return [*self.names, *self._person]

    def called(self, name: str) -> str:
        """What a column is called in the file."""
        return self.aliases.get(name, name)

    def with_aliases(self, aliases: Mapping[str, str]) -> "SourceColumns":
        """The same columns, some of which are called otherwise in a file."""
        for name in aliases:
            if name not in self.read:
                raise refuse("--column", f"NAME=NAME_IN_FILE, NAME one of {few(self.read)}", name)
        renamed = replace(self, aliases=dict(aliases))
        # An id that is also a number would be read as one, or as text beside an odd record.
        times = Counter(map(renamed.called, dict.fromkeys(self.read)))
        if twice := [name for name, count in times.items() if count > 1]:
            raise refuse("--column", "another column of the file for each name", twice[0])
        return renamed

    @property
    def _person(self) -> list[str]:
        return [] if self.person is None else [self.person]

    @property
    def batch(self) -> int:
        """The number of records in a batch of a file: fewer if a record has more columns.

        >>> SourceColumns(label="y", features=("a", "b")).batch
        65536
        >>> SourceColumns(label="y", text="t").batch
        4096
        """
        if self.text is not None:
            return TEXTS
        cells, width = CELLS, len(self.names)
        if self.kinds is not None:  # packed values take little space
            cells, width = 4 * CELLS, max(self.kinds.packed_width, width)
        fitting = 1 << (cells // width).bit_length() >> 1
        return max(1, min(fitting, MOST))

    def find(self, present: Sequence[str], file: str) -> list[int]:
        """The position of each of `read` among the columns of a file, which must have them all.

        >>> SourceColumns(label="y", features=("a", "b")).find(["b", "y", "a"], "f.csv")
        [2, 0, 1]
        >>> SourceColumns(label="y", features=("c",)).find(["a", "y"], "f.csv")
        Traceback (most recent call last):
        tidegate.sources.source.SourceError: column c is not in f.csv, which has a, y: \
check the column names
        >>> SourceColumns(label="y", features=("a",)).find(["a;y"], "f.csv")
        Traceback (most recent call last):
        tidegate.sources.source.SourceError: column a is not in f.csv, which has a;y: is the \
delimiter of [source] right?
        """
        times, places = Counter(present), {name: index for index, name in enumerate(present)}
        for name in map(self.called, self.read):
            if times[name] != 1:
                problem = f"{times[name]} times in" if times[name] else "not in"
                wrong = f"column {name} is {problem} {file}, which has {few(present)}"
                joined = len(present) == 1 and any(mark in present[0] for mark in ",;|\t")
                hint = "is the delimiter of [source] right?" if joined else "check the column names"
                raise SourceError(f"{wrong}: {hint}")
        return [places[self.called(name)] for name in self.read]

    def divided(self, columns: Sequence[Column]) -> tuple[Sequence[Column], Column, Column | None]:
        """The columns of `read` as those of the record, the label, and the one with ids if any."""
        if self.person is None:
            return columns[:-1], columns[-1], None
        return columns[:-2], columns[-2], columns[-1]

    def records(
        self,
        columns: Sequence[Any],
        n: int,
        *,
        values: Callable[[Any], Values],
        texts: Callable[[Any], Any],
        numbers: Callable[[Sequence[Any]], Sequence[NDArray[Any]]],
    ) -> Any:
        """The records that columns make up: a table of any kind, texts, or a matrix of numbers.

        Args:
            columns: The columns of the records, as they were read.
            n: The number of records.
            values: Makes values of any kind of a column.
            texts: Makes texts of a column, with None for what is none.
            numbers: Makes numbers of each column, with NaN for what is none.
        """
        if self.kinds is not None:
            return Table(dict(zip(self.features, map(values, columns), strict=True)), n)
        if self.text is not None:
            return objects(texts(columns[0]))
        return self.matrix(numbers(columns), n)

    def matrix(self, columns: Sequence[NDArray[Any]], n: int) -> NDArray[Any]:
        """SourceColumns of numbers as a matrix with one row per record, in `dtype`."""
        X = np.empty((n, len(columns)), self.dtype)
        with np.errstate(over="ignore"):  # a record with an infinite value cannot be used
            for start in range(0, n, CHUNK):  # few enough rows to stay in the CPU cache
                rows = slice(start, start + CHUNK)
                for index, column in enumerate(columns):
                    X[rows, index] = column[rows]
        return X


NO_LABEL = SourceColumns(label="")
"""For reading names alone."""

CHUNK = 2048

CELLS, MOST, TEXTS = 2**20, 2**16, 2**12
"""The most values in a batch, the most records, and the records in a batch of texts."""


def few(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    shown = ", ".join(shortened(name, 60) for name in names[:20])
    return shown + more if names else "no columns"


def numbers(texts: pa.Array, rule: int = NEWEST) -> NDArray[np.float64]:
    """Parse texts as numbers; NaN for anything that is not a number or is too large.

    A number is a decimal numeral in ASCII digits, with optional exponent and surrounding blanks.
    The result for one text must not depend on the others. So Arrow's cast, which fails for all
    texts if it fails for one, must agree with `_number`: both accept the same finite numerals and
    round correctly. By rule 2 of spelling, true is 1 and false is 0.

    >>> numbers(pa.array(["1.5", " -2e3 ", "1_000", None, "inf", "true"]))
    array([ 1.5e+00, -2.0e+03,      nan,      nan,      nan,  1.0e+00])
    """
    if texts.type == pa.float64():  # Arrow has parsed them
        return np.asarray(texts.to_numpy(zero_copy_only=False))
    trimmed = pc.ascii_trim_whitespace(texts)
    try:
        parsed = pc.cast(trimmed, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        parsed = np.array([_number(text, rule) for text in trimmed.to_pylist()], np.float64)
    return np.where(np.isfinite(parsed), parsed, np.nan)


def columns_of_numbers(columns: Sequence[pa.Array], rule: int) -> list[NDArray[np.float64]]:
    """Parse columns of the same length, several at a time if they are short."""
    n = len(columns[0]) if columns else 0
    many = max(1, MOST // max(n, 1))
    parsed: list[NDArray[np.float64]] = []
    for start in range(0, len(columns), many):
        some = columns[start : start + many]
        parsed.extend(numbers(pa.concat_arrays(some), rule).reshape(len(some), n))
    return parsed


def _number(text: str | None, rule: int) -> float:
    if text is None:
        return np.nan
    truths = truths_of(rule)
    if text in truths:
        return truths[text]
    return float(text) if NUMERAL.fullmatch(text) else np.nan


def row_of(batch: pa.RecordBatch | pa.Table, index: int) -> dict[str, Any]:
    """A row of a batch by the names of its columns."""
    columns = zip(batch.schema.names, batch.columns, strict=True)
    return {name: as_object(column[index]) for name, column in columns}


def as_json(value: object) -> str:
    r"""A value as JSON text; parts that JSON cannot represent are written as strings.

    >>> print(as_json({"x": 1.5, "line": b"caf\xe9"}))
    {"x": 1.5, "line": "caf\\xe9"}
    """
    try:
        return json.dumps(value, default=_shown, ensure_ascii=True)
    except Exception:  # one bad record must not stop the others
        return json.dumps("what cannot be shown as JSON")


def _shown(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return value.item() if isinstance(value, np.generic) else str(value)

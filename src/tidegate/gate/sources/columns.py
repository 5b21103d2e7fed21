"""The columns of a file that make up a record and its label."""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidegate.gate.sources.source import SourceError

Dtype = Literal["float32", "float64"]
Column = TypeVar("Column")

NUMERAL = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?")


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of a file that make up a record and its label.

    Args:
        label: The column of labels.
        features: The columns of numbers that make up a record, in this order.
        text: The one column of text, instead of `features`.
        whole_labels: Whether labels are whole numbers rather than text.
        dtype: The type of the numbers; a number too large for it cannot be used.
        person: The column that says whose a record is, if persons are protected.
    """

    label: str
    features: tuple[str, ...] = ()
    text: str | None = None
    whole_labels: bool = False
    dtype: Dtype = "float32"
    person: str | None = None

    @property
    def names(self) -> list[str]:
        """The columns of a record, then the label."""
        return [*(self.features if self.text is None else [self.text]), self.label]

    @property
    def read(self) -> list[str]:
        """All columns that are read: `names`, then the one that says whose a record is."""
        return [*self.names, *self._person]

    @property
    def _person(self) -> list[str]:
        return [] if self.person is None else [self.person]

    @property
    def batch(self) -> int:
        """The number of records in a batch of a file: fewer if a record has more columns.

        >>> Columns(label="y", features=("a", "b")).batch, Columns(label="y", text="t").batch
        (65536, 4096)
        """
        if self.text is not None:
            return TEXTS
        fitting = 1 << (CELLS // len(self.names)).bit_length() >> 1
        return max(1, min(fitting, MOST))

    def find(self, present: Sequence[str], file: str) -> list[int]:
        """The position of each of `read` among the columns of a file, which must have them all.

        >>> Columns(label="y", features=("a", "b")).find(["b", "y", "a"], "f.csv")
        [2, 0, 1]
        >>> Columns(label="y", features=("c",)).find(["a", "y"], "f.csv")
        Traceback (most recent call last):
        tidegate.gate.sources.source.SourceError: column c is not in f.csv, which has a, y: \
check the column names
        >>> Columns(label="y", features=("a",)).find(["a;y"], "f.csv")
        Traceback (most recent call last):
        tidegate.gate.sources.source.SourceError: column a is not in f.csv, which has a;y: is the \
delimiter of [source] right?
        """
        times, places = Counter(present), {name: index for index, name in enumerate(present)}
        for name in self.read:
            if times[name] != 1:
                problem = f"{times[name]} times in" if times[name] else "not in"
                wrong = f"column {name} is {problem} {file}, which has {_few(present)}"
                joined = len(present) == 1 and any(mark in present[0] for mark in ",;|\t")
                hint = "is the delimiter of [source] right?" if joined else "check the column names"
                raise SourceError(f"{wrong}: {hint}")
        return [places[name] for name in self.read]

    def divided(self, columns: Sequence[Column]) -> tuple[Sequence[Column], Column, Column | None]:
        """The columns of `read` as those of the record, the label, and the one with ids if any."""
        if self.person is None:
            return columns[:-1], columns[-1], None
        return columns[:-2], columns[-2], columns[-1]

    def matrix(self, columns: Sequence[NDArray[Any]], n: int) -> NDArray[Any]:
        """Columns of numbers as a matrix with one row per record, in `dtype`."""
        X = np.empty((n, len(columns)), self.dtype)
        with np.errstate(over="ignore"):  # a record with an infinite value cannot be used
            for start in range(0, n, CHUNK):  # few enough rows to stay in the CPU cache
                rows = slice(start, start + CHUNK)
                for index, column in enumerate(columns):
                    X[rows, index] = column[rows]
        return X


CHUNK = 2048

CELLS, MOST, TEXTS = 2**20, 2**16, 2**12
"""The most values in a batch, the most records, and the records in a batch of texts."""


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return ", ".join(names[:20]) + more if names else "no columns"


def numbers(texts: pa.Array) -> NDArray[np.float64]:
    """Parse texts as numbers; NaN for anything that is not a number or is too large.

    A number is a decimal numeral in ASCII digits, with optional exponent and surrounding blanks.
    The result for one text must not depend on the others. So Arrow's cast, which fails for all
    texts if it fails for one, must agree with `_number`: both accept the same finite numerals and
    round correctly.

    >>> numbers(pa.array(["1.5", " -2e3 ", "1_000", None, "inf"]))
    array([ 1.5e+00, -2.0e+03,      nan,      nan,      nan])
    """
    trimmed = pc.ascii_trim_whitespace(texts)
    try:
        parsed = pc.cast(trimmed, pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        parsed = np.array([_number(text) for text in trimmed.to_pylist()], np.float64)
    return np.where(np.isfinite(parsed), parsed, np.nan)


def columns_of_numbers(columns: Sequence[pa.Array]) -> list[NDArray[np.float64]]:
    """Parse columns of the same length, several at a time if they are short."""
    n = len(columns[0]) if columns else 0
    many = max(1, MOST // max(n, 1))
    parsed: list[NDArray[np.float64]] = []
    for start in range(0, len(columns), many):
        some = columns[start : start + many]
        parsed.extend(numbers(pa.concat_arrays(some)).reshape(len(some), n))
    return parsed


def _number(text: str | None) -> float:
    return float(text) if text is not None and NUMERAL.fullmatch(text) else np.nan


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

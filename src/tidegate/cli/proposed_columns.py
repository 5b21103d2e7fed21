"""Proposes a configuration for a file: by the names of its columns, or by its public records."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.data.columns import Column, Flag, Number, Time, Vector, column_of
from tidegate.data.predicted import cut_words
from tidegate.kinds import values_of
from tidegate.run.config.example import Proposed, Source, in_toml
from tidegate.run.config.texts import PLACEHOLDER
from tidegate.sources.files import Named, as_utf8, kind_of_file, readable, regular
from tidegate.sources.source import NO_LABEL, SourceError

MAX_RECORDS_READ = 100_000
"""The most records of a public file that are read."""

MAX_LISTED_VALUES = 60
"""With more different values than this, a category is hashed."""

CLASSES = 10
"""A label with more different numbers than this is a number, not a class."""

MIN_VALUES_TO_JUDGE = 100
"""With fewer values than this, nobody can tell whether they identify records."""

WORDS = 4
"""Texts with more words than this on average are texts, not categories."""


NO_TYPE = pa.null()
"""The type of a column in a file that says none."""

NOT_AVAILABLE = {"NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null"}
"""Words that are likely to mean a missing value in a category; "none" is often a value."""


def propose(path: Path, *, label: str | None = None, public: bool = False) -> Source:
    """What the columns of a file may be.

    Args:
        path: A .csv, .parquet or .jsonl file.
        label: The column to predict.
        public: Whether everyone may know the records. Only then are they read.
    """
    with readable(path):
        reader = kind_of_file(as_utf8(path)).guessed(path, NO_LABEL)
        regular(path)
        header = reader.header(path)
    if header is None and not public:
        why = "the names of its columns are in its records, which are read only with --public"
        raise InvalidValueError(f"{path}: {why}; if they are private, write [[columns]] by hand")
    if header is None:
        header = list(map(Named, reader.sample(path, MAX_RECORDS_READ)))
    types = {each.name: each.type for each in header if each.name}  # a data frame's index has none
    _check(path, [each.name for each in header if each.name], label)
    read = [name for name in types if name != label]
    keys = {name: v for name, v in values_of(reader).items() if name not in {"path", "follow"}}
    known: dict[str, Any] = {"path": str(path), "type": reader.type, "keys": keys, "label": label}
    if not public:
        proposed = [_by_type(name, types[name] or NO_TYPE) for name in read]
        return Source(columns=proposed, typed=any(types.values()), **known)
    values = reader.sample(path, MAX_RECORDS_READ)
    return Source(
        columns=[_by_values(name, values[name], types[name]) for name in read],
        outcome=_outcome(values[label]) if label else [],
        records=max(map(len, values.values())),
        **known,
    )


def _check(path: Path, names: Sequence[str], label: str | None) -> None:
    if not names:
        raise SourceError(f"{path} has no columns: its first line must name them")
    if twice := [name for name in names if list(names).count(name) > 1]:
        raise SourceError(f"column {twice[0]} is more than once in {path}: rename the others")
    if label is not None and label not in names:
        shown = ", ".join(names[:20])
        raise SourceError(f"column {label} is not in {path}, which has {shown}: check --label")


def _by_type(name: str, kind: pa.DataType) -> Proposed:
    """What a column may be, by its type, if the file says so; a text may be anything."""
    keys: dict[str, Any] = {}
    proposed_kind = PLACEHOLDER
    if pa.types.is_boolean(kind):
        proposed_kind = "flag"
    elif pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        proposed_kind, keys = "time", {"parts": [*Time.cyclic]}
    elif pa.types.is_fixed_size_list(kind):
        proposed_kind, keys = "vector", {"size": kind.list_size, "norm": PLACEHOLDER}
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        proposed_kind, keys = "number", {"low": PLACEHOLDER, "high": PLACEHOLDER}
    return Proposed(name=name, kind=proposed_kind, keys=keys, active=True)


def _by_values(name: str, values: Sequence[Any], kind: pa.DataType | None = None) -> Proposed:
    """What a column may be, by its public values, and a note on those that it does not have."""
    proposed = _kind_by_values(name, values, kind)
    if not proposed.active or len(values) < MIN_VALUES_TO_JUDGE:
        return proposed
    cells = column_of({"name": name, "kind": proposed.kind, **proposed.keys}).cells(list(values))
    notes = [] if cells.gap.any() else ["no gaps"]
    if "values" in proposed.keys:  # which are all that there are
        notes.append("no others")
    return replace(proposed, note=", ".join(notes))


def _kind_by_values(  # noqa: PLR0911 (a table of kinds)
    name: str, values: Sequence[Any], kind: pa.DataType | None = None
) -> Proposed:
    """What a column may be, by its public values; a dictionary in a Parquet file is a category."""
    given = _given(values)
    if not given:
        return Proposed(name=name)
    if vector := _vector(name, given):
        return vector
    texts = [str(each) for each in given]
    different = sorted(set(texts))
    varies = len(different) > 1
    many = len(texts) >= MIN_VALUES_TO_JUDGE
    if isinstance(kind, pa.DictionaryType):
        return _category(name, texts)
    if _all_are(Flag(name), given) and len(different) == 2:
        return Proposed(name=name, kind="flag", keys={}, active=True)
    if _all_are(number := Number(name, low=0, high=1), given):
        numbers = _numbers(number, given)
        if many and _whole(numbers) and 2 < np.unique(numbers).size <= CLASSES:
            return _category(name, [str(int(each)) for each in numbers.tolist()])
        counts = _whole(numbers) and np.unique(numbers).size == numbers.size
        active = varies and not (many and counts)
        return Proposed(name=name, kind="number", keys=_range(numbers), active=active)
    if _all_are(time := Time(name), given):
        parts = {"parts": time.varying_parts(given)}
        return Proposed(name=name, kind="time", keys=parts, active=varies)
    if sum(len(each.split()) for each in texts) > WORDS * len(texts):
        return Proposed(name=name, kind="text", keys={"size": 1024}, active=varies)
    return _category(name, texts)


def _given(values: Sequence[Any]) -> list[Any]:
    """The values that are not missing."""
    return [each for each in values if each not in (None, "")]


def _category(name: str, texts: Sequence[str]) -> Proposed:
    """A category with these values, listed if they are few; words such as NA are its gaps."""
    words = sorted(NOT_AVAILABLE.intersection(texts))
    different = sorted(set(texts).difference(words))
    keys: dict[str, Any] = {"values": different}
    if len(different) > MAX_LISTED_VALUES:
        keys = {"hash": min(1024, 1 << (len(different) // 2).bit_length())}
    if words:
        keys["gaps"] = words
    identifies = len(texts) >= MIN_VALUES_TO_JUDGE and 2 * len(different) > len(texts)
    active = len(different) > 1 and not identifies
    return Proposed(name=name, kind="category", keys=keys, active=active)


def _vector(name: str, given: Sequence[Any]) -> Proposed | None:
    """A column of lists of one length; None if it is not."""
    sizes = {len(each) if isinstance(each, list) else 0 for each in given}
    if len(sizes) != 1 or not (size := sizes.pop()):
        return None
    cells = Vector(name, size=size, norm=1.0).cells(list(given))
    if cells.wrong.any():
        return None
    norm = float(f"{np.quantile(np.linalg.norm(cells.values, axis=1), 0.999):.2g}") or 1.0
    return Proposed(name=name, kind="vector", keys={"size": size, "norm": norm}, active=True)


def _all_are(column: Column, values: Sequence[Any]) -> bool:
    """Whether all values, of which there are some, are of a kind."""
    cells = column.cells(list(values))
    return bool(values) and not cells.wrong.any()


def _numbers(column: Number, values: Sequence[Any]) -> NDArray[np.float64]:
    """The numbers among the values of a column, without its gaps."""
    cells = column.cells(list(values))
    return np.asarray(cells.values[~cells.gap], np.float64)


def _whole(numbers: NDArray[np.float64]) -> bool:
    return bool((numbers == np.floor(numbers)).all())


def _range(numbers: NDArray[np.float64]) -> dict[str, float]:
    """A range that holds nearly all numbers, with round ends."""
    if not numbers.size:
        return {"low": 0, "high": 1}
    low, high = np.quantile(numbers, [0.001, 0.999]).tolist()
    unit = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)) - 1)
    unit = max(unit, 1.0) if _whole(numbers) else unit
    ends = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    low, high = (round(each, 12) for each in ends)
    high = high if high > low else low + 1
    return {name: int(v) if v == int(v) else v for name, v in (("low", low), ("high", high))}


def _outcome(values: Sequence[Any]) -> list[str]:
    """The lines of [records] that say what a public label is."""
    given = _given(values)
    if not given:
        return []
    number = Number("label", low=0, high=1)
    if all(isinstance(each, bool) for each in given):
        return ["classes = [0, 1]  # false and true"]
    if not _all_are(number, given):
        texts = sorted({str(each) for each in given})
        note = "all possible labels"
        if len(texts) > MAX_LISTED_VALUES:
            count = f"the first {MAX_LISTED_VALUES} of {len(texts):,} labels"
            note = f"{count}: a record with another is unusable"
        return [f"classes = {in_toml(texts[:MAX_LISTED_VALUES])}  # {note}"]
    numbers = _numbers(number, given)
    if not numbers.size:
        return []
    if _whole(numbers) and np.unique(numbers).size <= CLASSES:
        classes = sorted(map(int, set(numbers.tolist())))
        lines = [f"classes = {in_toml(classes)}  # all possible labels"]
        if len(classes) > 2:
            low, high = classes[0], classes[-1]
            lines.append(f"# To predict it as a number: target = [{low}, {high}], without classes")
        return lines
    ends = _range(numbers)
    below = numbers[numbers < numbers.max()]  # so that both classes have records
    middle = float(min(np.quantile(numbers, 0.5), below.max(initial=numbers.min())))
    return [
        f"# The label is a number, mostly from {ends['low']} to {ends['high']}. To predict it as",
        f"# one, write target = {in_toml(list(ends.values()))} in place of classes and cuts.",
        'classes = ["low", "high"]  # all possible labels',
        f"cuts = [{in_toml(middle)}]  # {cut_words([middle], ['low', 'high'])}",
    ]

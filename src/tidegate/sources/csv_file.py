"""CSV files: each line is a slot."""

import csv
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from tidegate.checks import refuse
from tidegate.data.columns import Number
from tidegate.data.columns.column import NULLS
from tidegate.data.values import one_array
from tidegate.kinds import parameter
from tidegate.sources.configured import Follow, register
from tidegate.sources.file_offset import ChangedError, Start
from tidegate.sources.files import Files, Named, Part
from tidegate.sources.lines import (
    MAX_LINE_BYTES,
    TOO_LONG,
    count_lines,
    lines_after,
    tails_of_bytes,
)
from tidegate.sources.source import (
    RawBatch,
    SourceColumns,
    SourceError,
    as_json,
    columns_of_numbers,
    numbers,
    objects,
)

MAX_COLUMNS_AT_ONCE = 2**12
"""With more columns than this, lines are parsed one by one."""

QUOTE_OR_RETURN = re.compile(rb'["\r]')


def as_delimiter(name: str, value: object) -> str:
    """Check a delimiter: one ASCII character."""
    if not isinstance(value, str) or len(value) != 1 or not value.isascii() or value in '"\r\n':
        raise refuse(name, "one ASCII character, not a quote or line end", value)
    return value


@register
@dataclass(frozen=True, kw_only=True)
class Csv(Files):
    """Reads CSV files: positions are bytes, and the first line names the columns.

    Every line after the first is a slot, even a blank one. Values may be quoted, but a line feed
    always ends the record: otherwise one unclosed quote would consume the following records. A
    line cannot be used if it is not UTF-8, has an unclosed quote or the wrong number of values. An
    empty file has no records.
    """

    type = "csv"
    about = "CSV files"
    suffix = ".csv"
    unusable_line = (
        "its line is not UTF-8, has a quote out of place or fewer or more values than the header, "
        f"or is {TOO_LONG}"
    )
    odd_number = "not a decimal numeral, "

    delimiter: str | None = parameter("the separator, if not a comma", as_delimiter, default=None)

    tails = staticmethod(tails_of_bytes)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delimiter is not None:
            as_delimiter("delimiter", self.delimiter)

    @property
    def separator(self) -> str:
        """See `Files`."""
        return self.delimiter or ","

    def parts(self, path: Path, start: Start, follow: Follow | None) -> Iterator[Part]:
        """See `Files`."""
        header = _header(path, follow)
        if not header or (follow is not None and not header.endswith(b"\n")):
            if start.seen.at:
                raise ChangedError(f"has {len(header)} bytes, but {start.seen.at} were read before")
            return
        names = self._names(header, path)
        wanted = self.columns.find(names, str(path))
        count = self.count or self.columns.batch
        with path.open("rb", buffering=0) as file:
            for lines, seen, last in lines_after(file, header, start, count, follow):
                yield self._batch(lines, names, wanted), seen, last

    def records(self, path: Path) -> int:
        """See `Files`."""
        return count_lines(path, len(_header(path, None)))

    def header(self, path: Path) -> list[Named]:
        """See `Files`; an empty file has no columns."""
        line = _header(path, None)
        return list(map(Named, self._names(line, path))) if line else []

    @classmethod
    def guessed(cls, path: Path, columns: SourceColumns) -> "Csv":
        """See `Files`; the first line tells the likely delimiter."""
        return cls(path=path, columns=columns, delimiter=_likely_delimiter(path))

    def _names(self, header: bytes, path: Path) -> list[str]:
        try:
            text = header.decode("utf-8-sig").rstrip("\r\n")
            names = next(csv.reader([text], delimiter=self.separator, strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            wrong = f"the first line of {path} is not a list of column names"
            raise SourceError(f"{wrong}: add a header line in UTF-8") from error
        if len(names) == 1:
            self._check_delimiter(names[0], path)
        return names

    def _check_delimiter(self, only: str, path: Path) -> None:
        """Refuse a file whose header has our columns if it is split by another delimiter."""
        for mark in ";\t|":
            if mark in only and set(map(self.columns.called, self.columns.read)) <= set(
                only.split(mark)
            ):
                hint = f"seem to be separated by {mark!r}: set source.delimiter to it"
                raise SourceError(f"the columns of {path} {hint}")

    def _batch(self, lines: list[bytes], names: list[str], wanted: list[int]) -> RawBatch:
        data, types = b"\n".join([*lines, b""]), self._types(wanted)
        if b"\r\n" in data:
            lines = [line.removesuffix(b"\r") for line in lines]
            data = b"\n".join([*lines, b""])
        quick = types and _is_plain(data, lines, len(names))
        found = _typed(data, len(lines), names, types, self.separator) if quick else None
        reasons: dict[int, str] = {}
        if found is not None:
            read = [found[column] for column in wanted]
        else:
            read, reasons = _split(lines, len(names), wanted, self.separator)
        record, label, ids = self.columns.divided(read)
        rule = self.columns.spelling
        parse = partial(columns_of_numbers, rule=rule)
        X = self.columns.records(
            record, len(lines), values=one_array, texts=pa.Array.to_pylist, numbers=parse
        )
        y = numbers(label, rule) if self.columns.number_labels else objects(label.to_pylist())
        arrived = partial(_arrived, lines, names, self.separator)
        persons = None if ids is None else ids.to_pylist()
        return RawBatch(X=X, y=y, arrived=arrived, persons=persons, reasons=reasons)

    def _types(self, wanted: list[int]) -> dict[int, pa.DataType]:
        """The types that Arrow may give the columns of any kind, by their place; else none."""
        kinds = self.columns.kinds
        if kinds is None:
            return {}
        types = dict.fromkeys(wanted, pa.string())
        for place, each in zip(wanted, kinds.checked, strict=False):
            if isinstance(each, Number) and not each.gaps:
                types[place] = pa.float64()
        if self.columns.number_labels and self.columns.label not in self.columns.features:
            types[wanted[len(self.columns.features)]] = pa.float64()
        return types


def _likely_delimiter(path: Path) -> str | None:
    """The likely delimiter, by the first line alone; None for a comma, or if there is no file."""
    if not path.is_file():
        return None
    with path.open("rb") as file:
        first = file.readline(2**20).decode(errors="replace")
    mark = max(",;\t|", key=first.count)
    return None if mark == "," else mark


def _header(path: Path, follow: Follow | None) -> bytes:
    """The first line with its line feed; for a followed file, wait until it is complete."""
    while True:
        with path.open("rb") as file:
            header = file.readline(MAX_LINE_BYTES)
        if header.endswith(b"\n") or follow is None or not follow():
            return header


def _is_plain(data: bytes, lines: list[bytes], width: int) -> bool:
    """Whether Arrow can split all lines: UTF-8 without quotes or returns, and not too long.

    Nor may the first line begin with a byte order mark: Arrow would drop it, but only there. And
    Arrow fills a blank line with empty values, though it has the wrong number of them.
    """
    if width > MAX_COLUMNS_AT_ONCE or b'"' in data or b"\r" in data or data.startswith(BOM_UTF8):
        return False
    if width > 1 and (data.startswith(b"\n") or b"\n\n" in data):
        return False
    if len(data) > MAX_LINE_BYTES and max(map(len, lines)) > MAX_LINE_BYTES:
        return False
    try:
        return data.isascii() or bool(data.decode())
    except UnicodeDecodeError:
        return False


def _typed(
    data: bytes, n: int, names: list[str], types: Mapping[int, pa.DataType], delimiter: str
) -> dict[int, pa.Array] | None:
    """SourceColumns of given types by their place; None if a value is not of its type.

    A number is one that `Number.read` also takes, so that no value's meaning depends on others.
    """
    found = _read(data, n, len(names), delimiter, types)
    if found is None:
        return None
    for column in found.values():
        if column.type == pa.float64() and pc.all(pc.is_finite(column)).as_py() is False:
            return None  # a spelling of NaN or infinity that Arrow knows
    return found


def _split(
    block: list[bytes], width: int, wanted: list[int], delimiter: str
) -> tuple[list[pa.Array], dict[int, str]]:
    """The values of the wanted columns, null where a line cannot be read, with the reasons.

    Arrow parses plain lines together. In Arrow an unclosed quote or a lone carriage return would
    reach into the next line, so such lines are parsed one by one. So are lines with very many
    columns, which are slow in Arrow.
    """
    mark = delimiter.encode()
    plain: list[int] = []
    odd: list[int] = []
    for index, line in enumerate(block):
        fits = (
            width <= MAX_COLUMNS_AT_ONCE
            and len(line) <= MAX_LINE_BYTES
            and line.count(mark) == width - 1
        )
        easy = fits and line.isascii() and not QUOTE_OR_RETURN.search(line)
        (plain if easy else odd).append(index)
    texts = dict.fromkeys(wanted, pa.string())
    data = b"\n".join([*([block[index] for index in plain] if odd else block), b""])
    table = _read(data, len(plain), width, delimiter, texts) if plain else None
    if table is None:
        return _one_by_one(block, range(len(block)), width, wanted, delimiter)
    slow, reasons = _one_by_one(block, odd, width, wanted, delimiter)
    columns = [table[column] for column in wanted]
    if odd:
        order = pa.array(np.argsort(plain + odd))
        pairs = zip((each.cast(pa.large_string()) for each in columns), slow, strict=True)
        columns = [pa.concat_arrays(pair).take(order) for pair in pairs]
    return columns, reasons


def _one_by_one(
    block: list[bytes], which: Sequence[int], width: int, wanted: list[int], delimiter: str
) -> tuple[list[pa.Array], dict[int, str]]:
    """The same of some lines, each parsed by itself."""
    rows = [_odd(block[index], width, delimiter) for index in which]
    reasons = {index: row for index, row in zip(which, rows, strict=True) if isinstance(row, str)}
    values = ([None if isinstance(row, str) else row[place] for row in rows] for place in wanted)
    return [pa.array(each, pa.large_string()) for each in values], reasons


def _read(
    data: bytes, n: int, width: int, delimiter: str, types: Mapping[int, pa.DataType]
) -> dict[int, pa.Array] | None:
    """SourceColumns by their place, as Arrow reads them; None if it fails or finds other lines."""
    names = [str(index) for index in range(width)]
    wanted = {names[place]: kind for place, kind in types.items()}
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            read_options=pyarrow.csv.ReadOptions(
                use_threads=False, block_size=len(data) + 1, column_names=names
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=delimiter, quote_char=False, ignore_empty_lines=False
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=wanted,
                include_columns=list(wanted),
                null_values=["", *NULLS],  # of numbers; texts stay as they are
            ),
        )
    except (pa.ArrowInvalid, OverflowError):  # the latter if all lines together are too long
        return None
    if table.num_rows != n:
        return None
    return {place: one_array(table.column(names[place])) for place in types}


def _odd(line: bytes, width: int, delimiter: str) -> list[str] | str:
    """The values of one line, or the reason why it cannot be read."""
    if len(line) > MAX_LINE_BYTES:
        return f"longer than {MAX_LINE_BYTES} bytes"
    try:
        text = line.decode()
        row = text.split(delimiter)
        if '"' in text:
            row = next(csv.reader([text], delimiter=delimiter, strict=True))
    except UnicodeDecodeError:
        return "not UTF-8"
    except csv.Error:
        return "a quote out of place"
    return row if len(row) == width else f"{len(row)} values instead of {width}"


def _arrived(block: Sequence[bytes], names: list[str], delimiter: str, index: int) -> str:
    row = _odd(block[index], len(names), delimiter)
    pairs = [("line", block[index])] if isinstance(row, str) else zip(names, row, strict=True)
    return as_json(dict(pairs))

"""No record's meaning depends on another's: one odd cell changes the type of a column, no more.

Libraries give a whole column another type because of one value. Files that differ in one cell are
read by each of them with inferred types, and go into estimators, a Gate, a service and a source of
Parquet files: no other slot moves, and nothing raises.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.odd_cells import (
    CSV,
    JSON,
    Cells,
    as_csv,
    as_json_lines,
    changed,
    labels_of,
    table_of,
    write_parquet,
)
from tidegate import ApproxDP, FadingClassifier, FadingRegressor
from tidegate.client_body import body_of
from tidegate.data.records import Records
from tidegate.features import Category, Columns, Flag, Number, Text, Time
from tidegate.gate import Gate
from tidegate.release.export_formats import export, load
from tidegate.run.config import Config
from tidegate.serve.bodies import Reader
from tidegate.sources import raw_batch
from tidegate.sources.csv_file import Csv
from tidegate.sources.json_lines import JsonLines
from tidegate.sources.parquet import Parquet

ODD_PLACE = 2
"""The record whose cell is replaced."""

COLUMNS = """
[[columns]]
name = "number"
kind = "number"
low = 0
high = 10
gaps = ["9"]
[[columns]]
name = "listed"
kind = "category"
values = ["1", "2", "0", "UA"]
[[columns]]
name = "truths"
kind = "category"
values = ["true", "false", "UA"]
[[columns]]
name = "hashed"
kind = "category"
hash = 64
gaps = ["3"]
[[columns]]
name = "flag"
kind = "flag"
[[columns]]
name = "words"
kind = "text"
size = 16
[[columns]]
name = "clock"
kind = "time"
gaps = ["2024-03-01"]
"""
KINDS = Columns(
    [
        Number("number", low=0, high=10, gaps=["9"]),
        Category("listed", values=["1", "2", "0", "UA"]),
        Category("truths", values=["true", "false", "UA"]),
        Category("hashed", hash=64, gaps=["3"]),
        Flag("flag"),
        Text("words", size=16),
        Time("clock", gaps=["2024-03-01"]),
    ]
)
COMPLETE = """
[[columns]]
name = "number"
kind = "number"
low = 0
high = 10
gaps = false
[[columns]]
name = "listed"
kind = "category"
values = ["1", "2", "3", "0", "UA", "AA"]
others = false
gaps = false
[[columns]]
name = "truths"
kind = "category"
values = ["true", "false", "UA"]
others = false
[[columns]]
name = "hashed"
kind = "category"
hash = 64
gaps = false
[[columns]]
name = "flag"
kind = "flag"
gaps = false
[[columns]]
name = "words"
kind = "text"
size = 16
gaps = false
[[columns]]
name = "clock"
kind = "time"
gaps = false
"""
"""The same columns, said to be without gaps and other values where they can be."""

LABELS: dict[str, tuple[str, Any]] = {
    "whole": ("classes = [0, 1]", [0, 1]),
    "words": ('classes = ["no", "yes"]', ["no", "yes"]),
    "texts of numbers": ('classes = ["0", "1"]', ["0", "1"]),
    "truths": ('classes = ["false", "true"]', ["false", "true"]),
    "target": ("target = [0, 10]", None),
    "cuts": ('classes = ["low", "high"]\ncuts = [4]', None),
}
"""What is predicted, as TOML and as the classes of an estimator."""

CSV_LABELS: dict[str, list[list[str]]] = {
    "whole": [["0", "1", "1", "0"], ["0.0", "1.0", "1.00", "0.0"], ["True", "False"] * 2],
    "words": [["no", "yes", "yes", "no"]],
    "texts of numbers": [["0", "1", "1", "0"], ["0.0", "1.0", "", "1.0"]],
    "truths": [["true", "false"] * 2, ["True", "False", "TRUE", ""], ["1", "0"] * 2],
    "target": [["1", "2", "3", "9.5"], ["true", "false"] * 2, ["1", "", "3", "4"]],
    "cuts": [["1", "7", "3", "9.5"], ["True", "False"] * 2],
}
CSV_CELLS: dict[str, list[list[str]]] = {
    "number": [["1", "2", "3", "9"], ["1.5", "", "3.0", "2"], ["True", "False"] * 2],
    "listed": [
        *(["1", "2", "3", "1"], ["1.0", "", "2.0", "1"], ["true", "false"] * 2, ["1", "0"] * 2),
        *(["UA", "AA", "UA", ""], ["True", "False", "", "True"]),
    ],
    "truths": [["true", "false"] * 2, ["True", "FALSE", "", "True"], ["1", "0"] * 2],
    "hashed": [["1", "2", "3", "1"], ["1.0", "2.50", "2.5", ""], ["UA", "AA"] * 2],
    "flag": [["1", "0"] * 2, ["1.0", "0.0", "", "1.0"], ["true", "false"] * 2, ["yes", "no"] * 2],
    "words": [["4", "2", "3", "2"], ["4.0", "2.5", "", "2"], ["high tide", "low tide"] * 2],
    "clock": [
        ["2024-01-01", "2024-02-03", "2024-01-01", "2024-03-01"],
        ["2024-01-01T05:00:00"] * 4,
    ],
}
CSV_ODD = [
    *(
        "zz",
        "",
        "1.5",
        "true",
        "FALSE",
        "-1",
        "007",
        "1e5",
        "9007199254740993",
        "99999999999999999999",
    ),
    *(
        "2024-01-01",
        "05:00",
        "2024-01-01T05:00:00Z",
        "inf",
        "nan",
        "NA",
        "1_000",
        "é",
        "3+4j",
        "0x1",
    ),
]

JSON_LABELS: dict[str, list[list[Any]]] = {
    "whole": [[0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0], [True, False] * 2, ["0", "1"] * 2],
    "words": [["no", "yes", "yes", "no"]],
    "texts of numbers": [[0, 1, 1, 0], ["0", "1", None, "1"]],
    "truths": [[True, False] * 2, [True, None, False, True], ["true", "false"] * 2],
    "target": [[1, 2, 3, 9.5], [True, False] * 2, [1, None, 3, 4]],
    "cuts": [[1, 7, 3, 9.5], [True, False] * 2],
}
JSON_CELLS: dict[str, list[list[Any]]] = {
    "number": [[1, 2, 3, 9], [1.5, None, 3.0, 2], [True, False] * 2, [None] * 4],
    "listed": [
        *([1, 2, 3, 1], [1.0, None, 2.0, 1], [True, False] * 2, [True, None, False, True]),
        *(["UA", "AA", "UA", ""], ["1", "2", "3", "1"], [None] * 4),
    ],
    "truths": [[True, False] * 2, [True, None, False, True], [1, 0] * 2, ["true", "UA"] * 2],
    "hashed": [[1, 2, 3, 1], [1.0, 2.5, 2.5, None], ["UA", "AA"] * 2, ["4", "2", "4", "2"]],
    "flag": [[1, 0] * 2, [1.0, 0.0, None, 1.0], [True, False] * 2, ["yes", "no"] * 2],
    "words": [["high tide", "low tide"] * 2, [4, 2, 3, 2], ["4", "2", "3", "2"], [None] * 4],
    "clock": [["2024-01-01", "2024-02-03", "2024-01-01", "2024-03-01"], [None] * 4],
}
JSON_ODD = [
    *(
        "zz",
        "",
        "1.5",
        "true",
        None,
        True,
        1.5,
        -1,
        2**53 + 1,
        2**70,
        1e300,
        [1.0],
        ["a"],
        {"a": 1},
    ),
    *("2024-01-01", "2024-01-01T05:00:00Z", {}, []),
]

CSV_BASE: dict[str, list[str]] = {name: each[0] for name, each in CSV_CELLS.items()}
JSON_BASE: dict[str, list[Any]] = {name: each[0] for name, each in JSON_CELLS.items()}


def config(kind: str, columns: str = COLUMNS) -> Config:
    return Config.parse(f"""
[schedule]
kind = "independent"
step = 100
[budget]
epsilon = 1.0
delta = 1e-6
[records]
label = "label"
{LABELS[kind][0]}
{columns}
""")


def slots(records: Records) -> list[tuple[bytes, int, bool]]:
    rows = np.asarray(records.X)
    return [
        (row.tobytes(), int(code), bool(use))
        for row, code, use in zip(rows, records.y, records.usable, strict=True)
    ]


class Ways:
    """The ways of a table into training; each returns what it makes of every slot."""

    def __init__(self, kind: str, folder: Path, columns: str = COLUMNS) -> None:
        self.kind, self.folder = kind, folder
        self.config = config(kind, columns)
        self.kinds = KINDS if columns == COLUMNS else self.config.column_map()
        self.gate = Gate.open(folder / "state", self.config)

    def estimator(self, table: Any) -> list[Any]:
        common: dict[str, Any] = {"budget": ApproxDP(1.0, 1e-6), "step": 100}
        common["features"] = self.kinds
        y, classes = labels_of(table, "label"), LABELS[self.kind][1]
        if self.kind == "cuts":
            return []
        if self.kind == "target":
            made: Any = FadingRegressor(target=(0, 10), **common)
        else:
            made = FadingClassifier(classes=classes, **common)
        made.partial_fit(table, y)
        return slots(made._begun.intake.records(table, y))

    def ingest(self, table: Any) -> list[Any]:
        return self._taken(raw_batch(table, labels_of(table, "label")))

    def service(self, table: Any) -> list[Any]:
        body, media = body_of(table, "label")
        return self._taken(Reader(config=self.config).batch(media, body))

    def parquet(self, table: Any) -> list[Any]:
        path = self.folder / "table.parquet"
        if not write_parquet(table, path):
            return []
        return self.file(path)

    def file(self, path: Path) -> list[Any]:
        form = {".parquet": Parquet, ".csv": Csv, ".jsonl": JsonLines}[path.suffix]
        source = form(name="f", path=path, columns=self.config.source_columns())
        (raw,) = source.batches(None)
        return self._taken(raw)

    def _taken(self, raw: Any) -> list[Any]:
        self.gate.take(raw)
        return slots(self.gate._clean("records", raw))

    def all(self, table: Any) -> dict[str, list[Any]]:
        ways = (self.estimator, self.ingest, self.service, self.parquet)
        return {way.__name__: way(table) for way in ways}


@pytest.fixture(scope="module")
def complete_ways(tmp_path_factory: pytest.TempPathFactory) -> Ways:
    return Ways("whole", tmp_path_factory.mktemp("complete"), COMPLETE)


def others(found: Sequence[Any]) -> list[Any]:
    return [each for place, each in enumerate(found) if place != ODD_PLACE]


def variants(base: Cells, cells: Any, labels: Any) -> Iterator[tuple[str, Cells]]:
    """Tables in which one column varies, with its name."""
    for name, columns in {**cells, "label": labels}.items():
        for column in columns:
            yield name, {**base, "label": labels[0], name: column}


class FileKind(NamedTuple):
    """Files of one format: how they are written and read, and what is in them."""

    readers: dict[str, Callable[[bytes], Any]]
    written: Callable[[Cells], bytes]
    base: dict[str, list[Any]]
    cells: dict[str, list[list[Any]]]
    labels: dict[str, list[list[Any]]]
    odd: list[Any]

    def tables(self, kind: str) -> list[tuple[str, Cells]]:
        """The tables in which one column varies, with its name; labels alone but for one kind."""
        cells = self.cells if kind == "whole" else {}
        return list(variants(self.base, cells, self.labels[kind]))


FORMATS = {
    "csv": FileKind(CSV, as_csv, CSV_BASE, CSV_CELLS, CSV_LABELS, CSV_ODD),
    "json": FileKind(JSON, as_json_lines, JSON_BASE, JSON_CELLS, JSON_LABELS, JSON_ODD),
}


def compare(ways: Ways, files: FileKind, table: tuple[str, Cells], library: str, odd: Any) -> int:
    """Compare a file with the one that has an odd cell; return how often both were read."""
    name, cells = table
    before = table_of(files.readers[library], files.written(cells))
    after = table_of(files.readers[library], files.written(changed(cells, name, ODD_PLACE, odd)))
    if before is None or after is None:
        return 0  # the library refuses the file
    found, moved = ways.all(before), ways.all(after)
    read = [way for way in found if found[way] and moved[way]]
    for way in read:
        where = (library, way, name, cells[name], odd)
        if ways.kinds is KINDS:
            given = [each not in ("", None) for each in cells["label"]]
            assert [each[2] for each in found[way]] == given, where
        assert others(moved[way]) == others(found[way]), where
    return len(read)


@pytest.fixture(scope="module")
def all_ways(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ways]:
    return {kind: Ways(kind, tmp_path_factory.mktemp("ways")) for kind in LABELS}


@pytest.mark.parametrize("form", FORMATS)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_one_cell_moves_no_other_slot(form: str, all_ways: dict[str, Ways], data: Any) -> None:
    files, kind = FORMATS[form], data.draw(st.sampled_from([*LABELS]))
    table = data.draw(st.sampled_from(files.tables(kind)))
    library = data.draw(st.sampled_from([*files.readers]))
    compare(all_ways[kind], files, table, library, data.draw(st.sampled_from(files.odd)))


CASES = [
    (form, kind, name)
    for form, files in FORMATS.items()
    for kind in LABELS
    for name in dict.fromkeys(name for name, _ in files.tables(kind))
]


@pytest.mark.thorough
@pytest.mark.parametrize(("form", "kind", "name"), CASES)
def test_no_cell_moves_another_slot(
    form: str, kind: str, name: str, all_ways: dict[str, Ways]
) -> None:
    files = FORMATS[form]
    read = sum(
        compare(all_ways[kind], files, table, library, odd)
        for table in files.tables(kind)
        if table[0] == name
        for library in files.readers
        for odd in files.odd
    )
    assert read > 50


@pytest.mark.parametrize("form", FORMATS)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_one_cell_of_a_complete_column_moves_no_other_slot(
    form: str, complete_ways: Ways, data: Any
) -> None:
    """A gap, or a value that is not listed, makes its own record unusable and no other."""
    files = FORMATS[form]
    table = data.draw(st.sampled_from(files.tables("whole")))
    library = data.draw(st.sampled_from([*files.readers]))
    compare(complete_ways, files, table, library, data.draw(st.sampled_from(files.odd)))


@pytest.mark.thorough
@pytest.mark.parametrize(("form", "name"), [(f, n) for f, kind, n in CASES if kind == "whole"])
def test_no_cell_of_a_complete_column_moves_another_slot(
    form: str, name: str, complete_ways: Ways
) -> None:
    files = FORMATS[form]
    read = sum(
        compare(complete_ways, files, table, library, odd)
        for table in files.tables("whole")
        if table[0] == name
        for library in files.readers
        for odd in files.odd
    )
    assert read > 50


@pytest.mark.thorough
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_files_are_read_cell_by_cell(
    suffix: str, all_ways: dict[str, Ways], tmp_path: Path
) -> None:
    """By the sources, which infer no types."""
    files, ways = FORMATS[suffix.removesuffix("l")], all_ways["whole"]
    path = tmp_path / f"f.{suffix}"
    for name, cells in files.tables("whole")[::3]:
        path.write_bytes(files.written(cells))
        before = ways.file(path)
        for odd in files.odd[::2]:
            path.write_bytes(files.written(changed(cells, name, ODD_PLACE, odd)))
            assert others(ways.file(path)) == others(before), (name, odd)


def test_one_unknown_label_stops_no_state(tmp_path: Path) -> None:
    """Of 1,024 records, the others are learnt from; the card says by which rule they are read."""
    told = Config.parse(
        "not_private_seed = 1\n"
        '[schedule]\nkind = "independent"\nstep = 1024\n[budget]\nepsilon = 1.0\ndelta = 1e-6\n'
        "[records]\nclasses = [0, 1]\nnorm = 1.0\n"
    )
    labels = [str(place % 2) for place in range(1023)]
    X = np.linspace(0, 1, 1024)[:, None]
    weights = {}
    for odd in ("1", "zz"):
        frame = pd.read_csv(io.StringIO("y\n" + "\n".join([*labels, odd])))
        with Gate.open(tmp_path / odd, told) as gate:
            gate.ingest(X, frame["y"])
            (release,) = gate.releases()
            assert release.card["spelling"] == 2
            assert gate.store.quarantined("records") == (odd == "zz")
            export(release, tmp_path / "m.safetensors")
            assert load(tmp_path / "m.safetensors").spelling == 2
            weights[odd] = release.weights
    assert np.abs(weights["1"] - weights["zz"]).max() < 0.1

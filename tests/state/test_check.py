"""What a check of a file says, and that it says nothing of private records."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.state.gate_files import HEADER, TWO, config_text, source_table, write_csv
from tidegate.checks import InvalidValueError
from tidegate.cli.config_check import Check, check_file
from tidegate.gate import Gate
from tidegate.run.config import Config
from tidegate.sources import SourceError
from tidegate.sources.public_records import Findings

KINDS = ["csv", "jsonl", "parquet"]


def parsed(*tables: str, **more: str) -> Config:
    return Config.parse(config_text(*tables, **more))


def found_in(check: Check) -> Findings:
    assert check.found is not None
    return check.found


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows with the keys of HEADER and any values that the format can hold."""
    if path.suffix == ".csv":
        lines = [",".join("" if row[n] is None else str(row[n]) for n in "abcy") for row in rows]
        path.write_text(HEADER + "".join(f"{line}\n" for line in lines))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        columns = [pa.array([row[name] for row in rows], pa.float64()) for name in "abcy"]
        pq.write_table(pa.table(columns, names=list("abcy")), path)
    return path


NUMBERS = st.none() | st.floats(width=64) | st.integers(-3, 3).map(float)
ROWS = st.lists(st.fixed_dictionaries(dict.fromkeys("abcy", NUMBERS)), min_size=1, max_size=8)
LINES = st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b" ")), max_size=8)


@pytest.mark.parametrize("kind", KINDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rows=ROWS, other=st.data())
def test_private_records_of_equal_number_give_equal_reports(
    tmp_path: Path, kind: str, rows: list[dict[str, Any]], other: st.DataObject
) -> None:
    n = len(rows)
    drawn = other.draw(
        st.lists(st.fixed_dictionaries(dict.fromkeys("abcy", NUMBERS)), min_size=n, max_size=n)
    )
    path, config = tmp_path / f"records.{kind}", parsed()
    one = check_file(config, write(path, rows))
    assert check_file(config, write(path, drawn)) == one
    assert one.found is None
    assert one.records == n


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(lines=LINES)
def test_any_lines_give_the_report_of_as_many_blank_ones(
    tmp_path: Path, kind: str, lines: list[bytes]
) -> None:
    path, header = tmp_path / f"records.{kind}", HEADER.encode() if kind == "csv" else b""
    reports = []
    for each in (lines, [b"?" for _ in lines]):
        path.write_bytes(header + b"".join(line + b"\n" for line in each))
        reports.append(check_file(parsed(), path))
    assert reports[0] == reports[1]
    assert reports[0].records == len(lines)


@pytest.mark.parametrize("kind", KINDS)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30
)
@given(rows=ROWS)
def test_public_records_are_counted_as_a_gate_would(
    tmp_path_factory: pytest.TempPathFactory, kind: str, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("check")
    path, config = write(folder / f"records.{kind}", rows), parsed()
    found = found_in(check_file(config, path, public=True))
    with Gate.open(folder / "state", config) as gate:
        for _ in gate.run(config.source_of(path)):
            pass
        assert sum(found.unusable.values()) == gate.store.quarantined("records")
    assert found.usable + sum(found.unusable.values()) == len(rows)
    assert sum(count for _, count in found.classes) == found.usable


def test_each_rule_is_counted_once_for_a_record(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    lines = [
        "1,0,0,1",
        "0,2,0,0",
        "x,0,0,1",
        ",nan,0,7",
        "0,0,0,7",
        "1e39,0,0,0",
        "1,2",
        '"1,2,3,4',
    ]
    path.write_text(HEADER + "\n".join(lines))
    check = check_file(parsed(), path, public=True)
    found = found_in(check)
    assert found.unusable == {"line": 2, "number": 3, "label": 1}
    assert set(found.unusable) <= set(check.unusable_if)
    assert found.bad_values == {"a": 3, "b": 1, "y": 2}
    assert found.classes == ((0, 1), (1, 1))
    assert found.unknown_labels == (("7.0", 2),)
    assert (found.usable, found.longer) == (2, 1)
    assert found.norms[0] == (0.0, 1.0)
    assert found.norms[-1] == (1.0, 2.0)


def test_columns_have_roles(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    columns = {"y": [0], "k": ["x"], "c": [1.0], "b": [1], "a": [True]}
    pq.write_table(pa.table(columns), path)
    check = check_file(parsed(), path)
    roles = {each.name: (each.role, each.type, each.read_as) for each in check.columns}
    assert roles == {
        "a": ("feature", "bool", "float32"),
        "b": ("feature", "int64", "float32"),
        "c": ("feature", "double", "float32"),
        "y": ("label", "int64", "number"),
        "k": ("ignored", "string", None),
    }


def test_feature_maps_are_applied_to_a_blank_record(tmp_path: Path) -> None:
    write_csv(path := tmp_path / "records.csv", 3)
    assert check_file(parsed('[[features]]\nmap = "intercept"\n'), path).features == 4


def test_text_is_checked(tmp_path: Path) -> None:
    text = config_text('[[features]]\nmap = "text"\nn_features = 16\n')
    config = Config.parse(text.replace('columns = ["a", "b", "c"]', 'text = "a"'))
    path = tmp_path / "records.jsonl"
    rows = [{"a": "high tide", "y": 1}, {"a": [3], "y": 1}, {"y": 0}, {"a": "", "y": 2}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    check = check_file(config, path, public=True)
    assert [(each.name, each.role, each.type) for each in check.columns] == [
        ("a", "text", None),
        ("y", "label", None),
    ]
    assert check.features == 16
    assert found_in(check).unusable == {"text": 2, "label": 1}


def test_the_plan_is_that_of_the_records(tmp_path: Path) -> None:
    write_csv(path := tmp_path / "records.csv", 650)
    plan = check_file(parsed(), path).plan
    assert (plan.first, plan.releases, plan.left) == (300, 4, 50)
    two = check_file(parsed(schedule=TWO), path).plan
    assert (two.first, two.releases, two.step) == (200, None, {"source": 200, "target": 100})


def test_a_file_is_read_as_its_source(tmp_path: Path) -> None:
    path = tmp_path / "records.data"
    path.write_text("a;b;c;y\n1;2;3;0\n")
    config = parsed(source_table(path), 'delimiter = ";"\n')
    assert check_file(config, path, public=True).records == 1
    (copy := tmp_path / "other.csv").write_bytes(path.read_bytes())
    assert check_file(config, copy).delimiter == ";"
    with pytest.raises(SourceError, match=r"set source\.delimiter"):
        check_file(parsed(), copy)


def _missing(folder: Path) -> Path:
    return folder / "none.csv"


def _folder(folder: Path) -> Path:
    return folder


def _toml(folder: Path) -> Path:
    (path := folder / "gate.toml").write_text("")
    return path


def _not_parquet(folder: Path) -> Path:
    (path := folder / "r.parquet").write_text("patient 4711")
    return path


def _wrong_type(folder: Path) -> Path:
    columns = {"a": ["patient 4711"], "b": [1], "c": [1], "y": [1]}
    pq.write_table(pa.table(columns), path := folder / "r.parquet")
    return path


def _empty(folder: Path) -> Path:
    (path := folder / "r.csv").write_text("")
    return path


def _no_header(folder: Path) -> Path:
    (path := folder / "r.csv").write_text("a,patient 4711,6,7\n1,2,3,4\n")
    return path


def _twice(folder: Path) -> Path:
    (path := folder / "r.csv").write_text("a,b,c,y,a\n1,2,3,4,patient 4711\n")
    return path


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (_missing, "No such file or directory; check the path"),
        (_folder, "is a folder: name one of its files|must be a .csv"),
        (_toml, "the file must be a .csv, .jsonl or .parquet file"),
        (_not_parquet, "is not a readable Parquet file"),
        (_wrong_type, "column a of .* must hold numbers, got string"),
        (_empty, "has no columns: its first line must name them"),
        (_no_header, "columns b, c, y are not in .*: check records.columns"),
        (_twice, "column a is more than once in"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_a_line_without_content(
    tmp_path: Path, make: Callable[[Path], Path], line: str
) -> None:
    with pytest.raises(InvalidValueError, match=line) as refused:
        check_file(parsed(), make(tmp_path))
    assert "4711" not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_public_files_may_show_what_columns_they_have(tmp_path: Path) -> None:
    (path := tmp_path / "r.csv").write_text("a,b,z\n")
    with pytest.raises(SourceError, match=r"columns c, y are not in .*, which has a, b, z"):
        check_file(parsed(), path, public=True)


def test_a_configuration_without_columns_is_refused(tmp_path: Path) -> None:
    text = config_text().replace('columns = ["a", "b", "c"]', "")
    write_csv(path := tmp_path / "records.csv", 3)
    with pytest.raises(InvalidValueError, match=r"^records.columns is missing"):
        check_file(Config.parse(text), path)


def test_a_wrong_label_column_is_cheap_to_report(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    path.write_text(HEADER + "".join(f"0,0,0,{number}\n" for number in range(2, 20_000)))
    found = found_in(check_file(parsed(), path, public=True))
    assert found.usable == 0
    assert found.norms == ()
    assert found.bad_values["y"] == found.unusable["label"] == 19_998
    assert len(found.unknown_labels) == 5
    assert sum(count for _, count in found.unknown_labels) == 5

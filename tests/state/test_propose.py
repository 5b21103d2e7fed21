"""What `tidegate init --from` proposes for the columns of a file."""

import tomllib
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.run import tidegate
from tidegate.cli.config_check import check_file
from tidegate.cli.proposed_columns import propose
from tidegate.run.config import Config
from tidegate.run.config.example import skeleton
from tidegate.run.config.keys import ConfigError
from tidegate.run.config.texts import PLACEHOLDER
from tidegate.sources.source import SourceError

TABLE = """\
site,age,member,seen,day,score
A,20,yes,2013-01-31,1,3
A,NA,no,2013-02-28,1,40
A,60,,2013-03-31,1,NA
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    path.write_text(TABLE)
    return path


def test_without_public_no_record_is_read(table: Path) -> None:
    by_name = skeleton("fading", propose(table, label="score"))
    table.write_text(TABLE.splitlines()[0] + "\nsecret,7,maybe,never,9,1\n")
    assert skeleton("fading", propose(table, label="score")) == by_name
    assert {each.kind for each in propose(table, label="score").columns} == {PLACEHOLDER}


def test_public_records_suggest_kinds_and_a_column_that_never_varies_is_left_out(
    table: Path,
) -> None:
    found = {each.name: each for each in propose(table, label="score", public=True).columns}
    assert {name: each.kind for name, each in found.items() if each.active} == {
        "age": "number",
        "member": "flag",
        "seen": "time",
    }
    assert not found["site"].active
    assert not found["day"].active


def test_what_is_proposed_is_a_configuration(table: Path, tmp_path: Path) -> None:
    text = skeleton("fading", propose(table, label="score", public=True))
    config = Config.parse(text)
    assert [each.parameters["name"] for each in config.columns or ()] == ["age", "member", "seen"]
    path = tmp_path / "table.toml"
    path.write_text(text)
    done = tidegate("check", str(path), str(table))
    assert done.returncode == 0, done.stderr


def many(tmp_path: Path, rows: Iterable[tuple[object, ...]], names: str) -> Path:
    path = tmp_path / "many.csv"
    path.write_text("\n".join([names, *(",".join(map(str, row)) for row in rows)]))
    return path


def test_columns_that_identify_records_are_left_out(tmp_path: Path) -> None:
    rows = [(i, f"P{i}", f"2024-01-{i % 28 + 1:02}", i / 7, i % 2) for i in range(200)]
    path = many(tmp_path, rows, ",code,day,dose,y")
    found = {each.name: each for each in propose(path, label="y", public=True).columns}
    assert [name for name, each in found.items() if each.active] == ["day", "dose"]
    assert found["day"].keys == {"parts": ["weekday"]}
    path = many(tmp_path, rows, "id,code,day,dose,y")
    found = {each.name: each for each in propose(path, label="y", public=True).columns}
    assert not found["id"].active
    Config.parse(skeleton("fading", propose(path, label="y", public=True)))


def test_a_range_of_whole_numbers_has_whole_ends(tmp_path: Path) -> None:
    path = many(tmp_path, [(i % 12 + 1, "yes") for i in range(200)], "engines,y")
    (engines,) = propose(path, label="y", public=True).columns
    assert engines.keys == {"low": 1, "high": 12}


@pytest.mark.parametrize(
    ("labels", "outcome"),
    [
        (["0.0", "1.0", ""], ["classes = [0, 1]  # all possible labels"]),
        (["yes", "no"], ['classes = ["no", "yes"]  # all possible labels']),
        (
            ["3", "1", "2"],
            [
                "classes = [1, 2, 3]  # all possible labels",
                "# To predict it as a number: target = [1, 3], without classes",
            ],
        ),
        (["", ""], []),
        (["NA", "NA"], []),
    ],
)
def test_a_label_becomes_classes(labels: list[str], outcome: list[str], tmp_path: Path) -> None:
    path = many(tmp_path, [(i, each) for i, each in enumerate(labels)], "x,y")
    assert propose(path, label="y", public=True).outcome == outcome


def test_a_label_of_many_numbers_is_cut_so_that_both_classes_have_records(tmp_path: Path) -> None:
    path = many(tmp_path, [(i, min(i / 2, 10)) for i in range(90)], "x,y")
    lines = propose(path, label="y", public=True).outcome
    assert "cuts = [9.5]  # up to 9.5: low; above: high" in lines


def test_a_label_of_flags_is_read_as_proposed(tmp_path: Path) -> None:
    path = tmp_path / "flags.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, 3.0], "y": [True, False, None]}), path)
    config = Config.parse(skeleton("fading", propose(path, label="y", public=True)))
    found = check_file(config, path, public=True).found
    assert found is not None
    assert found.usable == 2


def test_more_labels_than_are_listed_are_counted(tmp_path: Path) -> None:
    path = many(tmp_path, [(i, f"L{i:03}") for i in range(61)], "x,y")
    (line,) = propose(path, label="y", public=True).outcome
    assert line.endswith("# the first 60 of 61 labels: a record with another is unusable")


@pytest.mark.parametrize(
    ("says", "read_as"),
    [
        ('classes = ["low", "high"]\ncuts = [15]', "number, up to 15: low; above: high"),
        ("target = [0, 120]", "number from 0 to 120"),
    ],
)
def test_a_check_says_how_a_number_to_predict_is_read(table: Path, says: str, read_as: str) -> None:
    columns = 'columns = [{name = "age", kind = "number", low = 0, high = 120}]\n'
    schedule = '[schedule]\nkind = "fading"\nstep = 2\n[budget]\nepsilon = 1.0\ndelta = 1e-6\n'
    made = Config.parse(f'{columns}{schedule}[records]\n{says}\nlabel = "score"\n')
    found = check_file(made, table)
    assert {each.name: each.read_as for each in found.columns}["score"] == read_as
    assert not found.scaled_down
    shorter = Config.parse(f'{columns}{schedule}[records]\n{says}\nlabel = "score"\nnorm = 0.5\n')
    assert check_file(shorter, table).scaled_down


def test_a_label_of_another_type_than_the_classes_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0], "y": [0.0, 1.0]}), path)
    text = skeleton("fading", propose(path, label="y", public=True))
    config = Config.parse(text.replace("classes = [0, 1]", 'classes = ["0", "1"]'))
    with pytest.raises(SourceError, match="must hold text, got double: list whole numbers in rec"):
        check_file(config, path)


@pytest.mark.parametrize("public", [False, True])
def test_a_path_with_control_characters_stays_in_its_comment(public: bool, tmp_path: Path) -> None:
    """A line feed would end the comment, and what follows would be settings."""
    path = tmp_path / "a\n[budget]\nepsilon = 9\x1b[31m\x7f\u2028.csv"
    path.write_text("b,y\n1,0\n2,1\n", encoding="utf-8")
    text = skeleton("fading", propose(path, label="y", public=public))
    settings = tomllib.loads(text)
    assert settings["budget"]["epsilon"] == 1.0
    assert settings["source"]["path"] == str(path)
    assert all(each.isprintable() for each in text.split("\n") if each.startswith("#"))


def test_a_dictionary_in_a_parquet_file_is_a_category(tmp_path: Path) -> None:
    """Its texts may look like numbers; so are whole numbers of which there are few."""
    path, count = tmp_path / "t.parquet", 600
    columns = {
        "ward": pa.array([str(each % 30) for each in range(count)]).dictionary_encode(),
        "stage": pa.array([each % 4 for each in range(count)]),
        "age": pa.array([each % 90 for each in range(count)]),
    }
    pq.write_table(pa.table(columns), path)
    found = {each.name: each for each in propose(path, label=None, public=True).columns}
    assert {name: each.kind for name, each in found.items()} == {
        "ward": "category",
        "stage": "category",
        "age": "number",
    }
    assert found["stage"].keys == {"values": ["0", "1", "2", "3"]}
    assert all(each.active for each in found.values())


def test_a_column_without_any_value_is_left_open(tmp_path: Path) -> None:
    rows = [(i / 7, "", i % 2) for i in range(200)]
    path = many(tmp_path, rows, "dose,empty,y")
    text = skeleton("fading", propose(path, label="y", public=True))
    assert '    # {name = "empty", kind = "?"},' in text
    Config.parse(text)
    with pytest.raises(ConfigError, match="the kind of column empty is not chosen yet"):
        Config.parse(text.replace('# {name = "empty"', '{name = "empty"'))


def test_notes_say_which_columns_have_no_gaps_or_others(tmp_path: Path) -> None:
    rows = [
        (
            i / 7,
            "" if i == 5 else i / 3,
            "AB"[i % 2],
            "NA" if i == 9 else ["none", "D"][i % 2],
            i % 2,
        )
        for i in range(200)
    ]
    path = many(tmp_path, rows, "dose,part,ward,room,y")
    source = propose(path, label="y", public=True)
    assert {each.name: each.note for each in source.columns} == {
        "dose": "no gaps",
        "part": "",
        "ward": "no gaps, no others",
        "room": "no others",
    }
    assert source.columns[3].keys == {"values": ["D", "none"], "gaps": ["NA"]}
    text = skeleton("fading", source)
    assert Config.parse(text).column_map() is not None
    assert 'values = ["A", "B"]},  # no gaps, no others\n' in text
    few = propose(many(tmp_path, rows[:50], "dose,part,ward,room,y"), label="y", public=True)
    assert not any(each.note for each in few.columns)

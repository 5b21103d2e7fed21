"""What `tidegate init --from` proposes for the columns of a file."""

import tomllib
from pathlib import Path

import pytest

from tests.cli.run import tidegate
from tidegate.gate.check import check_file
from tidegate.gate.config import Config
from tidegate.gate.config.skeleton import skeleton
from tidegate.gate.propose import propose

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
    assert not any(each.active for each in propose(table, label="score").columns)


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
    assert [each.build().name for each in config.columns or ()] == ["age", "member", "seen"]
    path = tmp_path / "table.toml"
    path.write_text(text)
    done = tidegate("check", str(path), str(table))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("says", "read_as"),
    [
        ('classes = ["low", "high"]\ncuts = [15]', "number, cut at 15"),
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

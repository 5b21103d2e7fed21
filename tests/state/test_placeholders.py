"""What `init` leaves open is refused by every command, in one line that says where to edit."""

import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cli.run import tidegate
from tidegate.cli.proposed_columns import propose
from tidegate.gate import Config, Gate
from tidegate.run.config.example import in_toml, skeleton
from tidegate.run.config.keys import ConfigError
from tidegate.run.config.texts import CHOICES, refused

CSV = "age,ward,y\n30,A,no\n60,B,yes\n"

FIRST = "tidegate: tidegate.toml, line 10: the kind of column age is not chosen yet: replace"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("r.csv").write_text(CSV)
    assert tidegate("init", "--from", "r.csv", "--label", "y").returncode == 0
    return tmp_path


COMMANDS = {
    "run": ["run", "tidegate.toml"],
    "check": ["check", "tidegate.toml", "r.csv"],
    "check of public records": ["check", "tidegate.toml", "r.csv", "--public"],
    "compare": ["compare", "tidegate.toml", "r.csv"],
    "serve": ["serve", "s", "--config", "tidegate.toml"],
    "verify": ["verify", "s", "--config", "tidegate.toml"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_refuses_what_is_not_chosen(command: str, folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = tidegate(*COMMANDS[command])
    assert done.returncode == 2
    (line,) = [each for each in done.stderr.splitlines() if each.startswith("tidegate: ")]
    assert line.startswith(FIRST)
    assert "number, category, flag, time, text, vector" in line
    assert line.endswith("; 2 more of these follow")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("command", ["run", "status", "verify"])
def test_a_fleet_refuses_it_too(command: str, folder: Path) -> None:
    text = (folder / "tidegate.toml").read_text()
    (folder / "fleet.toml").write_text(f"{text}\n[members.a]\npath = 'r.csv'\n")
    done = tidegate("fleet", command, "fleet.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(FIRST.replace("tidegate.toml", "fleet.toml"))
    assert done.stderr.count("\n") == 1


def test_python_refuses_it_too(folder: Path) -> None:
    text = (folder / "tidegate.toml").read_text()
    for reads in (
        lambda: Config.load("tidegate.toml"),
        lambda: Gate.open(folder / "s", "tidegate.toml"),
        lambda: Gate.open(folder / "s", folder / "tidegate.toml"),
    ):
        with pytest.raises(ConfigError, match=r"tidegate\.toml, line 10: the kind of column age"):
            reads()
    with pytest.raises(ConfigError, match="the configuration, line 10: the kind of column age"):
        Config.parse(text)
    assert not (folder / "s").exists()


def test_each_is_named_in_turn_until_none_is_left(folder: Path) -> None:
    path = folder / "tidegate.toml"
    steps = [
        ('kind = "?"', 'kind = "number", low = 0, high = 110', "column ward"),
        ('kind = "?"', 'kind = "category", values = ["A", "B"]', "records.classes"),
    ]
    for old, new, then in steps:
        path.write_text(path.read_text().replace(old, new, 1))
        done = tidegate("run", "tidegate.toml")
        assert done.returncode == 2
        assert then in done.stderr
        line = int(done.stderr.split("line ")[1].split(":")[0])
        assert '"?"' in path.read_text().splitlines()[line - 1]
    assert 'list of all possible labels, such as ["no", "yes"]' in done.stderr
    path.write_text(path.read_text().replace('classes = "?"', 'classes = ["no", "yes"]', 1))
    assert tidegate("run", "tidegate.toml").returncode == 0


def test_types_of_a_parquet_file_leave_ranges_open(tmp_path: Path) -> None:
    columns = {
        "age": [1.5], "note": ["x"], "well": [True], "when": pa.array([0], pa.timestamp("us")),
        "scan": pa.array([[1.0, 2.0]], pa.list_(pa.float64(), 2)), "y": [0],
    }  # fmt: skip
    pq.write_table(pa.table(columns), tmp_path / "r.parquet")
    lines = skeleton("fading", propose(tmp_path / "r.parquet", label="y")).splitlines()
    assert [line for line in lines if line.startswith("    ")] == [
        '    {name = "age", kind = "number", low = "?", high = "?"},',
        '    {name = "note", kind = "?"},',
        '    {name = "well", kind = "flag"},',
        '    {name = "when", kind = "time", parts = ["hour", "weekday", "month"]},',
        '    {name = "scan", kind = "vector", size = 2, norm = "?"},',
    ]
    with pytest.raises(ConfigError, match=r"low of column age is not chosen yet: .*; 4 more of"):
        Config.parse("\n".join(lines))


ODD = """# kind = "?"
[schedule]  # "kind = '?'"
note = '''
kind = "?"
'''
[source]
delimiter = "?"
[records]
label = "?"
[[columns]]
name = "?"
gaps = ["?"]
kind = "flag"
[[columns]]
"name" = "it's # age"
"low"  =   '?'
"""


def test_only_what_is_open_counts_and_its_line_is_exact() -> None:
    """A "?" in comments, texts, names and other keys is none."""
    told = refused(ODD, tomllib.loads(ODD), "a.toml")
    assert told is not None
    assert told.startswith("a.toml, line 16: low of column it's # age is not chosen yet")
    assert "more of these" not in told
    other = ODD.replace("'?'\n", "3\n")
    assert refused(other, tomllib.loads(other), "a.toml") is None


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)


@given(st.lists(st.tuples(names, st.sampled_from([*CHOICES, "gaps", "name"])), max_size=8))
def test_the_line_is_that_of_the_first_one(columns: list[tuple[str, str]]) -> None:
    """Against the line in which the first was written."""
    written = []
    for name, key in columns:
        keys: dict[str, Any] = {"name": "x" + name, key: "?", "about": name}
        written.append(f"{{{', '.join(f'{k} = {in_toml(v)}' for k, v in keys.items())}}},")
    toml = "columns = [\n" + "\n".join(written) + "\n]"
    told = refused(toml, tomllib.loads(toml), "a.toml")
    open_in = [place for place, (_, key) in enumerate(columns) if key in CHOICES]
    if not open_in:
        assert told is None
    else:
        assert told is not None
        assert told.startswith(f"a.toml, line {2 + open_in[0]}: ")

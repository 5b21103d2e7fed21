"""A source from another distribution: one file and an entry point."""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from reference.settings import settings_page
from tests.cli.run import tidegate
from tidegate import Config, Gate
from tidegate.checks import InvalidValueError
from tidegate.run.config import example
from tidegate.run.config.kind_tables import one_source
from tidegate.sources.configured import own_kinds, source_kind, source_types

FOLDER = Path(__file__).parent / "outside_source"

TOML = """
[schedule]
kind = "independent"
step = 50
[budget]
epsilon = 1.0
[records]
classes = [0, 1]
norm = 1.0
columns = ["a"]
label = "y"
[source]
type = "sqlite"
database = "{}"
"""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The distribution is on the path; afterwards nothing remembers it."""
    monkeypatch.syspath_prepend(FOLDER)
    yield
    uninstall()


def uninstall() -> None:
    sys.path[:] = [each for each in sys.path if each != str(FOLDER)]
    for name in ("sqlite_queue", "psv_files"):
        sys.modules.pop(name, None)
    source_kind.cache_clear()


def fill(path: Path, start: int, stop: int) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TABLE IF NOT EXISTS queue (number INTEGER PRIMARY KEY, stamp TEXT, body TEXT)"
        )
        for number in range(start, stop):
            body = json.dumps({"a": number % 2, "y": number % 2})
            database.execute("INSERT INTO queue VALUES (?, 'now', ?)", [number + 1, body])


def written(folder: Path) -> str:
    file = folder / "gate.toml"
    file.write_text(TOML.format(folder / "queue.db"))
    return str(file)


def refused(*words: str) -> str:
    done = tidegate(*words)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done
    return done.stderr


@pytest.mark.usefixtures("installed")
def test_it_is_found_and_described() -> None:
    assert source_types() == [*own_kinds(), "psv", "sqlite"]
    assert '"sqlite" (rows of an SQLite table)' in example("sliding").replace("\n# ", " ")
    assert "| `database` | " in settings_page()
    built = one_source("source", {"type": "sqlite", "database": "q.db"}).build()
    assert (built.type, built.follow, built.paths) == ("sqlite", False, [])
    wrong: list[tuple[dict[str, object], str]] = [
        ({}, "source.database is missing"),
        ({"database": 7}, "source.database must be a text that is not empty"),
        ({"database": "q", "delimiter": ";"}, "delimiter is a key of csv, psv, not of sqlite"),
        ({"database": "q", "databse": "q"}, "databse is not a known key: did you mean"),
    ]
    for table, told in wrong:
        with pytest.raises(InvalidValueError, match=told):
            one_source("source", {"type": "sqlite"} | table)


@pytest.mark.usefixtures("installed")
def test_it_runs_and_resumes_where_it_stopped(tmp_path: Path) -> None:
    config, state = written(tmp_path), str(tmp_path / "gate.state")
    fill(tmp_path / "queue.db", 0, 130)
    assert tidegate("run", config, "--quiet").returncode == 0
    with Gate.look(state) as gate:
        assert (gate.store.count("records"), gate.store.offset("records")) == (130, '[130, "now"]')
        assert [release.card["at"] for release in gate.releases()] == [50, 100]
        assert Config.from_json(gate.config.to_json()) == gate.config
    fill(tmp_path / "queue.db", 130, 160)
    assert tidegate("run", config, "--quiet").returncode == 0
    with Gate.look(state) as gate:
        assert gate.store.count("records") == 160
        assert [release.card["at"] for release in gate.releases()] == [50, 100, 150]
    assert tidegate("verify", state).returncode == 0
    (tmp_path / "public.csv").write_text("a,y\n1,0\n")
    assert "public.csv" in tidegate("check", config, str(tmp_path / "public.csv")).stdout


@pytest.mark.usefixtures("installed")
def test_every_command_takes_a_format_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config, state, file = (str(tmp_path / name) for name in ("c.toml", "c.state", "more.psv"))
    rows = "".join(f"{number % 2}|{number % 2}\n" for number in range(60))
    for name in ("first", "more"):
        (tmp_path / f"{name}.psv").write_text(f"a|y\n{rows}")
    path = tmp_path / "first.psv"
    Path(config).write_text(
        TOML.replace('"sqlite"', '"psv"').replace("database", "path").format(path)
    )
    assert tidegate("run", config, "--quiet").returncode == 0
    assert tidegate("ingest", state, file, "--quiet").returncode == 0
    with Gate.look(state) as gate:
        assert gate.store.count("records") == 120
    checked = json.loads(tidegate("check", config, file, "--format", "json").stdout)
    assert (checked["type"], checked["delimiter"], checked["records"]) == ("psv", "|", 60)
    predicted = tidegate("predict", state, file, "--format", "json").stdout
    assert len(predicted.splitlines()) == 60
    assert tidegate("init", "fading", "--from", file, "--label", "y").returncode == 0
    assert 'type = "psv"' in Path("tidegate.toml").read_text()


@pytest.mark.usefixtures("installed")
def test_it_is_refused_in_one_line(tmp_path: Path) -> None:
    config = written(tmp_path)
    assert "queue.db cannot be read: check source.database" in refused("run", config)
    assert not (tmp_path / "gate.state").exists()
    fill(tmp_path / "queue.db", 0, 60)
    assert tidegate("run", config, "--quiet").returncode == 0
    with closing(sqlite3.connect(tmp_path / "queue.db")) as database, database:
        database.execute("UPDATE queue SET stamp = 'later'")
    assert "row 60 of the queue is not the one that was taken" in refused("run", config)
    fleet = tmp_path / "fleet.toml"
    fleet.write_text(TOML.format(tmp_path / "queue.db") + "[members.a]\n[members.b]\n")
    told = f"members.b: source must not read {tmp_path}/queue.db, which members.a reads"
    assert told in refused("fleet", "run", str(fleet))


@pytest.mark.usefixtures("installed")
def test_a_state_outlives_the_source(tmp_path: Path) -> None:
    config, state = written(tmp_path), str(tmp_path / "gate.state")
    fill(tmp_path / "queue.db", 0, 60)
    assert tidegate("run", config, "--quiet").returncode == 0
    uninstall()
    assert "source.type must be one of csv, " in refused("run", config)
    assert tidegate("verify", state).returncode == tidegate("status", state).returncode == 0


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (
            "no_such_module:Queue",
            "broken cannot be loaded from no_such_module:Queue: No module",
        ),
        ("json:loads", "the source broken must be a class derived from ConfiguredSource"),
    ],
)
def test_a_broken_one_is_refused_only_if_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: str, told: str
) -> None:
    folder = tmp_path / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    lines = ["[tidegate.sources]", f"broken = {entry}", f"csv = {entry}"]
    (folder / "entry_points.txt").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    assert '"broken"' not in example("sliding")
    assert one_source("source", {"type": "csv", "path": "a"}).build().type == "csv"
    with pytest.raises(InvalidValueError, match=told):
        one_source("source", {"type": "broken"})

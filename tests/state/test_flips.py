"""One bit that flips anywhere, in a file of the state or of the published folder, is found."""

import random
import secrets
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.state.hostile import bases
from tests.state.test_forgery import made
from tidegate.checks import InvalidValueError, StoreError
from tidegate.cli.verify_command import _verify_state
from tidegate.serve.access_tokens import Tokens
from tidegate.state.inspecting import Consent


def content(path: Path) -> object:
    """What a file says: of a database the rows, of a key its digits in either case."""
    if path.name == "person.key":
        return path.read_bytes().lower()
    if path.name != "state.db":
        return path.read_bytes()
    try:
        with closing(sqlite3.connect(f"file:{path}?immutable=1", uri=True)) as connection:
            layout = connection.execute("PRAGMA user_version").fetchone()
            tables = connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall()
            names = sorted(name for kind, name, _ in tables if kind == "table")
            rows = [connection.execute(f"SELECT * FROM {name}").fetchall() for name in names]
            return layout, tables, rows
    except (sqlite3.Error, ValueError) as error:  # what cannot be read is not what was written
        return str(error)


def is_found(state: Path) -> bool:
    """As `tidegate verify` would, but for the time that it takes to start."""
    try:
        problems, _, _ = _verify_state(state, Consent(), str)
    except (StoreError, InvalidValueError):
        return True
    return bool(problems)


def missed(state: Path, files: list[Path], flips: int, rng: random.Random) -> list[str]:
    """Flip bits one at a time; where one that changed what a file says was not found."""
    found, done = [], 0
    kept = {path: path.read_bytes() for path in files}
    says = {path: content(path) for path in files}
    whole = [path for path in files for _ in range(1 + len(kept[path]) // 4096)]
    while done < flips:
        path = rng.choice(whole)
        at, bit = rng.randrange(len(kept[path])), rng.randrange(8)
        data = bytearray(kept[path])
        data[at] ^= 1 << bit
        path.write_bytes(data)
        if content(path) != says[path]:
            done += 1
            if not is_found(state):
                found.append(f"{path.name}: bit {bit} of byte {at}")
        path.write_bytes(kept[path])
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("flips", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_found(flips: int, tmp_path: Path) -> None:
    state, seed = made(tmp_path), secrets.randbits(32)
    Tokens(state).create("dashboard", ["read"])
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
    assert {path.suffix for path in files} >= {".db", ".arrow", ".json", ".md", ".sha256"}
    assert not is_found(state)
    assert missed(state, files, flips, random.Random(seed)) == [], f"seed {seed}"


@pytest.mark.thorough
def test_a_flipped_bit_is_found_where_persons_are_protected(tmp_path: Path) -> None:
    state, seed = bases(tmp_path)["persons"], secrets.randbits(32)
    files = [path for path in state.rglob("*") if path.is_file() and path.stat().st_size]
    assert not is_found(state)
    assert missed(state, files, 50, random.Random(seed)) == [], f"seed {seed}"


def flipped(path: Path, text: bytes, at: int, bit: int) -> None:
    """Flip a bit of a text that stands in a file once."""
    data = bytearray(path.read_bytes())
    assert data.count(text) == 1
    data[data.index(text) + at] ^= 1 << bit
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (b"indexsqlite_autoindex_fits_1fits", 0),  # its type
        (b"indexsqlite_autoindex_fits_1fits", 28),  # its table
        (b"tablestatestate", 7),  # a name, which is then no text that SQLite could quote
    ],
)
@pytest.mark.parametrize("bit", [2, 7])
def test_a_bit_of_a_name_is_found(text: bytes, at: int, bit: int, tmp_path: Path) -> None:
    """SQLite itself passes over what it can derive from a statement."""
    state = made(tmp_path)
    flipped(state / "state.db", text, at, bit)
    with pytest.raises(StoreError, match=r"tables are|malformed|decode") as error:
        _verify_state(state, Consent(), str)
    assert "with text" not in str(error.value)  # no error quotes what is stored


@pytest.mark.parametrize("table", ["persons", "admitted"])
def test_nothing_stands_in_a_pad(table: str, tmp_path: Path) -> None:
    """Before the data of persons is an empty page, so that deleting a row erases all of it."""
    state = bases(tmp_path)["persons"]
    with closing(sqlite3.connect(state / "state.db")) as connection:
        (number, data), *_ = connection.execute(f"SELECT rowid, data FROM {table}")
        assert data[:4096] == bytes(4096)
        other = (data[:99] + b"x" + data[100:], number)
        connection.execute(f"UPDATE {table} SET data = ? WHERE rowid = ?", other)
        connection.commit()
    assert is_found(state)

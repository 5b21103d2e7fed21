"""An insider who edits a state or what it has published, and redoes the checksums he can redo."""

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from tests.cli.run import tidegate
from tests.gate.gatelife import config, opened, stream
from tidegate.checks import StoreError
from tidegate.gate.gate import Gate
from tidegate.gate.integrity import BEGINNING, after_fit, after_step, digest
from tidegate.gate.layout import STEP, sums_of, with_fits
from tidegate.gate.published import manifest
from tidegate.gate.sources import Batches
from tidegate.gate.sqlite import SqliteDatabase
from tidegate.gate.verify import verify

Edit = Callable[[sqlite3.Connection], object]


def made(folder: Path, epsilon: float = 2.0) -> Path:
    """A state that has published five releases of records that came from a source."""
    settings = config(
        {"kind": "sliding", "window": 300, "step": 100},
        budget={"epsilon": epsilon},
        quality={"share": "1/20"},
        publish={"folder": str(folder / "out")},
    )
    with opened(folder / "state", settings) as gate:
        take(gate, 720)
    return folder / "state"


def take(gate: Gate, n: int) -> None:
    """Read the source on, as `run` does."""
    X, y = stream(n)
    pairs = [(X[start : start + 90], y[start : start + 90]) for start in range(0, n, 90)]
    source = Batches(name="records", pairs=pairs)
    for batch in source.batches(gate.store.offset("records")):
        gate.take(batch, source="records")
        for _ in gate.advance():
            pass


def forge(state: Path, *edits: Edit | str, history: bool = False) -> None:
    """Edit the database, then redo its sums and its seal; if asked, the digests of history too."""
    with closing(sqlite3.connect(state / "state.db")) as connection:
        for edit in edits:
            connection.execute(edit) if isinstance(edit, str) else edit(connection)
        connection.commit()
    database = SqliteDatabase(state, writes=True)
    database.connect()
    with closing(database):
        database.begin()
        if history:
            redo_history(database)
        database.execute("UPDATE state SET sums = ?", (sums_of(database).text(),))
        columns = "config, settings, committed, arrived, sums"
        row = database.execute(f"SELECT {columns} FROM state").fetchone()
        streams = database.execute("SELECT * FROM streams ORDER BY stream").fetchall()
        seal = digest([list(row), [list(each) for each in streams]])
        database.execute("UPDATE state SET seal = ?", (seal,))
        database.commit()


def redo_history(database: SqliteDatabase) -> None:
    known = BEGINNING
    steps = database.execute(f"SELECT {STEP} FROM steps ORDER BY number").fetchall()
    for step, fits in with_fits(database, steps):
        for fit in fits:
            known = after_fit(known, fit)
        known = after_step(known, step)
        database.execute("UPDATE steps SET history = ? WHERE number = ?", (known, step[0]))


def problems(state: Path) -> list[str]:
    with Gate.look(state) as gate:
        return [f"{problem.where}: {problem.what}" for problem in verify(gate)]


def found(state: Path, *words: str) -> None:
    """Verify says so, and ends with 1."""
    told = problems(state)
    assert all(any(word in line for line in told) for word in words), told
    assert tidegate("verify", str(state)).returncode == 1


def replace_in(column: str, old: str, new: str, of: str = "state") -> Edit:
    return lambda connection: connection.execute(
        f"UPDATE {of} SET {column} = replace({column}, ?, ?)", (old, new)
    )


def test_an_untouched_state_is_sound(tmp_path: Path) -> None:
    state = made(tmp_path)
    assert problems(state) == []
    forge(state, history=True)  # nothing was edited: what is redone is what was there
    assert problems(state) == []
    done = tidegate("verify", str(state))
    assert done.returncode == 0
    assert "the files of 5 are as published" in done.stdout


EPSILON = ('"epsilon":2.0', '"epsilon":200.0')


def test_another_epsilon_in_the_configuration_is_refused(tmp_path: Path) -> None:
    state = made(tmp_path)
    forge(state, replace_in("config", *EPSILON))
    for look in (Gate.look, Gate.open):
        with pytest.raises(StoreError, match=r"not the one .* made with: budget.epsilon: 2.0 bef"):
            look(state)


@pytest.mark.parametrize("releases", [False, True])
def test_another_epsilon_everywhere_is_found_by_the_cards(releases: bool, tmp_path: Path) -> None:
    state = made(tmp_path)
    forge(state, replace_in("config", *EPSILON), replace_in("settings", *EPSILON))
    if releases:
        with Gate.open(state) as gate:
            take(gate, 1000)
    found(state, "fit 0: its card says budget.epsilon 2.0, not 200.0", "privacy_settings_sha256")


def test_cards_that_were_edited_are_found(tmp_path: Path) -> None:
    """The manifest beside them can be redone; the state has the digests too."""
    state, out = made(tmp_path), tmp_path / "out"
    texts = {path: path.read_bytes() for path in out.iterdir()}
    for ending, old, new in [
        ("json", b'"epsilon":2.0', b'"epsilon":0.1'),
        ("md", b"NOT PRIVATE", b"VERY PRIVATE"),
        ("md", b"2", b"1"),
    ]:
        path = out / f"000002.{ending}"
        assert old in path.read_bytes()
        path.write_bytes(path.read_bytes().replace(old, new))
        names = [f"000002.{kind}" for kind in ("safetensors", "md", "json")]
        digests = {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in names}
        (out / "000002.sha256").write_bytes(manifest(digests))
        found(state, f"000002.{ending} and 1 more")
        for each, text in texts.items():
            each.write_bytes(text)
    assert problems(state) == []


def test_a_card_that_was_edited_is_found_without_the_state(tmp_path: Path) -> None:
    made(tmp_path)
    out = tmp_path / "out"
    assert tidegate("verify", str(out)).returncode == 0
    for ending in ("json", "md", "sha256"):
        path = out / f"000001.{ending}"
        text = path.read_bytes()
        path.write_bytes(text.replace(b"1", b"2"))
        done = tidegate("verify", str(out))
        assert done.returncode == 1
        assert "000001." in done.stdout
        path.write_bytes(text)


def test_latest_that_was_set_back_is_found(tmp_path: Path) -> None:
    state = made(tmp_path)
    (tmp_path / "out" / "latest").write_text("000001\n")
    found(state, "latest names 1, the newest is 4")
    assert "latest names 1" in tidegate("verify", str(tmp_path / "out")).stdout
    (tmp_path / "out" / "latest").write_text("one")
    found(state, "latest is damaged")


@pytest.mark.parametrize("number", [0, 2, 4])
def test_releases_that_were_deleted_are_found(number: int, tmp_path: Path) -> None:
    state, out = made(tmp_path), tmp_path / "out"
    for path in out.glob(f"{number:06}.*"):
        path.unlink()
    (out / "latest").write_text(f"{3 if number == 4 else 4:06}\n")
    found(state, f"1 releases are missing, the first is {number}")
    alone = tidegate("verify", str(out))
    assert alone.returncode == (number != 4)  # that the newest is gone only the state shows
    assert "only the state shows" in alone.stdout or number != 4


def test_a_hash_that_was_noted_must_be_there(tmp_path: Path) -> None:
    state, out = made(tmp_path), tmp_path / "out"
    with Gate.look(state) as gate:
        noted = gate.store.release(2).hash
    for folder in (state, out):
        assert tidegate("verify", str(folder), "--includes", noted[:16]).returncode == 0
        done = tidegate("verify", str(folder), "--includes", "ab" + noted[2:])
        assert (done.returncode, "no release with this hash" in done.stdout) == (1, True)


def test_an_offset_that_was_deleted_is_found(tmp_path: Path) -> None:
    """Its records would be taken and charged again."""
    state = made(tmp_path)
    forge(state, "DELETE FROM offsets", history=True)
    found(state, "the source records: 720 records came from it, its offset says nothing")
    forge(
        state,
        "UPDATE arrivals SET source = NULL",
        replace_in("sources", '"records"', "null", "steps"),
    )
    found(state, "it, or a fit that it made, is not what was written")
    forge(state, history=True)
    found(state, "its card names another history")


def test_an_accuracy_that_was_altered_is_found(tmp_path: Path) -> None:
    state = made(tmp_path)
    forge(state, "UPDATE steps SET accuracy = 0.99 WHERE number = 5")
    found(state, "step 5", "says evaluation.step_before")
    forge(state, history=True)
    found(state, "its card names another history", "says evaluation.step_before")


def test_the_last_accuracy_is_found_by_the_card_of_its_step(tmp_path: Path) -> None:
    state = made(tmp_path)
    forge(state, "UPDATE steps SET accuracy = 0.99 WHERE number = 7", history=True)
    found(state, "says evaluation.step_before")


def test_a_card_that_was_never_released_is_found(tmp_path: Path) -> None:
    state = made(tmp_path)
    with closing(sqlite3.connect(state / "state.db")) as connection:
        unreleased = connection.execute("SELECT number FROM fits WHERE release IS NULL").fetchall()
    for (number,) in unreleased:
        there = f"UPDATE fits SET card = replace(card, 'level', 'lovel') WHERE number = {number}"
        back = f"UPDATE fits SET card = replace(card, 'lovel', 'level') WHERE number = {number}"
        forge(state, there)
        found(state, "a fit that it made, is not what was written")
        forge(state, history=True)
        found(state, "its card names another history")
        forge(state, back, history=True)
        assert problems(state) == []


def test_a_charge_that_was_altered_is_found(tmp_path: Path) -> None:
    state = made(tmp_path)
    forge(state, "UPDATE fits SET share = '1/100' WHERE number = 0", history=True)
    found(state, "fit 0: planned is", "fit 0: its card says share")


@pytest.mark.parametrize("table", ["keys", "quarantine", "segments", "arrivals", "published"])
def test_rows_that_come_or_go_without_a_sum_are_found(table: str, tmp_path: Path) -> None:
    state = made(tmp_path)
    with Gate.open(state) as gate:
        gate.ingest(np.ones((1, 3)), np.ones(1), key="one")
    with closing(sqlite3.connect(state / "state.db")) as connection:
        connection.execute(f"DELETE FROM {table}")
        connection.commit()
    found(state, f"rows of the table {table} were changed, added or deleted")


def test_cards_name_what_they_vouch_for(tmp_path: Path) -> None:
    """The digest of the settings can be checked by hand."""
    state = made(tmp_path)
    with Gate.look(state) as gate:
        settings = gate.store.settings()
        cards = [release.card for release in gate.releases()]
    assert json.loads(settings)["budget"] == {"epsilon": 2.0}
    wanted = hashlib.sha256(settings.encode()).hexdigest()
    assert {card["privacy_settings_sha256"] for card in cards} == {wanted}
    assert len({card["history_sha256"] for card in cards}) == len(cards)

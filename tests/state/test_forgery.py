"""An insider who edits a state or what it has published, and redoes the checksums he can redo."""

import hashlib
import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import numpy as np
import pytest

from tests.cli.run import tidegate
from tests.state.gatelife import TWO, config, opened, stream
from tidegate.checks import InvalidValueError, StoreError
from tidegate.gate import Gate
from tidegate.release import canonical
from tidegate.sources import Batches
from tidegate.state.damage import BEGINNING, after, digest
from tidegate.state.database import SqliteDatabase
from tidegate.state.layout import sums_of
from tidegate.state.publish_folder import manifest
from tidegate.state.store import STEP, covered, with_fits
from tidegate.state.verification import verify

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
        database.commit()
    seal(state)


def seal(state: Path) -> None:
    """Redo the digest of the state's row and of the streams."""
    with closing(sqlite3.connect(state / "state.db")) as connection:
        columns = "config, settings, committed, arrived, sums"
        row = connection.execute(f"SELECT {columns} FROM state").fetchone()
        streams = connection.execute("SELECT * FROM streams ORDER BY stream").fetchall()
        known = digest([list(row), [list(each) for each in streams]])
        connection.execute("UPDATE state SET seal = ?", (known,))
        connection.commit()


def redo_history(database: SqliteDatabase) -> None:
    known = BEGINNING
    steps = database.execute(f"SELECT {STEP} FROM steps ORDER BY number").fetchall()
    for step, fits in with_fits(database, steps):
        for fit in fits:
            known = after(known, fit)
        known = after(known, covered(step))
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
    files = f"the files of 5 releases in {tmp_path / 'out'} are unchanged"
    assert files in " ".join(done.stdout.split())


EPSILON = ('"epsilon":2.0', '"epsilon":200.0')


def test_another_epsilon_in_the_configuration_is_refused(tmp_path: Path) -> None:
    state = made(tmp_path)
    forge(state, replace_in("config", *EPSILON))
    for look in (Gate.look, Gate.open):
        with pytest.raises(StoreError, match=r"not the one .* created with: budget.epsilon: 2.0 b"):
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
    found(state, "latest names 1, but the newest release is 4")
    assert "latest names 1" in tidegate("verify", str(tmp_path / "out")).stdout
    (tmp_path / "out" / "latest").write_text("one")
    found(state, "latest is damaged")


@pytest.mark.parametrize("number", [0, 2, 4])
def test_releases_that_were_deleted_are_found(number: int, tmp_path: Path) -> None:
    state, out = made(tmp_path), tmp_path / "out"
    for path in out.glob(f"{number:06}.*"):
        path.unlink()
    (out / "latest").write_text(f"{3 if number == 4 else 4:06}\n")
    found(state, f"1 release(s) missing, starting with release {number}")
    alone = tidegate("verify", str(out))
    assert alone.returncode == (number != 4)  # that the newest is gone only the state shows
    assert "only the state can" in alone.stdout or number != 4


def test_a_hash_that_was_noted_must_be_there(tmp_path: Path) -> None:
    state, out = made(tmp_path), tmp_path / "out"
    with Gate.look(state) as gate:
        noted = gate.store.release(2).hash
    for folder in (state, out):
        assert tidegate("verify", str(folder), "--includes", noted[:16]).returncode == 0
        done = tidegate("verify", str(folder), "--includes", "ab" + noted[2:])
        assert (done.returncode, "no release has this hash" in done.stdout) == (1, True)


def test_an_offset_that_was_deleted_is_found(tmp_path: Path) -> None:
    """Its records would be taken and charged again."""
    state = made(tmp_path)
    forge(state, "DELETE FROM offsets", history=True)
    found(state, "the source records: 720 records came from it, but its offset says nothing")
    forge(
        state,
        "UPDATE arrivals SET source = NULL",
        replace_in("sources", '"records"', "null", "steps"),
    )
    found(state, "hash mismatch in the step or one of its fits")
    forge(state, history=True)
    found(state, "its card's history_sha256 does not match")


def test_an_accuracy_that_was_altered_is_found(tmp_path: Path) -> None:
    state = made(tmp_path)
    forge(state, "UPDATE steps SET accuracy = 0.99 WHERE number = 5")
    found(state, "step 5", "says evaluation.step_before")
    forge(state, history=True)
    found(state, "its card's history_sha256 does not match", "says evaluation.step_before")


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
        found(state, "hash mismatch in the step or one of its fits")
        forge(state, history=True)
        found(state, "its card's history_sha256 does not match")
        forge(state, back, history=True)
        assert problems(state) == []


def test_a_charge_that_was_altered_is_found(tmp_path: Path) -> None:
    state = made(tmp_path)
    forge(state, "UPDATE fits SET share = '1/100' WHERE number = 0", history=True)
    found(state, "fit 0: the plan charges", "fit 0: its card says share")


@pytest.mark.parametrize(
    "table", ["keys", "quarantine", "segments", "arrivals", "published", "dropped"]
)
def test_rows_that_come_or_go_without_a_sum_are_found(table: str, tmp_path: Path) -> None:
    state = made(tmp_path)
    with Gate.open(state) as gate:
        gate.ingest(np.ones((1, 3)), np.ones(1), key="one")
    with closing(sqlite3.connect(state / "state.db")) as connection:
        connection.execute(f"DELETE FROM {table}")
        connection.commit()
    found(state, f"rows of the table {table} were changed, added or deleted")


NEEDED = "(SELECT max(number) FROM fits WHERE release IS NULL)"
ROWS: dict[str, tuple[Edit | str, str]] = {
    "records that a fit needs": ("DELETE FROM segments", "records [500, 720) are missing"),
    "the first of them": ("DELETE FROM segments WHERE start < 600", "[500, 600) are missing"),
    "arrivals": ("DELETE FROM arrivals", "sources of waiting records do not add up"),
    "an arrival": ("INSERT INTO arrivals VALUES ('records', 720, 800, NULL)", "do not add up"),
    "a step's sources": ("UPDATE steps SET sources = '[]' WHERE number = 7", "step 7: its sources"),
    "another kind": ("UPDATE streams SET kind = 'dense float32, 3 features'", "its rows are dense"),
    "a model that a fit needs": (
        lambda connection: [
            connection.execute(f"INSERT INTO dropped VALUES ({NEEDED}, 1)"),
            connection.execute(f"UPDATE fits SET weights = x'' WHERE number = {NEEDED}"),
        ],
        "its model is missing, but a future fit may need it",
    ),
    "a model that was deleted": (
        f"UPDATE fits SET weights = x'' WHERE number = {NEEDED}",
        "is not kept",
    ),
    "a model that was dropped": (
        "UPDATE fits SET weights = x'00' WHERE number = (SELECT min(number) FROM dropped)",
        "it is marked as dropped, but has a model or is released",
    ),
    "a fit that was dropped": ("INSERT INTO dropped VALUES (9999, 1)", "was never made"),
    "a model that was released": ("UPDATE fits SET weights = x'' WHERE release = 1", "release 1"),
    "a stream": ("INSERT INTO streams VALUES ('other', 'x', 5, 0)", "other: the sources"),
}


@pytest.mark.parametrize("what", ROWS)
def test_rows_that_do_not_agree_are_found_though_their_sums_were_redone(
    what: str, tmp_path: Path
) -> None:
    state = made(tmp_path)
    edit, word = ROWS[what]
    forge(state, edit, history=True)
    found(state, word)


def test_a_deleted_state_of_two_streams_is_found(tmp_path: Path) -> None:
    """The next run would take all that it does for the first phase."""
    with opened(tmp_path / "state", config(TWO)) as gate:
        assert problems(tmp_path / "state") == []
        for name in gate.streams:
            gate.ingest(*stream(220), stream=name)
    assert problems(tmp_path / "state") == []
    forge(tmp_path / "state", "UPDATE state SET arrived = NULL")
    found(tmp_path / "state", "the two-stream state does not match the steps")


@pytest.mark.parametrize("which", ["1 = 1", "release = 1", "release = 4"])
def test_an_edited_card_is_found_though_the_state_has_lost_its_digests(
    which: str, tmp_path: Path
) -> None:
    state, out = made(tmp_path), tmp_path / "out"
    forge(state, f"DELETE FROM published WHERE {which}")
    assert problems(state) == []  # as if a kill had come before the state knew the files
    number = "000001" if "4" not in which else "000004"
    path = out / f"{number}.md"
    path.write_bytes(path.read_bytes().replace(b"NOT PRIVATE", b"VERY PRIVATE"))
    names = [f"{number}.{kind}" for kind in ("safetensors", "md", "json")]
    digests = {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in names}
    (out / f"{number}.sha256").write_bytes(manifest(digests))
    found(state, f"{number}.md and 1 more")


def test_only_the_files_of_the_newest_step_may_be_missing_after_a_kill(tmp_path: Path) -> None:
    state, out = made(tmp_path), tmp_path / "out"
    forge(state, "DELETE FROM published")
    for number in (4, 3):
        for path in out.glob(f"{number:06}.*"):
            path.unlink()
        (out / "latest").write_text(f"{number - 1:06}\n")
        assert bool(problems(state)) == (number == 3)


def test_a_release_that_the_state_has_not_made_is_found(tmp_path: Path) -> None:
    state, out = made(tmp_path), tmp_path / "out"
    for path in out.glob("000001.*"):
        path.with_stem("000009").write_bytes(path.read_bytes())
    (out / "latest").write_text("000009\n")
    found(state, "the state has not made release 9, which is in the folder")


def test_verify_says_which_folder_it_has_read(tmp_path: Path) -> None:
    """An insider may have the configuration name another folder, or none."""
    state = made(tmp_path)

    def unpublished(connection: sqlite3.Connection) -> None:
        (text,) = connection.execute("SELECT config FROM state").fetchone()
        kept = {key: value for key, value in json.loads(text).items() if key != "publish"}
        connection.execute("UPDATE state SET config = ?", (canonical(kept),))

    forge(state, unpublished)
    told = " ".join(tidegate("verify", str(state)).stdout.split())
    assert "5 releases were published to a folder that is no longer configured" in told


@pytest.mark.parametrize("text", ["", "a", "1234567", "g" * 8, "a" * 65])
def test_too_little_of_a_hash_is_refused(text: str, tmp_path: Path) -> None:
    """Every release has a hash that begins with nothing."""
    made(tmp_path)
    done = tidegate("verify", str(tmp_path / "out"), "--includes", text)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--includes must be the first 8 to 64 characters of a hash" in done.stderr


def test_a_hash_is_not_called_gone_because_something_else_is_wrong(tmp_path: Path) -> None:
    made(tmp_path)
    noted = json.loads((tmp_path / "out" / "000002.json").read_text())["hash"]
    (tmp_path / "out" / "latest").unlink()
    done = tidegate("verify", str(tmp_path / "out"), "--includes", noted)
    assert done.returncode == 1
    assert "not searched for, because of the other problems" in done.stdout


HOSTILE = ["", "{", "[]", "5", "null", "[" * 5000, "9" * 5000, '{"segments": "zz"}', -1, b"\xff"]
PLACES = ["state.sums", "state.config", "state.committed", "steps.sources", "fits.card", "fits.fit"]
PLACES += [
    "fits.weights",
    "dropped.norm",
    "fits.share",
    "fits.release",
    "published.files",
    "offsets.place",
    "offsets.records",
]


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_whatever_a_row_holds_is_told_in_one_line(place: str, tmp_path: Path) -> None:
    state = made(tmp_path)
    table, column = place.split(".")
    kept = (state / "state.db").read_bytes()
    for value in HOSTILE:
        (state / "state.db").write_bytes(kept)
        with closing(sqlite3.connect(state / "state.db")) as connection:
            some = f"rowid = (SELECT min(rowid) FROM {table})" if table != "offsets" else "1 = 1"
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE {some}", (value,))
            connection.commit()
        with suppress(TypeError, ValueError, RecursionError, StoreError):  # as far as it goes
            seal(state)
        for look in (problems, goes_on):
            with suppress(StoreError, InvalidValueError):
                assert look(state), (value, look)


def test_an_empty_text_is_not_taken_for_a_dropped_model(tmp_path: Path) -> None:
    state = made(tmp_path)
    forge(state, "UPDATE fits SET weights = '' WHERE number = 0")
    found(state, "fit 0: it is marked as dropped, but has a model or is released")


def goes_on(state: Path) -> bool:
    with Gate.open(state) as gate:
        take(gate, 830)
    return True


@pytest.mark.parametrize("latest", ["9" * 5000, "-1", ""])
def test_strange_files_in_a_published_folder_are_told_in_lines(latest: str, tmp_path: Path) -> None:
    made(tmp_path)
    out = tmp_path / "out"
    (out / "latest").write_text(f"{latest}\n")
    (out / f"{'9' * 200}.safetensors").mkdir()
    (out / "000001.safetensors").unlink()
    os.mkfifo(out / "000001.safetensors")
    done = tidegate("verify", str(out))
    assert (done.returncode, done.stderr) == (1, "")
    assert "latest is damaged" in done.stdout
    assert "release(s) missing, starting with release 5" in done.stdout
    assert "Not a regular file" in done.stdout


@pytest.mark.parametrize("kind", ["json", "md", "sha256"])
@pytest.mark.parametrize("text", ["", "a forged card"])
def test_a_card_without_a_model_is_told(kind: str, text: str, tmp_path: Path) -> None:
    state = made(tmp_path)
    (tmp_path / "out" / f"000107.{kind}").write_text(text)
    (tmp_path / "out" / "000108.json").write_text(text)
    told = "files of 2 release(s), starting with 107, have no model beside them"
    found(state, told)
    done = tidegate("verify", str(tmp_path / "out"))
    assert done.returncode == 1
    assert told in " ".join(done.stdout.split())


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

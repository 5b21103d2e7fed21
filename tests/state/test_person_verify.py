"""An insider who edits what a state keeps about persons, and redoes the checksums he can redo."""

import atexit
import hashlib
import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from unittest.mock import patch

import numpy as np
import pytest

from tests.state.gatelife import opened
from tests.state.personlife import KINDS, feed, ledger, settings
from tests.state.test_forgery import forge, found, problems
from tidegate.privacy import LedgerError
from tidegate.privacy.compact import Compact, Decisions, States
from tidegate.state import segments
from tidegate.state.database import PAGE
from tidegate.state.person_log import PersonLog
from tidegate.state.person_rows import Run, merged, sorted_owners, step_digest, unpacked
from tidegate.state.protected import FILE, check_value

Change = Callable[[Run], Run]

PAD = bytes(PAGE)


def lived(folder: Path, kind: str) -> Path:
    with opened(folder / "state", settings(kind)) as gate:
        feed(gate, kind == "twostream")
    return folder / "state"


@cache
def template(kind: str) -> Path:
    """A state of each kind, which tests copy."""
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return lived(folder, kind)


def made(folder: Path, kind: str = "life") -> Path:
    return Path(shutil.copytree(template(kind), folder / "state"))


@pytest.mark.parametrize("kind", KINDS)
def test_an_untouched_state_is_sound(kind: str, tmp_path: Path) -> None:
    state = made(tmp_path, kind)
    assert problems(state) == []
    forge(state, history=True)  # nothing was edited: what is redone is what was there
    assert problems(state) == []


def change_run(change: Change, step: int) -> Callable[[sqlite3.Connection], None]:
    """Change the run of a step, with its digest."""

    def edit(connection: sqlite3.Connection) -> None:
        where = "WHERE level = 0 AND first = ?"
        digest, data = connection.execute(
            f"SELECT digest, data FROM persons {where}", (step,)
        ).fetchone()
        new = change(unpacked(digest, data, PAD))
        packed = new.pack()
        connection.execute(
            f"UPDATE persons SET entries = ?, digest = ?, data = ? {where}",
            (len(new.starts), hashlib.sha256(packed).hexdigest(), bytes(PAGE) + packed, step),
        )

    return edit


def without_one(run: Run) -> Run:
    return run.slice(1, len(run.owners))


def with_another(run: Run) -> Run:
    return merged([run, Run.of_step(np.array([[7, 7]], np.uint64), int(run.starts[0]))])


def other_person(run: Run) -> Run:
    owners = run.owners.copy()
    owners[0, 1] += 1
    return replace(run, owners=sorted_owners(owners))


@pytest.mark.parametrize("change", [without_one, with_another, other_person])
@pytest.mark.parametrize("step", [1, 11])
@pytest.mark.parametrize("history", [False, True])
def test_edited_admissions_are_found(
    change: Change, step: int, history: bool, tmp_path: Path
) -> None:
    """Also those of steps whose records are gone."""
    state = made(tmp_path)
    forge(state, change_run(change, step), history=history)
    found(state, f"the ledger of persons, step {step + 1}: it does not match the history")


def test_a_step_that_says_what_was_edited_is_found_by_the_cards(tmp_path: Path) -> None:
    state = made(tmp_path)

    def lie(connection: sqlite3.Connection) -> None:
        change_run(without_one, 1)(connection)
        digest, data = connection.execute(
            "SELECT digest, data FROM persons WHERE first = 1"
        ).fetchone()
        (text,) = connection.execute("SELECT persons FROM steps WHERE number = 2").fetchone()
        said = json.loads(text) | {"admitted": step_digest(unpacked(digest, data, PAD).owners)}
        new = json.dumps(said, sort_keys=True, separators=(",", ":"))
        connection.execute("UPDATE steps SET persons = ? WHERE number = 2", (new,))

    forge(state, lie, history=True)
    found(state, "its card's history_sha256 does not match the state")


@pytest.mark.parametrize("history", [False, True])
def test_slots_that_were_made_to_count_are_found(history: bool, tmp_path: Path) -> None:
    state = made(tmp_path)

    def edit(connection: sqlite3.Connection) -> None:
        start, data = connection.execute("SELECT start, data FROM admitted").fetchone()
        bits = bytes([data[PAGE] ^ 128]) + data[PAGE + 1 :]
        digest = hashlib.sha256(bits).hexdigest()
        values = (digest, bytes(PAGE) + bits, start)
        connection.execute("UPDATE admitted SET digest = ?, data = ? WHERE start = ?", values)

    forge(state, edit, history=history)
    found(state, "its owners, or which of its slots count, were changed")


def test_owners_that_were_changed_in_a_segment_are_found(tmp_path: Path) -> None:
    state = made(tmp_path)

    def edit(connection: sqlite3.Connection) -> None:
        query = "SELECT file FROM segments WHERE file IS NOT NULL ORDER BY start"
        (file,) = connection.execute(query).fetchone()
        path = state / "segments" / file
        records = segments.unpack(path.read_bytes()).copy()
        assert records.owners is not None
        records.owners[0], records.owners[1] = records.owners[1].copy(), records.owners[0].copy()
        buffer = segments.pack(records)
        path.write_bytes(buffer)
        values = (buffer.size, segments.checksum(buffer), file)
        connection.execute("UPDATE segments SET size = ?, checksum = ? WHERE file = ?", values)

    forge(state, edit, history=True)
    found(state, "its owners, or which of its slots count, were changed")


@pytest.mark.thorough
def test_another_key_is_found(tmp_path: Path) -> None:
    state = made(tmp_path)
    key = bytes(32)
    (state / FILE).write_text(key.hex())
    found(state, "is not the key that this state was created with")
    forge(state, f"UPDATE person_key SET digest = '{check_value(key)}'", history=True)
    found(state, "its persons were admitted under another key than the state's")
    (state / FILE).chmod(0o644)
    found(state, "can be read or written by others")
    (state / FILE).unlink()
    found(state, "No such file")


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        ("DELETE FROM admitted", "which of its slots count is missing"),
        ("DELETE FROM persons WHERE first = 0", "step 1: it does not match the history"),
        ("UPDATE persons SET last = 9 WHERE first = 0", "a row does not hold what it says"),
        ("UPDATE steps SET persons = NULL WHERE number = 3", "missing or damaged"),
        ("DELETE FROM person_key", "no check value of the key"),
    ],
)
def test_missing_rows_are_found(edit: str, told: str, tmp_path: Path) -> None:
    state = made(tmp_path)
    forge(state, edit, history=True)
    found(state, told)


def test_an_edit_without_a_new_sum_is_found(tmp_path: Path) -> None:
    state = made(tmp_path)
    with closing(sqlite3.connect(state / "state.db")) as connection:
        connection.execute("UPDATE persons SET entries = entries + 1")
        connection.execute("UPDATE admitted SET start = start + 1")
        connection.commit()
    found(state, "rows of the table persons were changed", "rows of the table admitted were")


def test_an_admission_in_a_later_step_is_found(tmp_path: Path) -> None:
    state = made(tmp_path)

    def edit(connection: sqlite3.Connection) -> None:
        data = Run.of_step(np.array([[7, 7]], np.uint64), 99).pack()
        row = (0, 0, 99, 100, 1, hashlib.sha256(data).hexdigest(), bytes(PAGE) + data)
        connection.execute("INSERT INTO persons VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    forge(state, edit)
    found(state, "a person is admitted in a step that is not published")


def everybody(_: Compact, states: States, __: int) -> Decisions:
    """A planted mistake: admit all persons to every step."""
    return np.ones(len(states), np.int8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_that_admits_everybody_publishes_nothing_too_much(kind: str, tmp_path: Path) -> None:
    with patch.object(Compact, "decide", everybody), pytest.raises(LedgerError, match="a person"):
        lived(tmp_path, kind)
    assert problems(tmp_path / "state") == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_gate_that_admits_everybody_is_found(kind: str, tmp_path: Path) -> None:
    """All digests are right then: only the costs are too high."""
    with patch.object(Compact, "decide", everybody), patch.object(PersonLog, "_check"):
        state = lived(tmp_path, kind)
    told = problems(state)
    assert [line for line in told if "a person has paid more than the contributions" in line]
    assert len(told) == 1


@pytest.mark.thorough
def test_what_is_admitted_is_what_a_dictionary_says(tmp_path: Path) -> None:
    with opened(tmp_path / "state", settings()) as gate:
        feed(gate)
        found = ledger(gate)
        assert "often" in found
        admission = gate.plan.admission
        assert admission is not None
        assert all(admission.cost(ranges) <= 2 for ranges in found.values())
        assert max(len(ranges) for ranges in found.values()) == 2

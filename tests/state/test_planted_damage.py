"""Damage of every kind, planted with all checksums redone: verify says what is wrong."""

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from tests.state import test_person_verify as persons
from tests.state.gatelife import opened, stream
from tests.state.personlife import settings
from tests.state.test_forgery import forge, made, problems
from tidegate.state.person_log import persons_text
from tidegate.state.person_rows import Run

NEWEST = "(SELECT max(number) FROM steps)"
LAST = "(SELECT max(start) FROM segments)"

PLANTED: dict[str, tuple[str, str]] = {
    "a key of persons": (
        "INSERT INTO person_key VALUES ('00')",
        "person_key has rows, but records are protected",
    ),
    "persons": (
        "INSERT INTO persons VALUES (0, 0, 0, 1, 1, '', x'')",
        "persons has rows, but records are protected",
    ),
    "slots that count": (
        "INSERT INTO admitted VALUES ('records', 0, 100, '', x'')",
        "admitted has rows, but records are protected",
    ),
    "a drop of no fit": ("INSERT INTO dropped VALUES (99, '1.0')", "but was never made"),
    "a drop of a fit with a model": (
        "INSERT INTO dropped SELECT max(number), '1.0' FROM fits",
        "it is marked as dropped, but has a model or is released",
    ),
    "a gap between segments": (
        f"UPDATE segments SET start = start + 1 WHERE start = {LAST}",
        "the next starts at",
    ),
    "no last segment": (f"DELETE FROM segments WHERE start = {LAST}", "segments end at"),
    "no segments": ("DELETE FROM segments", "are missing, but a future fit needs them"),
    "a segment in two places": (
        f"UPDATE segments SET file = 'x' WHERE start = {LAST}",
        "records are in a file and in the database too",
    ),
    "steps that are not done": (
        "UPDATE streams SET done = done - 100",
        "but done is",
    ),
    "fits without a step": (
        f"DELETE FROM steps WHERE number = {NEWEST}",
        "it has fits that belong to no step",
    ),
    "arrivals that do not add up": (
        "UPDATE arrivals SET stop = stop - 1",
        "the sources of waiting records do not add up to their number",
    ),
    "sources that do not add up": (
        f"UPDATE steps SET sources = '[]' WHERE number = {NEWEST}",
        "its sources do not add up to its number of records",
    ),
    "a release that is hidden": (
        "UPDATE fits SET release = NULL WHERE release = 4",
        "it should be released and is not, or the reverse",
    ),
    "a release that is renumbered": (
        "UPDATE fits SET release = 9 WHERE release = 4",
        "expected release 4 with the previous hash",
    ),
    "an evaluation that was cheaper": (
        f"UPDATE steps SET share = '1/40' WHERE number = {NEWEST}",
        "its evaluation cost 1/40 for release",
    ),
    "another accuracy": (
        f"UPDATE steps SET accuracy = 0.999 WHERE number = {NEWEST}",
        "and deviation are",
    ),
    "a charge above the budget": (
        "UPDATE fits SET share = '3/2' WHERE number = 0",
        "of its budget, above 1",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_damage_is_found_though_every_sum_was_redone(name: str, tmp_path: Path) -> None:
    state = made(tmp_path)
    edit, words = PLANTED[name]
    forge(state, edit, history=True)
    told(state, words)


def told(state: Path, words: str) -> None:
    """Verify says so."""
    lines = problems(state)
    assert any(words in line for line in lines), lines


def test_a_lock_that_is_missing_is_told(tmp_path: Path) -> None:
    state = made(tmp_path)
    (state / "lock").write_bytes(b"")
    told(state, "lost transactions would go unnoticed")


def test_a_published_card_in_words_is_compared(tmp_path: Path) -> None:
    state = made(tmp_path)
    (tmp_path / "out" / "000002.md").write_text("all is well")
    told(state, "000002.md missing, or not as the state published")


def outside(run: Run) -> Run:
    """The run of a step that nobody has published."""
    return replace(run, starts=run.starts + 1000, stops=run.stops + 1000)


PERSONS: dict[str, tuple[str | Callable[[sqlite3.Connection], None], str]] = {
    "no check value": ("DELETE FROM person_key", "it has no check value of the key of persons"),
    "a step that says nothing": (
        "UPDATE steps SET persons = NULL WHERE number = 2",
        "what it says about persons is missing or damaged",
    ),
    "a step that says more": (
        "UPDATE steps SET persons = replace(persons, '}', ',\"name\":1}') WHERE number = 2",
        "what it says about persons is missing or damaged",
    ),
    "admitted in no step": (
        persons.change_run(outside, 11),
        "a person is admitted in a step that is not published or not needed",
    ),
    "a row that says more": (
        "UPDATE persons SET entries = entries + 1 WHERE first = 11",
        "a row does not hold what it says",
    ),
    "no slots that count": (
        f"DELETE FROM admitted WHERE start = (SELECT start FROM steps WHERE number = {NEWEST})",
        "which of its slots count is missing",
    ),
    "slots of no step": (
        "INSERT INTO admitted SELECT stream, stop, stop + 1, digest, data FROM admitted "
        "ORDER BY start DESC LIMIT 1",
        "slots of a step that is not published count",
    ),
    "records without owners": (
        "UPDATE streams SET kind = replace(kind, ', owned', '')",
        "its records have no owners",
    ),
}


@pytest.mark.parametrize("name", PERSONS)
def test_damage_to_what_is_kept_about_persons_is_found(name: str, tmp_path: Path) -> None:
    state = persons.made(tmp_path)
    edit, words = PERSONS[name]
    forge(state, edit, history=True)
    told(state, words)


def test_a_person_whose_slots_count_in_part_is_found(tmp_path: Path) -> None:
    """Though the step says that they do: the first of two slots of a person is left out."""
    with opened(tmp_path / "state", settings()) as gate:
        gate.ingest(*stream(100), persons=[slot // 2 for slot in range(100)])
        (step,) = gate.store.steps()
        owned = gate.store.owned(step.stream, step.span)
    bits = owned.admitted.copy()
    assert bits.all()
    bits[0] = False

    def edit(connection: sqlite3.Connection) -> None:
        (text,) = connection.execute("SELECT persons FROM steps").fetchone()
        said = json.loads(text)
        new = persons_text(said["admitted"], owned.owners, bits, said["key"])
        connection.execute("UPDATE steps SET persons = ?", (new,))
        packed = np.packbits(bits).tobytes()
        row = sha256(packed).hexdigest(), persons.PAD + packed
        connection.execute("UPDATE admitted SET digest = ?, data = ?", row)

    forge(tmp_path / "state", edit, history=True)
    told(tmp_path / "state", "some slots of a person count and others do not")

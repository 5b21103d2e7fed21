"""A stopped state that protects persons: who was in the stopped step has paid, also afterwards."""

import hashlib
import sqlite3
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.state.gatelife import opened
from tests.state.test_forgery import forge, found, problems
from tests.state.test_stopped import RIGHT, STEP, labelled, settings
from tidegate.checks import StoppedError, StoreError
from tidegate.gate import Gate
from tidegate.learn.slot_weights import Owned
from tidegate.run.config import ConfigError
from tidegate.schedule import Span
from tidegate.state import person_log
from tidegate.state.database import PAGE
from tidegate.state.person_rows import Run

PERSON = {"id": "who", "contributions": 2}


def ids(start: int, n: int) -> list[str]:
    return [f"p{number}" for number in range(start, start + n)]


def stopped(state: Path) -> None:
    """Stop twice: persons 0 to STEP - 1, then those from STEP / 2 on."""
    wrong: list[Any] = [None, {"classes": [5, 6], "norm": 1.5, "dtype": "float64"}]
    for start, records in zip((0, STEP // 2), wrong, strict=True):
        with opened(state, settings(records, person=PERSON)) as gate:
            with pytest.raises(StoppedError):
                gate.ingest(*labelled(STEP), persons=ids(start, STEP))
            assert steps(gate, "p0") == steps(gate, f"p{STEP - 1}") == [(0, 1)]
        assert problems(state) == []


def steps(gate: Gate, person: str) -> list[tuple[int, int]]:
    return gate.store.person(gate.persons.owner(person))


def test_who_was_in_a_stopped_step_is_not_admitted_again_at_once(tmp_path: Path) -> None:
    state = tmp_path / "state"
    stopped(state)
    later = 3 * STEP // 2
    with opened(state, settings(RIGHT, person=PERSON)) as gate:
        assert steps(gate, f"p{STEP}") == [(0, 1)]  # of the second stopped step
        gate.ingest(*labelled(STEP), persons=ids(STEP, STEP))
        owned = gate.store.owned("records", Span(0, STEP))
        assert isinstance(owned, Owned)
        known = STEP // 2  # persons from STEP to later - 1 were in the second stopped step
        assert owned.admitted.tolist() == [False] * known + [True] * (STEP - known)
        assert steps(gate, f"p{later}") == [(0, 1)]
        gate.ingest(*labelled(STEP, STEP), persons=ids(0, STEP))
        assert steps(gate, "p0") == [(0, 2)]
    assert problems(state) == []


@pytest.mark.parametrize("released", [False, True])
def test_an_insider_cannot_give_them_back_what_they_paid(released: bool, tmp_path: Path) -> None:
    state = tmp_path / "state"
    stopped(state)
    with opened(state, settings(RIGHT, person=PERSON)) as gate:
        if released:
            gate.ingest(*labelled(2 * STEP), persons=ids(2 * STEP, 2 * STEP))
    assert problems(state) == []
    forge(state, "DELETE FROM persons WHERE first = 0")
    found(state, "the ledger of persons, step 1: it does not match the history")


def wiped(state: Path) -> None:
    """An insider deletes what the persons of stopped steps have paid, before the first new step."""
    stopped(state)
    with opened(state, settings(RIGHT, person=PERSON)):
        pass
    forge(state, "DELETE FROM persons WHERE first = 0")


def take_first(state: Path) -> None:
    with opened(state, settings(RIGHT, person=PERSON)) as gate:
        gate.ingest(*labelled(STEP), persons=ids(0, STEP))


def test_a_first_step_without_what_a_stopped_one_paid_is_refused(tmp_path: Path) -> None:
    state = tmp_path / "state"
    wiped(state)
    with pytest.raises(StoreError, match="does not match the stopped step"):
        take_first(state)
    with Gate.look(state) as gate:
        assert list(gate.releases()) == []


def test_a_first_step_without_what_a_stopped_one_paid_is_found(tmp_path: Path) -> None:
    state = tmp_path / "state"
    wiped(state)
    with patch.object(person_log, "newest_stopped", return_value=None):  # a Gate that does not look
        take_first(state)
    found(state, "persons that it admits are not those of its slots that count, and of stopped")


def test_owners_that_were_in_no_stopped_step_are_refused(tmp_path: Path) -> None:
    """Also where none was stopped: whoever is known before the first step cannot come again."""
    state = tmp_path / "state"
    with opened(state, settings(RIGHT, person=PERSON)):
        pass

    def edit(connection: sqlite3.Connection) -> None:
        data = Run.of_step(np.array([[7, 7]], np.uint64), 0).pack()
        row = (0, 0, 0, 1, 1, hashlib.sha256(data).hexdigest(), bytes(PAGE) + data)
        connection.execute("INSERT INTO persons VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    forge(state, edit)
    with pytest.raises(StoreError, match="does not match the stopped step"):
        take_first(state)


def test_a_correction_keeps_who_persons_are(tmp_path: Path) -> None:
    state = tmp_path / "state"
    stopped(state)
    for person in ({**PERSON, "id": "other"}, {**PERSON, "contributions": 3}):
        with pytest.raises(ConfigError, match="person"):
            opened(state, settings(RIGHT, person=person))

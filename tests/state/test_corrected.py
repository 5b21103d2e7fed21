"""Corrections of stopped states: killed half-way, forged by an insider, on the command line."""

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.cli.run import json_lines, tidegate
from tests.state.gatelife import opened
from tests.state.marked import found as marks_in
from tests.state.marked import numbers
from tests.state.postgres_server import DATABASES
from tests.state.test_forgery import forge, found, problems
from tests.state.test_forgotten import left
from tests.state.test_stopped import RIGHT, SLIDING, STEP, labelled, settings, sound, stop
from tidegate.checks import StoppedError
from tidegate.failpoints import CORRECTIONS
from tidegate.gate import Gate
from tidegate.privacy.budget import down
from tidegate.run import executor
from tidegate.run.config.tables import Locations

PAID = down(Fraction(1, 20))


def corrected(folder: Path) -> Path:
    """A state that was stopped and corrected, and has made two releases since."""
    stop(folder / "state")
    with opened(folder / "state", settings(RIGHT)) as gate:
        gate.ingest(*labelled(3 * STEP))
    return folder / "state"


# --- files of a user


def made(folder: Path, classes: str, database: str | None = None) -> str:
    """A configuration whose classes may be wrong."""
    store = f'[store]\ndatabase = "{database}"\n' if database else ""
    text = f"""
not_private_seed = 7
[schedule]
kind = "sliding"
window = {SLIDING["window"]}
step = {STEP}
[budget]
epsilon = 4.0
delta = 1e-6
[records]
classes = {classes}
norm = 1.5
columns = ["a", "b", "c"]
label = "y"
[source]
type = "csv"
path = "{folder}/records.csv"
{store}"""
    (folder / "gate.toml").write_text(text)
    return str(folder / "gate.toml")


def grow(folder: Path, n: int, start: int = 0) -> None:
    X, y = labelled(n, start)
    rows = (",".join(map(str, [*x, label])) for x, label in zip(X, y, strict=True))
    path = folder / "records.csv"
    before = path.read_text() if path.exists() else "a,b,c,y\n"
    path.write_text(before + "".join(f"{row}\n" for row in rows))


def killed(failpoint: str, *words: str) -> int:
    """Run a command that is killed at a failpoint; return its code."""
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", *words],
        env={**os.environ, "TIDEGATE_FAILPOINT": failpoint},
        capture_output=True,
        check=False,
        timeout=120,
    )
    return done.returncode


@pytest.mark.thorough
@pytest.mark.parametrize("where", DATABASES)
@pytest.mark.parametrize("failpoint", CORRECTIONS)
def test_a_killed_correction(
    failpoint: str, where: Callable[[], Locations], tmp_path: Path
) -> None:
    """Either the stopped state or the corrected one, and both go on as if nothing had happened."""
    database, state = where().database, tmp_path / "gate.state"
    grow(tmp_path, STEP + 40)
    assert tidegate("run", made(tmp_path, "[7, 8]", database)).returncode == 2
    right = made(tmp_path, "[0, 1]", database)
    assert killed(failpoint, "run", right) == -signal.SIGKILL
    with Gate.look(state) as gate:
        stopped = len(gate.store.stopped())
    assert stopped == (failpoint == "correct.done")
    assert sound(state)
    grow(tmp_path, 2 * STEP, STEP + 40)
    assert tidegate("run", right).returncode == 0
    with Gate.look(state) as gate:
        assert (len(gate.store.stopped()), gate.store.count("records")) == (1, 2 * STEP)
        assert len(list(gate.releases())) == 1
    assert sound(state)


def test_the_command_line(tmp_path: Path) -> None:
    state = str(tmp_path / "gate.state")
    grow(tmp_path, STEP + 40)
    wrong = made(tmp_path, "[7, 8]")
    for command in (["run", wrong], ["run", wrong, "--quiet"]):
        code, _, said = tidegate(*command)
        assert code == 2
        assert "512 records cannot be used" in said.splitlines()[-1]
    shown = " ".join(tidegate("status", state).stdout.split())
    assert "Stopped before the first fit" in shown
    (status,) = json_lines("status", state)
    assert (status["stopped"]["records"], status["stopped"]["paid"]) == (STEP, PAID)
    assert tidegate("ledger", state).returncode == 0
    sealed = tmp_path / "more.csv"
    sealed.write_text("a,b,c,y\n1,0,0,1\n")
    assert tidegate("ingest", state, str(sealed)).returncode == 2
    assert tidegate("verify", state).returncode == 0

    misspelt = Path(made(tmp_path, "[0, 1]"))
    misspelt.write_text(misspelt.read_text().replace('"c"]', '"d"]'))
    assert tidegate("run", str(misspelt)).returncode == 2
    assert json_lines("status", state)[0]["stopped_steps"] == []  # it can still be corrected

    code, _, said = tidegate("run", made(tmp_path, "[0, 1]"))
    assert code == 0
    assert "keep their charge" in said
    assert "40 records that came later" in said
    (status,) = json_lines("status", state)
    assert status["stopped"] is None
    paid = {"stream": "records", "records": STEP, "paid": PAID}
    assert status["stopped_steps"] == [paid]
    (total,) = json_lines("ledger", state)
    assert (total["stopped_records"], total["stopped_paid"]) == (STEP, PAID)
    for command in (["status", state], ["ledger", state]):
        shown = " ".join(tidegate(*command).stdout.split())
        assert "a stopped step of 512 records paid 0.05 of their budget each" in shown


def test_no_byte_of_a_record_is_left(tmp_path: Path) -> None:
    with opened(tmp_path / "state", settings()) as gate, pytest.raises(StoppedError):
        gate.ingest(numbers(0, 2 * STEP, 3), np.zeros(2 * STEP, int))
    assert marks_in(tmp_path / "state")
    with opened(tmp_path / "state", settings(RIGHT)):
        assert left(tmp_path / "state", set) == set()


# --- an insider


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ("DELETE FROM stopped", "step 1: hash mismatch"),
        ("UPDATE stopped SET survey_share = '1/100'", "its survey cost 1/100, but the plan says"),
        ("UPDATE stopped SET stop = 256", "which is not a first step"),
        ("UPDATE stopped SET stream = 'x'", "stopped step 1: it cannot be recomputed"),
        ("UPDATE stopped SET survey = '{}'", "stopped step 1: it cannot be recomputed"),
        ("UPDATE stopped SET history = replace(history, '1', '2')", "stopped step 1: hash"),
        ("UPDATE stopped SET sources = '[]'", "stopped step 1: hash mismatch"),
        ("UPDATE stopped SET number = 2", "stopped step 2: hash mismatch"),
        (
            "UPDATE stopped SET settings = replace(settings, '4.0', '9.0')",
            "no correction may change these settings: budget.epsilon",
        ),
        (
            "UPDATE stopped SET settings = replace(settings, '1.5', '2.5')",
            "stopped step 1: hash mismatch",
        ),
    ],
)
def test_a_forged_stopped_step_is_found(edit: str, words: str, tmp_path: Path) -> None:
    state = corrected(tmp_path)
    assert problems(state) == []
    forge(state, edit)
    if "stream = 'x'" in edit or "survey = '{}'" in edit:
        told = problems(state)
        assert any(words in line or "damaged" in line for line in told), told
    else:
        found(state, words)


def test_a_table_that_was_edited_is_found_by_its_sum(tmp_path: Path) -> None:
    state = corrected(tmp_path)
    with closing(sqlite3.connect(state / "state.db")) as database:
        database.execute("DELETE FROM stopped")
        database.commit()
    found(state, "rows of the table stopped were changed, added or deleted")


def test_a_charge_that_was_set_aside_is_found(tmp_path: Path) -> None:
    """An insider has the program itself correct a state whose survey stops nothing."""
    with opened(tmp_path / "state", settings(RIGHT)) as gate:
        gate.ingest(*labelled(STEP))
        gate.store.correct(gate.store.config(), gate.store.settings())
        gate.ingest(*labelled(2 * STEP))
    found(tmp_path / "state", "its survey does not stop a stream")


def test_fits_of_a_stopped_state_are_found(tmp_path: Path) -> None:
    never: Any = {"stops": lambda _: False}
    with patch.multiple("tidegate.state.stopped", **never), patch.multiple(executor, **never):
        with opened(tmp_path / "state", settings()) as gate:
            gate.ingest(*labelled(2 * STEP))
        assert sound(tmp_path / "state")
    found(tmp_path / "state", "the state before it is stopped")

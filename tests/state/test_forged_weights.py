"""An insider who edits slot weights, their power or a share, and redoes every digest and hash."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.state.test_forgery import problems, seal
from tests.state.test_growing import FADING, pure, records
from tidegate.checks import StoreError
from tidegate.gate import Config, Gate
from tidegate.release import FIRST, canonical
from tidegate.release import seal as sealed
from tidegate.state.damage import BEGINNING, HISTORY, after
from tidegate.state.database import SqliteDatabase
from tidegate.state.store import STEP, PlannedWeights, covered, weights_of, with_fits

Fields = dict[str, Any]
Edit = Callable[[Fields, Fields], object]
"""Edits the fields of a fit and of its card."""


def forge(state: Path, edit: Edit) -> None:
    """Edit all fits and cards, then redo history, hash chain and seal as if they were made so."""
    database = SqliteDatabase(state, writes=True)
    database.connect()
    with closing(database):
        database.begin()
        planned, history, previous = PlannedWeights(database), BEGINNING, FIRST
        steps = database.execute(f"SELECT {STEP} FROM steps ORDER BY number").fetchall()
        for step, fits in list(with_fits(database, steps)):
            for number, stream, fit, share, card, shape, digest, release, *_ in fits:
                fields, told = planned.fields(fit), planned.fields(card)
                edit(fields, told)
                told[HISTORY] = history
                (model,) = database.execute(
                    "SELECT weights FROM fits WHERE number = ?", (number,)
                ).fetchone()
                seen = (previous, sealed(told, weights_of(shape, model), previous).hash)
                row = [canonical(fields), told.get("share", share), canonical(told)]
                known = [number, stream, *row, shape, digest, release, *seen]
                history, previous = after(history, known), seen[1]
                columns = "fit = ?, share = ?, card = ?, previous = ?, hash = ?"
                database.execute(
                    f"UPDATE fits SET {columns} WHERE number = ?", (*row, *seen, number)
                )
            history = after(history, covered(step))
            database.execute("UPDATE steps SET history = ? WHERE number = ?", (history, step[0]))
        database.commit()
    seal(state)


def made(folder: Path, config: str) -> Path:
    X, y = records(60)
    with Gate.open(folder / "state", Config.parse(config)) as gate:
        gate.ingest(X, y)
    return folder / "state"


def set_power(power: object) -> Edit:
    return lambda fit, _: fit.update(power=power)


def lighter(fit: Fields, _: Fields) -> None:
    fit["emphasis"] = [[span, "1/100"] for span, _ in fit["emphasis"]]


def lighter_card(_: Fields, card: Fields) -> None:
    card["emphasis"] = [[*span, "1/100"] for *span, _ in card["emphasis"]]


def cheaper(_: Fields, card: Fields) -> None:
    card["share"] = "1/1000"


def untouched(fit: Fields, card: Fields) -> None:
    """Leave both as they are."""


@pytest.mark.parametrize("budget", [str, pure])
def test_what_is_redone_without_an_edit_is_sound(
    budget: Callable[[str], str], tmp_path: Path
) -> None:
    state = made(tmp_path, budget(FADING))
    forge(state, untouched)
    assert problems(state) == []


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (set_power(3), "to the power 3"),
        (lighter, "slot weights 1/100"),
        (lighter_card, "its card says emphasis"),
        (cheaper, "the state charged 1/1000"),
    ],
)
@pytest.mark.parametrize("budget", [str, pure])
def test_a_record_that_seems_to_pay_less_is_found(
    budget: Callable[[str], str], edit: Edit, words: str, tmp_path: Path
) -> None:
    state = made(tmp_path, budget(FADING))
    forge(state, edit)
    assert any(words in line for line in problems(state)), problems(state)


@pytest.mark.parametrize("power", [2.0, True, None, "2"])
def test_a_power_that_is_no_whole_number_is_damage(power: object, tmp_path: Path) -> None:
    """2.0 equals 2, but e^2.0 is a float: charges would no longer be exact."""
    state = made(tmp_path, FADING)
    forge(state, set_power(power))
    assert any("a charge in the database is damaged" in line for line in problems(state))
    with pytest.raises(StoreError, match="a charge in the database is damaged"):  # noqa: SIM117
        with Gate.open(state) as gate:
            gate.ingest(*records(10))

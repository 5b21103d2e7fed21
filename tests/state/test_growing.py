"""A gate whose records do not all count for 1: charged, kept, verified and told as planned."""

import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tests.state.gatelife import TIME
from tidegate.checks import StoreError
from tidegate.gate import Config, Gate
from tidegate.release import to_markdown
from tidegate.run.config import ConfigError
from tidegate.schedule import Span
from tidegate.schedule.plan import Plan
from tidegate.state.database import SqliteDatabase
from tidegate.state.status import public_status
from tidegate.state.store import PlannedWeights
from tidegate.state.verification import verify

CONFIG = """
not_private_seed = 7
[schedule]
kind = "growing"
block = 40
step = 10
growth = "1/2"
[budget]
epsilon = 1.0
delta = 1e-6
[records]
classes = [0, 1, 2]
norm = 1.0
[quality]
share = 0
"""


FADING = CONFIG.replace("growing", "fading").replace("block = 40", "first = 3")
FADING = FADING.replace('growth = "1/2"', 'forget = "1/2"\nmemory = 3')
REFITTED = CONFIG.replace("growing", "sliding").replace("block = 40", "window = 40")
REFITTED = REFITTED.replace('growth = "1/2"', "refit = true")
KINDS = {"growing": CONFIG, "fading": FADING, "sliding, refitted": REFITTED}


def pure(config: str) -> str:
    return config.replace("delta = 1e-6", "")


def records(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)), rng.integers(3, size=n)


def test_it_charges_and_keeps_what_was_planned(tmp_path: Path) -> None:
    X, y = records(200)
    with Gate.open(tmp_path / "state", Config.parse(CONFIG)) as gate:
        gate.ingest(X[:95], y[:95])
    with Gate.open(tmp_path / "state") as gate:  # what records count for has been on the disk
        gate.ingest(X[95:], y[95:])
        releases = list(gate.releases())
        assert [release.card["at"] for release in releases] == [40, 60, 90, 130, 190]
        plan, (ledger,) = gate.plan, gate.ledgers().values()
        assert isinstance(plan, Plan)
        assert list(gate.store.lines()) == list(plan.lines(200))
        assert all(ledger.paid(record) == plan.paid(record, 200) for record in range(200))
        assert list(verify(gate)) == []
        books = gate.ledger_view()
        books.catch_up()
        for record in range(0, 200, 7):  # what a record is told it has paid is what it has paid
            told = math.fsum(row["share"] for row in books.paid(record))
            assert told == pytest.approx(float(plan.paid(record, 200)))
        assert gate.progress.next_model("records") == 280
        card = releases[2].card
        assert card["emphasis"] == [[0, 40, "1/2"], [40, 60, "2/3"], [60, 90, "1"]]
        assert "from 1/2 in the oldest to 1 in the newest of 3 blocks" in to_markdown(card)
        # what one record moves a mean by: the mean is over what the records count for together
        counted = 40 // 2 + 20 * 2 // 3 + 30
        assert card["settings"]["sensitivity"] == pytest.approx(
            2 * card["settings"]["clip"] / counted
        )


@pytest.mark.parametrize("budget", [str, pure])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_charged_as_planned_under_both_budgets(
    kind: str, budget: Callable[[str], str], tmp_path: Path
) -> None:
    X, y = records(200)
    config = Config.parse(budget(KINDS[kind]))
    with Gate.open(tmp_path / "state", config) as gate:
        gate.ingest(X[:95], y[:95])
    with Gate.open(tmp_path / "state") as gate:
        gate.ingest(X[95:], y[95:])
        plan, (ledger,) = gate.plan, gate.ledgers().values()
        assert isinstance(plan, Plan)
        assert list(gate.store.lines()) == list(plan.lines(200))
        assert all(ledger.paid(record) == plan.paid(record, 200) for record in range(200))
        assert list(verify(gate)) == []
        held = sum(piece.n for piece in gate.store.pieces("records", Span(plan.needed(200), 200)))
        assert held == 200 - plan.needed(200)
        if plan.needed(200):
            with pytest.raises(StoreError, match="they were deleted"):
                gate.store.pieces("records", Span(0, 200))
        view = gate.ledger_view()
        view.catch_up()
        trained_on = view.trained_on(len(list(gate.releases())) - 1)
        descends = config.budget.delta is not None  # under a pure budget nothing starts there
        assert ("remembering older ones" in trained_on) == (kind != "growing" and descends)
        assert ("started_from" in list(gate.releases())[-1].card) == descends


def test_slot_weights_that_follow_from_the_settings_are_not_kept(tmp_path: Path) -> None:
    with Gate.open(tmp_path / "state", Config.parse(CONFIG)) as gate:
        gate.ingest(*records(200))
    with closing(sqlite3.connect(tmp_path / "state" / "state.db")) as connection:
        rows = connection.execute("SELECT fit, card FROM fits ORDER BY number").fetchall()
        assert [row[0].count('"emphasis":"planned"') for row in rows] == [0, 1, 1, 1, 1]
        assert [row[1].count('"emphasis":"planned"') for row in rows] == [0, 1, 1, 1, 1]
    with Gate.look(tmp_path / "state") as gate:
        cards = [card for _, card in gate.store.cards()]
        assert cards == [release.card for release in gate.releases()]
        assert [len(card["emphasis"]) for card in cards] == [0, 2, 3, 4, 5]


@pytest.mark.parametrize("column", ["fit", "card"])
def test_slot_weights_that_were_written_into_a_row_are_found(column: str, tmp_path: Path) -> None:
    """An insider would have the oldest records pay less than they have."""
    with Gate.open(tmp_path / "state", Config.parse(CONFIG)) as gate:
        gate.ingest(*records(200))
    planned = '[[[0,40],"3/4"],[[40,60],"1"]]' if column == "fit" else '[[0,40,"3/4"],[40,60,"1"]]'
    edit = f"UPDATE fits SET {column} = replace({column}, ?, ?) WHERE number = 1"
    for old, new, sound in [('"planned"', planned, True), (planned, "[]", False)]:
        with closing(sqlite3.connect(tmp_path / "state" / "state.db")) as connection:
            connection.execute(edit, (f'"emphasis":{old}', f'"emphasis":{new}'))
            connection.commit()
        with Gate.look(tmp_path / "state") as gate:
            assert (list(verify(gate)) == []) == sound  # what the plan says may also be written out


def test_how_the_stream_is_cut_makes_no_difference(tmp_path: Path) -> None:
    X, y = records(140)
    hashes = []
    for size in (140, 7):
        with Gate.open(tmp_path / f"{size}", Config.parse(CONFIG), clock=lambda: TIME) as gate:
            for start in range(0, 140, size):
                gate.ingest(X[start : start + size], y[start : start + size])
            hashes.append([release.hash for release in gate.releases()])
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"1/2"', '"1/65"', "growth must be a Fraction from 1/64 to below 1"),
        ("block = 40", "block = 45", "block must be a multiple of the step"),
    ],
)
def test_what_cannot_be_weighed_is_refused_before_any_record(
    old: str, new: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        Config.parse(CONFIG.replace(old, new))


def test_the_growth_is_frozen_where_it_is_not_given() -> None:
    config = Config.parse(CONFIG.replace('growth = "1/2"', ""))
    assert '"growth":"1/16"' in config.privacy_json()
    assert Config.from_json(config.to_json()) == config.settled()


@pytest.mark.parametrize(("survey", "early"), [("0", 0), ("1/20", 3)])
def test_a_late_first_model_is_announced_before_its_records_come(
    survey: str, early: int, tmp_path: Path
) -> None:
    """No fit reads the early records, but a survey reads those of every step."""
    late = FADING.replace("first = 3", "first = 10").replace("memory = 3", "memory = 2")
    late += f'[survey]\nshare = "{survey}"\n'
    X, y = records(132)
    with Gate.open(tmp_path / "state", Config.parse(late)) as gate:
        for start, stop, next_model, held in (
            (0, 33, 100, early),
            (33, 99, 100, 19),
            (99, 132, 140, 12),
        ):
            gate.ingest(X[start:stop], y[start:stop])
            shown = public_status(gate, gate.ledger_view())["streams"][0]
            assert (shown["next_model"], shown["held_records"]) == (next_model, held)
            assert list(verify(gate)) == []
        assert [release.card["at"] for release in gate.releases()] == [100, 110, 120, 130]


def test_only_weights_that_can_be_restored_are_left_out(tmp_path: Path) -> None:
    """Other weights stay as they are, and other texts of the same JSON are refused."""
    with Gate.open(tmp_path / "state", Config.parse(CONFIG)) as gate:
        gate.ingest(*records(200))
    database = SqliteDatabase(tmp_path / "state", writes=False)
    database.connect()
    with closing(database):
        planned = PlannedWeights(database)
        ((short,),) = database.execute("SELECT fit FROM fits WHERE number = 2").fetchall()
        long = planned.written_out(short)
        assert planned.left_out(long) == short
        other = long.replace('"1/2"', '"1/3"')
        assert other != long
        assert planned.left_out(other) == other
        for text in (short.replace(":", ": ", 1), short.replace("{", '{"at":1,', 1)):
            with pytest.raises(StoreError, match="a fit or its card in the database"):
                planned.fields(text)


@pytest.mark.parametrize("budget", [str, pure])
@pytest.mark.parametrize("kind", KINDS)
def test_fits_leave_what_is_reserved_for_quality(
    kind: str, budget: Callable[[str], str], tmp_path: Path
) -> None:
    measured = budget(KINDS[kind]).replace("share = 0", 'share = "1/10"')
    X, y = records(200)
    with Gate.open(tmp_path / "state", Config.parse(measured)) as gate:
        gate.ingest(X[:95], y[:95])
    with Gate.open(tmp_path / "state") as gate:
        gate.ingest(X[95:], y[95:])
        plan, (ledger,) = gate.plan, gate.ledgers().values()
        assert isinstance(plan, Plan)
        assert plan.forever == Fraction(9, 10)
        assert list(verify(gate)) == []
        assert ledger.paid(100) == plan.paid(100, 200) + Fraction(1, 10)
        if kind != "growing":  # whose records only tend to 1
            assert ledger.worst().share == ledger.paid(100) == 1

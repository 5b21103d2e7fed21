"""A Gate that protects persons: bad ids cost their slot, the promise is said, no id gets out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.cli.run import json_lines, tidegate
from tests.state.gate_files import config_text, publish_table, source_table
from tests.state.gatelife import config, opened, stream
from tidegate.checks import InvalidValueError, StoppedError
from tidegate.data.owners import owners_of
from tidegate.gate import Gate
from tidegate.release.markdown import to_markdown
from tidegate.run.config import ConfigError
from tidegate.sources import Batches
from tidegate.state.verify_published import problems_of_card

SECRET = "Ada-Lovelace-1815"
HUGE = SECRET * (2**20 // len(SECRET))
BAD: list[Any] = [None, "", True, 1.5, [SECRET], {SECRET: 1}, HUGE, "\ud800", float("nan")]
PERSON = {"id": "p", "contributions": 4}
TABLE = '[person]\nid = "p"\ncontributions = 4\n'


def names(n: int, start: int = 0) -> list[str]:
    """Ids of persons with about three records each, in a row."""
    return [f"{SECRET}-{slot // 3}" for slot in range(start, start + n)]


def write(path: Path, n: int, start: int = 0) -> None:
    X, y = stream(n, start)
    rows = zip(X.tolist(), y.tolist(), names(n, start), strict=True)
    lines = (",".join(map(str, [*x, label, name])) + "\n" for x, label, name in rows)
    path.write_text("a,b,c,y,p\n" + "".join(lines))


def test_bad_ids_cost_their_own_slots(tmp_path: Path) -> None:
    ids = [each for bad in BAD for each in (bad, SECRET)]
    with opened(tmp_path / "state", config(person=PERSON)) as gate:
        assert gate.ingest(np.ones((len(ids), 3)), [0] * len(ids), persons=ids) == len(ids)
        quarantined = list(gate.store.quarantine("records"))
        assert [each.slot for each in quarantined] == list(range(0, len(ids), 2))
        for each in quarantined:
            assert "person's id" in each.reason
            assert SECRET not in each.reason
            assert len(each.reason) < 99
        assert gate.ingest(np.ones((5, 3)), [0] * 5, persons=[SECRET] * 5) == len(ids) + 5
        assert gate.store.quarantined("records") == len(BAD)


def test_ids_are_asked_for_and_not_given_in_vain(tmp_path: Path) -> None:
    X, y = stream(50)
    with opened(tmp_path / "owned", config(person=PERSON)) as gate:
        with pytest.raises(InvalidValueError, match="persons is missing: the configuration has"):
            gate.ingest(X, y)
        with pytest.raises(InvalidValueError, match=r"persons must be as long as X \(50\)"):
            gate.ingest(X, y, persons=[SECRET] * 49)
        with pytest.raises(InvalidValueError, match="persons is missing"):
            list(gate.run(Batches(name="mine", pairs=[(X, y)])))
        assert gate.store.count("records") == 0
        list(gate.run(Batches(name="mine", pairs=[(X, y, names(50))])))
        assert gate.store.count("records") == 50
    with opened(tmp_path / "plain", config()) as gate:
        with pytest.raises(InvalidValueError, match=r"no \[person\], so records are protected"):
            gate.ingest(X, y, persons=names(50))
        assert gate.store.count("records") == 0


GAP: list[Any] = [1, 2, None]


@pytest.mark.parametrize(
    "persons", [pd.Series(GAP), np.array([1.0, 2.0, 3.0]), pa.array([1.5, 2.5, None])]
)
def test_ids_that_became_floats_are_refused(tmp_path: Path, persons: Any) -> None:
    """One gap makes floats of all ids in pandas: nobody may lose their owner for it, silently."""
    X, y = stream(3)
    with opened(tmp_path / "state", config(person=PERSON)) as gate:
        with pytest.raises(InvalidValueError, match="persons must be text or whole numbers, got"):
            gate.ingest(X, y, persons=persons)
        with pytest.raises(InvalidValueError, match="persons must be text or whole numbers, got"):
            list(gate.run(Batches(name="mine", pairs=[(X, y, persons)])))
        assert gate.store.count("records") == 0


@pytest.mark.parametrize("persons", [GAP, pd.Series(GAP, dtype="Int64"), pa.array(GAP)])
def test_a_gap_costs_only_its_own_slot(tmp_path: Path, persons: Any) -> None:
    X, y = stream(3)
    with opened(tmp_path / "state", config(person=PERSON)) as gate:
        gate.ingest(X, y, persons=persons)
        assert [each.slot for each in gate.store.quarantine("records")] == [2]
        gate.ingest(X[:0], y[:0], persons=np.array([]))  # of floats, but of none


def test_cards_of_a_gate_of_records_say_nothing_of_persons(tmp_path: Path) -> None:
    with opened(tmp_path / "state", config()) as gate:
        gate.ingest(*stream(900))
        (release, *_) = gate.releases()
    assert "protects" not in release.card
    assert release.card["neighbours"] == (
        "streams of one length that differ in the content of one record"
    )
    assert "person" not in to_markdown(release.card)


@pytest.mark.parametrize("period", [None, 1, 30])
def test_cards_say_whom_they_protect(tmp_path: Path, period: int | None) -> None:
    keys = PERSON if period is None else {**PERSON, "period": period}
    with opened(tmp_path / "state", config(person=keys)) as gate:
        gate.ingest(*stream(900), persons=names(900))
        (release, *_) = gate.releases()
    card = release.card
    assert card["protects"] == {
        "unit": "person",
        "contributions": 4,
        "period": period,
        "typical": "1",
    }
    assert card["epsilon"] == pytest.approx(float(card["share_rounded_down"]) / 4)
    assert card["budget"] == {"epsilon": 1.0, "delta": 0.0}
    within = {None: "", 1: " within one step", 30: " within 30 consecutive steps"}[period]
    assert card["neighbours"].endswith(f"of records of one person{within}")
    text = to_markdown(card)
    assert "4 times what one record may cost" in text
    assert "can check that no person's records cost more" in text
    assert list(problems_of_card(card)) == []


@pytest.mark.parametrize("kind", ["fading", "growing", "sliding"])
@pytest.mark.parametrize("typical", ["1", "5/2"])
def test_what_is_typical_verifies(tmp_path: Path, kind: str, typical: str) -> None:
    schedule = {
        "fading": {"kind": "fading", "step": 100},
        "growing": {"kind": "growing", "block": 200, "step": 100},
        "sliding": {"kind": "sliding", "window": 300, "step": 100, "refit": True},
    }[kind]
    more: dict[str, Any] = {
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "learner": {},
        "quality": {"share": "1/20"},
        "publish": {"folder": str(tmp_path / "out")},
        "person": {**PERSON, "typical": typical},
    }
    with opened(tmp_path / "state", config(schedule, **more)) as gate:
        gate.ingest(*stream(600), persons=names(600))
        assert {release.card["protects"]["typical"] for release in gate.releases()} == {typical}
    for place in ("state", "out"):
        done = tidegate("verify", str(tmp_path / place))
        assert done.returncode == 0, done.stdout


def test_a_card_that_says_less_about_persons_than_is_true_is_found(tmp_path: Path) -> None:
    with opened(tmp_path / "state", config(person=PERSON)) as gate:
        gate.ingest(*stream(900), persons=names(900))
        (release, *_) = gate.releases()
    for protects in (
        None,
        {**release.card["protects"], "contributions": 1},
        {**release.card["protects"], "contributions": 5},
        {**release.card["protects"], "contributions": "4"},
        {"unit": "person"},
    ):
        assert list(problems_of_card({**release.card, "protects": protects})) != []


@pytest.mark.parametrize("n", [90, 300])
def test_a_run_without_any_ids_tells_the_operator(n: int, tmp_path: Path) -> None:
    X, y = stream(n)
    rows = zip(X.tolist(), y.tolist(), strict=True)
    lines = [
        json.dumps({**dict(zip("abc", x, strict=True)), "y": label, "P": SECRET, "p": None})
        for x, label in rows
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(lines))
    source = source_table(tmp_path / "r.jsonl", "jsonl")
    (tmp_path / "gate.toml").write_text(config_text(TABLE, source))
    done = tidegate("run", str(tmp_path / "gate.toml"))
    assert SECRET not in done.stdout + done.stderr
    if n > 100:  # a step
        assert done.returncode == 2
        assert "first 100 records have no usable person id" in done.stderr
        assert "check person.id" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert "90 of 90 records cannot be used" in done.stderr
    assert "the person's id is missing" in done.stderr
    assert "check person.id" in done.stderr


@pytest.mark.parametrize("change", [{"id": "q"}, {"contributions": 8}, {"period": 3}])
def test_a_correction_of_a_stopped_state_keeps_person(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    more: dict[str, Any] = {
        "schedule": {"kind": "independent", "step": 1000},
        "budget": {"epsilon": 4.0, "delta": 1e-6},
        "learner": {},
        "survey": {"share": "1/10"},
    }
    settings = config(**more, person=PERSON)
    with opened(tmp_path / "state", settings) as gate, pytest.raises(StoppedError):
        gate.ingest(np.full((1000, 3), np.nan), [0] * 1000, persons=list(range(1000)))
    with pytest.raises(ConfigError, match=r"must keep .*\[person\]") as refused:
        opened(tmp_path / "state", config(**more, person=PERSON | change))
    assert "\n" not in str(refused.value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state that `tidegate run` and `tidegate ingest` have made, and what it published."""
    folder = tmp_path_factory.mktemp("gate")
    write(folder / "records.csv", 700)
    write(folder / "more.csv", 250, 700)
    tables = TABLE, source_table(folder / "records.csv"), publish_table(folder / "out")
    (folder / "gate.toml").write_text(config_text(*tables, "[quality]\nshare = 0.05\n"))
    assert tidegate("check", str(folder / "gate.toml"), str(folder / "records.csv")).returncode == 0
    for words in (
        ("run", str(folder / "gate.toml")),
        ("ingest", str(folder / "gate.state"), str(folder / "more.csv")),
    ):
        done = tidegate(*words)
        assert done.returncode == 0, done.stderr
    return folder


def test_commands_say_whom_the_budget_protects(folder: Path) -> None:
    state = str(folder / "gate.state")
    until = "until all of them together have cost 4 times what one record may cost"
    shown = " ".join(tidegate("status", state).stdout.split())
    assert "epsilon = 1 about any one person, for ever" in shown
    assert until in shown
    assert "All records of a person together never cost more than 4 times" in shown
    assert until in " ".join(tidegate("releases", state).stdout.split())
    assert "together never cost more than 4 times" in tidegate("ledger", state).stdout
    (now,) = json_lines("status", state)
    assert now["protects"]["unit"] == "person"
    assert now["streams"][0]["records"] == 950


def test_what_is_made_verifies(folder: Path) -> None:
    for place in ("gate.state", "out"):
        done = tidegate("verify", str(folder / place))
        assert done.returncode == 0, done.stdout


def test_no_id_and_no_keyed_id_gets_out(folder: Path) -> None:
    """Into no output of a command that others may see, and into no published file."""
    state = str(folder / "gate.state")
    said = [
        tidegate(*words, *form).stdout
        for words in (("status", state), ("releases", state), ("ledger", state), ("verify", state))
        for form in ((), ("--format", "json"))
    ]
    with Gate.look(folder / "gate.state") as gate:
        said += [json.dumps(release.card) for release in gate.releases()]
        said += [json.dumps(gate.about.entries())]
    files = [path for path in (folder / "out").rglob("*") if path.is_file()]
    assert files
    published = b"".join(path.read_bytes() for path in files)
    everything = "".join(said).encode() + published
    assert SECRET.encode() not in everything
    key = bytes.fromhex((folder / "gate.state" / "person.key").read_text())
    assert key.hex().encode() not in everything
    owners = owners_of(sorted(set(names(950))), key).owners
    for words in owners.tolist():
        raw = np.array(words, ">u8").tobytes()
        for form in (raw, raw[::-1], raw.hex().encode(), str(words[0]).encode()):
            assert form not in everything


def test_a_run_says_nothing_about_ids(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text(f"a,b,c,y,p\n1,1,1,0,{HUGE}\n1,1,1,0,\n1,1,1,0,{SECRET}\n")
    done = tidegate("ingest", str(folder / "gate.state"), str(tmp_path / "bad.csv"))
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stdout + done.stderr
    (tmp_path / "none.csv").write_text("a,b,c,y\n1,1,1,0\n")
    done = tidegate("ingest", str(folder / "gate.state"), str(tmp_path / "none.csv"))
    assert done.returncode == 2
    assert "column p is not in" in done.stderr
    assert len(done.stderr.splitlines()) == 1

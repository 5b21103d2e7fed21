"""How many records of each step count: for the operator, and in nothing that is public."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.run import tidegate
from tests.state.gatelife import opened
from tests.state.owned import Naive, admission, new_store, owner, take_step
from tests.state.personlife import STEP, feed, settings
from tidegate.cli.fleet import Member, MemberStatus, member_row
from tidegate.privacy.person import Person
from tidegate.release import canonical
from tidegate.run.step_admission import StepAdmission, warning
from tidegate.schedule import Fading, Independent, Span
from tidegate.state import person_log
from tidegate.state.person_log import persons_text
from tidegate.state.status import public_status, status

FADING = Fading(step=20)
CROWD = 40
"""So few persons that, with 2 contributions, nobody is left soon."""


def written(folder: Path, steps: int, **person: Any) -> Path:
    """A configuration and records of which few count in the end."""
    rng = np.random.default_rng(3)
    rows = [
        f"{rng.normal():.3f},{slot % 2},{'' if slot % 50 == 0 else f'p{rng.integers(CROWD)}'}"
        for slot in range(steps * STEP)
    ]
    (folder / "in.csv").write_text("x,y,who\n" + "\n".join(rows) + "\n")
    text = f"""
        [schedule]
        kind = "fading"
        step = {STEP}
        [budget]
        epsilon = 1.0
        delta = 1e-6
        [records]
        columns = ["x"]
        label = "y"
        classes = [0, 1]
        norm = 1.0
        [source]
        type = "csv"
        path = "{folder / "in.csv"}"
        """
    if person:
        text += "[person]\nid = 'who'\n" + "\n".join(f"{k} = {v}" for k, v in person.items())
    (folder / "tidegate.toml").write_text(text)
    return folder / "tidegate.toml"


def test_counts_are_those_of_a_naive_ledger_and_stay_when_records_go(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    known = admission(Independent(step=20), 2)
    naive, wanted = Naive(known), []
    with closing(new_store(tmp_path / "state")) as store:
        for step in range(8):
            persons = rng.integers(-1, 15, 20).tolist()
            take_step(store, persons, known)
            counts = naive.step(persons)
            real = sum(owner(each) != (0, 0) for each in persons)
            wanted.append((Span(20 * step, 20 * step + 20), real, sum(counts)))
        store.forget("records", 160)
        found = store.admissions()
        assert [(each.span, each.records, each.counted) for each in found] == wanted
        assert store.admissions(3) == found[-3:]
    assert wanted[0][1] == wanted[0][2] > wanted[-1][2]


def test_run_and_status_tell_the_share_and_warn_below_half(tmp_path: Path) -> None:
    config = written(tmp_path, 6, contributions=2)
    done = tidegate("run", str(config))
    assert done.returncode == 0, done.stderr
    releases = [line for line in done.stdout.splitlines() if line.startswith("release ")]
    assert releases[0].endswith("; 100.0% of the newest 98 records with a person count")
    assert releases[-1].endswith("; 0.0% of the newest 98 records with a person count")
    warned = [line for line in done.stderr.splitlines() if "with a person count" in line]
    assert len(warned) == 1, "once, when few begin to count"
    for word in ("contributions = 2", "a period", "longer steps", "memory", "do not publish"):
        assert word in warned[0]
    state = str(tmp_path / "tidegate.state")
    (row,) = json.loads(tidegate("status", state, "--format", "json").stdout)["streams"]
    shares = [each["share"] for each in row["admitted_steps"]]
    assert [each["stop"] for each in row["admitted_steps"]] == [100, 200, 300, 400, 500, 600]
    assert shares[0] == 1.0
    assert row["admitted"] == shares[-1] == 0.0
    told = tidegate("status", state).stdout
    assert "admitted" in told
    assert "0.0% of the newest 98 records with a person count" in told
    assert "All of [person] is fixed" in told


def test_json_lines_of_run_have_the_share(tmp_path: Path) -> None:
    config = written(tmp_path, 4, contributions=2)
    done = tidegate("run", str(config), "--format", "json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0]["admitted"] == 1.0
    assert rows[-1]["admitted"] < 0.5
    assert "with a person count" in done.stderr
    assert not tidegate("run", str(config), "--quiet").stderr


def test_where_records_are_protected_nothing_is_said(tmp_path: Path) -> None:
    config = written(tmp_path, 3)
    done = tidegate("run", str(config), "--format", "json")
    assert "admitted" not in json.loads(done.stdout.splitlines()[0])
    told = tidegate("status", str(tmp_path / "tidegate.state"), "--format", "json")
    assert "admitted" not in told.stdout


def test_a_fleet_has_the_least_share_of_a_member(tmp_path: Path) -> None:
    with opened(tmp_path / "state", settings("life")) as gate:
        feed(gate)
        least = gate.store.admissions()[-1].share
    member = Member(name="north", config=settings("life"), folder=tmp_path / "state")
    row = member_row(member, MemberStatus(state="finished"))
    assert least is not None
    assert row["admitted"] == least > 0


def test_fleet_status_warns_of_each_member_with_few(tmp_path: Path) -> None:
    text = written(tmp_path, 6, contributions=2).read_text()
    (tmp_path / "south.csv").write_text((tmp_path / "in.csv").read_text())
    crowd = [f"0.5,{slot % 2},q{slot}" for slot in range(6 * STEP)]
    (tmp_path / "north.csv").write_text("x,y,who\n" + "\n".join(crowd) + "\n")
    fleet = tmp_path / "fleet.toml"
    text = text.replace("in.csv", "{member}.csv")
    fleet.write_text(f"{text}\n[members.north]\n[members.south]\n")
    assert tidegate("fleet", "run", str(fleet), "--quiet").returncode == 0
    said = tidegate("fleet", "status", str(fleet), COLUMNS="200").stdout.splitlines()
    (line,) = [each for each in said if "records count" in each]
    assert line == (
        "south: 0.0% of the newest step's records count; its tidegate status says what to do"
    )
    rows = map(
        json.loads, tidegate("fleet", "status", str(fleet), "--format", "json").stdout.splitlines()
    )
    assert {row["member"]: row["admitted"] for row in rows} == {"north": 1.0, "south": 0.0}
    state = tidegate("status", str(tmp_path / "fleet.state" / "south")).stdout
    assert "All of [person] is fixed" in state, "which says what to do"


def test_nothing_public_has_it(tmp_path: Path) -> None:
    publish = {"folder": str(tmp_path / "out")}
    with opened(tmp_path / "state", settings("life", publish=publish)) as gate:
        feed(gate)
        view = gate.ledger_view()
        view.read()
        assert "admitted" in status(gate)["streams"][0]
        public = [json.dumps(public_status(gate, view))]
        public += [json.dumps(release.card) for release in gate.releases(0)]
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert files
    for text in [*public, *(path.read_bytes().decode("latin-1") for path in files)]:
        assert "admitted" not in text
        assert "counted" not in text


@pytest.mark.parametrize("said", ["as it is", "by an earlier version", "wrongly"])
def test_verify_accepts_right_counts_and_none(
    tmp_path: Path, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def text(*given: Any) -> str:
        found = json.loads(persons_text(*given, counts=said != "by an earlier version"))
        return canonical({**found, "counted": 1} if said == "wrongly" else found)

    monkeypatch.setattr(person_log, "persons_text", text)
    known = admission(FADING, 2)
    with closing(new_store(tmp_path / "state")) as store:
        for _ in range(3):
            take_step(store, list(range(20)), known)
        problems = [each.what for each in store.verify_persons(known)]
        found = store.admissions()
    assert len(found) == (0 if said == "by an earlier version" else 3)
    assert bool(problems) == (said == "wrongly")
    assert all("which of its slots count, were changed" in each for each in problems)


def test_a_share_of_no_records_is_none_and_impossible_counts_are_refused() -> None:
    nobody = StepAdmission(stream="target", span=Span(0, 5), records=0, counted=0)
    assert nobody.share is None
    assert not nobody.few
    assert nobody.in_words() == "none of the newest 5 target records has a person"
    for records, counted in ((6, 1), (3, 4), (3, -1)):
        with pytest.raises(ValueError, match=str(counted)):
            StepAdmission(stream="records", span=Span(0, 5), records=records, counted=counted)


def test_the_warning_knows_the_period() -> None:
    step = StepAdmission(stream="records", span=Span(0, 5), records=5, counted=1)
    assert "a shorter period than 40 steps" in warning(step, Person(contributions=2, period=40))

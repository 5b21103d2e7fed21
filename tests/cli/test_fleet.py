"""A fleet ends as each of its members alone would, whatever happens to the others or to it."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import LocalCluster

from tests.cli.run import process, tidegate
from tests.state.commands import grow
from tests.state.gate_files import HEADER, LEARNER, config_text, publish_table, source_table
from tests.state.natsserver import Server, needs_server
from tests.state.object_store import objects
from tests.state.postgres_server import needs_postgres, on_server
from tests.state.sent import messages
from tidegate.cli import fleet as fleets
from tidegate.cli.fleet import Fleet, Member, MemberStatus, member_row
from tidegate.gate import Gate
from tidegate.state.damage import HISTORY
from tidegate.state.publish_folder import newest_published

MEMBERS = {"north": "", "south": "", "east": "budget.epsilon = 0.5\n"}
RECORDS = {"north": 700, "south": 400, "east": 500}


def shared(folder: Path) -> str:
    """What all members of a fleet in a folder have in common."""
    tables = source_table(folder / "{member}.csv"), publish_table(folder / "out" / "{member}")
    return config_text(LEARNER, *tables)


def make(folder: Path, members: dict[str, str] = MEMBERS) -> str:
    """A fleet in a folder, with records for the members that are known."""
    text = shared(folder)
    text += "".join(f"[members.{name}]\n{own}" for name, own in members.items())
    (folder / "fleet.toml").write_text(text)
    for name, n in RECORDS.items():
        (folder / f"{name}.csv").write_text(HEADER)
        grow(folder, 0, n, name=name)
    return str(folder / "fleet.toml")


def models(folder: Path) -> list[Any]:
    """All that a state has released, but for the time, and what follows from that."""
    with Gate.look(folder) as gate:
        timeless = {"time": None, HISTORY: None}
        return [({**one.card, **timeless}, one.weights.tobytes()) for one in gate.releases()]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What each member releases in a run of its own."""
    folder, found = tmp_path_factory.mktemp("alone"), {}
    make(folder)
    for name, own in MEMBERS.items():
        text = shared(folder).replace("{member}", name).replace("/out/", "/alone/")
        text = text.replace("epsilon = 1.0", own.removeprefix("budget.").strip() or "epsilon = 1.0")
        (folder / f"{name}.toml").write_text(text)
        assert tidegate("run", str(folder / f"{name}.toml"), "--quiet").returncode == 0
        found[name] = models(folder / f"{name}.state")
    return found


def rows(config: str) -> dict[str, dict[str, Any]]:
    done = tidegate("fleet", "status", config, "--format", "json")
    assert done.returncode == 0, done.stderr
    return {row["member"]: row for row in map(json.loads, done.stdout.splitlines())}


@pytest.mark.thorough
def test_a_fleet_is_its_members_and_one_that_fails_stops_no_other(
    tmp_path: Path, alone: dict[str, list[Any]]
) -> None:
    config = make(tmp_path, {"broken": "", **MEMBERS})
    assert {row["state"] for row in rows(config).values()} == {"new"}
    done = tidegate("fleet", "run", config, "--workers", "2")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    reason = "No such file or directory; check the path and permissions"
    why = f"{tmp_path}/broken.csv cannot be read: {reason}"
    assert line == f"tidegate: broken failed: {why}"
    assert done.stdout.splitlines()[-1] == f"broken failed: {why}"
    for name in MEMBERS:
        assert models(tmp_path / "fleet.state" / name) == alone[name]
        assert newest_published(tmp_path / "out" / name) == len(alone[name]) - 1
    found = rows(config)
    assert {name: row["state"] for name, row in found.items()} == {
        "broken": "failed",
        **dict.fromkeys(MEMBERS, "finished"),
    }
    assert found["broken"]["why"] == why
    assert {name: row["records"] for name, row in found.items() if name in RECORDS} == RECORDS
    assert [found[name]["epsilon"] for name in ("north", "east")] == [1.0, 0.5]
    assert all(0 < found[name]["worst_share"] <= 1 for name in MEMBERS)
    assert found["north"]["held_records"] < 400
    sound = tidegate("fleet", "verify", config)
    assert (sound.returncode, sound.stdout) == (0, "Sound: 4 members.\n")
    (tmp_path / "broken.csv").write_text(HEADER)  # repaired, and run again
    assert tidegate("fleet", "run", config, "--quiet") == (0, "", "")
    assert {row["state"] for row in rows(config).values()} == {"finished"}


@pytest.mark.parametrize("columns", [80, 120])
def test_the_status_fits_a_line(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long, many = "a-rather-long-name-for-a-member", {"records": 123_456_789, "unusable": 1_234_567}
    newest = {"newest": "2026-01-02T03:04:05+00:00", "releases": 12_345, "worst_share": 2 / 3}

    def row(member: Member, status: MemberStatus) -> dict[str, Any]:
        told = member_row(member, status) | many | newest | {"epsilon": 0.123, "delta": 1e-6}
        return told | {"state": "finished", "held_records": 123_456_789}

    monkeypatch.setattr("tidegate.cli.fleet_command.member_row", row)
    shown = tidegate("fleet", "status", make(tmp_path, {long: ""}), COLUMNS=str(columns)).stdout
    lines = shown.splitlines()
    heads, *_ = told = [" ".join(line.split()) for line in lines[1:]]
    assert heads == "member state records unusable releases newest share"
    assert told[2].endswith("finished 123,456,789 1,234,567 12,345 2026-01-02 03:04 0.6667")
    assert "".join(line.split(" ")[0] for line in lines[3:]) == long
    assert max(map(len, lines)) <= columns


@pytest.mark.slow
@needs_postgres
def test_members_share_a_database_and_a_bucket(tmp_path: Path, alone: dict[str, list[Any]]) -> None:
    config = Path(make(tmp_path))
    store = f'[store]\ndatabase = "{on_server().database}"\nsegments = "{objects().uri}"\n'
    config.write_text(config.read_text().replace("[members.", f"{store}[members.", 1))
    done = tidegate("fleet", "run", str(config), "--quiet")
    assert done.returncode == 0, done.stderr
    for name, expected in alone.items():
        assert models(tmp_path / "fleet.state" / name) == expected
        state = str(tmp_path / "fleet.state" / name)
        assert tidegate("verify", state, "--connect").returncode == 0
    assert {row["state"] for row in rows(str(config)).values()} == {"finished"}


LARGE = """
not_private_seed = 7
[schedule]
kind = "growing"
block = 70000
step = 70000
[budget]
epsilon = 1.0
delta = 1e-6
[records]
classes = [0, 1]
norm = 2.0
columns = ["a", "b"]
label = "y"
[source]
type = "parquet"
path = "{folder}/{{member}}.parquet"
[compute]
{compute}
[members.north]
[members.south]
"""


@pytest.mark.slow
def test_members_share_a_cluster(tmp_path: Path) -> None:
    """Their bases are too large to be made at home, and come out as they would there."""
    rng = np.random.default_rng(0)
    for name in ("north", "south"):
        y = rng.integers(2, size=150_000)
        columns = {column: rng.normal(size=y.size) + y for column in ("a", "b")}
        pq.write_table(pa.table({**columns, "y": y}), tmp_path / f"{name}.parquet")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        address = f'engine = "dask"\nscheduler = "{cluster.scheduler_address}"'
        for name, compute in {"home": 'engine = "memory"', "there": address}.items():
            config = tmp_path / f"{name}.toml"
            config.write_text(LARGE.format(folder=tmp_path, compute=compute))
            done = process("fleet", "run", str(config), "--quiet")
            assert (done.returncode, done.stderr) == (0, "")
    for name in ("north", "south"):
        home, there = (models(tmp_path / f"{place}.state" / name) for place in ("home", "there"))
        assert len(home) == 2
        assert home == there


@pytest.mark.thorough
def test_members_take_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: dict[str, list[Any]]
) -> None:
    make(tmp_path, {name: MEMBERS[name] for name in ("south", "east")})
    monkeypatch.setattr(fleets, "SLICE", 0.0)
    order: list[str] = []

    def on_turn(member: Member, status: MemberStatus, turn: fleets.Turn) -> None:
        assert turn.more == (status.state == "running")
        order.append(member.name)

    statuses = fleets.run_fleet(
        Fleet.load(tmp_path / "fleet.toml"), workers=1, follow=False, on_turn=on_turn
    )
    assert statuses == dict.fromkeys(["south", "east"], MemberStatus(state="finished"))
    least = order.count("south")  # of the member with the fewest steps
    assert least >= 5
    assert order[: 2 * least] == ["south", "east"] * least
    for name in ("south", "east"):
        assert models(tmp_path / "fleet.state" / name) == alone[name]


def test_verify_names_the_member(tmp_path: Path) -> None:
    config = make(tmp_path, {"south": ""})
    assert tidegate("fleet", "run", config, "--quiet").returncode == 0
    min((tmp_path / "out" / "south").glob("*.json")).write_text("{}")
    done = tidegate("fleet", "verify", config)
    assert done.returncode == 1
    assert done.stdout.startswith("south: ")


@pytest.mark.parametrize("notes", ["", "[]", '{"south": {"state": "failed", "since": 1}}', "7"])
def test_torn_notes_do_not_hide_the_members(tmp_path: Path, notes: str) -> None:
    make(tmp_path)
    (tmp_path / "fleet.state" / "south").mkdir(parents=True)
    (tmp_path / "fleet.state" / "members.json").write_text(notes)
    found = {
        name: status.state
        for name, status in Fleet.load(tmp_path / "fleet.toml").statuses().items()
    }
    assert found == {"north": "new", "south": "stopped", "east": "new"}


def test_a_damaged_member_does_not_hide_the_others(tmp_path: Path) -> None:
    config, damaged = make(tmp_path), tmp_path / "fleet.state" / "south"
    damaged.mkdir(parents=True)
    (damaged / "state.db").write_bytes(b"no database" * 100)
    found = rows(config)
    assert {name: row["state"] for name, row in found.items()} == {
        "north": "new",
        "south": "failed",
        "east": "new",
    }
    assert "file is not a database" in found["south"]["why"]
    shown = tidegate("fleet", "status", config)
    assert shown.returncode == 0
    assert shown.stdout.splitlines()[-1] == f"south failed: {found['south']['why']}"
    done = tidegate("fleet", "verify", config)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == f"south: {damaged}: {found['south']['why']}\n"


def started(config: str, *more: str) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "tidegate", "fleet", "run", config, "--quiet", *more]
    return subprocess.Popen(words)


@pytest.mark.thorough
def test_killed_and_resumed(tmp_path: Path, alone: dict[str, list[Any]]) -> None:
    config = make(tmp_path)
    run, until = started(config, "--follow"), time.monotonic() + 30
    while rows(config)["south"]["state"] != "waiting" and time.monotonic() < until:
        time.sleep(0.1)
    assert rows(config)["south"]["releases"] == 2
    second = tidegate("fleet", "run", config)
    assert second.returncode == 2
    assert "is in use by process" in second.stderr
    kill(run)
    assert rows(config)["south"]["state"] == "stopped"
    goes_on(config, tmp_path, alone)


def kill(run: subprocess.Popen[bytes]) -> None:
    run.send_signal(signal.SIGKILL)
    run.wait()


def goes_on(config: str, folder: Path, expected: dict[str, list[Any]]) -> None:
    """Run to the end, which is as if nothing had happened."""
    assert tidegate("fleet", "run", config, "--quiet") == (0, "", "")
    for name in MEMBERS:
        assert models(folder / "fleet.state" / name) == expected[name]
    assert tidegate("fleet", "verify", config, "--quiet") == (0, "", "")


@pytest.mark.slow
def test_killed_again_and_again(tmp_path: Path, alone: dict[str, list[Any]]) -> None:
    config, rng = make(tmp_path), random.Random(os.getpid())
    for _ in range(20):
        run = started(config, "--workers", "2", "--follow")
        time.sleep(rng.uniform(1.5, 4.0))  # it takes more than a second to start
        kill(run)
        assert "running" not in {row["state"] for row in rows(config).values()}
    goes_on(config, tmp_path, alone)


@pytest.mark.slow
def test_a_process_that_is_killed_fails_its_member_only(
    tmp_path: Path, alone: dict[str, list[Any]]
) -> None:
    config = make(tmp_path)
    done = process("fleet", "run", config, "--quiet", TIDEGATE_FAILPOINT="publish.commit:5")
    assert done.returncode == 2
    killed = "failed: its process died (exit code -9); run the command again to continue"
    assert sorted(done.stderr.splitlines()) == [
        f"tidegate: {name} {killed}" for name in ("east", "north")
    ]  # south has but four steps
    assert rows(config)["south"]["state"] == "finished"
    goes_on(config, tmp_path, alone)


@pytest.mark.slow
@needs_server
def test_members_that_share_a_broker(tmp_path: Path, alone: dict[str, list[Any]]) -> None:
    text = shared(tmp_path)
    source = 'type = "csv"\npath = "' + f"{tmp_path}/" + '{member}.csv"\n'
    with Server(tmp_path / "server") as server:
        table = f'type = "nats"\nurl = "{server.url}"\nstream = "records"\n'
        table += 'subject = "records.{member}"\n'
        assert source in text
        members = "".join(f"[members.{name}]\n{own}" for name, own in MEMBERS.items())
        config = tmp_path / "fleet.toml"
        config.write_text(text.replace(source, table) + members)
        server.make()
        run = started(str(config), "--follow", "--workers", "2")
        for start in range(0, max(RECORDS.values()), 100):
            for name, n in RECORDS.items():
                if start < n:
                    server.send(messages(start, 100), f"records.{name}")
            if start % 300 == 0:
                server.kill()
                time.sleep(0.3)
                server.start()
        until = time.monotonic() + 60
        while time.monotonic() < until and any(
            row["releases"] < len(alone[name]) for name, row in rows(str(config)).items()
        ):
            time.sleep(0.2)
        kill(run)
        goes_on(str(config), tmp_path, alone)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ("", "names no members"),
        ("[members.North]", "members.North: the name must be a letter or digit"),
        ("[members]\nnorth = 1", "members.north: must be a table, headed"),
        ("[members.a]\nbudget.epsilom = 1", "members.a: budget.epsilom is not a known key"),
        ("[members.a]\nsource.path = '-'\nsource.type = 'jsonl'", "must not be standard input"),
        (
            "[members.a]\nsource.path = 'x'\n[members.b]\nsource = {path = './x', follow = true}",
            "x, which members.a reads: write {member} where they differ",
        ),
        ("[members.lock]", "members.lock: the name must not be lock"),
        (
            "[members.a]\npublish.folder = 'x'\n[members.b]\npublish.folder = 'x'",
            "members.b: publish.folder must not be that of members.a",
        ),
    ],
)
def test_mistakes_are_named(tmp_path: Path, members: str, told: str) -> None:
    config = tmp_path / "fleet.toml"
    config.write_text(shared(tmp_path) + members)
    done = tidegate("fleet", "run", str(config))
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "fleet.state").exists()


SOURCES = """
budget.epsilon = 1.0
records = {classes = [0, 1], norm = 1.5, columns = ["a"], label = "y"}
[members.wards]
schedule = {kind = "sliding", window = 300, step = 100}
source = {type = "nats", url = ["nats://one", "nats://two"], stream = "s", subject = "ward.>"}
[members.both]
schedule = {kind = "twostream", step = 100, source = {kind = "cumulative", block = 200}}
source.source = {type = "kafka", servers = ["one:9092", "two:9092"], topic = "t"}
source.target = {type = "csv", path = "records/new"}
[members.other]
schedule = {kind = "sliding", window = 300, step = 100}
"""


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            'type = "nats", url = "nats://two:4222", stream = "s", subject = "*.north"',
            "stream s at two:4222 (*.north and ward.>), which members.wards reads",
        ),
        (
            'type = "kafka", servers = ["three:9092", "ONE:9092"], topic = "t"',
            "topic t at one:9092, which members.both reads",
        ),
        ('type = "csv", path = "records/./new/monday.csv"', "which members.both reads"),
        ('type = "csv", path = "records"', "which members.both reads"),
        ('type = "csv", path = "records/old"', None),
    ],
)
def test_no_record_pays_in_two_ledgers(tmp_path: Path, source: str, told: str | None) -> None:
    (tmp_path / "fleet.toml").write_text(f"{SOURCES}source = {{{source}}}\n")
    done = tidegate("fleet", "status", str(tmp_path / "fleet.toml"))
    assert done.returncode == (0 if told is None else 2)
    assert len(done.stderr.splitlines()) == (told is not None)
    if told is not None:
        assert done.stderr.startswith("tidegate: members.other: source must not read ")
        assert told in done.stderr


def test_the_fleet_of_the_documentation_is_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "fleet.md").read_text()
    (tmp_path / "fleet.toml").write_text(text.split("```toml\n")[1].split("```")[0])
    fleet = Fleet.load(tmp_path / "fleet.toml")
    assert [member.name for member in fleet.members] == ["north", "south", "children"]


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    config = tmp_path / "fleet.toml"
    config.write_text(shared(tmp_path) + "[members.a]\nbudget.epsilon = 0\n[members.b]\nx = 1\n")
    done = tidegate("fleet", "status", str(config))
    assert "members.a: budget.epsilon must be" in done.stderr
    assert "members.b: x is not a known key" in done.stderr


def test_statuses_are_kept(tmp_path: Path) -> None:
    make(tmp_path)
    fleet = Fleet.load(tmp_path / "fleet.toml")
    fleet.root.mkdir()
    assert fleet.statuses()["north"] == MemberStatus(state="new")
    fleet.write(
        {"north": MemberStatus(state="failed", why="so"), "south": MemberStatus(state="running")}
    )
    assert fleet.statuses()["north"] == MemberStatus(state="failed", why="so")
    assert fleet.statuses()["south"] == MemberStatus(state="stopped")  # nobody goes on with it

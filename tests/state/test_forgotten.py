"""What is forgotten is in no file of the state: no byte of a record, no text of the quarantine."""

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.state import forgetful
from tests.state.gatelife import config, opened
from tests.state.marked import batch, found, marks
from tidegate.failpoints import NAMES
from tidegate.gate import Gate
from tidegate.schedule import Span
from tidegate.state import state_database
from tidegate.state.database import PAGE
from tidegate.state.folder_store import FolderStore

# children come from a process that has everything imported and no threads: quick and safe
children = get_context("forkserver")
children.set_forkserver_preload(["tests.state.workload", "tests.state.forgetful"])

TABLE_OR_INDEX = (2, 5, 10, 13)
"""What the pages begin with that hold rows, or the beginnings of long ones."""

PROMISED, PATIENT = 1.0, 30.0
"""Seconds after which nothing is left, and for which a busy machine is waited for."""


def left(folder: Path, held: Callable[[], set[int]], within: float = PATIENT) -> set[int]:
    """What of records that are not held is still in files when some seconds are over."""
    end = time.monotonic() + within
    while (remains := found(folder) - held()) and time.monotonic() < end:
        time.sleep(0.02)
    return remains


def held(store: FolderStore, **first: int) -> set[int]:
    """The marks of the records that a store holds."""
    return {
        first.get(segment.stream, 0) + slot
        for segment in store.held()
        for slot in range(*segment.span)
    }


class Act(NamedTuple):
    """Something that happens to a store."""

    what: str
    stream: str
    n: int
    times: int


FIRST = {"a": 0, "b": 30_000}

acts = st.builds(
    Act,
    st.sampled_from(["append", "append", "append", "forget", "undo", "look", "look away"]),
    st.sampled_from(list(FIRST)),
    st.sampled_from([1, 2, 3, 7, 20, 90]),
    st.sampled_from([1, 4, 30, 100, 900]),
)


class UndoneError(Exception):
    """Ends a transaction."""


lives = given(
    acts=st.lists(acts, min_size=20, max_size=60),
    cut=st.sampled_from([1, 4, 10, 64]),
    width=st.sampled_from([1, 3, 40, 300]),
    segment_records=st.sampled_from([8, 1024, 65536]),
)


@pytest.mark.thorough
@settings(max_examples=10, deadline=None)
@lives
@example(
    acts=[Act(what, "a", 7, 30) for what in ("append", "append", "forget") * 12],
    cut=4,
    width=3,
    segment_records=65536,
)
def test_nothing_of_what_is_forgotten_stays(
    acts: list[Act], cut: int, width: int, segment_records: int
) -> None:
    lived(acts, cut, width, segment_records)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@lives
def test_nothing_of_what_is_forgotten_stays_in_many_lives(
    acts: list[Act], cut: int, width: int, segment_records: int
) -> None:
    lived(acts, cut, width, segment_records)


def lived(acts: list[Act], cut: int, width: int, segment_records: int) -> None:
    """Have a store live through what happens, and look for what it has forgotten."""
    with (
        tempfile.TemporaryDirectory() as name,
        patch.object(state_database, "SCRUB_INTERVAL", 0.01),
    ):
        folder = Path(name) / "state"
        store = FolderStore(folder, "config", segment_records=segment_records)
        reader: FolderStore | None = None
        counts = dict.fromkeys(FIRST, 0)
        for what, stream, n, times in acts:
            more = {"first": FIRST[stream], "cut": cut, "width": width, "times": times}
            new = batch(stream, counts[stream], n, **more)
            if what == "append":
                counts[stream] = store.append(new)
            elif what == "undo":
                point = patch("tidegate.state.state_database.failpoint", side_effect=UndoneError)
                with point, pytest.raises(UndoneError):
                    store.append(new)
                store.sweep()  # files that were written for it
            elif what == "forget":
                store.forget(stream, counts[stream] - n - (counts[stream] - n) % cut)
                if reader is None:
                    assert not left(folder, lambda: held(store, **FIRST))
            elif what == "look" and reader is None:
                reader = FolderStore(folder, read_only=True)
                reader._db.begin_reading()
            elif what == "look away" and reader is not None:
                reader.close()
                reader = None
        if reader is not None:
            reader.close()
        for stream, count in counts.items():
            store.forget(stream, count - count % cut)
        assert not left(folder, lambda: held(store, **FIRST))
        assert not list(store.verify())
        store.close()
        assert found(folder) <= held_by(folder)


def held_by(folder: Path) -> set[int]:
    with closing(FolderStore(folder, read_only=True)) as store:
        return held(store, **FIRST)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("width", [1, 40, 300])
def test_no_byte_of_a_record_is_where_rows_may_be_moved(tmp_path: Path, n: int, width: int) -> None:
    """When SQLite moves rows from one page of a table to another it leaves copies of them."""
    with closing(FolderStore(tmp_path, "config")) as store:
        for start in range(0, 300, n):
            store.append(batch("records", start, n, width=width, cut=20, times=0))
    data = (tmp_path / "state.db").read_bytes()
    pages = [data[at : at + PAGE] for at in range(0, len(data), PAGE)]
    assert marks(data) == set(range(300))
    assert not marks(b"".join(page for page in pages if page[0] in TABLE_OR_INDEX))


def test_the_zeros_before_a_record_are_checked_too(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "config")) as store:
        store.append(batch("records", 0, 5))
        (whole,) = store._db.execute("SELECT data FROM segments").fetchone()
        for at in (0, PAGE - 1, PAGE, len(whole) - 1):
            damaged = bytearray(whole)
            damaged[at] ^= 1
            store._db.execute("UPDATE segments SET data = ?", (bytes(damaged),))
            assert [problem.where for problem in store.verify()] == ["records"]
        store._db.execute("UPDATE segments SET data = ?", (whole[PAGE:],))  # of a state without
        assert not list(store.verify())


def test_the_quarantine_only_grows_at_its_end(tmp_path: Path) -> None:
    """Only then does SQLite never move its rows; they are made shorter, but not deleted."""
    with closing(FolderStore(tmp_path, "config")) as store:
        query = "SELECT sql FROM sqlite_master WHERE name = 'quarantine'"
        assert "ROWID" not in store._db.execute(query).fetchone()[0]
        store.append(batch("a", 0, 30, cut=10))
        store.append(batch("b", 0, 30, cut=10))
        store.append(batch("a", 30, 30, cut=10))
        query = "SELECT rowid, stream, slot FROM quarantine ORDER BY rowid"
        before = store._db.execute(query).fetchall()
        assert [row[1] for row in before] == ["a"] * 10 + ["b"] * 10 + ["a"] * 10
        store.forget("a", 40)
        assert store._db.execute(query).fetchall() == before


def killed(life: Callable[..., None], folder: Path, failpoint: str) -> bool:
    """Whether a child was killed at a failpoint; else it has come to its end."""
    child = children.Process(target=life, args=(folder, failpoint))
    child.start()
    child.join(60)
    assert child.exitcode in {0, -signal.SIGKILL}
    return bool(child.exitcode)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_stays_after_a_kill_and_an_opening(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "state"
    if name == "sweep.unlink":
        assert killed(forgetful.live, folder, "segment.folder:3")
    assert killed(forgetful.live, folder, name)
    for passed in (2, 5, 9):
        with closing(forgetful.opened(folder)) as store:
            forgetful.catch_up(store)
            assert not left(folder, lambda: held(store))
        if not killed(forgetful.live, folder, f"{name}:{passed}"):
            break
    with closing(forgetful.opened(folder)) as store:
        forgetful.catch_up(store)
        assert not left(folder, lambda: held(store))
        assert found(folder)  # or nothing would be shown


def needed(gate: Gate) -> set[int]:
    """The records that fits to come will read."""
    return set(range(gate.progress.needed("records"), gate.store.count("records")))


def test_nothing_stays_in_the_state_of_a_gate(tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        for start in range(0, 2000, 250):
            gate.ingest(*forgetful.marked_stream(start, 250))
            assert not left(tmp_path, lambda: needed(gate))
        assert gate.progress.needed("records") == 1400
        assert found(tmp_path) == set(range(1400, 2000))  # those that cannot be used by digits


@pytest.mark.parametrize("name", ["publish.done", "forget.commit", "forget.done", "forget.scrub"])
def test_nothing_stays_after_a_gate_is_killed(tmp_path: Path, name: str) -> None:
    for passed in (1, 3):
        assert killed(forgetful.gate, tmp_path / "state", f"{name}:{passed}")
        with opened(tmp_path / "state", config()) as gate:
            assert not left(tmp_path, lambda: needed(gate))


def reader(folder: Path) -> tuple[Any, Any]:
    """Another process that looks at a state, and how to tell it to stop."""
    ours, theirs = children.Pipe()
    child = children.Process(target=forgetful.look, args=(folder, theirs))
    child.start()
    assert ours.poll(60)
    return child, ours


def prepared(folder: Path) -> FolderStore:
    """A store with records that wait, in rows and in files."""
    store = FolderStore(folder, "config")
    for n in forgetful.SIZES:
        store.append(batch("records", store.count("records"), n, cut=forgetful.STEP, times=30))
    return store


@pytest.mark.parametrize("killed", [False, True])
def test_nothing_stays_once_the_last_reader_has_ended(tmp_path: Path, killed: bool) -> None:
    with closing(prepared(tmp_path)) as store:
        child, pipe = reader(tmp_path)
        store.forget("records", 210)
        store.append(batch("records", store.count("records"), 2, cut=forgetful.STEP))
        store.forget("records", 280)
        assert left(tmp_path, lambda: held(store), within=0.6)  # what is looked at is still there
        if killed:
            os.kill(child.pid, signal.SIGKILL)
        else:
            pipe.send("stop")
        child.join(60)
        assert not left(tmp_path, lambda: held(store))
        assert set(range(280, 343)) <= found(tmp_path)


def test_nothing_stays_once_a_reader_has_outlived_the_gate(tmp_path: Path) -> None:
    with closing(prepared(tmp_path)) as store:
        child, pipe = reader(tmp_path)
        store.forget("records", 280)
    assert 0 in found(tmp_path)
    pipe.send("stop")
    child.join(60)
    assert not left(tmp_path, lambda: held_by(tmp_path))


def test_a_look_of_its_own_is_no_obstacle(tmp_path: Path) -> None:
    with closing(prepared(tmp_path)) as store, closing(prepared(tmp_path / "other")) as other:
        with other.snapshot():
            other._state.scrubbing.scrub()  # it is read by the very connection
        with closing(FolderStore(tmp_path, read_only=True)) as idle:
            assert idle.count("records") == store.count("records")
            store.forget("records", 280)
            assert not left(tmp_path, lambda: held(store) | held(other))
        other.forget("records", 280)
        assert not left(tmp_path, lambda: held(store) & held(other))


def test_many_steps_in_a_row_are_scrubbed_together(tmp_path: Path) -> None:
    store = prepared(tmp_path)
    with closing(store), patch.object(store._db, "scrub", wraps=store._db.scrub) as scrub:
        begun = time.monotonic()
        for before in range(0, 281, 70):
            store.forget("records", before)
        assert not left(tmp_path, lambda: held(store))
        assert scrub.call_count <= 2 + (time.monotonic() - begun) / state_database.SCRUB_INTERVAL


def test_closing_finishes_what_waits(tmp_path: Path) -> None:
    store = prepared(tmp_path)
    with closing(FolderStore(tmp_path, read_only=True)) as idle:
        assert idle.count("records")
        store.forget("records", 140)
        store.forget("records", 280)
        store.close()  # not the last to: SQLite alone would leave the log as it is
        assert found(tmp_path) == set(range(280, 341))
    for thread in threading.enumerate():
        if thread.name == "scrubbing":
            thread.join(60)


def test_a_reader_holds_up_nobody(tmp_path: Path) -> None:
    with closing(prepared(tmp_path)) as store:
        with closing(FolderStore(tmp_path, read_only=True)) as looking, looking.snapshot():
            for before in range(70, 281, 70):
                store.forget("records", before)
                store.append(batch("records", store.count("records"), 5, cut=forgetful.STEP))
            assert looking.read("records", Span(280, 341)).n == 61
        assert not left(tmp_path, lambda: held(store))


@pytest.mark.slow
def test_nothing_stays_for_longer_than_a_second(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with closing(prepared(folder)) as store:
        for before in (70, 140):
            store.forget("records", before)
            assert not left(folder, lambda: held(store), PROMISED)
        child, pipe = reader(folder)
        store.forget("records", 280)
        pipe.send("stop")
        child.join(60)
        assert not left(folder, lambda: held(store), PROMISED)
    assert killed(forgetful.live, tmp_path / "other", "forget.done:2")
    with closing(forgetful.opened(tmp_path / "other")) as store:
        assert not left(tmp_path / "other", lambda: held(store), PROMISED)

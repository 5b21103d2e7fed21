"""What is erased is in no file of the state, all else stays, and verify finds forgeries."""

import json
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.state import erasing
from tests.state.erasing import COUNT, TIME, VICTIMS, erase, prepared
from tests.state.gatelife import TWO, config, opened, stream
from tests.state.made import made
from tests.state.marked import batch, found
from tests.state.object_store import objects
from tests.state.postgres_server import needs_postgres, on_server
from tests.state.test_forgery import forge, problems
from tidegate.checks import InvalidValueError, StoreError
from tidegate.data.records import Records
from tidegate.failpoints import ERASURES
from tidegate.gate import Gate
from tidegate.learn.learner import Fitted
from tidegate.learn.slot_weights import Owned
from tidegate.run.config.tables import Locations
from tidegate.run.executor import FitJob
from tidegate.schedule import Span
from tidegate.sources import RawBatch, raw_batch
from tidegate.state import scrubbing
from tidegate.state.erasure import OnePerson, OneRecord, erased, has_content
from tidegate.state.folder_store import FolderStore
from tidegate.state.store import Batch, ErasedError
from tidegate.state.verification import verify

children = get_context("forkserver")
children.set_forkserver_preload(["tests.state.erasing"])


def left(folder: Path, gone: set[int], within: float = 30.0) -> set[int]:
    """What of erased records is still in files when some seconds are over."""
    end = time.monotonic() + within
    while (remains := found(folder) & gone) and time.monotonic() < end:
        time.sleep(0.02)
    return remains


def intact(store: FolderStore, gone: set[int], count: int = COUNT, first: int = 0) -> None:
    """All records that were not erased are as they were; of the others nothing is left."""
    read = store.read("records", Span(first, count))
    whole = batch("records", first, count - first).records
    slots = np.arange(first, count)
    kept = ~np.isin(slots, list(gone))
    assert np.array_equal(read.X[kept], whole.X[kept])
    assert read.usable[kept].all()
    assert not has_content(read, np.flatnonzero(~kept))


def test_an_erased_record_is_in_no_file(tmp_path: Path) -> None:
    with closing(prepared(tmp_path)) as store:
        gone: set[int] = set()
        for slot in VICTIMS:
            assert erase(store, slot).slots == 1
            gone.add(slot)
            assert found(tmp_path) == set(range(COUNT)) - gone  # at once
            intact(store, gone)
        assert not list(store.verify())
        assert {each.slot for each in store.quarantine("records") if not each.payload} == gone
        assert [each.number for each in store.erased()] == [1, 2, 3, 4]
    with closing(FolderStore(tmp_path)) as store:  # and later batches join what waits
        store.append(batch("records", COUNT, 60, cut=erasing.CUT))
        intact(store, set(VICTIMS), COUNT + 60)
        assert found(tmp_path) == set(range(COUNT + 60)) - gone
        assert not list(store.verify())


def test_erasing_again_changes_nothing_but_adds_a_line(tmp_path: Path) -> None:
    with closing(prepared(tmp_path)) as store:
        erase(store, 3)
        before = store.held()
        again = erase(store, 3)
        assert (again.number, again.slots) == (2, 0)
        assert store.held() == before
        assert not list(store.verify())


def test_what_is_forgotten_can_be_erased_from_the_quarantine(tmp_path: Path) -> None:
    with closing(prepared(tmp_path)) as store:
        store.forget("records", 160)
        assert [erase(store, slot).slots for slot in (6, 7, 6)] == [1, 0, 0]
        told = {each.slot: each.reason for each in store.quarantine("records")}
        assert (told[6], told[9]) == ("erased", "text")
        assert not list(store.verify())


sparse_rows = csr_array([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0], [0.0, 0.0, 4.0]])


def test_not_even_the_columns_of_sparse_rows_are_kept() -> None:
    records = Records(sparse_rows, np.ones(3, np.intp), np.ones(3, np.bool_))
    less: Any = erased(records, np.array([False, True, False]))
    assert less.X.indices.tolist() == [1, 2]
    assert less.X.toarray().tolist() == [[0, 2, 0], [0, 0, 0], [0, 0, 4]]
    assert has_content(records, np.array([1]))
    assert not has_content(less, np.array([1]))
    assert has_content(less, np.array([0, 1]))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_person_is_erased_everywhere_and_stays_the_owner(tmp_path: Path, kind: str) -> None:
    owners = np.array([[7, 7], [7, 8], [0, 0]], np.uint64)
    with closing(FolderStore(tmp_path, "config", segment_records=8)) as store:
        for name in ("a", "b"):
            for start in range(0, 30, 3):
                rows = np.full((3, 2), 1.0 + start)
                one = Records(
                    rows if kind == "dense" else csr_array(rows),
                    np.ones(3, np.intp),
                    np.array([True, True, False]),
                    owners=owners,
                )
                store.append(Batch(stream=name, records=one, cut=12))
        counts = [store.count(name) for name in "ab"]
        (line,) = store.erase([OnePerson(owners[:1])], time=TIME)
        assert line.slots == 20
        for name in "ab":
            read = store.read(name, Span(0, 30))
            assert read.owners is not None
            assert np.array_equal(read.owners, np.tile(owners, (10, 1)))
            assert not has_content(read, np.arange(0, 30, 3))
            assert read.usable.tolist() == [False, True, False] * 10
        others = [OnePerson(owners[2:]), OnePerson(np.array([[7, 9]], np.uint64))]
        nobody, unknown = store.erase(others, time=TIME)
        assert nobody.slots == unknown.slots == 0
        assert set(line.receipt()) == set(unknown.receipt()) == {"erasure", "time", "kind", "hash"}
        assert [store.count(name) for name in "ab"] == counts
        assert not list(store.verify())


@settings(max_examples=5, deadline=None)
@given(
    acts=st.lists(
        st.tuples(
            st.sampled_from(["append", "append", "erase", "erase", "forget"]), st.floats(0, 1)
        ),
        min_size=5,
        max_size=30,
    ),
    cut=st.sampled_from([4, 10, 64]),
    times=st.sampled_from([1, 30, 900]),
    segment_records=st.sampled_from([8, 65536]),
)
def test_any_order_of_appending_erasing_and_forgetting(
    acts: list[tuple[str, float]], cut: int, times: int, segment_records: int
) -> None:
    with tempfile.TemporaryDirectory() as name, patch.object(scrubbing, "SCRUB_INTERVAL", 0.01):
        folder = Path(name) / "state"
        gone: set[int] = set()
        count, first = 0, 0
        with closing(FolderStore(folder, "config", segment_records=segment_records)) as store:
            for what, part in acts:
                if what == "append":
                    n = 1 + int(part * 40)
                    count = store.append(batch("records", count, n, cut=cut, times=times))
                elif what == "erase" and count:
                    gone.add(slot := min(int(part * count), count - 1))
                    erase(store, slot)
                    assert not found(folder) & gone
                elif what == "forget" and count:
                    before = int(part * count)
                    store.forget("records", before - before % cut)
                    held = store.held()
                    first = held[0].span.start if held else count
            if first < count:
                intact(store, gone, count, first)
            assert not list(store.verify())
            assert not left(folder, gone | set(range(first)))
        assert found(folder) == set(range(first, count)) - gone


@needs_postgres
@pytest.mark.parametrize("point", ["erase.commit", "erase.done", "erase.unlink"])
def test_a_kill_with_a_server(tmp_path: Path, point: str) -> None:
    folder = tmp_path / "state"
    prepared(folder, on_server()).close()
    child = children.Process(target=erasing.live, args=(folder, f"{point}:2"))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    with closing(FolderStore(folder)) as store:
        store.sweep()
        gone = set(VICTIMS[: len(store.erased())])
        assert gone
        intact(store, gone)
        assert not list(store.verify())
        assert not found(folder) & gone  # the database is elsewhere
        for slot in VICTIMS:
            erase(store, slot)
        intact(store, set(VICTIMS))
        assert not found(folder) & set(VICTIMS)
        assert not list(store.verify())


def test_an_object_store_deletes_the_old_object(tmp_path: Path) -> None:
    with closing(prepared(tmp_path, Locations(segments=objects().uri))) as store:
        before = store._files.names()
        erase(store, 3)
        after = store._files.names()
        assert (len(before), len(after), len(before & after)) == (2, 2, 1)
        assert after == {each.file for each in store.held() if each.file}
        intact(store, {3})
        assert not list(store.verify())


@pytest.mark.parametrize("point", ERASURES)
def test_a_kill_leaves_a_record_whole_or_erased(tmp_path: Path, point: str) -> None:
    folder = tmp_path / "state"
    prepared(folder).close()
    for passed in (1, 2, 3):
        child = children.Process(target=erasing.live, args=(folder, f"{point}:{passed}"))
        child.start()
        child.join(60)
        assert child.exitcode in {0, -signal.SIGKILL}
        with closing(FolderStore(folder)) as store:
            store.sweep()
            lines = sum(each.slots for each in store.erased())
            gone = set(VICTIMS[:lines])
            intact(store, gone)
            assert not left(folder, gone)
            assert not list(store.verify())
            assert set(store._files.names()) == {each.file for each in store.held() if each.file}
        if passed == 1:
            assert child.exitcode
    erasing.live(folder)
    with closing(FolderStore(folder)) as store:
        intact(store, set(VICTIMS))
        assert found(folder) == set(range(COUNT)) - set(VICTIMS)
        assert not list(store.verify())


def test_a_full_disk_leaves_everything_as_it_was(tmp_path: Path) -> None:
    with closing(prepared(tmp_path)) as store:
        held, names = store.held(), store._files.names()
        full = patch("tidegate.state.erasure_log.line_of", side_effect=OSError(28, "No space left"))
        with full, pytest.raises(StoreError, match="No space left"):
            erase(store, 3)
        assert (store.held(), store._files.names(), store.erasures()) == (held, names, 0)
        full = patch.object(store._files, "sync", side_effect=OSError(28, "No space left"))
        with full, pytest.raises(StoreError, match="No space left"):
            erase(store, 3)
        assert (store.held(), store._files.names(), store.erasures()) == (held, names, 0)
        assert erase(store, 3).slots == 1
        assert not list(store.verify())


def test_files_that_could_not_be_deleted_go_with_the_next_erasure(tmp_path: Path) -> None:
    with closing(prepared(tmp_path)) as store:
        fails = patch.object(store._files, "delete", side_effect=OSError(5, "Input/output error"))
        with fails, pytest.raises(StoreError, match="Input/output error"):
            erase(store, 4)
        assert 4 in found(tmp_path)
        assert erase(store, 4).slots == 0
        assert 4 not in found(tmp_path)
        assert not list(store.verify())


def test_a_reader_cannot_erase(tmp_path: Path) -> None:
    prepared(tmp_path).close()
    with closing(FolderStore(tmp_path, read_only=True)) as store:
        names = store._files.names()
        with pytest.raises(StoreError, match="reading only"):
            erase(store, 3)
        assert store._files.names() == names


def test_a_damaged_segment_is_not_written_again(tmp_path: Path) -> None:
    with closing(prepared(tmp_path)) as store:
        file = store._files.where(str(store.held()[0].file))
        assert isinstance(file, Path)
        data = bytearray(file.read_bytes())
        data[-40] ^= 1
        file.write_bytes(bytes(data))
        with pytest.raises(StoreError, match="checksum mismatch"):
            erase(store, 3)
        assert store.erasures() == 0


def test_a_step_that_began_before_an_erasure_is_not_published(tmp_path: Path) -> None:
    with closing(prepared(tmp_path)) as store:
        erase(store, 3)
        with pytest.raises(ErasedError):
            store.publish("records", 100, [made(0, 100)], erasures=0)
        assert store.done("records") == 0
        store.publish("records", 100, [made(0, 100)], erasures=1)


# --- a Gate


def weights(gate: Gate) -> list[bytes]:
    return [release.weights.tobytes() for release in gate.releases()]


def gone_by(X: Any, y: Any, slots: list[int]) -> tuple[Any, Any]:
    """The stream, in which some records cannot be used from the start."""
    X = X.copy()
    X[slots] = np.nan
    return X, y


def test_the_next_fits_are_those_without_the_record_and_charges_stay(tmp_path: Path) -> None:
    X, y = stream(1000)
    slots = [100, 450, 640, 690]
    settings = config({"kind": "independent", "step": 400}, quality={"share": "1/20"})
    with opened(tmp_path / "one", settings) as gate, opened(tmp_path / "two", settings) as other:
        gate.ingest(X[:700], y[:700])
        before, paid = weights(gate), gate.ledgers()["records"].worst()
        for slot in slots:
            gate.erase(record=slot)
        assert (weights(gate), gate.ledgers()["records"].worst()) == (before, paid)
        gate.ingest(X[700:], y[700:])
        other.ingest(*(each[:700] for each in gone_by(X, y, slots)))
        other.ingest(X[700:], y[700:])
        assert list(gate.store.lines()) == list(other.store.lines())
        assert weights(gate)[1:] == weights(other)[1:]
        assert weights(gate)[0] == before[0] != weights(other)[0]  # what is released stays
        assert not list(verify(gate))


@pytest.mark.parametrize("wrong", [-1, 700, 10**30, 1.5, True, "7"])
def test_a_record_that_is_not_there_is_refused(tmp_path: Path, wrong: Any) -> None:
    with opened(tmp_path, config()) as gate:
        gate.take(raw(700))
        with pytest.raises(InvalidValueError, match="record must be a whole number from 0 to 699"):
            gate.erase(record=wrong)
        assert gate.store.erasures() == 0


def raw(n: int, start: int = 0, persons: Any = None) -> RawBatch:
    return raw_batch(*stream(n, start), persons)


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path / "one", config()) as gate:
        with pytest.raises(InvalidValueError, match="no record yet"):
            gate.erase(record=0)
        gate.take(raw(10))
        for both in ({}, {"record": 1, "person": "a"}):
            with pytest.raises(InvalidValueError, match="a record or a person"):
                gate.erase(**both)  # type: ignore[arg-type]
        with pytest.raises(InvalidValueError, match="protected, not persons"):
            gate.erase(person="a")
        with pytest.raises(InvalidValueError, match="stream"):
            gate.erase(record=1, stream="target")
    with opened(tmp_path / "two", config(TWO)) as gate:
        gate.take(raw(10), stream="target")
        with pytest.raises(InvalidValueError, match="source or target"):
            gate.erase(record=1)
        with pytest.raises(InvalidValueError, match="source has no record"):
            gate.erase(record=1, stream="source")
        assert gate.erase(record=1, stream="target").slots == 1


PERSONS = {"id": "who", "contributions": 3}


@pytest.mark.parametrize("wrong", ["", "x" * 2**20, 1.5, True, ["a"], b"a", "\ud800"])
def test_an_id_that_nobody_can_have_is_refused_and_not_quoted(tmp_path: Path, wrong: Any) -> None:
    with opened(tmp_path, config(person=PERSONS)) as gate:
        gate.take(raw(10, persons=["x"] * 10))
        with pytest.raises(InvalidValueError, match="the person's id is") as told:
            gate.erase(person=wrong)
        assert len(str(told.value)) < 120
        assert gate.store.erasures() == 0


def test_a_person_of_a_gate_is_erased_and_keeps_what_it_paid(tmp_path: Path) -> None:
    names = [f"p-{slot % 40}" for slot in range(1000)]
    slots = [slot for slot in range(1000) if slot % 40 == 11]
    with opened(tmp_path, config(person=PERSONS)) as gate:
        gate.take(raw(900, persons=names[:900]))
        list(gate.advance())
        owner = gate.persons.owner("p-11")
        steps, owned = gate.store.person(owner), gate.store.owned("records", Span(400, 900))
        first = gate.store.held()[0].span.start
        line = gate.erase(person="p-11")
        assert line.slots == sum(first <= slot < 900 for slot in slots)
        after = gate.store.owned("records", Span(400, 900))
        assert isinstance(owned, Owned)
        assert isinstance(after, Owned)
        assert np.array_equal(owned.owners, after.owners)
        assert np.array_equal(owned.admitted, after.admitted)
        assert gate.store.person(owner) == steps
        gate.take(raw(100, 900, names[900:]))  # the person may send again
        list(gate.advance())
        read = gate.store.read("records", Span(400, 1000))
        assert not has_content(read, np.array([s - 400 for s in slots if 400 <= s < 900]))
        assert read.usable[slots[-1] - 400]
        assert not list(verify(gate))
    text = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"p-11" not in text


def test_nothing_is_kept_of_what_an_erasure_could_not_find(tmp_path: Path) -> None:
    """A record whose person cannot be told may be of anybody: only the reason is kept."""
    known = {"a": 0.5, "b": None, "y": 1, "who": "p-17"}
    lost = [{**known, "who": ["p-17"], "note": "rare disease"}, {**known, "who": 17.5}]
    cut = json.dumps({"a": 0.987654321, "who": "p-17"})[:-1]
    lines = [json.dumps(known), *map(json.dumps, lost), cut, '"p-17"']
    (tmp_path / "in.jsonl").write_text("\n".join([*lines, ""]))
    table = {"classes": [0, 1], "norm": 1.0, "columns": ["a", "b"], "label": "y"}
    source = {"type": "jsonl", "path": str(tmp_path / "in.jsonl")}
    with opened(tmp_path / "state", config(records=table, source=source, person=PERSONS)) as gate:
        list(gate.run())
        kept = list(gate.store.quarantine("records"))
        assert [each.slot for each in kept if each.payload] == [0]
        assert [each.slot for each in kept if each.reason] == [0, 1, 2, 3, 4]
        assert gate.erase(person="p-17").slots == 1
        assert not list(verify(gate))
    files = [path for path in (tmp_path / "state").rglob("*") if path.is_file()]
    text = b"".join(path.read_bytes() for path in files)
    assert not [each for each in (b"p-17", b"rare disease", b"0.987654321") if each in text]


def test_a_state_of_records_keeps_what_arrived(tmp_path: Path) -> None:
    with opened(tmp_path, config()) as gate:
        gate.take(raw(100))
        assert [each.payload is not None for each in gate.store.quarantine("records")] == [True] * 3


@pytest.mark.parametrize("when", ["records, models and releases", "the ledger of persons"])
def test_a_gate_may_erase_while_another_process_verifies(tmp_path: Path, when: str) -> None:
    settings = config({"kind": "continual", "block": 200, "step": 100}, person=PERSONS)
    with opened(tmp_path, settings) as gate:
        gate.take(raw(500, persons=[f"p-{slot % 40}" for slot in range(500)]))
        list(gate.advance())
        with Gate.look(tmp_path) as looking:

            def erase_now(what: str) -> None:
                if what == when:
                    gate.erase(person="p-7")

            assert not list(verify(looking, erase_now))
            assert gate.store.erasures() == 1
        assert not list(verify(gate))


def test_a_reader_delays_the_log_and_nothing_else(tmp_path: Path) -> None:
    with closing(prepared(tmp_path)) as store:
        with closing(FolderStore(tmp_path, read_only=True)) as looking, looking.snapshot():
            assert erase(store, 170).slots == 1
            assert 170 in found(tmp_path)
            assert looking.read("records", Span(160, COUNT)).usable.all()
        assert not left(tmp_path, {170})


def test_batches_arrive_while_records_are_erased(tmp_path: Path) -> None:
    gone: set[int] = set()
    with closing(prepared(tmp_path)) as store:

        def append() -> None:
            for start in range(COUNT, COUNT + 300, 5):
                store.append(batch("records", start, 5, cut=erasing.CUT))

        arriving = threading.Thread(target=append)
        arriving.start()
        for slot in range(0, COUNT + 300, 17):
            while store.count("records") <= slot:
                time.sleep(0.001)
            assert erase(store, slot).slots == 1
            gone.add(slot)
        arriving.join()
        intact(store, gone, COUNT + 300)
        assert not left(tmp_path, gone)
        assert not list(store.verify())


SCHEDULES: dict[str, Any] = {
    "sliding": {"kind": "sliding", "window": 300, "step": 100},
    "continual": {"kind": "continual", "block": 200, "step": 100},
    "fading": {"kind": "fading", "step": 100, "forget": "1/5", "memory": 4},
}


@pytest.mark.parametrize("kind", SCHEDULES)
def test_streams_that_differ_in_one_person_are_one_once_it_is_erased(
    tmp_path: Path, kind: str
) -> None:
    """Whatever the person's records held: what is released after is the same, to the bit."""
    names, (X, y) = [f"p-{slot % 40}" for slot in range(500)], stream(500)
    settings = config(
        SCHEDULES[kind],
        person=PERSONS,
        budget={"epsilon": 1.0, "delta": 1e-6},
        survey={"share": "1/20"},
        quality={"share": "1/20"},
    )
    found = []
    for change in (1.0, -40.0, np.nan):
        changed = X.copy()
        changed[11:400:40] *= change
        with opened(tmp_path / str(change), settings) as gate:
            gate.take(raw_batch(changed[:400], y[:400], names[:400]))
            assert gate.erase(person="p-11").slots == 10
            list(gate.advance())
            gate.take(raw_batch(X[400:], y[400:], names[400:]))
            list(gate.advance())
            assert not list(verify(gate))
            found.append((weights(gate), list(gate.store.lines()), list(gate.store.steps())))
    assert found[0][0]
    assert found[0] == found[1] == found[2]


class Slow(Gate):
    """A gate whose first fit waits, so that records can be erased meanwhile."""

    seen: list[int]
    training: threading.Event
    go_on: threading.Event

    def train(self, job: FitJob) -> Fitted:
        span = job.line.fit.span
        self.seen.append(int(self.store.read(job.stream, span).usable.sum()))
        if len(self.seen) == 1:
            self.training.set()
            assert self.go_on.wait(30)
        return super().train(job)


def test_a_step_that_is_trained_meanwhile_begins_again(tmp_path: Path) -> None:
    with Slow.open(tmp_path / "one", config(), clock=lambda: TIME) as gate:
        gate.seen, gate.training, gate.go_on = [], threading.Event(), threading.Event()
        gate.take(raw(700))
        trained = threading.Thread(target=lambda: list(gate.advance()))
        trained.start()
        assert gate.training.wait(30)
        lines: list[Any] = []
        eraser = threading.Thread(target=lambda: lines.append(gate.erase(record=650)))
        eraser.start()
        until = time.monotonic() + 30
        while gate.store.erasures() == 0 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.05)
        assert not lines  # the receipt comes once no fit reads the record
        gate.go_on.set()
        eraser.join(30)
        trained.join(30)
        assert [line.slots for line in lines] == [1]
        fits = len(list(gate.store.lines()))
        assert len(gate.seen) == fits + 1 or len(gate.seen) == 2 * fits
        assert max(gate.seen[-fits:]) < gate.seen[0]
        with opened(tmp_path / "two", config()) as other:
            X, y = gone_by(*stream(700), [650])
            other.ingest(X, y)
            assert weights(gate) == weights(other)
        assert not list(verify(gate))


# --- an insider


def with_erasures(folder: Path) -> Path:
    """A state that erased two records, and has made releases since."""
    settings = config({"kind": "sliding", "window": 300, "step": 100})
    with opened(folder / "state", settings) as gate:
        gate.ingest(*stream(350))
        gate.erase(record=260)
        gate.erase(record=333)
        gate.ingest(*stream(150, 350))
        gate.erase(record=430)
    assert problems(folder / "state") == []
    forge(folder / "state")
    assert problems(folder / "state") == []
    return folder / "state"


FORGERIES: dict[str, tuple[str, str]] = {
    "a line deleted": ("DELETE FROM erasures WHERE number = 1", "hash mismatch"),
    "a number of slots": ("UPDATE erasures SET slots = 2 WHERE number = 1", "hash mismatch"),
    "a time": ("UPDATE erasures SET time = '2020' WHERE number = 2", "hash mismatch"),
    "a salt": ("UPDATE erasures SET salt = 'x' WHERE number = 2", "hash mismatch"),
    "a place": ("UPDATE erasures SET place = place + 9 WHERE number = 3", "step that is missing"),
    "a mark deleted": (
        "UPDATE quarantine SET reason = 'text' WHERE slot = 430 AND reason = ''",
        "slots are erased, but erasures say",
    ),
    "a mark added": (
        "INSERT INTO quarantine VALUES ('records', 431, '', NULL)",
        "slots that were erased have content",
    ),
    "segments of a line": (
        "UPDATE erasures SET segments = replace(segments, '300', '301')",
        "hash mismatch",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_line_or_mark_is_found(tmp_path: Path, name: str) -> None:
    edit, what = FORGERIES[name]
    state = with_erasures(tmp_path)
    forge(state, edit)
    told = problems(state)
    assert any(what in line for line in told), told


def rewritten(state: Path, change: Callable[[Records], Records], erased_before: bool) -> None:
    """Write a segment again, as an erasure would do, and redo every checksum and sum."""
    store = FolderStore(state)
    with closing(store):
        lines = [json.loads(row[5]) for row in store._state.rows("erasures", "1 = 1")]
        places = {tuple(each[:3]) for line in lines for each in line}
        segment = next(
            each for each in store.held() if ((each.stream, *each.span) in places) == erased_before
        )
        records = change(store.read(segment.stream, segment.span))
        with store._state.transaction("forged"):
            store._state.delete("segments", "start = ?", segment.span.start)
            few = records.n + 1 if segment.file is None else 0
            row = (segment.stream, *segment.span, *store._written("records-0", records, few))
            store._state.insert("segments", [row])
    forge(state)


def flipped(records: Records) -> Records:
    return replace(records, y=1 - records.y)


def test_a_changed_segment_does_not_pass_for_an_erased_one(tmp_path: Path) -> None:
    state = with_erasures(tmp_path)
    rewritten(state, flipped, erased_before=True)
    told = problems(state)
    assert any("not those that erasure" in line for line in told), told


def test_a_line_for_a_changed_segment_changes_the_history(tmp_path: Path) -> None:
    """To pass it off, a line must be there that names its checksum: releases since would differ."""
    state = with_erasures(tmp_path)
    rewritten(state, flipped, erased_before=True)
    with closing(FolderStore(state)) as store:
        crcs = {(row[0], row[1], row[2]): row[4] for row in store._state.rows("segments", "1 = 1")}
        lines = store._state.rows("erasures", "1 = 1")
    for number, _, _, _, _, text, *_ in lines:
        new = [
            [*each[:3], crcs.get(tuple(each[:3]), each[3]), each[4]] for each in json.loads(text)
        ]
        changed = json.dumps(new, separators=(",", ":"))
        forge(state, f"UPDATE erasures SET segments = '{changed}' WHERE number = {number}")
    told = problems(state)
    assert any("hash mismatch in the line" in line for line in told), told


def test_content_that_comes_back_is_found(tmp_path: Path) -> None:
    state = with_erasures(tmp_path)
    rewritten(state, lambda records: replace(records, usable=records.usable | True), True)
    told = problems(state)
    assert any("slots that were erased have content" in line for line in told), told


def test_a_stopped_state_can_be_erased_before_and_after_its_correction(tmp_path: Path) -> None:
    schedule = {"kind": "independent", "step": 400}
    shared: dict[str, Any] = {"budget": {"epsilon": 5.0}, "survey": {"share": "1/4"}}
    records = {"classes": [0, 1], "norm": 1.5, "dtype": "float64"}
    wrong = config(schedule, records={**records, "classes": [7, 8]}, **shared)
    right = config(schedule, records=records, **shared)
    X, y = stream(400)
    with opened(tmp_path, wrong) as gate:
        gate.take(raw(50))
        gate.erase(record=3)
        with pytest.raises(InvalidValueError, match="stopped"):
            gate.ingest(X[50:], y[50:])
        gate.erase(record=4)
        assert not list(verify(gate))
    with opened(tmp_path, right) as gate:
        assert not list(verify(gate))
        gate.take(raw(50))
        gate.erase(record=3)
        gate.ingest(X[50:], y[50:])
        gate.take(raw(9))
        gate.erase(record=402)
        assert len(list(gate.releases())) == 1
        assert not list(verify(gate))
        assert [line.number for line in gate.store.erased()] == [1, 2, 3, 4]


def test_no_digest_on_a_card_tells_what_a_line_holds(tmp_path: Path) -> None:
    """Lines hold private counts and checksums: their salt is drawn anew each time."""
    hashes = set()
    for name in "ab":
        with closing(prepared(tmp_path / name)) as store:
            hashes.add(erase(store, 3).hash)
    assert len(hashes) == 2


def test_the_target_of_another_stream_is_not_touched() -> None:
    assert not OneRecord("a", 3).touches("b", Span(0, 10))
    assert [OneRecord("a", n).touches("a", Span(3, 5)) for n in (2, 3, 4, 5)] == [0, 1, 1, 0]

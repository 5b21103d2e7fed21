"""The store in a folder: what is where, and who may have it."""

import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.state.gatelife import config, stream
from tests.state.made import made, records, same
from tidegate import whole_file
from tidegate.checks import InvalidValueError, StoreError
from tidegate.gate import Gate
from tidegate.schedule import Span
from tidegate.state import record_log, segments, state_database
from tidegate.state.folder_store import FolderStore
from tidegate.state.store import Batch, Quarantined


def batch(start: int, n: int) -> Batch:
    return Batch(stream="records", records=records(start, n))


def test_a_large_batch_goes_straight_to_files_and_what_is_left_waits(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "", segment_records=32)) as store:
        store.append(batch(0, 70))
        store.append(batch(70, 3))
        assert [(*segment.span, segment.file is None) for segment in store.held()] == [
            (0, 32, False),
            (32, 64, False),
            (64, 70, True),
            (70, 73, True),
        ]


@pytest.mark.parametrize("key", ["", "k" * 1001, "\ud800" * 1001])
def test_a_batch_has_a_name_that_every_database_can_keep(tmp_path: Path, key: str) -> None:
    with closing(FolderStore(tmp_path, "")) as store:
        with pytest.raises(InvalidValueError, match="key must be a name of 1 to 1000 bytes"):
            store.append(replace(batch(0, 3), key=key))
        assert store.count("records") == 0


def test_an_older_database_does_not_take_the_files_of_what_it_has_forgotten(
    tmp_path: Path,
) -> None:
    """Restored together with its lock, it is known to be old by what was published alone."""
    settings = config(publish={"folder": str(tmp_path / "out")})
    state, kept = tmp_path / "state", tmp_path / "kept"
    with Gate.open(state, settings) as gate:
        gate.ingest(*stream(800))
    shutil.copytree(state, kept)
    with Gate.open(state, settings) as gate:
        gate.ingest(*stream(250, 800))
        held = sorted(path.name for path in (state / "segments").iterdir())
    assert set(held) - set(os.listdir(kept / "segments"))
    for name in ("state.db", "lock"):
        shutil.copy(kept / name, state / name)
    with pytest.raises(StoreError, match="older"):
        Gate.open(state, settings)
    assert sorted(path.name for path in (state / "segments").iterdir()) == held


def test_a_file_is_durable_before_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order, fsync = [], os.fsync

    def synchronised(descriptor: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        fsync(descriptor)

    with closing(FolderStore(tmp_path, "", segment_records=8)) as store:
        assert store._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
        monkeypatch.setattr(os, "fsync", synchronised)
        for module in (whole_file, segments, state_database):
            monkeypatch.setattr(module, "failpoint", order.append)
        store.append(batch(0, 8))
    names = ["segment.write", "segment.fsync", "file", "segment.rename", "segment.folder", "folder"]
    assert order == [*names, "append.commit", "append.done"]


def test_small_batches_become_one_file(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "", segment_records=32)) as store:
        for slot in range(65):
            store.append(batch(slot, 1))
        held = store.held()
        assert [(*segment.span, segment.file is None) for segment in held] == [
            (0, 32, False),
            (32, 64, False),
            (64, 65, True),
        ]
        assert [segment.size for segment in held[:2]] == [
            (tmp_path / "segments" / str(segment.file)).stat().st_size for segment in held[:2]
        ]


def test_a_state_whose_segments_end_with_batches_goes_on(tmp_path: Path) -> None:
    """As 0.1.0 has left it: from there on segments end where they always do."""
    with closing(FolderStore(tmp_path, "", segment_records=32)) as store:

        def append(start: int, n: int) -> None:
            store.append(replace(batch(start, n), cut=1000))

        with pytest.MonkeyPatch.context() as before:
            before.setattr(record_log, "segment_slots", lambda rows, _: rows.shape[0])
            append(0, 14)
            before.setattr(record_log, "segment_slots", lambda *_: 1000)
            append(14, 27)  # these wait, beyond where a segment ends now
            append(41, 3)
        for start in range(44, 100, 6):
            append(start, 6)
        assert [(*segment.span, segment.file is None) for segment in store.held()] == [
            (0, 14, False),
            (14, 41, True),
            (41, 64, False),
            (64, 96, False),
            (96, 98, True),
            (98, 104, True),
        ]
        assert same(store.read("records", Span(0, 104)), records(0, 104))
        assert not list(store.verify())


def test_a_span_of_one_segment_is_a_view_and_of_several_a_copy(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "", segment_records=32)) as store:
        store.append(batch(0, 64))
        assert not store.read("records", Span(4, 32)).X.flags.owndata
        assert not store.read("records", Span(4, 32)).X.flags.writeable
        assert same(store.read("records", Span(30, 35)), records(30, 5))


@pytest.mark.parametrize("span", [Span(0, 0), Span(3, 2), Span(0, 11), Span(10, 11), Span(-1, 2)])
def test_what_is_not_there_is_not_read(tmp_path: Path, span: Span) -> None:
    with closing(FolderStore(tmp_path, "")) as store:
        store.append(batch(0, 10))
        with pytest.raises(StoreError, match="not held"):
            store.read("records", span)


def test_forgetting_deletes_the_files(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "", segment_records=8)) as store:
        store.append(batch(0, 24))
        view = store.read("records", Span(0, 8))
        store.forget("records", 17)
        assert os.listdir(tmp_path / "segments") == [store.held()[0].file]
        assert same(view, records(0, 8))  # who reads it may finish
        assert store.append(batch(24, 8)) == 32


def test_the_state_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "state"
    with closing(FolderStore(folder, "", segment_records=8)) as store:
        store.append(batch(0, 9))
        store.append(batch(9, 1))
        modes = {
            str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
            for path in [folder, *folder.rglob("*")]
        }
    assert {name for name, mode in modes.items() if mode == 0o700} == {".", "segments"}
    assert set(modes.values()) == {0o700, 0o600}


def test_a_state_is_made_once_and_opened_where_there_is_one(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="holds no state"):
        FolderStore(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    FolderStore(tmp_path / "new", "mine").close()
    with pytest.raises(StoreError, match="already holds a state"):
        FolderStore(tmp_path / "new", "other")
    with closing(FolderStore(tmp_path / "new")) as store:
        assert store.config() == "mine"


def test_a_state_of_another_layout_is_refused(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "")) as store:
        store._db.execute("PRAGMA user_version=99")
    with pytest.raises(StoreError, match="layout 99"):
        FolderStore(tmp_path)


@pytest.mark.thorough
def test_the_second_gate_is_refused_at_once(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "")) as store:
        with pytest.raises(StoreError, match=f"{tmp_path} is in use by process {os.getpid()}"):
            FolderStore(tmp_path)
        program = (
            f"from tidegate.state.folder_store import FolderStore; FolderStore({str(tmp_path)!r})"
        )
        other = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
        assert f"in use by process {os.getpid()}".encode() in other.stderr
        store.append(batch(0, 1))
    FolderStore(tmp_path).close()


def test_anyone_may_look_while_a_gate_works(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "", segment_records=8)) as store:
        with closing(FolderStore(tmp_path, read_only=True)) as reader:
            store.append(batch(0, 10))
            store.publish("records", 10, [made(0, 10)])
            assert (reader.count("records"), reader.done("records")) == (10, 10)
            assert same(reader.read("records", Span(0, 10)), records(0, 10))
            assert [release.number for release in reader.releases()] == [0]
            assert not list(reader.verify())
            with pytest.raises(StoreError, match="reading only"):
                reader.append(batch(10, 10))
            with pytest.raises(StoreError, match="reading only"):
                reader.forget("records", 10)
        assert store.count("records") == 10


def test_who_closes_waits_for_who_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A service that stops closes the store while another thread may be in mid-transaction."""
    inside, going, place = threading.Event(), threading.Event(), FolderStore._place

    def slow(self: FolderStore, *words: Any) -> Any:
        inside.set()
        going.wait(20)
        return place(self, *words)

    monkeypatch.setattr(FolderStore, "_place", slow)
    store = FolderStore(tmp_path, "")
    with ThreadPoolExecutor(2) as pool:
        written = pool.submit(store.append, batch(0, 10))
        assert inside.wait(20)
        closed = pool.submit(store.close)
        threading.Timer(0.1, going.set).start()
        closed.result()
        assert written.result() == 10
    with pytest.raises(StoreError, match="closed"):
        store.append(batch(10, 10))
    with closing(FolderStore(tmp_path)) as store:
        assert store.count("records") == 10


def test_a_stream_has_a_name_that_a_file_can_have(tmp_path: Path) -> None:
    with (
        closing(FolderStore(tmp_path, "")) as store,
        pytest.raises(InvalidValueError, match="stream must be"),
    ):
        store.append(replace(batch(0, 1), stream="../records"))


def test_a_batch_that_does_not_fit_together_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="offset"):
        replace(batch(0, 2), source="file")
    for slots in [(2,), (-1,), (0, 0)]:
        bad = tuple(Quarantined(slot=slot, reason="text", payload="[]") for slot in slots)
        with pytest.raises(InvalidValueError, match="from 0 to 1"):
            replace(batch(0, 2), quarantine=bad)


def test_of_a_model_that_no_fit_needs_any_more_card_digest_and_norm_stay(tmp_path: Path) -> None:
    settings = config({"kind": "sliding", "window": 700, "step": 100})
    with Gate.open(tmp_path, settings) as gate:
        X, y = stream(2000)
        kept: dict[int, Any] = {}
        for start in range(0, 2000, 100):
            gate.ingest(X[start : start + 100], y[start : start + 100])
            unreleased = {line.fit.number for line in gate.store.lines() if not line.fit.released}
            for number in sorted(unreleased):
                with suppress(StoreError):
                    kept[number] = gate.store.fit(number)
        assert set(kept) == unreleased
        assert len(list(gate.store.cards())) == len(list(gate.store.lines())) > len(unreleased)
        columns = "SELECT number, shape, digest, length(weights), norm FROM fits"
        rows = gate.store._db.execute(
            f"{columns} LEFT JOIN dropped USING (number) WHERE release IS NULL"
        ).fetchall()
        assert sum(bool(size) for *_, size, _ in rows) == 2  # the chain of the newest release
        for number, shape, digest, size, norm in rows:
            assert kept[number].shape == tuple(json.loads(shape))
            assert hashlib.sha256(kept[number].tobytes()).hexdigest() == digest
            assert bool(size) == (norm is None)
            if norm is not None:
                assert norm == pytest.approx(np.linalg.norm(kept[number]))
                with pytest.raises(StoreError, match=f"fit {number} is not kept"):
                    gate.store.fit(number)
        assert not list(gate.store.verify())


def test_a_damaged_model_is_not_dropped(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "")) as store:
        store.append(batch(0, 2))
        store.publish("records", 1, [made(0, 1, released=False)])
        store._db.execute("UPDATE fits SET weights = zeroblob(length(weights))")
        store.publish("records", 2, [made(1, 2)])
        (problem,) = store.verify()
        assert (problem.where, "hash mismatch" in problem.what) == ("fit 0", True)


def test_the_weights_need_not_be_in_order(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "")) as store:
        store.append(batch(0, 1))
        one = made(0, 1)
        turned = replace(one, weights=np.asfortranarray(one.weights))
        assert np.array_equal(store.publish("records", 1, [turned])[0].weights, one.weights)


def test_a_release_made_meanwhile_is_seen_by_who_iterates(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "")) as store:
        store.append(batch(0, 2))
        store.publish("records", 1, [made(0, 1)])
        releases = store.releases()
        assert next(releases).number == 0
        store.publish("records", 2, [made(1, 2)])
        assert next(releases).number == 1


def test_what_is_rolled_back_is_not_remembered(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "")) as store:
        store.append(batch(0, 2))
        late = patch.object(state_database, "failpoint", side_effect=KeyboardInterrupt)
        with late, pytest.raises(KeyboardInterrupt):
            store.append(replace(batch(2, 3), key="monday"))
        assert store.count("records") == 2
        assert store.append(replace(batch(2, 1), key="monday")) == 3
        with late, pytest.raises(KeyboardInterrupt):
            store.publish("records", 1, [made(0, 1)])
        assert (store.done("records"), store.newest(), store.newest_step()) == (0, None, None)
        assert [each.number for each in store.publish("records", 1, [made(0, 1)])] == [0]
        assert not list(store.verify())


def test_what_somebody_else_writes_is_noticed_and_not_sealed_in(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path, "", settings="mine")) as store:
        store.append(batch(0, 2))
        store._db.execute("UPDATE state SET settings = 'theirs'")
        assert list(store.verify())
        store.append(batch(2, 1))
    with closing(FolderStore(tmp_path)) as store:
        assert (store.settings(), list(store.verify())) == ("mine", [])


def test_a_snapshot_that_cannot_begin_leaves_the_next_seal_right(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path / "state", "{}", settings="{}")) as store:
        store.append(Batch(stream="private", records=records(0, 3)))
        failing = patch.object(store._db, "begin_reading", side_effect=OSError("cannot begin"))
        with failing, pytest.raises(StoreError, match="cannot begin"), store.snapshot():
            pass
        store.append(Batch(stream="private", records=records(3, 2)))
    with closing(FolderStore(tmp_path / "state")) as store:
        assert store.count("private") == 5
        assert list(store.verify()) == []


def test_an_interrupt_after_a_snapshot_leaves_the_next_seal_right(tmp_path: Path) -> None:
    with closing(FolderStore(tmp_path / "state", "{}", settings="{}")) as store:
        store.append(Batch(stream="private", records=records(0, 3)))
        cut = patch.object(store._db, "rollback", side_effect=KeyboardInterrupt)
        with cut, pytest.raises(KeyboardInterrupt), store.snapshot():
            pass
        store._db.rollback()
        store.append(Batch(stream="private", records=records(3, 2)))
    with closing(FolderStore(tmp_path / "state")) as store:
        assert list(store.verify()) == []


def test_whoever_writes_forgets_what_was_read() -> None:
    """Other modules write by StateDatabase, or what the lock's holder remembers would be old."""
    known = {
        "state_database.py",
        "opening.py",  # creates
        "layout.py",  # upgrades
        "store.py",  # deletes weights of models that no fit needs: no fact names them
        "postgres.py",  # its own table
    }
    writes = re.compile(r"INSERT INTO|UPDATE \w+ SET|DELETE FROM")
    modules = Path(state_database.__file__).parent.glob("*.py")
    assert {each.name for each in modules if writes.search(each.read_text())} == known

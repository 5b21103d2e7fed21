"""The power goes at every place and at any time; files are damaged; the disk is full."""

import errno
import multiprocessing
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.state import workload
from tests.state.made import chain, made, records, same
from tests.state.postgres_server import DATABASES, needs_postgres, on_server
from tidegate.checks import StoreError
from tidegate.failpoints import NAMES
from tidegate.run.config.tables import Locations
from tidegate.schedule import Span
from tidegate.state import segments
from tidegate.state.database import Database
from tidegate.state.elsewhere import Elsewhere
from tidegate.state.folder_store import FolderStore
from tidegate.state.segment_folder import SegmentFolder
from tidegate.state.sqlite import SqliteDatabase
from tidegate.state.store import Batch, Quarantined

BATCHES = 14

# children come from a process that has everything imported and no threads: quick and safe
children = multiprocessing.get_context("forkserver")
children.set_forkserver_preload(["tests.state.workload"])


@pytest.fixture(params=DATABASES, scope="module")
def locations(request: pytest.FixtureRequest) -> Locations:
    found: Locations = request.param()
    return found


def start(folder: Path, batches: int, *more: Any) -> Any:
    child = children.Process(target=workload.live, args=(folder, batches, *more))
    child.start()
    return child


def finish(child: Any) -> bool:
    """Whether the child was killed; it must not end in any other way but well."""
    child.join(60)
    assert child.exitcode in {0, -signal.SIGKILL}
    return bool(child.exitcode)


def content(store: FolderStore) -> tuple[Any, ...]:
    """All that a state holds, but for how it is cut into segments."""
    count = store.count("records")
    held = Span(min([count, *(segment.span.start for segment in store.held())]), count)
    if held.size:
        assert same(store.read("records", held), records(held.start, held.size))
    return (
        count,
        store.done("records"),
        store.offset("script"),
        store.state(),
        [(bad.slot, bad.reason) for bad in store.quarantine("records")],
        list(store.lines("records")),
        chain(store),
    )


def undisturbed(folder: Path, batches: int) -> tuple[Any, ...]:
    workload.live(folder, batches, Locations())
    with closing(FolderStore(folder)) as store:
        return content(store)


def check(folder: Path, locations: Locations) -> None:
    """Nothing that was acknowledged is lost or doubled, and nothing is half there."""
    notes = folder.with_suffix(".notes")
    words = [line.split() for line in notes.read_text().splitlines()] if notes.exists() else []
    with closing(workload.opened(folder, locations)) as store:
        assert not list(store.verify())
        found = content(store)
        assert found[0] >= max((int(value) for what, value in words if what == "count"), default=0)
        hashes = [release[-1] for release in found[-1]]
        assert {value for what, value in words if what == "release"} <= set(hashes)
        sizes = [workload.batch(index).records.n for index in range(int(found[2] or 0))]
        assert found[0] == sum(sizes)
        files = {segment.file for segment in store.held()} - {None}
        assert set(os.listdir(folder / "segments")) == files


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, ...]:
    return undisturbed(tmp_path_factory.mktemp("undisturbed") / "state", BATCHES)


@pytest.mark.parametrize("name", NAMES)
def test_killed_at_every_failpoint(
    name: str, locations: Locations, tmp_path: Path, expected: tuple[Any, ...]
) -> None:
    survives(name, locations, tmp_path / "state", expected)


@pytest.mark.thorough
@needs_postgres
@pytest.mark.parametrize("name", ["publish.commit"])
def test_killed_before_a_server_commits(
    name: str, tmp_path: Path, expected: tuple[Any, ...]
) -> None:
    survives(name, on_server(), tmp_path / "state", expected)


def survives(name: str, locations: Locations, folder: Path, expected: tuple[Any, ...]) -> None:
    """Whether kills at a failpoint, later in each life, make no difference."""
    kills = 0
    if name == "sweep.unlink":
        assert finish(start(folder, BATCHES, locations, "segment.folder"))
    for passed in range(1, 100):  # later each time, for the script to go on
        if not finish(start(folder, BATCHES, locations, f"{name}:{passed}")):
            break
        kills += 1
        check(folder, locations)
    assert kills
    with closing(FolderStore(folder)) as store:
        assert content(store) == expected


def kill_at_random(
    folder: Path, batches: int, locations: Locations, *, kills: int, longest: float
) -> None:
    """Kill a child that often at any time of its work, or until the work is done; then finish."""
    rng = random.Random(os.getpid())
    for _ in range(kills):
        started = children.Event()
        child = start(folder, batches, locations, "", started)
        assert started.wait(60)
        time.sleep(rng.uniform(0, longest))
        child.kill()
        if not finish(child):
            break
        check(folder, locations)
    assert not finish(start(folder, batches, locations))


def test_killed_at_random(locations: Locations, tmp_path: Path, expected: tuple[Any, ...]) -> None:
    kill_at_random(tmp_path / "state", BATCHES, locations, kills=15, longest=0.06)
    with closing(FolderStore(tmp_path / "state")) as store:
        assert content(store) == expected


@pytest.mark.slow
def test_killed_hundreds_of_times(locations: Locations, tmp_path: Path) -> None:
    batches = 800
    kill_at_random(tmp_path / "state", batches, locations, kills=400, longest=0.1)
    with closing(FolderStore(tmp_path / "state")) as store:
        assert content(store) == undisturbed(tmp_path / "undisturbed", batches)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Two segments, a few records that wait, and two releases."""
    return make(tmp_path / "state", Locations())


@pytest.fixture
def anywhere(tmp_path: Path, locations: Locations) -> Path:
    """The same with any database."""
    return make(tmp_path / "state", locations)


def make(folder: Path, locations: Locations) -> Path:
    with closing(FolderStore(folder, "config", locations=locations, segment_records=32)) as store:
        for begin, n in [(0, 32), (32, 32), (64, 3)]:
            batch = Batch(
                stream="records", records=records(begin, n), source="script", offset=f"{begin}"
            )
            store.append(batch)
        store.publish("records", 16, [made(0, 16)])
        store.publish("records", 32, [made(1, 32, released=False), made(2, 32)])
    return folder


def first_file(folder: Path) -> Path:
    with closing(FolderStore(folder)) as store:
        name = store.held()[0].file
    assert name is not None
    return folder / "segments" / name


def change_rows(folder: Path, query: str) -> None:
    """Have somebody else change the database."""
    elsewhere = Elsewhere.of(folder)
    if elsewhere is None:
        database: Database = SqliteDatabase(folder, writes=True)
    else:
        database = elsewhere.database(folder, writes=True)
        query = query.replace("zeroblob", "public.zeroblob")
    with closing(database):
        database.connect()
        database.execute(query)


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied", "missing", "longer"])
def test_a_damaged_segment_is_never_read(state: Path, damage: str) -> None:
    file = first_file(state)
    size = file.stat().st_size
    if damage == "flipped":
        flip(file, size // 2)
    elif damage == "missing":
        file.unlink()
    else:
        os.truncate(file, {"cut": size - 8, "emptied": 0, "longer": size + 8}[damage])
    with closing(FolderStore(state)) as store:
        for _ in range(2):
            with pytest.raises(StoreError, match=file.name) as caught:
                store.read("records", Span(0, 10))
            assert "restore" in str(caught.value)
        assert [problem.where for problem in store.verify()] == [file.name]
        assert store.read("records", Span(32, 67)).n == 35
        store.append(Batch(stream="records", records=records(67, 40)))
        with pytest.raises(StoreError, match=file.name):
            store.read("records", Span(0, 107))


def test_every_flipped_bit_of_a_segment_is_found(state: Path) -> None:
    file = first_file(state)
    whole = file.read_bytes()
    for at in range(0, len(whole), 37):
        flip(file, at)
        with closing(FolderStore(state)) as store:
            assert [problem.where for problem in store.verify()] == [file.name]
        file.write_bytes(whole)


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ("UPDATE segments SET data = zeroblob(size) WHERE file IS NULL", "records"),
        ("UPDATE segments SET stop = 66 WHERE stop = 67", "records"),
        ("DELETE FROM segments WHERE start = 32", "records"),
        ("UPDATE streams SET count = 66", "records"),
        ("UPDATE streams SET done = 16", "state.db"),
        ("UPDATE state SET config = 'other'", "state.db"),
        ("UPDATE state SET arrived = 'other'", "state.db"),
        ("UPDATE offsets SET place = '8'", "the offset of script"),
        ("UPDATE fits SET weights = zeroblob(length(weights)) WHERE number = 1", "fit 1"),
        ("UPDATE fits SET weights = zeroblob(length(weights)) WHERE number = 2", "release 1"),
        ("UPDATE fits SET card = replace(card, '1/8', '1/6')", "release 1"),
        ("UPDATE fits SET release = NULL WHERE number = 0", "fit 0"),
        ("DELETE FROM fits WHERE number = 0", "release 1"),
    ],
)
def test_a_changed_row_is_found(anywhere: Path, change: str, where: str) -> None:
    change_rows(anywhere, change)
    with closing(FolderStore(anywhere, read_only=True)) as store:
        where = where.replace("state.db", store.database)
        assert where in [problem.where for problem in store.verify()]


@pytest.mark.parametrize("column", ["config", "arrived", "committed"])
def test_a_state_whose_foundation_has_changed_is_not_opened(anywhere: Path, column: str) -> None:
    change_rows(anywhere, f"UPDATE state SET {column} = 99")
    with pytest.raises(StoreError, match=r"checksum mismatch.*restore"):
        FolderStore(anywhere)


def test_nothing_is_chained_to_a_damaged_release(anywhere: Path) -> None:
    change_rows(anywhere, "UPDATE fits SET hash = replace(hash, '1', '0')")
    with closing(FolderStore(anywhere)) as store:
        with pytest.raises(StoreError, match="release 1: hash mismatch"):
            store.publish("records", 48, [made(3, 48)])
        assert store.done("records") == 32


def test_a_damaged_offset_is_not_read_from(anywhere: Path) -> None:
    change_rows(anywhere, "UPDATE offsets SET place = '3'")
    with closing(FolderStore(anywhere)) as store, pytest.raises(StoreError, match="restore"):
        store.offset("script")


def test_a_damaged_model_is_neither_a_prior_nor_a_release(anywhere: Path) -> None:
    change_rows(anywhere, "UPDATE fits SET weights = zeroblob(length(weights))")
    with closing(FolderStore(anywhere)) as store:
        with pytest.raises(StoreError, match="fit 1: hash mismatch"):
            store.fit(1)
        with pytest.raises(StoreError, match="release 0: hash mismatch"):
            store.release(0)


@pytest.mark.parametrize("page", [0, 1])
def test_a_damaged_page_of_the_database_is_reported(state: Path, page: int) -> None:
    database = state / "state.db"
    data = bytearray(database.read_bytes())
    data[4096 * page : 4096 * page + 100] = bytes(100)
    database.write_bytes(data)
    with (
        pytest.raises(StoreError, match=r"state\.db.*restore"),
        closing(FolderStore(state)) as store,
    ):
        store.read("records", Span(0, 5))


def test_a_write_that_was_torn_by_the_crash_is_undone(state: Path, tmp_path: Path) -> None:
    store = FolderStore(state)
    store.append(Batch(stream="records", records=records(67, 2)))
    copied = crashed(state, tmp_path)
    with open(copied / "state.db-wal", "ab") as log:  # the start of a next transaction
        log.write(bytes(range(256)) * 9)
    store.close()
    with closing(FolderStore(copied)) as again:
        assert again.count("records") == 69
        assert not list(again.verify())


@pytest.mark.parametrize("damage", ["flipped", "cut", "missing"])
def test_a_transaction_that_is_lost_after_it_was_acknowledged_is_noticed(
    state: Path, tmp_path: Path, damage: str
) -> None:
    store = FolderStore(state)
    for slot in (67, 68):
        store.append(Batch(stream="records", records=records(slot, 1)))
    copied = crashed(state, tmp_path)
    store.close()
    log = copied / "state.db-wal"
    if damage == "flipped":
        flip(log, log.stat().st_size - 2000)
    elif damage == "cut":
        os.truncate(log, log.stat().st_size - 100)
    else:
        log.unlink()
    with pytest.raises(StoreError, match=r"lost the last \d transaction"):
        FolderStore(copied)


def crashed(folder: Path, into: Path) -> Path:
    """A copy of a state that is open, as a crash would leave it."""
    copy = into / "copy"
    (copy / "segments").mkdir(parents=True)
    for file in folder.rglob("*"):
        if file.is_file() and not file.name.endswith("-shm"):
            (copy / file.relative_to(folder)).write_bytes(file.read_bytes())
    return copy


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("call", ["open", "fsync", "rename"])
def test_a_file_that_cannot_be_written(
    state: Path, monkeypatch: pytest.MonkeyPatch, code: int, call: str
) -> None:
    store = FolderStore(state, segment_records=32)
    before, files = content(store), set(os.listdir(state / "segments"))

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(code, os.strerror(code))

    batch = Batch(stream="records", records=records(67, 80), source="script", offset="9")
    with monkeypatch.context() as patch:
        patch.setattr(Path if call == "rename" else os, call, fail)
        with pytest.raises(StoreError, match=os.strerror(code)) as caught:
            store.append(batch)
    assert "\n" not in str(caught.value)
    assert content(store) == before
    assert set(os.listdir(state / "segments")) == files
    assert store.append(batch) == 147  # there is room again
    assert store.read("records", Span(0, 147)).n == 147
    store.close()


def test_a_batch_of_several_files_leaves_none_of_them_on_a_full_disk(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, written = FolderStore(state, segment_records=32), segments.write
    files = set(os.listdir(state / "segments"))

    def third_fails(folder: SegmentFolder, stem: str, some: Any) -> segments.Written:
        if stem.endswith("-128"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{folder.where(stem)}")
        return written(folder, stem, some)

    monkeypatch.setattr(segments, "write", third_fails)
    with pytest.raises(StoreError, match=r"records-128: No space left"):
        store.append(Batch(stream="records", records=records(67, 100)))
    assert set(os.listdir(state / "segments")) == files
    store.close()


def test_a_database_that_cannot_grow(state: Path) -> None:
    store = FolderStore(state)
    before = content(store)
    store._db.execute("PRAGMA max_page_count = 1")  # what SQLite says is what a full disk says
    bad = tuple(Quarantined(slot=slot, reason="text", payload="x" * 5000) for slot in range(4))
    with pytest.raises(StoreError, match=r"disk is full.*open the state again"):
        store.append(Batch(stream="records", records=records(67, 4), quarantine=bad))
    with pytest.raises(StoreError, match="open the state again"):
        store.append(Batch(stream="records", records=records(67, 1)))
    with closing(FolderStore(state)) as store:
        assert content(store) == before


@contextmanager
def not_root(state: Path) -> Iterator[Path]:
    """A copy of a state, owned by a user that may not write everywhere, who we are meanwhile."""
    with TemporaryDirectory(prefix="state-") as folder:
        copy = shutil.copytree(state, Path(folder, "state"))
        user = 65534 if os.geteuid() == 0 else os.geteuid()  # nobody
        for path in [Path(folder), copy, *copy.rglob("*")]:
            os.chown(path, user, -1)
        before = os.geteuid()
        os.seteuid(user)
        try:
            yield copy
        finally:
            os.seteuid(before)


def test_a_read_only_folder(state: Path) -> None:
    with not_root(state) as copy:
        for path in [*copy.rglob("*"), copy]:
            path.chmod(0o500)
        with pytest.raises(StoreError, match="Permission denied"):
            FolderStore(copy)
        for path in [copy, *copy.rglob("*")]:
            path.chmod(0o700)
        with closing(FolderStore(copy)) as store:
            assert not list(store.verify())

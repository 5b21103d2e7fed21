"""Segments that are not in the state's folder: in another one, or objects of S3."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.run import process, tidegate
from tests.state.commands import clocked, grow, hashes, make
from tests.state.made import records, same
from tests.state.object_store import KEYS, Objects, objects
from tests.state.released import made as released
from tidegate.checks import InvalidValueError, StoreError
from tidegate.cli.fleet_members import Fleet
from tidegate.cli.fleet_scheduler import run_fleet
from tidegate.gate import Gate
from tidegate.run.config.tables import Locations
from tidegate.schedule import Span
from tidegate.state.elsewhere import Elsewhere
from tidegate.state.folder_store import FolderStore
from tidegate.state.publish_folder import publish
from tidegate.state.segment_folder import fetched, inside
from tidegate.state.store import Batch


def batch(start: int, n: int) -> Batch:
    return Batch(stream="records", records=records(start, n))


@pytest.fixture
def bucket() -> Iterator[Objects]:
    """A bucket that may be emptied and broken."""
    server = objects()
    server.objects.clear()
    yield server
    server.broken = False


@pytest.fixture
def state(bucket: Objects, tmp_path: Path) -> Path:
    """Two segments, and a few records that wait."""
    folder = tmp_path / "state"
    locations = Locations(segments=bucket.uri)
    with closing(FolderStore(folder, "config", locations=locations, segment_records=32)) as store:
        for start, n in [(0, 32), (32, 32), (64, 3)]:
            store.append(batch(start, n))
    return folder


def first(bucket: Objects) -> str:
    return min(key for key in bucket.objects if key.endswith(".arrow"))


def test_objects_of_two_states_lie_apart_and_go_with_their_records(
    state: Path, bucket: Objects, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    locations = Locations(segments=bucket.uri)
    with closing(FolderStore(other, "config", locations=locations, segment_records=8)) as store:
        store.append(batch(0, 8))
    with closing(FolderStore(state)) as store:
        store.forget("records", 32)
        assert same(store.read("records", Span(32, 67)), records(32, 35))
        assert not list(store.verify())
    assert len([key for key in bucket.objects if key.endswith(".arrow")]) == 2
    assert not (state / "segments").exists()
    with closing(FolderStore(other)) as store:
        assert same(store.read("records", Span(0, 8)), records(0, 8))


def test_a_state_that_has_lost_its_database_does_not_lose_its_records_too(
    state: Path, bucket: Objects
) -> None:
    before, locations = dict(bucket.objects), Locations(segments=bucket.uri)
    for name in ("state.db", "lock"):  # with the first the second would tell of the loss
        (state / name).unlink()
        with pytest.raises(StoreError, match="holds no state"):
            FolderStore(state, locations=locations)
        with pytest.raises(StoreError, match=r"lost the last|missing, but its segments are there"):
            FolderStore(state, "config", locations=locations)
        (state / "state.db").unlink(missing_ok=True)
    assert bucket.objects == before


@pytest.mark.parametrize("damage", ["flipped", "cut", "missing"])
def test_a_damaged_object_is_never_read(state: Path, bucket: Objects, damage: str) -> None:
    key = first(bucket)
    data = bucket.objects.pop(key)
    if damage == "flipped":
        bucket.objects[key] = bytes([data[0] ^ 1]) + data[1:]
    elif damage == "cut":
        bucket.objects[key] = data[:-8]
    with closing(FolderStore(state)) as store:
        with pytest.raises(StoreError, match="restore"):
            store.read("records", Span(0, 10))
        assert [problem.where for problem in store.verify()] == [key.rpartition("/")[2]]
        assert store.read("records", Span(32, 67)).n == 35
        bucket.objects[key] = data
        assert not list(store.verify())
        bucket.objects[key] = data[:-1] + b"x"  # also after it has been found sound
        with pytest.raises(StoreError, match="checksum"):
            store.read("records", Span(0, 10))


def test_a_bucket_that_refuses_leaves_all_as_it_was(state: Path, bucket: Objects) -> None:
    with closing(FolderStore(state, segment_records=32)) as store:
        before, bucket.broken = dict(bucket.objects), True
        with pytest.raises(StoreError, match=r"s3://bucket.*ACCESS_DENIED.*intact") as caught:
            store.append(batch(67, 64))
        assert "\n" not in str(caught.value)
        with pytest.raises(StoreError, match="can be reached"):
            store.read("records", Span(0, 10))
        assert store.read("records", Span(64, 67)).n == 3  # these wait in the database
        bucket.broken = False
        assert (bucket.objects, store.count("records")) == (before, 67)
        assert store.append(batch(67, 64)) == 131
        assert same(store.read("records", Span(0, 131)), records(0, 131))


@pytest.mark.slow
def test_any_process_reads_a_segment_by_its_address(state: Path, bucket: Objects) -> None:
    elsewhere = Elsewhere.of(state)
    assert elsewhere is not None
    with closing(FolderStore(state)) as store:
        segment = store.held()[0]
    where = elsewhere.segments(state).where(str(segment.file))
    assert where == inside(bucket.uri, f"{elsewhere.name}/{segment.file}")
    assert memoryview(fetched(where)).nbytes == segment.size
    load = "from tidegate.state.segment_folder import fetched; import sys"
    program = f"{load}; sys.stdout.buffer.write(memoryview(fetched({where!r})))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert found.stdout == bucket.objects[first(bucket)]


@pytest.mark.thorough
@pytest.mark.parametrize("kill", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_run_is_the_same_wherever_its_segments_are(
    kill: bool, bucket: Objects, tmp_path: Path
) -> None:
    found = []
    for name, segments in (("here", ""), ("there", f"{tmp_path}/big"), ("bucket", bucket.uri)):
        folder = tmp_path / name
        folder.mkdir()
        config = make(folder)
        with Path(config).open("a") as file:
            file.write(f'[store]\nsegments = "{segments}"\n' if segments else "")
        grow(folder, 0, 650)
        if kill:  # when a file is written, but no row knows of it
            killed = process("run", config, TIDEGATE_FAILPOINT="segment.folder", **KEYS)
            assert killed.returncode == -signal.SIGKILL
        with clocked():
            assert tidegate("run", config, "--quiet") == (0, "", "")
        assert tidegate("verify", str(folder / "gate.state"), "--config", config).returncode == 0
        found.append(hashes(folder))
    assert len(found[0]) > 1
    assert found[0] == found[1] == found[2]
    with Gate.look(tmp_path / "bucket" / "gate.state") as gate:
        files = {segment.file for segment in gate.store.held()} - {None}
    assert {key.rpartition("/")[2] for key in bucket.objects} - {""} == files
    (big,) = (tmp_path / "big").iterdir()
    assert os.listdir(big)
    assert big.stat().st_mode & 0o777 == 0o700


def test_a_place_that_is_not_there_makes_no_state(bucket: Objects, tmp_path: Path) -> None:
    for segments in ("nowhere://at/all", bucket.uri.replace("//bucket/", "//other-bucket/")):
        with pytest.raises(StoreError, match=segments.partition("?")[0]):
            FolderStore(tmp_path / "state", "config", locations=Locations(segments=segments))
    FolderStore(tmp_path / "state", "config", locations=Locations(segments=bucket.uri)).close()


@pytest.mark.parametrize(
    "segments",
    [
        "s3://key:secret@bucket/x",
        "records/here",
        "s3://[x",
        "fsspec+file:///x",
        "file:records",
        "s3://bucket/records?secret_key=secret",
        "fsspec+s3://bucket/records?Token=secret",
        "fsspec+local:///x",
    ],
)
def test_what_is_no_place_for_segments_is_refused(segments: str) -> None:
    with pytest.raises(InvalidValueError, match="segments must be") as caught:
        Locations(segments=segments)
    assert "secret" not in str(caught.value)


def state_in(folder: Path) -> None:
    FolderStore(folder / "a" / "b", "config").close()


def segments_in(folder: Path) -> None:
    locations = Locations(segments=str(folder / "a" / "b"))
    FolderStore(folder.parent / "state", "config", locations=locations).close()


def releases_in(folder: Path) -> None:
    publish(folder / "a" / "b", released([0, 1])[1][0])


def fleet_in(folder: Path) -> None:
    fleet = Fleet(root=folder / "a" / "b", members=())
    run_fleet(fleet, workers=1, follow=False, on_turn=lambda *_: None)


@pytest.mark.parametrize("make_in", [state_in, segments_in, releases_in, fleet_in])
def test_every_folder_that_is_made_is_durable(
    make_in: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a folder is in the one it lies in: that is synced once it has the name."""
    folder, fsync = tmp_path / "here", os.fsync
    folder.mkdir()
    durable: set[Path] = set()

    def spy(file: int) -> None:
        fsync(file)
        synced = Path(os.readlink(f"/proc/self/fd/{file}"))
        durable.update(synced.iterdir() if synced.is_dir() else [])

    monkeypatch.setattr(os, "fsync", spy)
    make_in(folder)
    made = [path for path in folder.rglob("*") if path.is_dir()]
    assert {folder / "a", folder / "a" / "b"} <= set(made) <= durable

"""One Gate per state, whatever becomes of the file that says so."""

import errno
import fcntl
import os
import signal
from collections.abc import Iterator
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.state import workload
from tidegate.checks import StoreError
from tidegate.run.config.tables import Locations
from tidegate.state.folder_store import FolderStore
from tidegate.state.lock import Lock, is_locked, witness_of

children = get_context("forkserver")
children.set_forkserver_preload(["tests.state.workload"])

SIZES = [sum(workload.SIZES[: index + 1]) for index in range(3)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    workload.opened(tmp_path / "state", Locations()).close()
    return tmp_path / "state"


@pytest.fixture
def other(folder: Path) -> Iterator[tuple[Any, Any]]:
    """Another process that holds the state, and how to talk to it."""
    ours, theirs = children.Pipe()
    child = children.Process(target=workload.hold, args=(folder, theirs))
    child.start()
    assert ours.recv() == 0
    yield child, ours
    child.kill()
    child.join(60)


def goes_on(pipe: Any) -> int:
    """What another process says that it holds after one more batch."""
    pipe.send("on")
    assert pipe.poll(60)
    count: int = pipe.recv()
    return count


def refused(folder: Path, why: str) -> None:
    with pytest.raises(StoreError, match=f"is in use by {why}: stop it first"):
        FolderStore(folder)


def test_a_deleted_lock_lets_nobody_in(folder: Path, other: tuple[Any, Any]) -> None:
    child, pipe = other
    refused(folder, f"process {child.pid}")
    (folder / "lock").unlink()
    refused(folder, "another process")
    assert is_locked(folder)
    assert goes_on(pipe) == SIZES[0]
    refused(folder, f"process {child.pid}")
    assert goes_on(pipe) == SIZES[1]


def test_a_lock_in_another_place_lets_nobody_in(folder: Path, other: tuple[Any, Any]) -> None:
    child, pipe = other
    (folder / "lock").rename(folder / "moved")
    (folder / "lock").write_text("")
    refused(folder, "another process")
    assert goes_on(pipe) == SIZES[0]
    refused(folder, f"process {child.pid}")


def test_a_deleted_lock_still_tells_of_lost_transactions(
    folder: Path, other: tuple[Any, Any]
) -> None:
    child, pipe = other
    assert goes_on(pipe) == SIZES[0]
    (folder / "lock").unlink()
    assert goes_on(pipe) == SIZES[1]
    os.kill(child.pid, signal.SIGKILL)
    child.join(60)
    (folder / "state.db-wal").unlink()
    with pytest.raises(StoreError, match=r"lost the last \d transaction"):
        FolderStore(folder)


def test_the_lock_goes_with_its_process(folder: Path, other: tuple[Any, Any]) -> None:
    child, pipe = other
    assert goes_on(pipe) == SIZES[0]
    (folder / "lock").unlink()
    os.kill(child.pid, signal.SIGKILL)
    child.join(60)
    assert not is_locked(folder)
    with closing(FolderStore(folder)) as store:
        assert store.count("records") == SIZES[0]


def test_a_file_system_that_cannot_lock_folders_locks_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flock = fcntl.flock

    def of_files_only(descriptor: int, how: int) -> None:
        if os.path.samestat(os.fstat(descriptor), tmp_path.stat()):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", of_files_only)
    assert not is_locked(tmp_path)
    with closing(Lock(tmp_path)):
        assert is_locked(tmp_path)
        with pytest.raises(StoreError, match=f"in use by process {os.getpid()}"):
            Lock(tmp_path)
    assert not is_locked(tmp_path)
    Lock(tmp_path).close()


@pytest.mark.parametrize("text", ["", "9" * 5000, f"{'9' * 5000} 1", "1 2 3 4", "\0" * 42])
def test_a_damaged_witness_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "lock").write_text(text)
    assert witness_of(tmp_path) is None
    Lock(tmp_path).close()
    assert witness_of(tmp_path) is not None

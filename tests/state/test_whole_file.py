"""Files that appear whole or not at all, in folders where others may have planted something."""

import os
import signal
import stat
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import pytest

from tests.state import workload
from tests.state.gatelife import config, opened, stream
from tests.state.released import made
from tidegate.failpoints import EXPORTS
from tidegate.gate import Gate
from tidegate.release import export_formats
from tidegate.run.config.tables import Locations
from tidegate.state import verify_published
from tidegate.state.folder_store import FolderStore
from tidegate.whole_file import UNFINISHED, delete_unfinished, read_whole, write_whole

children = get_context("forkserver")
children.set_forkserver_preload(["tests.state.workload"])


def unfinished(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if UNFINISHED.fullmatch(name)]


def killed(path: Path, failpoint: str) -> None:
    child = children.Process(target=workload.write_file, args=(path, failpoint))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL


@pytest.mark.parametrize("failpoint", EXPORTS)
def test_a_kill_leaves_the_old_file_and_what_can_be_deleted(tmp_path: Path, failpoint: str) -> None:
    path = tmp_path / "latest"
    path.write_bytes(b"old")
    (tmp_path / ".latest.unfinished").write_bytes(b"somebody's")  # no name of ours
    killed(path, failpoint)
    assert path.read_bytes() == b"old"
    assert len(unfinished(tmp_path)) == (failpoint != "export.write")
    delete_unfinished(tmp_path, "other")
    assert len(unfinished(tmp_path)) == (failpoint != "export.write")
    delete_unfinished(tmp_path, "latest")
    assert sorted(os.listdir(tmp_path)) == [".latest.unfinished", "latest"]


def test_what_is_being_written_is_not_taken_for_abandoned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def meanwhile(descriptor: int) -> None:
        assert unfinished(tmp_path)
        delete_unfinished(tmp_path)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", meanwhile)
    write_whole(tmp_path / "latest", b"new", point="export")
    assert (tmp_path / "latest").read_bytes() == b"new"


def linked(path: Path, target: Path) -> None:
    path.symlink_to(target)


def hard_linked(path: Path, target: Path) -> None:
    os.link(target, path)


def fifo(path: Path, _: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [linked, hard_linked, fifo])
def test_what_has_the_name_of_a_file_is_replaced_and_not_written_to(
    tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    ledger, path = tmp_path / "state.db", tmp_path / "release.json"
    _, chain, _ = made([0, 1])
    export_formats.export(chain[0], path)
    ledger.write_bytes(path.read_bytes())  # a link to what would be written anyway is no file
    path.unlink()
    plant(path, ledger)
    export_formats.export(chain[0], path)
    assert stat.S_ISREG(path.lstat().st_mode)
    assert path.read_bytes() == ledger.read_bytes()
    path.unlink()
    plant(path, ledger)
    export_formats.export(chain[1], path)
    assert path.read_bytes() != ledger.read_bytes()


@pytest.mark.parametrize("plant", [linked, fifo, lambda path, _: path.mkdir()])
def test_only_a_regular_file_is_read(tmp_path: Path, plant: Callable[[Path, Path], None]) -> None:
    (tmp_path / "state.db").write_bytes(b"ledger")
    plant(tmp_path / "latest", tmp_path / "state.db")
    with pytest.raises(OSError, match="latest"):
        read_whole(tmp_path / "latest")


def test_a_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "release.json").mkdir()
    _, chain, _ = made([0, 1])
    with pytest.raises(IsADirectoryError, match=r"release\.json"):
        export_formats.export(chain[0], tmp_path / "release.json")
    assert os.listdir(tmp_path) == ["release.json"]


def test_links_in_the_publish_folder_lead_nowhere(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out"
    out.mkdir()
    kinds = ("safetensors", "md", "json")
    names = [f"{number:06}.{kind}" for number in range(4) for kind in kinds]
    for name in names:
        (out / f".{name}.unfinished").symlink_to(state / "state.db")
    (out / ".latest.unfinished").symlink_to(state / "state.db")
    (out / "000001.md").symlink_to(state / "state.db")
    with opened(state, config(publish={"folder": str(out)})) as gate:
        gate.ingest(*stream(1000))
        assert [release.number for release in gate.releases()] == [0, 1, 2, 3]
        assert not list(gate.store.verify())
    assert not (out / "000001.md").is_symlink()
    with Gate.look(state) as gate:
        assert len(list(gate.releases())) == 4
    assert not list(verify_published.verify(out))


def test_a_gate_deletes_what_a_killed_one_left_in_its_publish_folder(tmp_path: Path) -> None:
    state, out = tmp_path / "state", tmp_path / "out"
    out.mkdir()
    killed(out / "000000.json", "export.rename")
    assert unfinished(out)
    with opened(state, config(publish={"folder": str(out)})):
        assert not unfinished(out)


def test_a_state_can_be_made_where_the_making_of_one_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    killed(folder / "elsewhere.json", "export.rename")
    locations = Locations(segments=str(tmp_path / "segments"))
    FolderStore(folder, "config", locations=locations).close()
    assert not unfinished(folder)


def test_an_export_deletes_what_a_killed_one_left(tmp_path: Path) -> None:
    _, chain, _ = made([0, 1])
    killed(tmp_path / "model.npz", "export.fsync")
    killed(tmp_path / "other.npz", "export.fsync")
    export_formats.export(chain[0], tmp_path / "model.npz")
    assert [name.split(".")[1] for name in unfinished(tmp_path)] == ["other"]


def test_files_are_for_whom_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "file", b"", point="export")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    write_whole(tmp_path / "file", b"", point="segment", mode=0o600)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600

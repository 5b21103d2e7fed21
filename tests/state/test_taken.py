"""A holdout holds no record that a state takes in, and no file is taken in twice."""

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.cli.run import tidegate
from tests.state.gate_files import HEADER, config_text, source_table, write_csv
from tidegate.gate import Gate
from tidegate.sources.file_offset import FileOffset


def write_config(folder: Path, records: str, holdout: str | None = "holdout.csv") -> str:
    """A configuration of a source and a holdout, by their names in the folder."""
    kind = "csv" if (folder / records).is_dir() else Path(records).suffix.removeprefix(".")
    quality = "" if holdout is None else f'[quality]\nholdout = "{folder / holdout}"\n'
    path = folder / "gate.toml"
    path.write_text(config_text(quality, source_table(folder / records, kind)))
    return str(path)


def in_a_folder(folder: Path) -> None:
    (folder / "many").mkdir()
    (folder / "records.csv").rename(folder / "many" / "records.csv")


def link(folder: Path) -> None:
    os.link(folder / "records.csv", folder / "holdout.csv")


def symlink(folder: Path) -> None:
    (folder / "holdout.csv").symlink_to("records.csv")


def copy(folder: Path) -> None:
    shutil.copy(folder / "records.csv", folder / "holdout.csv")


def copy_of_less(folder: Path) -> None:
    copy(folder)
    with (folder / "records.csv").open("a") as file:
        file.write("1.0,0.5,0.5,1\n")


def copy_and_more(folder: Path) -> None:
    copy(folder)
    with (folder / "holdout.csv").open("a") as file:
        file.write("1.0,0.5,0.5,1\n")


@pytest.mark.parametrize("make", [link, symlink, copy, copy_of_less, copy_and_more])
@pytest.mark.parametrize("folder_of_files", [False, True])
def test_a_holdout_that_is_the_source_is_refused(
    tmp_path: Path, make: Callable[[Path], None], folder_of_files: bool
) -> None:
    write_csv(tmp_path / "records.csv", 350)
    make(tmp_path)
    if folder_of_files:
        if make is symlink:
            (tmp_path / "holdout.csv").unlink()
            (tmp_path / "holdout.csv").symlink_to("many/records.csv")
        in_a_folder(tmp_path)
    config = write_config(tmp_path, "many" if folder_of_files else "records.csv")
    done = tidegate("run", config)
    assert done.returncode == 2, done
    assert re.fullmatch(r"tidegate: quality\.holdout must not be .*\n", done.stderr)
    assert not (tmp_path / "gate.state").exists()  # its settings can still be changed


def test_a_holdout_that_is_spelt_like_the_source_is_refused(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    write_csv(tmp_path / "many" / "a.csv", 350)
    write_csv(tmp_path / "many" / "b.csv", 20, 350)
    for source, holdout in (
        ("many/a.csv", "many/a.csv"),
        ("many/a.csv", "many/../many/a.csv"),
        ("many", "many/b.csv"),
    ):
        done = tidegate("run", write_config(tmp_path, source, holdout))
        assert (done.returncode, "quality.holdout must not be" in done.stderr) == (2, True), holdout
    assert tidegate("run", write_config(tmp_path, "many/a.csv", "many/b.csv")).returncode == 0


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_holdout_that_was_taken_in_is_refused_ever_after(tmp_path: Path, kind: str) -> None:
    write_csv(tmp_path / "records.csv", 350)
    write_csv(tmp_path / "more.csv", 90, 1000)
    write_csv(tmp_path / "holdout.csv", 20, 5000)
    if kind == "parquet":
        for name in ("more", "holdout"):
            table = pyarrow.csv.read_csv(tmp_path / f"{name}.csv")
            pq.write_table(table, tmp_path / f"{name}.parquet")
    holdout = tmp_path / f"holdout.{kind}"
    config = write_config(tmp_path, "records.csv", holdout.name)
    state = str(tmp_path / "gate.state")
    assert tidegate("run", config).returncode == 0
    assert tidegate("ingest", state, str(tmp_path / f"more.{kind}")).returncode == 0
    assert tidegate("ingest", state, str(tmp_path / f"more.{kind}")).returncode == 0
    good = holdout.read_bytes()
    bad = [(tmp_path / f"more.{kind}").read_bytes()]
    if kind == "parquet":  # the same rows, written in another way
        pq.write_table(pq.read_table(tmp_path / "more.parquet"), holdout, row_group_size=7)
        bad.append(holdout.read_bytes())
    (tmp_path / f"more.{kind}").unlink()
    for content in bad:
        holdout.write_bytes(content)
        write_csv(tmp_path / "new.csv", 10, 9000)
        for command in (["run", config], ["ingest", state, str(tmp_path / "new.csv")]):
            done = tidegate(*command)
            assert done.returncode == 2
            assert "it starts with records that were taken from file" in done.stderr
    holdout.write_bytes(good)
    assert tidegate("run", config).returncode == 0


def test_a_holdout_out_of_a_folder_that_was_taken_in_is_refused(tmp_path: Path) -> None:
    (tmp_path / "many").mkdir()
    for number in range(3):
        write_csv(tmp_path / "many" / f"{number}.csv", 120, 120 * number)
    write_csv(tmp_path / "holdout.csv", 20, 5000)
    config = write_config(tmp_path, "many")
    assert tidegate("run", config).returncode == 0
    for number in (1, 2):
        (tmp_path / "many" / f"{number}.csv").replace(tmp_path / "holdout.csv")
        done = tidegate("run", config)
        assert (done.returncode, "taken from records" in done.stderr) == (2, True), done


@pytest.mark.parametrize("make", [os.link, shutil.copy])
def test_the_holdout_is_not_taken_in(tmp_path: Path, make: Callable[[Path, Path], object]) -> None:
    write_csv(tmp_path / "records.csv", 350)
    write_csv(tmp_path / "holdout.csv", 20, 5000)
    assert tidegate("run", write_config(tmp_path, "records.csv")).returncode == 0
    make(tmp_path / "holdout.csv", tmp_path / "more.csv")
    for name in ("holdout", "more"):
        done = tidegate("ingest", str(tmp_path / "gate.state"), str(tmp_path / f"{name}.csv"))
        assert (done.returncode, "the records of quality.holdout" in done.stderr) == (2, True), done


def test_a_holdout_without_a_record_in_common_is_fine(tmp_path: Path) -> None:
    write_csv(tmp_path / "holdout.csv", 20, 5000)
    (tmp_path / "records.csv").write_text(HEADER)
    config = write_config(tmp_path, "records.csv")
    assert tidegate("run", config).returncode == 0
    write_csv(tmp_path / "records.csv", 350)
    assert tidegate("run", config).returncode == 0


def test_a_member_of_a_fleet_is_not_tried_on_what_another_one_reads(tmp_path: Path) -> None:
    for name in ("north", "south"):
        write_csv(tmp_path / f"{name}.csv", 120)
    os.link(tmp_path / "south.csv", tmp_path / "public.csv")
    members = "[members.north]\n[members.south]\n"
    holdout = f'[quality]\nholdout = "{tmp_path}/public.csv"\n'
    path = tmp_path / "fleet.toml"
    path.write_text(config_text(holdout, source_table(tmp_path / "{member}.csv"), members))
    done = tidegate("fleet", "run", str(path))
    assert done.returncode == 2
    assert "quality.holdout must not be the file with inode" in done.stderr
    assert "which members.south reads" in done.stderr


# -- a file that is taken in by itself


def test_a_file_is_not_taken_in_by_ingest_and_run(tmp_path: Path) -> None:
    write_csv(tmp_path / "records.csv", 350)
    config = write_config(tmp_path, "records.csv", None)
    state = str(tmp_path / "gate.state")
    assert tidegate("run", config).returncode == 0
    os.link(tmp_path / "records.csv", tmp_path / "link.csv")
    done = tidegate("ingest", state, str(tmp_path / "link.csv"))
    assert (done.returncode, "a link to a file of [source]" in done.stderr) == (2, True), done
    write_csv(tmp_path / "more.csv", 50, 1000)
    assert tidegate("ingest", state, str(tmp_path / "more.csv")).returncode == 0
    os.link(tmp_path / "more.csv", tmp_path / "again.csv")
    done = tidegate("ingest", state, str(tmp_path / "again.csv"))
    assert (done.returncode, "taken under another name" in done.stderr) == (2, True), done
    done = tidegate("run", write_config(tmp_path, "again.csv", None))
    assert (done.returncode, "was taken by ingest" in done.stderr) == (2, True), done


def test_a_file_that_has_changed_is_ingested_with_a_consent(tmp_path: Path) -> None:
    write_csv(tmp_path / "records.csv", 350)
    state, more = str(tmp_path / "gate.state"), tmp_path / "more.csv"
    assert tidegate("run", write_config(tmp_path, "records.csv", None)).returncode == 0
    write_csv(more, 50, 1000)
    assert tidegate("ingest", state, str(more)).returncode == 0
    lines = more.read_text().splitlines(keepends=True)
    more.write_text("".join([*lines[:10], *lines[11:], "1.0,0.5,0.5,1\n"]))  # somebody was deleted
    done = tidegate("ingest", state, str(more))
    assert done.returncode == 2
    found = re.search(r"--resume ([0-9a-f]+) ([0-9]+)", done.stderr)
    assert found is not None
    assert found[2] == "50"
    assert tidegate("ingest", state, str(more), "--resume", found[1], "49").returncode == 0
    assert tidegate("ingest", state, str(more)).returncode == 0
    with Gate.look(state) as gate:
        assert gate.store.count("records") == 350 + 50 + 1
        (name,) = (each for each in gate.store.sources() if each != "records")
        place = FileOffset.of(str(gate.store.offset(name)))
        assert (place.records, place.seen.row) == (51, 50)


def test_what_is_ingested_is_a_file_with_a_name(tmp_path: Path) -> None:
    write_csv(tmp_path / "records.csv", 350)
    state = str(tmp_path / "gate.state")
    assert tidegate("run", write_config(tmp_path, "records.csv", None)).returncode == 0
    os.mkfifo(tmp_path / "fifo.csv")
    done = tidegate("ingest", state, str(tmp_path / "fifo.csv"))
    assert (done.returncode, "fifo.csv is a FIFO, not a file" in done.stderr) == (2, True), done
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")
    write_csv(Path(odd), 10)
    done = tidegate("ingest", state, odd)
    assert (done.returncode, r"caf\xe9.csv is not UTF-8" in done.stderr) == (2, True), done

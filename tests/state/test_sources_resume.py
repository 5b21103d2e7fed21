"""What was read of a file must still be there: else a resume is refused, unless consented to."""

import json
import os
import re
import socket
import tomllib
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.state.file_sources import csv_source, json_source, parquet_source
from tidegate.run.config import Config, ConfigError
from tidegate.sources import RawBatch, SourceColumns, SourceError
from tidegate.sources import file_offset as place_module
from tidegate.sources import files as files_module
from tidegate.sources.file_offset import FileOffset, mark
from tidegate.sources.files import Files
from tidegate.sources.json_lines import StandardInput

COLUMNS = SourceColumns(label="y", features=("a", "b"), number_labels=True, dtype="float64")
KINDS: dict[str, Callable[..., Files]] = {
    "csv": csv_source,
    "jsonl": json_source,
    "parquet": parquet_source,
}
Rows = list[tuple[int, int]]

in_a_folder = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
rows = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12)
kinds = st.sampled_from(sorted(KINDS))
counts = st.integers(1, 5)


def write(path: Path, values: Rows) -> Path:
    """A file of records (a, b) with a label, of the kind that its name says."""
    if path.suffix == ".csv":
        path.write_text("a,b,y\n" + "".join(f"{a},{b},1\n" for a, b in values))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"a": a, "b": b, "y": 1}) + "\n" for a, b in values))
    else:
        columns = np.array(values, np.int64).reshape(-1, 2).T
        labels = np.ones(len(values), np.int64)
        pq.write_table(pa.table([*columns, labels], names=["a", "b", "y"]), path)
    return path


def source_of(path: Path, count: int | None = None, **more: Any) -> Files:
    """A file of the kind that its name says, in batches of so many records."""
    kind = path.suffix.removeprefix(".")
    return KINDS[kind]("s", path, COLUMNS, count=count, **more)


def taken(batches: Iterator[RawBatch]) -> Rows:
    return [(int(a), int(b)) for batch in batches for a, b in batch.X]


def refused(source: Files, offset: str) -> tuple[str, str]:
    """The consent that a refusal proposes: pasted as it is, it is TOML."""
    with pytest.raises(SourceError) as caught:
        list(source.batches(offset))
    assert "\n" not in str(caught.value)
    found = re.search(r"resume = \[.*?\]", str(caught.value))
    assert found is not None, caught.value
    old, new = tomllib.loads(found[0])["resume"]
    assert old == mark(offset)
    return old, new


# -- the law


@in_a_folder
@given(kinds, rows, rows, st.data())
def test_a_file_that_only_grows_goes_on_with_exactly_the_rest(
    tmp_path: Path, kind: str, first: Rows, more: Rows, data: st.DataObject
) -> None:
    count = data.draw(counts)
    path = write(tmp_path / f"f.{kind}", first)
    batches = list(source_of(path, count).batches(None))
    batch = data.draw(st.sampled_from(batches))
    write(path, first + more)
    read = FileOffset.of(batch.offset).records
    assert taken(source_of(path, count).batches(batch.offset)) == (first + more)[read:]
    last = [each.offset for each in source_of(path, count).batches(batch.offset)][-1]
    assert FileOffset.of(last).records == len(first + more)


@in_a_folder
@given(kinds, rows, rows, st.data())
def test_any_other_start_is_refused_unless_it_is_consented_to(
    tmp_path: Path, kind: str, first: Rows, other: Rows, data: st.DataObject
) -> None:
    count = data.draw(counts)
    path = write(tmp_path / f"f.{kind}", first)
    batch = data.draw(st.sampled_from(list(source_of(path, count).batches(None))))
    read = FileOffset.of(batch.offset).records
    assert read is not None
    assume(other[:read] != first[:read])
    write(path, other)
    old, new = refused(source_of(path, count), batch.offset)
    assert int(new) == min(read, len(other))
    consented = source_of(path, count, resume=(old, new))
    assert taken(consented.batches(batch.offset)) == other[int(new) :]
    chosen = data.draw(st.integers(0, len(other)))
    consented = source_of(path, count, resume=(old, str(chosen)))
    after = list(consented.batches(batch.offset))
    assert taken(iter(after)) == other[chosen:]
    if after:  # records that were taken before stay counted, and the new file is known from now on
        assert FileOffset.of(after[-1].offset).records == read + len(other) - chosen
        assert taken(consented.batches(after[0].offset)) == other[chosen + after[0].n :]


@in_a_folder
@given(st.sampled_from(["csv", "jsonl"]), rows, counts, st.data())
def test_any_byte_that_was_read_counts(
    tmp_path: Path, kind: str, values: Rows, count: int, data: st.DataObject
) -> None:
    path = write(tmp_path / f"f.{kind}", values)
    batch = data.draw(st.sampled_from(list(source_of(path, count).batches(None))))
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, FileOffset.of(batch.offset).seen.at - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    with pytest.raises(SourceError):
        list(source_of(path, count).batches(batch.offset))


# -- what was seen to go wrong


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_file_rewritten_newest_first_is_refused(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"f.{kind}", [(i, 0) for i in range(20)])
    (batch,) = source_of(path).batches(None)
    write(path, [(i, 0) for i in reversed(range(40))])
    assert refused(source_of(path), batch.offset)[1] == "20"


def test_columns_that_change_places_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", [(1, 2)])
    (batch,) = source_of(path).batches(None)
    path.write_text("b,a,y\n1,2,1\n3,4,1\n")
    with pytest.raises(SourceError, match="has another header than when it was read: restore the"):
        next(source_of(path).batches(batch.offset))
    assert taken(
        source_of(path, resume=refused(source_of(path), batch.offset)).batches(batch.offset)
    )
    path = write(tmp_path / "f.parquet", [(1, 2)])
    (batch,) = source_of(path).batches(None)
    pq.write_table(pq.read_table(path).select(["b", "a", "y"]), path)
    with pytest.raises(SourceError, match="has other columns than when it was read"):
        next(source_of(path).batches(batch.offset))


def test_how_a_parquet_file_is_written_does_not_matter(tmp_path: Path) -> None:
    values = [(i, -i) for i in range(50)]
    path = write(tmp_path / "f.parquet", values[:30])
    offsets = [batch.offset for batch in source_of(path, 8).batches(None)]
    table = pq.read_table(write(path, values))
    pq.write_table(table, path, row_group_size=7, compression="gzip", use_dictionary=False)
    for number, offset in enumerate(offsets, start=1):
        assert taken(source_of(path, 8).batches(offset)) == values[min(8 * number, 30) :]


def test_texts_are_part_of_what_was_read(tmp_path: Path) -> None:
    columns = SourceColumns(label="y", text="t")
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"t": ["u", None, "v"], "y": ["p", "q", None]}), path)
    (batch,) = parquet_source("s", path, columns).batches(None)
    pq.write_table(pa.table({"t": ["u", None, "v", "w"], "y": ["p", "q", None, "p"]}), path)
    assert [each.n for each in parquet_source("s", path, columns).batches(batch.offset)] == [1]
    pq.write_table(pa.table({"t": ["u", None, "v", "w"], "y": ["p", None, "q", "p"]}), path)
    with pytest.raises(SourceError, match="does not start with what was read"):
        next(parquet_source("s", path, columns).batches(batch.offset))


def test_a_torn_last_line_is_passed_by_a_consent(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_text("a,b,y\n1,1,1\n2,")
    (batch,) = source_of(path).batches(None)
    path.write_text("a,b,y\n1,1,1\n2,2,1\n3,3,1\n")
    old, new = refused(source_of(path), batch.offset)
    assert taken(source_of(path, resume=(old, new)).batches(batch.offset)) == [(3, 3)]
    again = source_of(path, resume=(old, "1"))  # the line as it is now, as a record of its own
    assert taken(again.batches(batch.offset)) == [(2, 2), (3, 3)]


def test_another_file_is_refused_unless_it_is_consented_to(tmp_path: Path) -> None:
    values = [(1, 1), (2, 2), (3, 3)]
    offset = next(source_of(write(tmp_path / "f.csv", values), 2).batches(None)).offset
    other = source_of(write(tmp_path / "g.csv", values[::-1]), 2)
    assert refused(other, offset)[1] == "0"
    renamed = source_of(write(tmp_path / "h.csv", values), 2)
    old, new = refused(renamed, offset)
    assert taken(replace(renamed, resume=(old, new)).batches(offset)) == values[2:]


def test_a_consent_names_a_number_of_records_that_are_there(tmp_path: Path) -> None:
    for kind in KINDS:
        path = write(tmp_path / f"f.{kind}", [(1, 1), (2, 2)])
        (batch,) = source_of(path).batches(None)
        write(path, [(2, 2)])
        for new, told in (
            ("2", "has 1 records, fewer than the 2"),
            ("next", "a number of records"),
        ):
            source = source_of(path, resume=(mark(batch.offset), new))
            with pytest.raises(SourceError, match=told):
                list(source.batches(batch.offset))


def test_a_consent_in_the_configuration() -> None:
    def table(*resume: str) -> dict[str, Any]:
        return {"type": "csv", "path": "f.csv", "resume": list(resume)}

    known: dict[str, Any] = {
        "schedule": {"kind": "independent", "step": 1},
        "budget": {"epsilon": 1.0},
        "records": {"classes": [0, 1], "norm": 1.0, "columns": ["a", "b"], "label": "y"},
    }
    (source,) = Config.of(known | {"source": table("00ff", "12")}).sources().values()
    assert isinstance(source, Files)
    assert source.resume == ("00ff", "12")
    for bad in (["00ff"], ["00ff", "-1"], ["00ff", "twelve"]):
        with pytest.raises(ConfigError, match=r"^source\.resume must be the "):
            Config.of(known | {"source": table(*bad)})


# -- when all is read again, and when the last block is enough


def test_the_last_block_is_read_again_even_if_nothing_seems_to_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sources.lines.BYTES", 64)
    monkeypatch.setattr(files_module, "_stamp", lambda _: "a time")
    path = write(tmp_path / "f.csv", [(i, i) for i in range(100)])
    first, *_ = source_of(path, 50).batches(None)
    content = bytearray(path.read_bytes())
    at = FileOffset.of(first.offset).seen.at
    for position, seen in ((at // 64 * 64 - 1, False), (at // 64 * 64, True), (2, True)):
        changed = bytearray(content)
        changed[position] ^= 1
        with path.open("r+b") as file:  # the inode stays
            file.write(changed)
        if seen:
            with pytest.raises(SourceError):
                list(source_of(path, 50).batches(first.offset))
        else:
            assert len(taken(source_of(path, 50).batches(first.offset))) == 50
    monkeypatch.setattr(files_module, "_stamp", lambda _: "another time")
    with pytest.raises(SourceError):
        list(source_of(path, 50).batches(first.offset))


def test_a_run_that_goes_on_does_not_read_all_again_and_the_next_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate.sources.lines.BYTES", 64)
    path = write(tmp_path / "f.csv", [(i, i) for i in range(100)])
    source = source_of(path, follow=lambda: False)
    (first,) = source.batches(None)
    with path.open("r+b") as file:
        file.seek(20)
        file.write(b"9")
        file.seek(0, os.SEEK_END)
        file.write(b"7,7,1\n")
    (second,) = source.batches(first.offset)
    assert taken(iter([second])) == [(7, 7)]
    with pytest.raises(SourceError, match="does not start with what was read of it before"):
        list(source_of(path).batches(second.offset))


def test_times_that_may_repeat_are_not_trusted(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", [(1, 1)])
    assert files_module._stamp(path.stat()) is None
    later = path.stat().st_mtime + files_module.SETTLING_SECONDS
    fields = [*path.stat()]
    old = os.stat_result([*fields[:7], *(int(later) - 9 for _ in range(3))])
    assert files_module._stamp(old) is not None


# -- folders


def test_an_earlier_name_is_refused_even_if_another_file_has_gone(tmp_path: Path) -> None:
    for name in "bd":
        write(tmp_path / f"{name}.csv", [(1, 1)])
    source = csv_source("s", tmp_path, COLUMNS)
    *_, last = source.batches(None)
    (tmp_path / "b.csv").unlink()
    for name in "abc":
        write(tmp_path / f"{name}.csv", [(2, 2)])
        expected = rf"^{name}\.csv in .* is new, but .* rename it to sort last$"
        if name == "b":  # it was taken in, under this name
            assert list(source.batches(last.offset)) == []
        else:
            with pytest.raises(SourceError, match=expected):
                list(source.batches(last.offset))
        (tmp_path / f"{name}.csv").unlink()


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_file_is_not_taken_again_under_another_name(tmp_path: Path, kind: str) -> None:
    path = write(tmp_path / f"a.{kind}", [(1, 1), (2, 2)])
    source = replace(source_of(path), path=tmp_path)
    (batch,) = source.batches(None)
    os.link(path, tmp_path / f"b.{kind}")
    for _ in range(2):  # while the first name is there, and when it is not
        with pytest.raises(SourceError, match=r"b\.\w+ is .*taken before: remove it"):
            list(source.batches(batch.offset))
        path.unlink(missing_ok=True)
    (tmp_path / f"b.{kind}").unlink()
    write(tmp_path / f"c.{kind}", [(3, 3)])  # often of the same inode
    assert taken(source.batches(batch.offset)) == [(3, 3)]


def test_two_names_of_one_file_are_refused_at_the_first_reading(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", [(1, 1)])
    (tmp_path / "b.csv").symlink_to("a.csv")
    with pytest.raises(SourceError, match=r"b\.csv is a link to the same file as a\.csv"):
        list(csv_source("s", tmp_path, COLUMNS).batches(None))


def test_the_newest_file_of_a_folder_may_grow(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [(1, 1)])
    source = csv_source("s", tmp_path, COLUMNS)
    (batch,) = source.batches(None)
    write(path, [(1, 1), (2, 2)])
    write(tmp_path / "b.csv", [(3, 3)])
    assert taken(source.batches(batch.offset)) == [(2, 2), (3, 3)]
    write(path, [(5, 5), (2, 2)])
    old, new = refused(source, batch.offset)
    consented = replace(source, resume=(old, new))
    assert taken(consented.batches(batch.offset)) == [(2, 2), (3, 3)]


def test_a_file_that_has_gone_is_passed_by_a_consent(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", [(1, 1), (2, 2)])
    write(tmp_path / "b.csv", [(3, 3)])
    source = replace(source_of(path, 1), path=tmp_path)
    first = next(source.batches(None))
    path.unlink()
    consent = refused(source, first.offset)
    assert consent[1] == "next"
    after = list(replace(source, resume=consent).batches(first.offset))
    assert taken(iter(after)) == [(3, 3)]
    assert FileOffset.of(after[-1].offset).records == 2


def test_files_without_records_are_passed_by(tmp_path: Path) -> None:
    for name, values in {"a": [(1, 1)], "b": [], "c": [(2, 2)]}.items():
        write(tmp_path / f"{name}.csv", values)
    source = csv_source("s", tmp_path, COLUMNS)
    first, second = source.batches(None)
    assert taken(source.batches(first.offset)) == [(2, 2)]
    assert list(source.batches(second.offset)) == []


def test_the_offset_of_a_folder_stays_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_module, "MAX_LISTED_FILES", 3)
    source = csv_source("s", tmp_path, COLUMNS)
    offset = None
    for number in range(6):
        path = write(tmp_path / f"{number}.csv", [(number, 0)])
        (batch,) = source.batches(offset)
        offset = batch.offset
        path.unlink()
    assert len(FileOffset.of(str(offset)).taken.entries) <= 3
    for number in range(6, 12):
        write(tmp_path / f"{number:02}.csv", [(number, 0)])
    with pytest.raises(SourceError, match="holds more than 3 files that were taken: delete"):
        list(csv_source("s", tmp_path, COLUMNS).batches(None))


# -- what is no file


def bound(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / f"a.{kind}"
    makers: dict[str, Callable[[], object]] = {
        "a FIFO": lambda: os.mkfifo(path),
        "a socket": lambda: bound(path),
        "a folder": path.mkdir,
        "a device": lambda: path.symlink_to("/dev/zero"),
    }
    for what, make in makers.items():
        make()
        for where in (folder, path):
            if where == path and what == "a folder":
                continue
            with pytest.raises(SourceError, match=rf"a\.{kind} is {what}, not a file: move it"):
                list(KINDS[kind]("s", where, COLUMNS).batches(None))
        path.rmdir() if what == "a folder" else path.unlink()


def test_a_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.csv")).write_text("a,b,y\n1,1,1\n")
    with pytest.raises(SourceError, match=r"caf\\xe9\.csv is not UTF-8: rename it$"):
        list(csv_source("s", tmp_path, COLUMNS).batches(None))


# -- offsets of version 0.1.0


def old_offset(path: Path, at: int, *, last: bool = False, rank: int = 1) -> str:
    return json.dumps({"at": at, "file": path.name, "last": last, "rank": rank}, sort_keys=True)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_an_old_offset_of_a_file_goes_on_and_becomes_a_new_one(tmp_path: Path, kind: str) -> None:
    values = [(i, i) for i in range(7)]
    path = write(tmp_path / f"f.{kind}", values)
    at = 3 if kind == "parquet" else path.read_bytes().index(b"3" if kind == "csv" else b'{"a": 3')
    batches = list(source_of(path, 2).batches(old_offset(path, at)))
    assert taken(iter(batches)) == values[3:]
    assert [batch.n for batch in batches] == [1, 2, 1]  # at the same records as ever
    fresh = [batch.offset for batch in source_of(path, 2).batches(None)]
    assert FileOffset.of(batches[-1].offset) == FileOffset.of(fresh[-1])
    write(path, [(9, 9), *values])
    refused(source_of(path, 2), batches[0].offset)


def test_an_old_offset_of_a_file_that_shrank_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "f.csv", [(1, 1)])
    assert refused(source_of(path), old_offset(path, 99))[1] == "1"


def test_an_old_offset_of_a_folder_goes_on_and_becomes_a_new_one(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path / f"{number}.csv", [(number, 0), (number, 1)])
    source = csv_source("s", tmp_path, COLUMNS)
    old = old_offset(tmp_path / "1.csv", 18, last=True, rank=2)
    first, last = source.batches(old)
    assert taken(iter([first, last])) == [(2, 0), (2, 1), (3, 0), (3, 1)]
    assert FileOffset.of(last.offset).records is None  # nobody has counted those before
    (tmp_path / "0.csv").unlink()
    write(tmp_path / "00.csv", [(9, 9)])
    with pytest.raises(SourceError, match=r"^00\.csv in .* is new, but sorts before"):
        list(source.batches(last.offset))
    write(tmp_path / "0.csv", [(0, 0)])
    with pytest.raises(SourceError, match=r"^a file in .* is new, but sorts before"):
        list(source.batches(old))


def test_an_old_offset_of_standard_input_goes_on_and_becomes_a_new_one() -> None:
    lines = [b'{"a": %d, "b": 0, "y": 1}\n' % number for number in range(4)]
    old = f"{len(lines[0])}:{zlib.crc32(lines[0])}"

    def batches(offset: str, *sent: bytes) -> list[RawBatch]:
        pipe = StandardInput(name="s", columns=COLUMNS, stream=Sent(b"".join(sent)))
        return [batch for batch in pipe.batches(offset) if batch.n]

    (batch,) = batches(old, *lines[:3])
    assert taken(iter([batch])) == [(1, 0), (2, 0)]
    assert FileOffset.of(batch.offset).records == 3
    assert taken(iter(batches(batch.offset, *lines))) == [(3, 0)]
    for offset in (old, batch.offset):
        with pytest.raises(SourceError, match="send the stream again from its beginning"):
            batches(offset, lines[1], *lines)


# -- standard input


class Sent:
    """A pipe through which some bytes come, a few at a time."""

    def __init__(self, data: bytes, most: int = 7) -> None:
        self.data, self.most = data, most

    def read(self, size: int, /) -> bytes:
        piece = self.data[: min(size, self.most)]
        self.data = self.data[len(piece) :]
        return piece


def test_standard_input_is_checked_and_passed_by_a_consent() -> None:
    lines = [b'{"a": %d, "b": 0, "y": 1}\n' % number for number in range(6)]

    def pipe(*sent: bytes, resume: tuple[str, str] | None = None) -> StandardInput:
        stream = Sent(b"".join(sent))
        return StandardInput(name="s", columns=COLUMNS, stream=stream, step=2, resume=resume)

    first = next(batch for batch in pipe(*lines[:4]).batches(None) if batch.n)
    without = [lines[0], *lines[2:]]
    with pytest.raises(SourceError) as caught:
        list(pipe(*without).batches(first.offset))
    proposed = re.search(r"resume = (\[.*?\])", str(caught.value))
    assert proposed is not None
    old, new = tomllib.loads(proposed[0])["resume"]
    assert (old, new) == (mark(first.offset), "2")
    for skipped in range(6):
        consented = pipe(*without, resume=(old, str(skipped)))
        found = [batch for batch in consented.batches(first.offset) if batch.n]
        assert taken(iter(found)) == [(a, 0) for a in (0, 2, 3, 4, 5)][skipped:]
        if found:
            assert FileOffset.of(found[-1].offset).records == 2 + 5 - skipped
    with pytest.raises(SourceError, match="has 5 records, fewer than the 6"):
        list(pipe(*without, resume=(old, "6")).batches(first.offset))


def test_a_torn_last_line_of_standard_input_may_not_grow() -> None:
    line = b'{"a": 1, "b": 0, "y": 1}'
    pipe = StandardInput(name="s", columns=COLUMNS, stream=Sent(line))
    last = [batch for batch in pipe.batches(None) if batch.n][-1]
    for more, n in ((b"", 0), (b"\n", 0), (b"\n" + line, 1)):
        again = StandardInput(name="s", columns=COLUMNS, stream=Sent(line + more))
        assert sum(batch.n for batch in again.batches(last.offset)) == n
    again = StandardInput(name="s", columns=COLUMNS, stream=Sent(line + b" \n"))
    with pytest.raises(SourceError, match="its last line has grown since"):
        list(again.batches(last.offset))

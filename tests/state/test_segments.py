"""Segments: what is mapped is what was written, without a copy."""

import pickle
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.state.made import records, same
from tidegate.checks import StoreError
from tidegate.data.records import Records
from tidegate.state.segments import (
    LocalFolder,
    Stored,
    checksum,
    fetched,
    pack,
    part,
    unpack,
    write,
)

KINDS = ["float32", "float64", "sparse float32", "sparse float64"]


@given(
    kind=st.sampled_from(KINDS),
    n=st.integers(1, 50),
    width=st.integers(1, 6),
    cut=st.tuples(st.integers(0, 50), st.integers(0, 50)),
)
def test_records_survive_packing_and_cutting(
    kind: str, n: int, width: int, cut: tuple[int, int]
) -> None:
    given_records = records(3, n, width, kind)
    found = unpack(pack(given_records))
    assert same(found, given_records)
    start, stop = sorted(min(edge, n) for edge in cut)
    some = part(found, start, stop)
    assert same(some, given_records.take(slice(start, stop)))
    assert same(unpack(pack(some)), some)


def arrays(found: Records) -> list[Any]:
    X = found.X
    rows = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    return [*rows, found.y, found.usable]


@pytest.mark.parametrize("kind", KINDS)
def test_a_mapped_segment_is_a_read_only_view(tmp_path: Path, kind: str) -> None:
    written = write(LocalFolder(tmp_path), "records-0", records(0, 1000, 8, kind))
    buffer = fetched(tmp_path / written.file)
    assert (buffer.size, checksum(buffer)) == (written.size, written.checksum)
    before = pa.total_allocated_bytes()
    found = unpack(buffer)
    assert pa.total_allocated_bytes() == before
    for array in arrays(found):
        assert buffer.address <= array.__array_interface__["data"][0] < buffer.address + buffer.size
        assert not array.flags.writeable
    some = part(found, 10, 20)
    assert np.shares_memory(arrays(some)[0], arrays(found)[0])


def test_a_mapped_segment_outlives_its_file(tmp_path: Path) -> None:
    written = write(LocalFolder(tmp_path), "records-0", records(0, 1000))
    found = unpack(fetched(tmp_path / written.file))
    (tmp_path / written.file).unlink()
    assert same(found, records(0, 1000))


def test_a_segment_is_its_owners_alone_and_has_a_name_of_its_own(tmp_path: Path) -> None:
    names = {write(LocalFolder(tmp_path), "records-0", records(0, 5)).file for _ in range(3)}
    assert {file.name for file in tmp_path.iterdir()} == names
    assert len(names) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}


def test_who_is_sent_a_piece_trusts_no_file(tmp_path: Path) -> None:
    written = write(LocalFolder(tmp_path), "records-0", records(0, 10))
    file = tmp_path / written.file
    known = {"size": written.size, "checksum": written.checksum, "count": 10}
    piece = Stored(where=file, data=None, slots=slice(2, 4), sound=set(), **known)
    assert same(piece.load(), records(0, 10).take(slice(2, 4)))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(StoreError, match="checksum mismatch; restore"):
        pickle.loads(pickle.dumps(piece)).load()


def test_any_arrow_reader_reads_a_segment(tmp_path: Path) -> None:
    written = write(LocalFolder(tmp_path), "records-0", records(0, 4, 2, "sparse float64"))
    with pa.ipc.open_file(str(tmp_path / written.file)) as file:
        table = file.read_all()
    assert table.column_names == ["x", "y", "usable"]
    assert table.column("y").to_pylist() == [0, 1, 2, 3]


def test_wide_offsets_stay_wide() -> None:
    X = csr_array(np.eye(3))
    X.indptr, X.indices = X.indptr.astype(np.int64), X.indices.astype(np.int64)
    wide = Records(X, np.zeros(3, np.intp), np.ones(3, np.bool_))
    assert same(unpack(pack(wide)), wide)

"""The length of a record moves nothing but what it adds, on every source and every engine.

How a BLAS rounds the product of a row depends on the row's place and the shape of the matrix. So
the length of one record could change the margins of *other* records: no noise is drawn for that.
Margins are exact instead: cuts may follow bytes, and still no sum moves. Segments and batches end
after counts all the same, so that the files of a store do not depend on what records say.
"""

import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, count, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state.file_sources import csv_source, json_source, parquet_source
from tests.state.made import records as made
from tests.state.made import same
from tests.state.natsserver import Server, needs_server
from tests.state.test_kafka import Cluster
from tidegate.compute import Disk, Engine, Memory
from tidegate.data.records import Parts, Piece, Records, total
from tidegate.data.rows import Rows
from tidegate.gate import Gate
from tidegate.learn import Logistic
from tidegate.learn.exact import exact_weights, lattice_bits
from tidegate.learn.gradient import clipped_sum
from tidegate.learn.refit import Exact
from tidegate.run.cluster import Dask
from tidegate.run.config import Config
from tidegate.run.engine import part_sizes, shared_out
from tidegate.schedule import Span
from tidegate.serve.bodies import JSON, Reader
from tidegate.sources import Batches, RawBatch, Source, SourceColumns
from tidegate.sources.json_lines import StandardInput
from tidegate.sources.kafka_topic import KafkaTopic
from tidegate.sources.nats_stream import NatsStream
from tidegate.state.folder_store import FolderStore
from tidegate.state.store import Batch

pytestmark = pytest.mark.xdist_group("cuts")  # a cluster is started once

N, D, CHANGED = 1500, 12, 700
NAMES = tuple(f"x{index}" for index in range(D))
COLUMNS = SourceColumns(label="y", features=NAMES, number_labels=True, dtype="float64")
ORDER = np.random.default_rng(2).permutation(D)
CLIP = 0.5
SEGMENT = 256

RECORDS = {"classes": [0, 1], "norm": 2.0, "columns": [*NAMES], "label": "y", "dtype": "float64"}
CONFIG = Config.of(
    {
        "schedule": {"kind": "continual", "block": 500, "step": 500},
        "budget": {"epsilon": 1.0, "delta": 1e-6},
        "records": RECORDS,
        "learner": {"kind": "gradient", "clip": CLIP, "steps": 3, "rate": 1.0},
        "survey": {"share": 0},
        "quality": {"share": 0},
        "not_private_seed": 3,
    }
)

Sent = list[dict[str, Any]]
"""Records as a sender writes them; keys that are not columns are ignored."""


def sent(*, length: int, value: float) -> Sent:
    """Rows that cancel out against `huge`, so that rounding alone decides their margins.

    Args:
        length: The length of a text in one record, under a key that is ignored.
        value: The first feature of that record; its others are 0.
    """
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(-0.3, 0.3, (N, D // 2)), 2, axis=1)[:, ORDER]
    X[CHANGED] = [value, *[0.0] * (D - 1)]
    y = rng.integers(2, size=N)
    y[CHANGED] = 1
    rows = [dict(zip(NAMES, row, strict=True)) for row in X.tolist()]
    records = [{**row, "y": label, "z": ""} for row, label in zip(rows, y.tolist(), strict=True)]
    records[CHANGED]["z"] = "x" * length
    return records


def huge(number: int) -> Any:
    """A possible release whose entries cancel out in pairs."""
    size = np.repeat(np.random.default_rng(1).uniform(1, 2, D // 2), 2) * 1e17 / (3 + number)
    return (size * np.tile([1.0, -1.0], D // 2))[ORDER]


# --- every source

NUMBERS = count()

Make = Callable[[Path, Sent], Source]


def flushed(records: Sequence[Any], most: int) -> Iterator[list[Any]]:
    """Records in runs, as sent by someone who waits for `most` bytes."""
    some: list[Any] = []
    size = 0
    for record in records:
        some.append(record)
        size += len(record if isinstance(record, bytes) else json.dumps(record))
        if size >= most:
            yield some
            some, size = [], 0
    if some:
        yield some


def lines(records: Sent) -> list[bytes]:
    return [json.dumps(record).encode() for record in records]


def from_csv(folder: Path, records: Sent) -> Source:
    head = [*NAMES, "y", "z"]
    rows = [",".join(str(record[name]) for name in head) for record in records]
    (folder / "r.csv").write_text("\n".join([",".join(head), *rows, ""]))
    return csv_source("r", folder / "r.csv", COLUMNS)


def from_jsonl(folder: Path, records: Sent) -> Source:
    (folder / "r.jsonl").write_bytes(b"\n".join([*lines(records), b""]))
    return json_source("r", folder / "r.jsonl", COLUMNS)


def from_a_followed_file(folder: Path, records: Sent) -> Source:
    """Its writer flushes whenever it has so many bytes."""
    path, flushes = folder / "r.jsonl", flushed(lines(records), 2**15)
    path.write_bytes(b"")

    def grow() -> bool:
        more = next(flushes, None)
        with path.open("ab") as file:
            file.writelines(line + b"\n" for line in more or [])
        return more is not None

    return json_source("r", path, COLUMNS, follow=grow)


def from_standard_input(_: Path, records: Sent) -> Source:
    stream = io.BytesIO(b"\n".join([*lines(records), b""]))
    return StandardInput(name="r", columns=COLUMNS, stream=stream)


def from_parquet(folder: Path, records: Sent) -> Source:
    """The writer ends a row group after a number of bytes."""
    groups = [pa.Table.from_pylist(group) for group in flushed(records, 2**17)]
    with pq.ParquetWriter(folder / "r.parquet", groups[0].schema) as writer:
        for group in groups:
            writer.write_table(group)
    return parquet_source("r", folder / "r.parquet", COLUMNS)


def from_python(_: Path, records: Sent) -> Source:
    pairs = [
        ([[record[name] for name in NAMES] for record in some], [record["y"] for record in some])
        for some in flushed(records, 2**15)
    ]
    return Batches(name="r", pairs=pairs)


@dataclass
class Bodies:
    """Bodies that a client sends over HTTP, each of about the same number of bytes."""

    records: Sent
    name: str = "r"

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        assert offset is None
        reader = Reader(config=CONFIG)
        for number, some in enumerate(flushed(self.records, 2**15)):
            body = reader.batch(JSON, json.dumps({"records": some}).encode())
            yield replace(body, offset=str(number))


def from_http(_: Path, records: Sent) -> Source:
    return Bodies(records)


FROM: dict[str, Make] = {
    "csv": from_csv,
    "json lines": from_jsonl,
    "a followed file": from_a_followed_file,
    "standard input": from_standard_input,
    "parquet": from_parquet,
    "python": from_python,
    "http": from_http,
}
BROKERS = ["kafka", pytest.param("nats", marks=needs_server)]
SENDERS = {"a followed file", "python", "http"}
"""Sources whose batches the sender cuts; the layers behind them must not follow those cuts."""


@pytest.fixture(scope="module")
def kafka() -> Cluster:
    return Cluster()


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def make(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Make:
    """A function that makes a source of records."""
    if request.param in FROM:
        return FROM[request.param]
    monkeypatch.setattr("tidegate.sources.broker.MAX_MESSAGES", 600)
    monkeypatch.setattr("tidegate.sources.clients.nats_reader.BYTES", 2**16)
    broker = request.getfixturevalue(request.param)

    def source(_: Path, records: Sent) -> Source:
        name = f"{request.param}{next(NUMBERS)}"
        if isinstance(broker, Cluster):
            broker.send(name, lines(records))
            return KafkaTopic(name="r", columns=COLUMNS, servers=(broker.server,), topic=name)
        broker.make(name)
        broker.send(lines(records), f"{name}.x")
        return NatsStream(name="r", columns=COLUMNS, url=(broker.url,), stream=name)

    return source


# --- every engine


@dataclass
class Everywhere:
    """Cuts the records of every fit on all engines, and computes on one of them."""

    engines: dict[str, Engine]
    used: str
    cuts: list[Any] = field(default_factory=list)

    def parts(self, pieces: Sequence[Piece], form: Rows) -> Parts[Records]:
        found = {name: engine.parts(pieces, form) for name, engine in self.engines.items()}
        self.cuts.append([piece.n for piece in pieces])
        self.cuts.append({name: parts.sizes for name, parts in found.items()})
        return found[self.used]

    def close(self) -> None:
        """Do nothing: the cluster is used again."""


@pytest.fixture(scope="module")
def engines() -> Iterator[dict[str, Engine]]:
    with Dask(workers=2, small=64) as dask, patch("tidegate.run.engine.BLOCK", 64 * D):
        yield {"memory": Memory(), "disk": Disk(small=64), "dask": dask}


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What was observed while a stream was processed.

    Attributes:
        batches: How many slots each batch had.
        segments: Which slots each file has.
        cuts: How many slots each piece read by a fit had, and each part on every engine.
        sums: The sums that noise would be added to.
    """

    batches: list[int]
    segments: list[Span]
    cuts: list[Any]
    sums: list[Any]


def seen(make: Make, records: Sent, engine: Everywhere, folder: Path) -> Seen:
    """Take in records from a source, and release `huge` in place of noisy sums."""
    folder.mkdir()
    batches, sums = [], []

    def hidden(center: Any, sigma: float, bits: object) -> Any:
        del sigma, bits
        sums.append(center.copy())
        return huge(len(sums))

    source = make(folder, records)
    store = FolderStore(folder / "state", CONFIG.to_json(), segment_records=SEGMENT)
    with Gate(store, CONFIG) as gate, patch("tidegate.learn.gradient.gaussian", hidden):
        gate.engine = engine
        for raw in source.batches(None):
            if raw.n:  # a batch without records only says that more have to arrive
                batches.append(raw.n)
            gate.take(raw, source=source.name)
            assert all(release.number >= 0 for release in gate.advance())
        assert gate.store.count("records") == N
        segments = [each.span for each in gate.store.held() if each.file is not None]
    return Seen(batches=batches, segments=segments, cuts=engine.cuts, sums=sums)


def broken(one: Seen, other: Seen) -> set[str]:
    """The laws that two streams break if they differ only in the record CHANGED."""
    laws = {
        name for name in ("batches", "segments", "cuts") if vars(one)[name] != vars(other)[name]
    }
    for a, b in zip(one.sums, other.sums, strict=True):
        moved = a - b  # exact: sums are multiples of a power of two
        if moved[1:].any() or abs(moved[0]) > 2 * CLIP:  # its other features are 0
            laws.add("sums")
    return laws


def both(
    make: Make, engines: dict[str, Engine], folder: Path, *, used: str, length: int
) -> tuple[Seen, Seen]:
    short = seen(make, sent(length=0, value=1.0), Everywhere(engines, used), folder / "short")
    long = sent(length=length, value=-1.0)
    return short, seen(make, long, Everywhere(engines, used), folder / "long")


@pytest.mark.thorough
@pytest.mark.parametrize("make", [*FROM, *BROKERS], indirect=True)
def test_the_length_of_a_record_moves_nothing_but_what_it_adds(
    make: Make, engines: dict[str, Engine], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Also if one record is longer than what a source reads at a time."""
    source = request.node.callspec.params["make"]
    length = 5 * 2**20 if source in FROM else 900_000
    one, other = both(make, engines, tmp_path, used="disk", length=length)
    whole = range(0, N - SEGMENT + 1, SEGMENT)
    assert one.segments == [Span(start, start + SEGMENT) for start in whole]
    assert any(each.any() for each in one.sums)
    assert broken(one, other) <= ({"batches"} if source in SENDERS else set())


@pytest.mark.parametrize("used", ["memory", "dask"])
def test_the_length_of_a_record_moves_no_sum_on_any_engine(
    engines: dict[str, Engine], tmp_path: Path, used: str
) -> None:
    one, other = both(from_python, engines, tmp_path, used=used, length=2**15)
    assert broken(one, other) == {"batches"}  # the sender cuts the batches


# --- every layer by itself

sizes = st.lists(st.integers(1, 90), min_size=1, max_size=8)


def edges(runs: list[int], n: int) -> list[int]:
    """Where runs of some sizes end, the last one at n."""
    return sorted({min(edge, n) for edge in accumulate([*runs, n], initial=0)})


def stored(runs: list[int], n: int, kind: str, cut: int | None, span: Span) -> list[Any]:
    """How a store cuts n records that arrive in runs: its files, and the pieces a fit reads."""
    with (
        TemporaryDirectory() as folder,
        closing(FolderStore(Path(folder), "", segment_records=16)) as store,
    ):
        for start, stop in pairwise(edges(runs, n)):
            some = made(start, stop - start, kind=kind)
            store.append(Batch(stream="records", records=some, cut=cut))
        files = [each.span for each in store.held() if each.file is not None]
        pieces = store.pieces("records", span)
        assert same(store.read("records", span), made(span.start, span.size, kind=kind))
        return [files, [piece.n for piece in pieces]]


@pytest.mark.thorough
@settings(max_examples=10)
@given(
    steps=st.integers(1, 6),
    more=st.integers(0, 30),
    runs=st.tuples(sizes, sizes),
    kind=st.sampled_from(["float32", "sparse float64"]),
    cut=st.none() | st.integers(1, 50),
)
def test_the_batches_of_records_move_no_segment(
    steps: int, more: int, runs: tuple[list[int], list[int]], kind: str, cut: int | None
) -> None:
    """A fit reads up to the end of a step; with a `cut`, segments end there too."""
    span = Span((cut or 3) * (steps // 2), (cut or 20) * steps)
    one, other = (stored(each, span.stop + more, kind, cut, span) for each in runs)
    assert one == other


@given(n=st.integers(65, 2000), runs=sizes, workers=st.integers(1, 9))
def test_the_pieces_of_records_move_no_sum(n: int, runs: list[int], workers: int) -> None:
    """Also at a model that cancels out, where rounding alone would decide the margins."""
    rng = np.random.default_rng(n)
    rows = np.repeat(rng.uniform(-0.3, 0.3, (n, D // 2)), 2, axis=1)[:, ORDER]
    whole = Records(rows, rng.integers(2, size=n), rng.random(n) < 0.9)
    a, b = lattice_bits(n, 2.0, CLIP)
    w = exact_weights(huge(1), norm=2.0, bits=a)
    make = partial(Exact.of, bits=a)
    work = partial(clipped_sum, w=w, loss=Logistic(), clip=CLIP, bits=b)
    pieces = [whole.take(slice(*ends)) for ends in pairwise(edges(runs, n))]
    spread = shared_out(pieces, part_sizes(n, workers, 2**20))
    with patch("tidegate.run.engine.BLOCK", 64 * whole.d):
        disk = Disk(small=64).parts(pieces, whole.form)
    assert sum(disk.sizes) == n
    wanted = total(whole.map(make), work)
    assert np.array_equal(total(disk.map(make), work), wanted)
    assert np.array_equal(sum(work(make(run.load())) for run in spread), wanted)


# --- mistakes, planted one at a time


def by_bytes(source: Make, most: int) -> Make:
    """A source whose batches end after `most` bytes."""

    @dataclass
    class Capped:
        source: Source
        name: str = "r"

        def batches(self, offset: str | None) -> Iterator[RawBatch]:
            for raw in self.source.batches(offset):
                texts = [raw.arrived(slot).encode() for slot in range(raw.n)]
                ends = edges([len(some) for some in flushed(texts, most)], raw.n)
                for start, stop in pairwise(ends):
                    yield replace(raw, X=raw.X[start:stop], y=raw.y[start:stop])

    return lambda folder, records: Capped(source(folder, records))


@pytest.mark.parametrize("make", ["kafka"], indirect=True)
def test_a_batch_cut_by_bytes_is_found(
    make: Make, engines: dict[str, Engine], tmp_path: Path
) -> None:
    planted = by_bytes(make, 2**16)
    one, other = both(planted, engines, tmp_path, used="disk", length=900_001)
    assert broken(one, other) == {"batches"}  # the store and the engines do not follow it


def test_segments_and_parts_cut_by_bytes_move_no_sum(
    engines: dict[str, Engine], tmp_path: Path
) -> None:
    """A segment that ends with its batch is found, and moves the parts of a disk but no sum."""
    follows = patch(
        "tidegate.state.record_log.segment_slots", lambda rows, _: max(1, rows.shape[0])
    )
    with follows:
        one, other = both(from_python, engines, tmp_path, used="disk", length=2**15)
    assert broken(one, other) == {"batches", "segments", "cuts"}

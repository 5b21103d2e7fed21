"""Engines against the one in memory: the same models, the same charges, the same refusals."""

import math
import weakref
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from tests.run.streams import config, opened, records, weights
from tidegate.checks import StoreError
from tidegate.compute import Disk, Memory
from tidegate.data.records import Records, join, total
from tidegate.gate import Gate
from tidegate.learn import Logistic, OutputPerturbation
from tidegate.learn.gradient import clipped_sum
from tidegate.learn.learner import Task, Terms
from tidegate.learn.mean import counted, exact_sum
from tidegate.learn.objective import Objective
from tidegate.learn.refit import Exact
from tidegate.learn.slot_weights import weighted
from tidegate.privacy.budget import Allowance
from tidegate.run.config import ConfigError
from tidegate.run.engine import shared_out
from tidegate.schedule import SlotWeight, Span

DISK = Disk(small=64)


def agree(one: Any, other: Any, learner: str) -> None:
    """Models of two engines: within the certificates of the fits, or the same bits."""
    (models, lines), (others, other_lines) = one, other
    assert lines == other_lines
    for line, model, same in zip(lines, models, others, strict=True):
        if learner == "gradient":
            assert np.array_equal(model, same)
            continue
        n, d = line.fit.span.size, len(model)
        terms = Terms(
            allowance=Allowance("epsilon", 2 * float(line.share)),
            slot_weights=line.fit.slot_weights,
        )
        task = Task(loss=Logistic(), norm=1.0, regularization=None)
        public = OutputPerturbation().settings(task, terms, n=n, d=d)
        # a prior from another engine moves the minimiser by as much as it differs itself
        within = 4 * public["tolerance"] / public["regularization"]
        assert np.linalg.norm(model - same) <= within + 2.0**-12 * public["noise_scale"]


@pytest.mark.parametrize(
    ("learner", "sample", "kind"),
    [
        ("output", None, "continual"),
        ("gradient", 600, "continual"),
        ("gradient", None, "growing"),  # whose records do not all count for 1
        ("output", None, "growing"),
    ],
)
def test_a_stream_from_the_disk_is_the_stream_in_memory(
    tmp_path: Path, learner: str, sample: int | None, kind: str
) -> None:
    told = config(learner, sample=sample, kind=kind)
    one = weights(tmp_path / "memory", told, Memory())
    agree(one, weights(tmp_path / "disk", told, DISK), learner)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_sums_over_the_disk_are_the_sums_in_memory(kind: Any) -> None:
    whole = records(3000, dtype=np.float64)
    whole = Records(kind(whole.X), whole.y, whole.usable)
    pieces = [whole.take(slice(*ends)) for ends in [(0, 3), (3, 1000), (1000, 1001), (1001, 3000)]]
    parts = DISK.parts(pieces, whole.form)
    assert parts.n == whole.n
    F, G = (Objective(each, Logistic(), regularization=0.1, norm=1.0) for each in (whole, parts))
    w = np.ones(whole.d)
    for draft in (False, True):
        one, other = F.gradient(w, draft=draft), G.gradient(w, draft=draft)
        np.testing.assert_allclose(one, other, atol=1e-6 if draft else 1e-14)


@dataclass(frozen=True)
class Stored:
    """A piece that is not in memory until it is loaded."""

    records: Records
    place = None

    @property
    def n(self) -> int:
        return self.records.n

    def ahead(self) -> None:
        """Do nothing."""

    def load(self) -> Records:
        return self.records


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("piece", [Stored, Records.load])
def test_slots_keep_their_weights_however_they_are_cut(piece: Any, kind: Any) -> None:
    """On the disk, on workers and in memory; weights change in the middle of pieces and parts."""
    whole = records(3000, dtype=np.float64)
    whole = Records(kind(whole.X), whole.y, whole.usable)
    edges = [(0, 1), (1, 700), (700, 1501), (1501, 3000)]
    slot_weights = [SlotWeight(Span(*e), Fraction(1 + j, 4)) for j, e in enumerate(edges)]
    (alone,) = weighted([whole], slot_weights)
    ends = [(0, 3), (3, 1000), (1000, 1001), (1001, 3000)]
    pieces = weighted([piece(whole.take(slice(*each))) for each in ends], slot_weights)
    sizes = (512, 512, 512, 512, 512, 440)
    on_workers = join([run.load() for run in shared_out(pieces, sizes)])
    held, parts, w = alone.load(), DISK.parts(pieces, whole.form), np.ones(whole.d)
    laid = held.slot_weights
    assert laid is not None
    assert on_workers.slot_weights is not None
    assert np.array_equal(on_workers.slot_weights, laid)
    x = whole.X if isinstance(whole.X, np.ndarray) else whole.X.toarray()
    residuals = Logistic().residual(x @ w, whole.y) * whole.usable
    sizes_of = np.maximum(np.linalg.norm(x, axis=1) * abs(residuals), 0.2)
    for each in (held, parts):
        objective = Objective(each, Logistic(), regularization=0.1, norm=1.0, mass=2000.0)
        for draft in (False, True):
            naive = x.T @ (residuals * laid) / 2000 + 0.2 * w
            np.testing.assert_allclose(objective.gradient(w, draft=draft), naive, atol=1e-6)
        slopes = partial(clipped_sum, w=w, loss=Logistic(), clip=0.2, bits=30)
        summed = total(each.map(partial(Exact.of, bits=20, weighted=True)), slopes)
        naive = x.T @ (residuals * 0.2 / sizes_of * laid)
        np.testing.assert_allclose(summed, naive, atol=0.01)
        mean = total(each, partial(exact_sum, bits=30))
        np.testing.assert_allclose(mean, laid @ x, atol=1e-4)
        counts = total(each, partial(counted, categories=2, bits=30))
        used = laid * whole.usable
        assert counts.tolist() == [used[whole.y == label].sum() for label in range(2)]


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=12),
    st.lists(st.integers(1, 400), min_size=1, max_size=12),
)
def test_slots_cut_anew_are_the_same_in_the_same_order(held: list[int], wanted: list[int]) -> None:
    n = min(sum(held), sum(wanted))
    whole = records(n)
    pieces = [whole.take(slice(*ends)) for ends in pairwise(edges(held, n))]
    sizes = [stop - start for start, stop in pairwise(edges(wanted, n))]
    disk = DISK.parts(pieces, whole.form)
    one: list[Records] = disk.fold(listed, list.__add__) if n > DISK.small else [whole]
    other = [run.load() for run in shared_out(pieces, sizes)]
    for parts, expected in ((one, list(disk.sizes)), (other, sizes)):
        assert [part.n for part in parts] == expected
        assert np.array_equal(np.vstack([part.X for part in parts]), whole.X)
        assert np.array_equal(np.concatenate([part.y for part in parts]), whole.y)


def listed(part: Records) -> list[Records]:
    return [part]


def edges(sizes: list[int], n: int) -> list[int]:
    """Where runs of some sizes end, up to n."""
    return sorted({min(edge, n) for edge in accumulate([*sizes, n], initial=0)})


def test_no_result_is_merged_too_often() -> None:
    parts = DISK.parts([records(100)] * 200, records(1).form)
    assert parts.fold(lambda _: 0, lambda one, other: 1 + max(one, other)) <= 2 * math.log2(200) + 1


@dataclass(frozen=True)
class Watched:
    """A piece that counts how many of its kind are in memory."""

    seed: int
    loaded: ClassVar[list[weakref.ref[Any]]] = []
    n = 500

    place = None

    def ahead(self) -> None:
        pass

    def load(self) -> Records:
        held = [rows for rows in self.loaded if rows() is not None]
        assert len(held) <= 1, "besides the piece that is worked on only the next is in memory"
        whole = records(self.n, seed=self.seed)
        self.loaded.append(weakref.ref(whole.X))  # a view of it keeps it
        return whole


def test_no_more_than_two_pieces_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    form = records(1).form
    monkeypatch.setattr("tidegate.run.engine.BLOCK", 128 * form.shape[1])
    parts = DISK.parts([Watched(seed) for seed in range(6)], form)
    assert parts.sizes == (128, 128, 128, 116) * 6
    assert total(parts, lambda part: part.X.sum(axis=0)).shape == form.shape[1:]
    assert len(Watched.loaded) == 6


def test_a_damaged_segment_ends_the_fit_and_nothing_is_charged(tmp_path: Path) -> None:
    given = records()
    with opened(tmp_path, config("output")) as gate:
        gate.ingest(given.X[:1024], given.y[:1024])
        for segment in (tmp_path / "segments").iterdir():
            segment.write_bytes(segment.read_bytes()[:-1] + b"!")
    with opened(tmp_path, config("output")) as gate:
        gate.engine, before = DISK, list(gate.store.lines())
        with pytest.raises(StoreError, match="checksum mismatch; restore"):
            gate.ingest(given.X[1024:2048], given.y[1024:2048])
        assert list(gate.store.lines()) == before


def test_the_engine_may_change_between_runs(tmp_path: Path) -> None:
    given = records()
    Gate.open(tmp_path, config("output")).close()
    with Gate.open(tmp_path, config("output", compute='engine = "disk"')) as gate:
        assert isinstance(gate.engine, Disk)
        gate.ingest(given.X, given.y)
    with Gate.open(tmp_path) as gate:
        assert gate.config.compute.engine == "disk"


@pytest.mark.parametrize(
    ("compute", "told"),
    [
        ('engine = "gpu"', "compute.engine must be one of memory, disk"),
        ("worker = 2", "compute.worker is not a known key"),
    ],
)
def test_what_cannot_compute_is_refused(compute: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        config("output", compute=compute)

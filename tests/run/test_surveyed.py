"""Surveyed fits on every engine: the same surveys and transforms, and the models of memory."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import patch

import numpy as np
import pytest
from scipy import sparse

from tests.run.streams import batches, config, models, opened, records
from tests.run.test_engines import DISK, Stored, agree
from tidegate import ApproxDP, SlidingWindowClassifier
from tidegate.compute import Disk, Engine, Memory
from tidegate.data.records import NOT_PACKED, Records, Slots, total
from tidegate.gate import Gate
from tidegate.learn.slot_weights import EVERY_RECORD, UNOWNED, Unowned
from tidegate.learn.survey import survey
from tidegate.learn.transform import Transform
from tidegate.privacy.budget import Allowance
from tidegate.privacy.noise import NotPrivateBits
from tidegate.run.executor import reader
from tidegate.schedule import Span

ENDS = [(0, 3), (3, 1000), (1000, 1001), (1001, 3000)]


def pieces(whole: Records) -> list[Any]:
    """The records in pieces, some in memory and some not."""
    cut = [whole.take(slice(*ends)) for ends in ENDS]
    return [cut[0], *map(Stored, cut[1:])]


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_survey_from_the_disk_is_that_in_memory_bit_for_bit(kind: Any) -> None:
    """Its sums are exact, so that no cut makes a difference."""
    whole = records(3000)
    whole = Records(kind(whole.X), whole.y, whole.usable)
    one, other = (
        survey(
            engine.parts(pieces(whole), whole.form),
            norm=1.0,
            classes=2,
            allowance=Allowance("mu", 0.5),
            bits=NotPrivateBits(3),
        ).cells
        for engine in (Memory(), DISK)
    )
    assert np.array_equal(one, other)


def transforms(gate: Gate) -> list[Any]:
    """The transform of every fit, as its card states it."""
    return [gate.store.card(line.fit.number)["transform"] for line in gate.store.lines()]


@pytest.mark.parametrize("kind", ["continual", "growing"])
def test_surveyed_models_from_the_disk_are_those_of_memory(tmp_path: Path, kind: str) -> None:
    """Bit for bit: a fit of so few records is one part, with the same shape as in memory."""
    told, found = config("gradient", kind=kind), []
    for name, engine in (("memory", Memory()), ("disk", DISK)):
        with opened(tmp_path / name, told) as gate:
            gate.engine = engine
            for X, y in batches(records()):
                gate.ingest(X, y)
            found.append((transforms(gate), models(gate)))
    (stated, one), (others, other) = found
    assert stated == others
    assert len(stated) > 3
    agree(one, other, "gradient")
    assert all(map(np.array_equal, one[0], other[0]))


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_an_estimator_that_computes_from_pieces_is_one_in_memory(kind: Any) -> None:
    given, found = records(600), []
    for engine in (Memory(), Disk(small=8)):
        clf = SlidingWindowClassifier(
            budget=ApproxDP(2.0, 1e-6),
            window=120,
            step=40,
            classes=[0, 1],
            norm=1.0,
            compute=engine,
            not_private_seed=5,
        )
        for start in range(0, 600, 50):
            part = slice(start, start + 50)
            clf.partial_fit(kind(given.X[part]), given.y[part])
        found.append(clf)
    one, other = (clf.releases_ for clf in found)
    assert len(one) == len(other) > 10
    for mine, theirs in zip(one, other, strict=True):
        assert mine.transform is not None
        assert theirs.transform is not None
        assert mine.transform.on_card() == theirs.transform.on_card()
        assert np.array_equal(mine.weights, theirs.weights)


@dataclass(frozen=True)
class Watched(Stored):
    """A piece that counts how often it is loaded."""

    loads: ClassVar[Counter[int]] = Counter()

    def load(self) -> Records:
        self.loads[self.n] += 1
        return self.records


class Shelf:
    """A store of pieces."""

    def __init__(self, whole: Records, kind: Any) -> None:
        self.held = [kind(whole.take(slice(*ends))) for ends in ENDS]
        self.whole = whole

    def form(self, stream: str) -> Any:
        del stream
        return self.whole.form

    def owned(self, stream: str, span: Span) -> Unowned:
        """Nobody's: records are protected."""
        del stream, span
        return UNOWNED

    def pieces(self, stream: str, span: Span, slots: Slots | None = None) -> Any:
        del stream, span, slots
        return self.held


@pytest.mark.parametrize(("engine", "times"), [(Memory(), 1), (DISK, 3)], ids=["memory", "disk"])
def test_rows_are_transformed_once_whenever_they_are_loaded(engine: Engine, times: int) -> None:
    """In memory once for all passes; from the disk once at each of three passes."""
    whole = records(3000)
    transform = Transform.of(np.full(whole.d, 0.1), np.full(whole.d, 2.0))
    Watched.loads.clear()
    passed: list[int] = []
    rows = Transform.rows

    def counted(self: Transform, X: Any) -> Any:
        passed.append(X.shape[0])
        return rows(self, X)

    with patch.object(Transform, "rows", counted):
        fetch = reader(
            Shelf(whole, Watched),
            "records",
            engine,
            transform=transform,
            counted=EVERY_RECORD,
            packing=NOT_PACKED,
        )
        read = fetch(Span(0, 3000), None, ())
        parts = read.map(lambda part: part)
        sums = [total(parts, lambda part: part.X.sum(axis=0)) for _ in range(3)]
    assert sum(passed) == times * whole.n  # an empty array besides, for the form
    assert set(Watched.loads.values()) == {times}
    expected = transform.records(whole).X.sum(axis=0)
    for each in sums:
        np.testing.assert_allclose(each, expected, rtol=1e-4)

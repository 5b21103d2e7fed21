"""The ledger of persons in a store, against a dictionary."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.state.made import made, records
from tests.state.owned import (
    NOBODY,
    Naive,
    admission,
    ledger,
    new_store,
    owned,
    owners,
    take_step,
)
from tests.state.postgres_server import DATABASES
from tidegate.checks import InvalidValueError, StoreError
from tidegate.learn.slot_weights import AdmittedStep, Owned
from tidegate.privacy import LedgerError
from tidegate.privacy.admission import Admission
from tidegate.run.config.tables import Locations
from tidegate.schedule import (
    Continual,
    Cumulative,
    Fading,
    Growing,
    SlidingWindow,
    Span,
    TwoStream,
)
from tidegate.state import person_index, person_rows
from tidegate.state.folder_store import FolderStore
from tidegate.state.person_index import PersonIndex
from tidegate.state.person_log import PersonLog
from tidegate.state.person_rows import PersonRows, Place, Run
from tidegate.state.store import Batch

STEP = 12
FADING = Fading(step=STEP, forget=Fraction(1, 5), memory=8)
PLANS: dict[str, Callable[[], Admission]] = {
    "fading": lambda: admission(FADING, 3),
    "fading, period": lambda: admission(FADING, 2, period=5),
    "fading, long period": lambda: admission(FADING, 3, period=25),
    "sliding": lambda: admission(SlidingWindow(window=7 * STEP, step=STEP), 3),
    "growing": lambda: admission(Growing(block=2 * STEP, step=STEP, growth=Fraction(1, 4)), 2),
    "continual": lambda: admission(Continual(block=2 * STEP, step=STEP), 2),
}


@pytest.fixture(params=DATABASES, scope="module")
def locations(request: pytest.FixtureRequest) -> Locations:
    found: Locations = request.param()
    return found


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Merge soon and often, so that short lives have many levels."""
    with (
        patch.multiple(person_rows, MAX_UNMERGED_ROWS=3, FANOUT=2),
        patch.multiple(person_index, MAX_EAGER_STEPS=2, MAX_CACHED=60),
    ):
        yield


def persons_of(rng: random.Random, many: int) -> list[int]:
    return [rng.choice([NOBODY, *range(many)]) for _ in range(STEP)]


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANS)
def test_it_is_a_dictionary(name: str, locations: Locations, tmp_path: Path) -> None:
    """Across restarts too: who is admitted, for how long it is kept, which slots count."""
    known, rng = PLANS[name](), random.Random(name)
    naive, many = Naive(known), 30
    store = new_store(tmp_path / "state", locations=locations)
    wanted: list[bool] = []
    for step in range(60):
        persons = persons_of(rng, many)
        admitted = naive.step(persons)
        assert take_step(store, persons, known) == admitted
        wanted += admitted
        if rng.random() < 0.2:
            store.close()
            store = FolderStore(tmp_path / "state", segment_records=32)
        if rng.random() < 0.2:
            store.forget("records", len(wanted) - 2 * STEP)
        if step % 10 == 9:
            assert ledger(store, range(many)) == {
                each: steps for each in range(many) if (steps := naive.kept(each))
            }
            assert list(store.verify()) == []
    held = Span(len(wanted) - 2 * STEP, len(wanted))
    found = store.owned("records", held)
    assert isinstance(found, Owned)
    assert found.admitted.tolist() == wanted[held.start :]
    levels = {place.level for place in store._persons.rows.places}
    assert levels == {0} if known.period else max(levels) > 1
    store.close()


def test_two_streams_share_one_ledger(tmp_path: Path) -> None:
    known, rng = admission(TwoStream(source=Cumulative(block=STEP), step=STEP), 2), random.Random(1)
    naive = Naive(known)
    with closing(new_store(tmp_path)) as store:
        for step in range(12):
            persons = persons_of(rng, 10)
            stream = ("source", "target")[step % 3 == 0]
            assert take_step(store, persons, known, stream) == naive.step(persons)
        assert all(sum(b - a for a, b in each) <= 2 for each in ledger(store, range(10)).values())


def test_nothing_is_stored_before_publish(tmp_path: Path) -> None:
    known = PLANS["fading"]()
    with closing(new_store(tmp_path)) as store:
        store.append(Batch(stream="records", records=owned(0, [1] * STEP), cut=STEP))
        first = store.admit("records", Span(0, STEP), known)
        assert ledger(store, range(5)) == {}
        found = store.owned("records", Span(0, STEP))
        assert isinstance(found, Owned)
        assert not found.admitted.any()
    with closing(FolderStore(tmp_path, segment_records=32)) as store:
        assert np.array_equal(store.admit("records", Span(0, STEP), known).admitted, first.admitted)
        assert first.admitted.all()


def test_a_failed_step_admits_nobody(tmp_path: Path) -> None:
    known = PLANS["fading"]()
    with closing(new_store(tmp_path)) as store:
        store.append(Batch(stream="records", records=owned(0, [1] * STEP), cut=STEP))
        bits = store.admit("records", Span(0, STEP), known)
        interrupted = patch.object(store, "_charge", side_effect=KeyboardInterrupt)
        with interrupted, pytest.raises(KeyboardInterrupt):
            store.publish("records", STEP, [made(0, STEP)], counted=bits)
        assert ledger(store, range(5)) == {}
        again = store.admit("records", Span(0, STEP), known)
        store.publish("records", STEP, [made(0, STEP)], counted=again)
        assert ledger(store, range(5)) == {1: [(0, 1)]}


def test_an_interruption_after_the_commit_loses_nothing(tmp_path: Path) -> None:
    """The index may not know the step then; the next one is decided from the database."""
    known = admission(FADING, 1)
    with closing(new_store(tmp_path)) as store:
        take_step(store, [2] * STEP, known)
        for broken in ((PersonLog, "stored"), (PersonIndex, "put")):
            person, start = 3 + (broken[1] == "put"), store.done("records")
            span = Span(start, start + STEP)
            store.append(Batch(stream="records", records=owned(start, [person] * STEP), cut=STEP))
            bits = store.admit("records", span, known)
            assert bits.admitted.all()
            number = sum(1 for _ in store.lines())
            with (
                patch.object(*broken, side_effect=KeyboardInterrupt),
                pytest.raises(KeyboardInterrupt),
            ):
                store.publish("records", span.stop, [made(number, span.stop)], counted=bits)
            assert not any(take_step(store, [person] * STEP, known))


def test_a_full_disk_admits_nobody(tmp_path: Path) -> None:
    known, folder = admission(FADING, 4), tmp_path / "state"
    store = new_store(folder)
    take_step(store, list(range(STEP)), known)
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store.append(Batch(stream="records", records=owned(STEP, list(range(STEP))), cut=STEP))
    bits = store.admit("records", Span(STEP, 2 * STEP), known)
    store._db.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreError, match="disk is full"):
        store.publish("records", 2 * STEP, [made(1, 2 * STEP)], counted=bits)
    store.close()
    with closing(FolderStore(folder, segment_records=32)) as store:
        assert ledger(store, range(STEP)) == {each: [(0, 1)] for each in range(STEP)}
        assert store.done("records") == STEP
        again = store.admit("records", Span(STEP, 2 * STEP), known)
        assert np.array_equal(again.admitted, bits.admitted)
        store.publish("records", 2 * STEP, [made(1, 2 * STEP)], counted=again)
        assert ledger(store, range(STEP)) == {each: [(0, 2)] for each in range(STEP)}


def test_only_what_was_decided_is_published(tmp_path: Path) -> None:
    known = PLANS["fading"]()
    with closing(new_store(tmp_path)) as store:
        store.append(Batch(stream="records", records=owned(0, [1] * STEP), cut=STEP))
        bits = AdmittedStep(Span(0, STEP), np.ones(STEP, np.bool_))
        with pytest.raises(StoreError, match="the step was not admitted"):
            store.publish("records", STEP, [made(0, STEP)], counted=bits)
        store.admit("records", Span(0, STEP), known)
        bits.admitted[0] = False
        with pytest.raises(StoreError, match="the step was not admitted"):
            store.publish("records", STEP, [made(0, STEP)], counted=bits)
        assert store.done("records") == 0


@pytest.mark.parametrize("period", [None, 4])
def test_a_person_above_the_contributions_is_refused_whatever_decided(
    period: int | None, tmp_path: Path
) -> None:
    known = admission(FADING, 1, period)
    with closing(new_store(tmp_path)) as store:
        take_step(store, [1] * STEP, known)
        store.append(Batch(stream="records", records=owned(STEP, [1] * STEP), cut=STEP))
        yes = np.ones(1, np.int8)
        with patch.object(type(known.compact), "decide", return_value=yes):
            bits = store.admit("records", Span(STEP, 2 * STEP), known)
        assert bits.admitted.all()
        with pytest.raises(LedgerError):
            store.publish("records", 2 * STEP, [made(1, 2 * STEP)], counted=bits)
        assert ledger(store, range(3)) == {1: [(0, 1)]}


def test_who_is_admitted_again_after_a_period_is_not_refused(tmp_path: Path) -> None:
    """The bound in memory is too high then; the steps themselves decide."""
    known = admission(Fading(step=STEP, forget=Fraction(1, 2), memory=2), 1, period=4)
    with closing(new_store(tmp_path)) as store:
        came = [any(take_step(store, [1] * STEP, known)) for _ in range(9)]
    assert came == [step % 4 == 0 for step in range(9)]


@pytest.mark.parametrize("k", [1, 4])
def test_whoever_comes_at_every_step_makes_no_step_slow(k: int, tmp_path: Path) -> None:
    """The steps of a period are read once for such a person, not at every step."""
    known = admission(Fading(step=STEP, forget=Fraction(1, 2), memory=2), k, period=30)
    read, times = PersonRows.read, []

    def counted(rows: PersonRows, place: Place) -> Run:
        times.append(place)
        return read(rows, place)

    naive = Naive(known)
    with closing(new_store(tmp_path)) as store, patch.object(PersonRows, "read", counted):
        for step in range(70):
            persons = [3, *range(1000 + STEP * step, 999 + STEP * (step + 1))]
            assert take_step(store, persons, known) == naive.step(persons)
    assert 0 < len(times) < 10


def test_only_so_many_steps_are_held_in_memory(tmp_path: Path) -> None:
    known = admission(Fading(step=STEP, forget=Fraction(1, 2), memory=2), 1, period=30)
    naive, sizes = Naive(known), []
    with closing(new_store(tmp_path)) as store:
        for step in range(40):
            persons = [*range(10 * step // 2, 10 * step // 2 + STEP)]  # many come again
            assert take_step(store, persons, known) == naive.step(persons)
            sizes.append(len(store._persons._recent))
    assert 0 < max(sizes) <= 60
    assert any(later < earlier for earlier, later in pairwise(sizes))  # more were asked for


def test_records_and_persons_do_not_mix(tmp_path: Path) -> None:
    with closing(new_store(tmp_path)) as store:
        store.append(Batch(stream="records", records=owned(0, [1] * 5)))
        with pytest.raises(InvalidValueError, match="owned, like earlier batches"):
            store.append(Batch(stream="records", records=records(5, 5)))
        assert store.owned("records", Span(0, 5)) is not None


def files(folder: Path) -> bytes:
    """All bytes of a state."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_with_a_period_what_is_not_needed_is_in_no_file(tmp_path: Path) -> None:
    """Keyed ids of steps that nobody needs are erased as records are."""
    known = admission(Fading(step=STEP, forget=Fraction(1, 2), memory=2), 2, period=3)
    with closing(new_store(tmp_path)) as store:
        for step in range(8):
            take_step(store, [100 + step] * STEP, known)
            store.forget("records", (step - 1) * STEP)
        first = known.needed(8)
        words = [owners([100 + step]).astype("<u8").tobytes() for step in range(8)]
        assert 0 < first < 8
        end = time.monotonic() + 30
        while any(word in files(tmp_path) for word in words[:first]) and time.monotonic() < end:
            time.sleep(0.05)
        assert not any(word in files(tmp_path) for word in words[:first])
        assert all(word in files(tmp_path) for word in words[first:])


def test_damaged_rows_are_refused(tmp_path: Path) -> None:
    known: Any = PLANS["fading"]()
    with closing(new_store(tmp_path)) as store:
        take_step(store, list(range(STEP)), known)
        store._db.execute("UPDATE persons SET digest = 'x'")
        with pytest.raises(StoreError, match="the ledger of persons is damaged"):
            store.person(owners([1]))
        store._db.execute("UPDATE admitted SET digest = 'x'")
        with pytest.raises(StoreError, match="which slots of records count is damaged"):
            store.owned("records", Span(0, STEP))

"""What must hold for every Store, on any storage."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.state.made import chain, made, records, same
from tests.state.object_store import objects
from tests.state.postgres_server import needs_postgres, on_server
from tidegate.checks import InvalidValueError, StoreError
from tidegate.privacy import LedgerError
from tidegate.release import FIRST
from tidegate.run.config.tables import Locations
from tidegate.schedule import Span
from tidegate.state.erasure import OneRecord, erased
from tidegate.state.folder_store import FolderStore
from tidegate.state.state_database import StateDatabase
from tidegate.state.store import Batch, Evaluation, FitToStore, Quarantined, Step, Store

Opener = Callable[[], Store]
States = Callable[[], AbstractContextManager[Opener]]


@contextmanager
def sqlite() -> Iterator[Opener]:
    """A new state in a folder; each call opens it."""
    with TemporaryDirectory() as folder:
        FolderStore(Path(folder), "config", segment_records=16).close()
        yield lambda: FolderStore(Path(folder), segment_records=16)


@contextmanager
def postgres() -> Iterator[Opener]:
    """A new state whose database is on a server."""
    with TemporaryDirectory() as folder:
        FolderStore(Path(folder), "config", locations=on_server(), segment_records=16).close()
        yield lambda: FolderStore(Path(folder), segment_records=16)


@contextmanager
def bucket() -> Iterator[Opener]:
    """A new state whose segments are S3 objects."""
    with TemporaryDirectory() as folder:
        locations = Locations(segments=objects().uri)
        FolderStore(Path(folder), "config", locations=locations, segment_records=16).close()
        yield lambda: FolderStore(Path(folder), segment_records=16)


STORES = [sqlite, pytest.param(postgres, marks=needs_postgres), bucket]
kinds = st.sampled_from(["float32", "float64", "sparse float32", "sparse float64"])


@pytest.mark.thorough
@pytest.mark.parametrize(
    "states", [sqlite, pytest.param(postgres, marks=[needs_postgres, pytest.mark.slow])]
)
@settings(max_examples=30)
@given(
    kind=kinds,
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=8),
    cut=st.none() | st.integers(1, 40),
    data=st.data(),
)
def test_what_is_read_is_what_was_appended(
    states: States, kind: str, sizes: list[int], cut: int | None, data: st.DataObject
) -> None:
    with states() as opened, closing(opened()) as store:
        total = 0
        for size in sizes:
            batch = Batch(stream="records", records=records(total, size, kind=kind), cut=cut)
            total += size
            assert store.append(batch) == total
        if total:
            start = data.draw(st.integers(0, total - 1))
            stop = data.draw(st.integers(start + 1, total))
            found = store.read("records", Span(start, stop))
            assert same(found, records(start, stop - start, kind=kind))
            some = sorted(data.draw(st.sets(st.integers(0, stop - start - 1), min_size=1)))
            few = store.read("records", Span(start, stop), np.array(some))
            assert same(few, found.take(np.array(some)))
        if cut is not None:
            needed = total - total % cut
            store.forget("records", needed)
            assert all(segment.span.start >= needed for segment in store.held())
        assert not list(store.verify())


@dataclass
class Model:
    """What a store should hold, in plain variables."""

    count: int = 0
    done: int = 0
    first: int = 0
    fits: int = 0
    releases: int = 0
    keys: set[str] = field(default_factory=set)
    offset: str | None = None
    bad: list[int] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    lines: int = 0
    state: str | None = None
    config: str = "config"
    steps: list[Step] = field(default_factory=list)


class Life(RuleBasedStateMachine):
    """Everything a Gate does to a store, in any order, with restarts in between."""

    states: States

    @initialize()
    def start(self) -> None:
        self.context = self.states()
        self.open = self.context.__enter__()
        self.store = self.open()
        self.model = Model()

    @rule(n=st.integers(0, 30), key=st.none() | st.sampled_from("abcdef"), bad=st.booleans())
    def append(self, n: int, key: str | None, bad: bool) -> None:
        model = self.model
        slots = tuple(range(0, n, 7)) if bad else ()
        quarantine = tuple(Quarantined(slot=slot, reason="text", payload="[]") for slot in slots)
        batch = Batch(
            stream="records",
            records=records(model.count, n),
            quarantine=quarantine,
            source="file",
            offset=f"{model.count + n}",
            key=key,
        )
        if key is None or key not in model.keys:
            model.keys |= set() if key is None else {key}
            model.bad += [model.count + slot for slot in slots]
            model.count += n
            model.offset = f"{model.count}"
        assert self.store.append(batch) == model.count

    @precondition(lambda self: self.model.done < self.model.count)
    @rule(data=st.data(), kinds=st.lists(st.booleans(), max_size=3))
    def publish(self, data: st.DataObject, kinds: list[bool]) -> None:
        model = self.model
        at = data.draw(st.integers(model.done + 1, model.count))
        fits = [made(model.fits + i, at, released=released) for i, released in enumerate(kinds)]
        quality = Evaluation(release=0, share=Fraction(1, at), value=0.1 + at, deviation=1 / 3)
        paid = quality if model.releases else None
        model.steps.append(Step(stream="records", span=Span(model.done, at), evaluation=paid))
        published = self.store.publish("records", at, fits, f"{at}", paid)
        assert [one.number for one in published] == [model.releases + i for i in range(sum(kinds))]
        model.done, model.fits, model.state = at, model.fits + len(kinds), f"{at}"
        model.releases += sum(kinds)

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        before = data.draw(st.integers(0, self.model.count))
        self.store.forget("records", before)
        held = [segment.span for segment in self.store.held()]
        assert all(span.stop > before for span in held)
        self.model.first = held[0].start if held else self.model.count

    @precondition(lambda self: self.model.count)
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        model = self.model
        slot = data.draw(st.integers(0, model.count - 1))
        (line,) = self.store.erase([OneRecord("records", slot)], time=datetime.now(UTC))
        model.lines += 1
        assert line.number == model.lines == self.store.erasures()
        if slot >= model.first or slot in model.bad:
            assert line.slots == (slot not in model.gone)
            model.gone.add(slot)
            model.bad = sorted({*model.bad, slot})

    @rule(config=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=3))
    def reconfigure(self, config: str) -> None:
        self.model.config = config
        self.store.reconfigure(config)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.open()

    @invariant()
    def holds_what_was_given(self) -> None:
        store, model = self.store, self.model
        assert store.config() == model.config
        assert list(store.steps()) == model.steps
        assert (store.count("records"), store.done("records")) == (model.count, model.done)
        assert (store.offset("file"), store.state()) == (model.offset, model.state)
        assert [bad.slot for bad in store.quarantine("records")] == model.bad
        assert store.quarantined("records") == len(model.bad)
        assert [line.fit.number for line in store.lines("records")] == list(range(model.fits))
        if model.first < model.count:
            span = Span(model.first, model.count)
            gone = np.isin(np.arange(*span), list(model.gone))
            expected = erased(records(span.start, span.size), gone)
            assert same(store.read("records", span), expected)
        if model.first:
            with pytest.raises(StoreError, match="not held"):
                store.read("records", Span(model.first - 1, model.count))
        assert not list(store.verify())

    @invariant()
    def chains_its_releases(self) -> None:
        previous = FIRST
        for number, release in enumerate(self.store.releases()):
            assert (release.number, release.previous) == (number, previous)
            assert release.card["release"] == number
            assert release.intact
            assert np.array_equal(release.weights, self.store.fit(release.card["fit"]))
            previous = release.hash

    def teardown(self) -> None:
        self.store.close()
        self.context.__exit__(None, None, None)


LIVES = [
    (sqlite, 20),
    pytest.param(postgres, 3, marks=needs_postgres),
    pytest.param(postgres, 50, marks=[needs_postgres, pytest.mark.slow]),
    pytest.param(bucket, 20, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("states", "lives"), LIVES)
def test_any_life(states: States, lives: int) -> None:
    machine = type("LifeOf", (Life,), {"states": staticmethod(states)})
    many = settings(max_examples=lives, stateful_step_count=12)
    run_state_machine_as_test(machine, settings=many)


@pytest.fixture(params=STORES)
def opener(request: pytest.FixtureRequest) -> Iterator[Opener]:
    with request.param() as opened:
        yield opened


def test_a_step_is_published_once(opener: Opener) -> None:
    store = opener()
    store.append(Batch(stream="records", records=records(0, 10)))
    store.publish("records", 5, [made(0, 5)])
    before = chain(store)
    for at, fits in [(5, [made(1, 5)]), (3, []), (11, [made(1, 11)]), (6, [made(0, 6)])]:
        with pytest.raises(StoreError):
            store.publish("records", at, fits)
    with pytest.raises(StoreError):
        store.publish("records", 6, [made(2, 6), made(1, 6)])
    assert (chain(store), store.done("records")) == (before, 5)
    store.close()


def test_all_of_a_step_is_published_or_nothing(opener: Opener) -> None:
    store = opener()
    store.append(Batch(stream="records", records=records(0, 10)))
    bad = made(1, 5)
    bad.card["scale"] = float("nan")  # type: ignore[index]
    with pytest.raises(ValueError, match="JSON"):
        store.publish("records", 5, [made(0, 5), bad])
    assert (chain(store), list(store.lines("records")), store.done("records")) == ([], [], 0)
    assert len(store.publish("records", 5, [made(0, 5), made(1, 5)])) == 2
    store.close()


@pytest.mark.parametrize("reopen", [False, True])
def test_no_record_is_charged_above_its_budget(opener: Opener, reopen: bool) -> None:
    """The transaction that would publish it fails, also if the evaluation takes it too far."""
    store = opener()
    store.append(Batch(stream="records", records=records(0, 10)))
    store.publish("records", 5, [made(0, 5), made(1, 5)])  # 1/2 + 1/4 of records 0 to 4
    if reopen:
        store.close()
        store = opener()
    before = chain(store), list(store.lines()), list(store.steps()), store.done("records")
    line = made(2, 6).line
    dear = FitToStore(
        line=line._replace(share=Fraction(1, 4)), weights=np.ones(3), card={"shape": [3]}
    )
    tried = Evaluation(release=0, share=Fraction(4, 5), value=0.5, deviation=0.1)
    refused: list[tuple[list[FitToStore], Evaluation | None]] = [
        ([dear, made(3, 6)], None),
        ([made(2, 6), dear], None),
        ([dear], tried),
    ]
    for fits, evaluation in refused:
        with pytest.raises((LedgerError, StoreError)):
            store.publish("records", 6, fits, evaluation=evaluation)
        after = chain(store), list(store.lines()), list(store.steps()), store.done("records")
        assert after == before
    store.publish("records", 6, [dear])  # this spends all of records 0 to 4; record 5 has more left
    with pytest.raises(LedgerError, match="would take record 0 to 17/16 of its budget"):
        store.publish("records", 7, [made(3, 7)])
    assert not list(store.verify())
    store.close()


def test_a_step_that_is_undone_is_not_charged(opener: Opener) -> None:
    """Whatever stops it, and however late: the same step can be published again."""
    store = opener()
    store.append(Batch(stream="records", records=records(0, 10)))
    store.publish("records", 5, [made(0, 5)])
    late = patch.object(StateDatabase, "_seal", side_effect=KeyboardInterrupt)
    with late, pytest.raises(KeyboardInterrupt):
        store.publish("records", 6, [made(1, 6)])
    store.publish("records", 6, [made(1, 6)])
    assert [line.fit.number for line in store.lines()] == [0, 1]
    assert not list(store.verify())
    store.close()


def test_models_and_lines_come_back_to_the_bit(opener: Opener) -> None:
    store = opener()
    store.append(Batch(stream="records", records=records(0, 10)))
    fits = [made(0, 10, released=False, shape=(4,)), made(1, 10, shape=(4, 2))]
    store.publish("records", 10, fits)
    store.close()
    store = opener()
    assert list(store.lines("records")) == [one.line for one in fits]
    for one in fits:
        weights = store.fit(one.line.fit.number)
        assert np.array_equal(weights, one.weights)
        assert not weights.flags.writeable
    assert store.release(0).card.items() >= {**fits[1].card, "release": 0}.items()
    assert all(isinstance(line.share, Fraction) for line in store.lines("records"))
    for unknown in (lambda: store.fit(2), lambda: store.release(1)):
        with pytest.raises(StoreError, match="there is no"):
            unknown()
    store.close()


def test_within_a_snapshot_nothing_changes(opener: Opener) -> None:
    store = opener()
    store.append(Batch(stream="records", records=records(0, 10)))
    assert isinstance(store, FolderStore)
    looking = FolderStore(store.folder, read_only=True)
    with looking.snapshot():
        store.append(Batch(stream="records", records=records(10, 5)))
        assert looking.count("records") == 10
    assert looking.count("records") == 15
    looking.close()
    store.close()


def test_the_form_of_a_stream_is_remembered(opener: Opener) -> None:
    kinds = {"source": "float32", "target": "sparse float64"}
    store = opener()
    for stream, kind in kinds.items():
        assert store.form(stream) is None
        store.append(Batch(stream=stream, records=records(0, 4, kind=kind)))
    store.close()
    store = opener()
    for stream, kind in kinds.items():
        form, expected = store.form(stream), records(0, 4, kind=kind).X
        assert form is not None
        assert (type(form), form.dtype, form.shape) == (type(expected), expected.dtype, (0, 3))
    store.close()


def test_streams_do_not_mix(opener: Opener) -> None:
    store = opener()
    store.append(Batch(stream="source", records=records(0, 40), key="a"))
    store.append(Batch(stream="target", records=records(7, 5, width=2), key="a"))
    store.publish("source", 40, [made(0, 40)])
    store.forget("source", 40)
    assert (store.count("source"), store.count("target"), store.done("target")) == (40, 5, 0)
    assert same(store.read("target", Span(0, 5)), records(7, 5, width=2))
    assert [segment.stream for segment in store.held()] == ["target"]
    assert not list(store.lines("target"))
    store.close()


def test_a_batch_of_another_kind_is_refused(opener: Opener) -> None:
    store = opener()
    store.append(Batch(stream="records", records=records(0, 4)))
    for other in (records(4, 4, width=2), records(4, 4, kind="float64")):
        with pytest.raises(InvalidValueError, match="like earlier batches"):
            store.append(Batch(stream="records", records=other))
    assert store.count("records") == 4
    store.close()


def test_forgotten_records_leave_nothing_in_the_quarantine(opener: Opener) -> None:
    store = opener()
    bad = (Quarantined(slot=1, reason="unknown label", payload='"x"'),)
    for start in (0, 20):
        store.append(Batch(stream="records", records=records(start, 20), quarantine=bad))
    store.forget("records", 20)
    assert [(one.slot, one.reason, one.payload) for one in store.quarantine("records")] == [
        (1, "unknown label", None),
        (21, "unknown label", '"x"'),
    ]
    store.close()

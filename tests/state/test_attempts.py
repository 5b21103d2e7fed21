"""Erasures and steps take turns: neither waits for ever, and no outdated attempt trains a fit."""

import json
import signal
import tempfile
import threading
from collections.abc import Callable
from contextlib import closing
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.state import besieged, erasing
from tests.state.besieged import RECORDS, Besieged, prepared, until
from tests.state.erasing import COUNT, CUT, TIME, VICTIMS
from tests.state.gatelife import opened, stream
from tests.state.marked import batch, found
from tests.state.postgres_server import needs_postgres, on_server
from tidegate.checks import StoreError
from tidegate.compute import Memory
from tidegate.data.records import Records
from tidegate.failpoints import ERASURES
from tidegate.gate import Gate
from tidegate.learn.learner import Fitted
from tidegate.run.config.tables import Locations
from tidegate.run.executor import FitJob
from tidegate.schedule import Span
from tidegate.sources import raw_batch
from tidegate.state.attempts import RESTARTS, Attempts, CheckedEngine, Turns
from tidegate.state.durable_run import DurableRun
from tidegate.state.erasure import OnePerson, OneRecord, Target, has_content
from tidegate.state.folder_store import FolderStore
from tidegate.state.store import Batch, ErasedError
from tidegate.state.verification import verify

children = get_context("forkserver")
children.set_forkserver_preload(["tests.state.besieged", "tests.state.erasing"])

PLACES = [
    pytest.param(Locations, id="sqlite"),
    pytest.param(on_server, id="postgres", marks=needs_postgres),
]

Place = Callable[[], Locations]


# --- turns


def test_turns_are_taken_in_the_order_in_which_threads_ask() -> None:
    turns, order, threads = Turns(), list[int](), list[threading.Thread]()

    def take(number: int) -> None:
        with turns:
            order.append(number)

    with turns:
        for number in range(20):
            threads.append(threading.Thread(target=take, args=(number,)))
            threads[-1].start()
            until(lambda: turns.waiting == len(threads))
    for each in threads:
        each.join(60)
    assert order == list(range(20))
    assert turns.waiting == 0


def test_who_is_interrupted_while_waiting_lets_others_pass() -> None:
    turns = Turns()
    passed = threading.Event()

    def interrupted() -> None:
        def fail(_: Any) -> None:
            raise KeyboardInterrupt

        turns._changed.wait_for = fail  # type: ignore[assignment]
        with pytest.raises(KeyboardInterrupt):
            turns.__enter__()
        del turns._changed.wait_for
        passed.set()

    with turns:
        other = threading.Thread(target=interrupted)
        other.start()
        assert passed.wait(60)
        assert turns.waiting == 0
    with turns:
        pass


# --- a step and erasures


def test_an_outdated_attempt_trains_no_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An erasure between the beginning of a step and its fit waits for no fit."""
    trained: list[int] = []

    class Watched(Gate):
        def train(self, job: FitJob) -> Fitted:
            trained.append(self.store.erasures())
            return super().train(job)

    erasers: list[threading.Thread] = []
    admit = DurableRun.admit

    with Watched.open(tmp_path, besieged.settings(), clock=lambda: TIME) as gate:

        def erased_now(self: DurableRun, *step: Any) -> Any:
            if not erasers:
                erasers.append(threading.Thread(target=gate.erase, kwargs={"record": 7}))
                erasers[0].start()
                until(lambda: gate.store.erasures() == 1)
            return admit(self, *step)

        monkeypatch.setattr(DurableRun, "admit", erased_now)
        gate.take(raw_batch(*stream(100)))
        assert len(list(gate.advance())) == 1
        erasers[0].join(60)
        assert not erasers[0].is_alive()
        assert trained == [1]  # the fit that began after the erasure, and no other
        assert not list(verify(gate))


def test_a_fit_whose_step_is_outdated_once_it_has_its_records_ends(tmp_path: Path) -> None:
    """A cluster that starts with the fit comes too late for an erasure to end it."""

    class Late(Memory):
        def parts(self, pieces: Any, form: Any) -> Any:
            store.erase([OneRecord("records", 3)], time=TIME)
            return super().parts(pieces, form)

    with closing(erasing.prepared(tmp_path)) as store:
        attempts, one = Attempts(store), store.read("records", Span(0, 10))
        with attempts._one():
            assert CheckedEngine(Memory(), attempts).parts([one], one.form).n == 10
            with pytest.raises(ErasedError):
                CheckedEngine(Late(), attempts).parts([one], one.form)


@pytest.mark.parametrize("place", PLACES)
def test_steps_are_made_whatever_is_erased_and_erasures_wait_for_one_attempt(
    tmp_path: Path, place: Place
) -> None:
    prepared(tmp_path / "state", place())
    with Besieged.open(tmp_path / "state", clock=lambda: TIME) as gate:
        gate.besiege()
        assert len(list(gate.advance())) == RECORDS // 100
        gate.ended()
        assert gate.attempted == sorted([0, 100, 200, 300] * (RESTARTS + 1))
        assert gate.store.erasures() == len(gate.attempted)
        done = np.repeat([0, 100, 200, 300], RESTARTS + 1)
        done[RESTARTS :: RESTARTS + 1] += 100  # this one waited until its step was published
        assert sorted(gate.published) == done.tolist()
        assert not list(verify(gate))
        read = gate.store.read("records", Span(300, 400))
        assert not has_content(read, np.array([19, 20, 21]))  # also what the last fit had read


def test_erasures_that_wait_are_carried_out_in_one_transaction(tmp_path: Path) -> None:
    asked, together = threading.Event(), list[int]()

    class Crowded(Besieged):
        def train(self, job: FitJob) -> Fitted:
            if len(self.attempted) == RESTARTS:  # the attempt that keeps erasures waiting
                turns = self._run.attempts._turns
                for number in range(30, 40):
                    self.erasers.append(threading.Thread(target=self._siege, args=(number,)))
                    self.erasers[-1].start()
                until(lambda: turns.waiting == 10 and len(self.erasure_requests) == 10)
                asked.set()
            return super().train(job)

    with Crowded.open(tmp_path, besieged.settings(), clock=lambda: TIME) as gate:
        gate.besiege()
        gate.take(raw_batch(*stream(100)))
        erase = gate.store.erase

        def counted(targets: Any, **how: Any) -> Any:
            together.append(len(targets))
            return erase(targets, **how)

        gate.store.erase = counted  # type: ignore[method-assign]
        list(gate.advance())
        gate.ended()
        assert asked.is_set()
        assert together == [1] * RESTARTS + [11]
        assert [line.slots for line in gate.store.erased()] == [1] * (RESTARTS + 11)
        assert not list(verify(gate))


def test_a_step_that_fails_keeps_erasures_waiting_no_longer(tmp_path: Path) -> None:
    """A full disk or a killed process: erasures go first, then the step is tried again."""

    class Failing(Besieged):
        fails = True

        def train(self, job: FitJob) -> Fitted:
            fitted = super().train(job)
            if len(self.attempted) > RESTARTS and self.fails:
                raise StoreError("no space left")
            return fitted

    with Failing.open(tmp_path, besieged.settings(), clock=lambda: TIME) as gate:
        gate.besiege()
        gate.take(raw_batch(*stream(100)))
        with pytest.raises(StoreError, match="no space left"):
            list(gate.advance())
        gate.ended()
        assert gate.store.erasures() == RESTARTS + 1
        gate.fails = False
        assert len(list(gate.advance())) == 1
        gate.ended()
        assert len(gate.attempted) == RESTARTS + 2
        assert not list(verify(gate))


def test_a_damaged_file_fails_only_the_erasure_that_reads_it(tmp_path: Path) -> None:
    with opened(tmp_path, besieged.settings()) as gate:
        for start in range(0, 300, 100):
            gate.take(raw_batch(*stream(100, start)))
        file = gate.store._files.where(str(gate.store.held()[0].file))
        assert isinstance(file, Path)
        data = bytearray(file.read_bytes())
        data[-40] ^= 1
        file.write_bytes(bytes(data))
        answers = [gate.ask_to_erase(record=number) for number in (5, 150, 250)]
        gate.erase_waiting()
        assert "checksum mismatch" in str(answers[0].exception())
        assert [each.result().slots for each in answers[1:]] == [1, 1]


# --- many erasures at once


def owned(start: int, n: int) -> Batch:
    """Records of five persons in turns; nobody's every sixth time."""
    slots = np.arange(start, start + n)
    owners = np.column_stack([slots % 6, slots % 6]).astype(np.uint64)
    records = Records(slots[:, None] + 1.0, np.ones(n, np.intp), slots % 6 > 0, owners=owners)
    return Batch(stream="records", records=records, cut=20)


def filled(folder: Path) -> FolderStore:
    store = FolderStore(folder, "config", segment_records=1024)
    for start in range(0, 70, 7):
        store.append(owned(start, 7))
    store.forget("records", 20)
    return store


one_target: Any = st.one_of(
    st.integers(0, 69).map(lambda number: OneRecord("records", number)),
    st.integers(0, 7).map(lambda owner: OnePerson(np.full((1, 2), owner, np.uint64))),
)


@pytest.mark.thorough
@settings(max_examples=20, deadline=None)
@given(
    targets=st.lists(one_target, min_size=1, max_size=8), before=st.lists(one_target, max_size=2)
)
def test_at_once_is_as_one_by_one(targets: list[Target], before: list[Target]) -> None:
    with tempfile.TemporaryDirectory() as name:  # noqa: SIM117
        with (
            closing(filled(Path(name) / "a")) as together,
            closing(filled(Path(name) / "b")) as apart,
        ):
            for store in (together, apart):
                for target in before:
                    store.erase([target], time=TIME)
            lines = together.erase(targets, time=TIME)
            singles = [line for each in targets for line in apart.erase([each], time=TIME)]
            assert [(each.number, each.kind, each.slots) for each in lines] == [
                (each.number, each.kind, each.slots) for each in singles
            ]
            one, other = (store.read("records", Span(20, 70)) for store in (together, apart))
            assert np.array_equal(one.X, other.X)
            assert np.array_equal(one.usable, other.usable)
            assert list(together.quarantine("records")) == list(apart.quarantine("records"))
            assert len({each.hash for each in lines}) == len(lines)
            assert not list(together.verify())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("point", sorted(set(ERASURES)))
def test_a_kill_leaves_all_that_were_asked_together_or_none(
    tmp_path: Path, point: str, place: Place
) -> None:
    folder = tmp_path / "state"
    erasing.prepared(folder, place()).close()
    child = children.Process(target=erasing.live_at_once, args=(folder, point))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL
    with closing(FolderStore(folder)) as store:
        store.sweep()
        gone = set(VICTIMS) if store.erasures() else set()
        assert store.erasures() == len(gone)
        assert bool(gone) == (point in {"erase.done", "erase.unlink", "erase.scrub"})
        read = store.read("records", Span(0, COUNT))
        kept = ~np.isin(np.arange(COUNT), list(gone))
        assert np.array_equal(read.X[kept], batch("records", 0, COUNT).records.X[kept])
        assert not has_content(read, np.flatnonzero(~kept))
        assert not list(store.verify())
        assert not found(folder) & gone
        store.erase([OneRecord("records", slot) for slot in VICTIMS], time=TIME)
        store.append(batch("records", COUNT, 60, cut=CUT))
        assert not list(store.verify())


@pytest.mark.thorough
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(
    "point",
    [
        *("erase.commit:1", "erase.done:2", "erase.commit:3", "erase.unlink:3", "erase.done:5"),
        *("publish.commit:1", "publish.done:1", "publish.commit:2", "publish.done:3"),
    ],
)
def test_a_kill_under_siege_loses_no_receipt_and_no_step(
    tmp_path: Path, point: str, place: Place
) -> None:
    """Whoever has a receipt is erased; steps that were published stay; the rest goes on."""
    folder, told = tmp_path / "state", tmp_path / "receipts"
    prepared(folder, place())
    child = children.Process(target=besieged.live, args=(folder, told, point))
    child.start()
    child.join(120)
    assert child.exitcode == -signal.SIGKILL
    receipts = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
    with Gate.open(folder, clock=lambda: TIME) as gate:
        lines = {line.hash for line in gate.store.erased()}
        assert {hashed for _, hashed in receipts} <= lines
        for number, _ in receipts:
            if number >= gate.store.held()[0].span.start:
                read = gate.store.read("records", Span(number, number + 1))
                assert not has_content(read, np.array([0]))
        assert not list(verify(gate))
        list(gate.advance())
        assert gate.store.done("records") == RECORDS
        assert len(list(gate.releases())) == RECORDS // 100
        assert not list(verify(gate))

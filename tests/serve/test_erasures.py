"""Erasure over HTTP: one answer whoever is meant, while batches arrive and models are trained."""

import json
import threading
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import Served, config, served, stream
from tests.serve.test_training_process import until
from tidegate.client import ServiceError
from tidegate.gate import Gate
from tidegate.learn.learner import Fitted
from tidegate.run.executor import FitJob
from tidegate.schedule import Span
from tidegate.serve import gate_runner
from tidegate.serve.gate_runner import Current, GateRunner
from tidegate.serve.limits import Limits
from tidegate.serve.training_process import TrainingProcessGate
from tidegate.sources import raw_batch
from tidegate.state.durable_run import RESTARTS
from tidegate.state.erasure import has_content
from tidegate.state.verification import verify

PERSONS = {"id": "who", "contributions": 3}
QUICK = Limits(rate=10_000, burst=10_000, erasing=0.02)


def send(service: Served, n: int, start: int = 0) -> None:
    X, y = stream(n, start)
    ids = [f"p-{slot % 40}" for slot in range(start, start + n)]
    body = {"x": X.tolist(), "y": y.tolist(), "persons": ids}
    assert service.ask("POST", "/v1/records", body).status == 200


def test_a_person_is_erased_and_one_answer_is_given(tmp_path: Path) -> None:
    with served(tmp_path / "state", config(person=PERSONS), QUICK) as service:
        send(service, 90)
        answers = [
            service.ask("POST", "/v1/erasures", {"person": name})
            for name in ("p-7", "p-7", "stranger", 12)
        ]
        assert {answer.status for answer in answers} == {200}
        receipts = [answer.json for answer in answers]
        assert [set(each) for each in receipts] == [{"erasure", "time", "kind", "hash"}] * 4
        assert [each["erasure"] for each in receipts] == [1, 2, 3, 4]
        assert len({len(answer.body) for answer in answers}) == 1
        store = service.runner.gate.store
        read = store.read("records", Span(0, 90))
        assert not has_content(read, np.array([7, 47, 87]))
        assert read.usable.sum() == 87
        audit = (tmp_path / "state" / "audit.jsonl").read_text()
        assert audit.count("POST /v1/erasures") == 4
        assert "p-7" not in audit
    with Gate.look(tmp_path / "state") as gate:
        assert not list(verify(gate))
        assert [line.slots for line in gate.store.erased()] == [3, 0, 0, 0]


def test_a_record_is_erased_by_the_client(tmp_path: Path) -> None:
    with served(tmp_path / "state", config(), QUICK) as service, service.client() as client:
        client.ingest(*stream(50))
        receipt = client.erase(record=12)
        assert (receipt["erasure"], receipt["kind"]) == (1, "record")
        for wrong in ({"record": 50}, {"record": -1}, {"person": "a"}, {}):
            with pytest.raises(ServiceError) as told:
                client.erase(**wrong)
            assert told.value.status == 422
    with Gate.look(tmp_path / "state") as gate:
        assert not has_content(gate.store.read("records", Span(0, 50)), np.array([12]))
        assert gate.store.erasures() == 1


WRONG: list[Any] = [
    {"person": ""},
    {"person": "x" * 2**20},
    {"person": 1.5},
    {"person": True},
    {"person": None},
    {"person": ["a"]},
    {"person": "a", "record": 1},
    {"person": "a", "stream": "records"},
    {"record": "1"},
    {"record": 1.0},
    {"record": True},
    {"record": 2**70},
    {"record": 1, "stream": 2},
    {"record": 1, "stream": "target"},
    {"record": 1, "more": 2},
    {},
    [],
    None,
]


def test_what_nobody_can_mean_is_refused_in_one_line(tmp_path: Path) -> None:
    with served(tmp_path / "state", config(person=PERSONS), QUICK) as service:
        send(service, 20)
        bodies = [json.dumps(each).encode() for each in WRONG]
        for body in (*bodies, b"", b"{", b'{"person": "\xff"}', b'{"person": "\\ud800"}'):
            headers = {"Content_Type": "application/json"}
            answer = service.ask("POST", "/v1/erasures", body, **headers)
            assert answer.status == 422, body[:50]
            assert len(answer.json["error"]) < 200
        answer = service.ask("POST", "/v1/erasures", b"p-7", Content_Type="text/plain")
        assert answer.status == 415
        assert service.runner.gate.store.erasures() == 0


def test_the_answer_takes_whole_ticks(tmp_path: Path) -> None:
    limits = Limits(rate=10_000, burst=10_000, erasing=0.5)
    with served(tmp_path / "state", config(person=PERSONS), limits) as service:
        send(service, 90)
        for name in ("p-7", "stranger"):
            began = time.monotonic()
            assert service.ask("POST", "/v1/erasures", {"person": name}).status == 200
            assert time.monotonic() - began >= 0.5


def test_what_is_refused_does_not_wait_for_a_tick(tmp_path: Path) -> None:
    limits = Limits(rate=10_000, burst=10_000, erasing=100.0)
    with served(tmp_path / "state", config(person=PERSONS), limits) as service:
        began = time.monotonic()
        assert service.ask("POST", "/v1/erasures", {"person": ""}).status == 422
        assert time.monotonic() - began < 100


def test_batches_before_an_erasure_are_covered(tmp_path: Path) -> None:
    with GateRunner(Gate.open(tmp_path / "state", config(person=PERSONS))) as runner:
        for start in range(0, 90, 10):
            X, y = stream(10, start)
            runner.take(raw_batch(X, y, ["same"] * 10), size=1)
        assert runner.erase(person="same").result().slots == 90


class Held(Gate):
    """A gate whose fits wait until they are let go."""

    reached: threading.Semaphore
    go_on: threading.Semaphore

    def train(self, job: FitJob) -> Fitted:
        self.reached.release()
        assert self.go_on.acquire(timeout=60)
        return super().train(job)

    def erased_more_than(self, count: int) -> bool:
        return self.store.erasures() > count


def held(folder: Path, **sections: Any) -> Held:
    gate = Held.open(folder, config(quality={"share": 0}, **sections))
    gate.reached, gate.go_on = threading.Semaphore(0), threading.Semaphore(0)
    return gate


def erased_twice(runner: GateRunner, gate: Held) -> None:
    """Two erasures end two attempts at the first step: the third keeps erasures waiting."""
    for number in range(RESTARTS):
        assert gate.reached.acquire(timeout=60)
        receipt = runner.erase(record=number)
        until(partial(Held.erased_more_than, gate, number))
        gate.go_on.release()
        receipt.result(60)
    assert gate.reached.acquire(timeout=60)


def test_records_do_not_wait_for_an_erasure_that_waits_for_a_step(tmp_path: Path) -> None:
    gate = held(tmp_path / "state")
    with GateRunner(gate) as runner:
        runner.take(raw_batch(*stream(300)), size=1).result(60)
        erased_twice(runner, gate)
        waiting = [runner.erase(record=number) for number in (5, 6, 7)]
        for start in range(300, 900, 100):
            runner.take(raw_batch(*stream(100, start)), size=1).result(60)
        assert not any(each.done() for each in waiting)  # the step goes on
        assert (runner.erasures_waiting, gate.store.erasures()) == (3, RESTARTS)
        gate.go_on.release(1000)
        lines = [each.result(60) for each in waiting]
        assert [line.number for line in lines] == [RESTARTS + 1, RESTARTS + 2, RESTARTS + 3]
        until(lambda: runner.erasures_waiting == 0)
        until(lambda: gate.store.done("records") == 900)
    with Gate.look(tmp_path / "state") as looked:
        assert not list(verify(looked))


def test_who_waits_long_is_told_so_and_erased(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = held(tmp_path / "state")
    limits = replace(QUICK, erasing_wait=0.01)
    with served(tmp_path / "state", config(), limits, gate=gate) as service:
        service.send(300)
        erased_twice(service.runner, gate)
        until(lambda: service.runner.erasures_waiting == 0)
        monkeypatch.setattr(gate_runner, "MAX_WAITING_ERASURES", 1)
        answer = service.ask("POST", "/v1/erasures", {"record": 250})
        assert answer.status == 503
        assert "waits for the step" in answer.json["error"]
        assert answer.headers["retry-after"] == "1"
        answer = service.ask("POST", "/v1/erasures", {"record": 6})
        assert (answer.status, "too many erasures" in answer.json["error"]) == (429, True)
        gate.go_on.release(1000)
        until(lambda: gate.store.erasures() == RESTARTS + 1)
        assert not has_content(gate.store.read("records", Span(250, 260)), np.array([0]))


def test_closing_carries_out_the_erasures_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate_runner, "PATIENCE", 60.0)
    gate = held(tmp_path / "state")
    runner = GateRunner(gate)
    runner.take(raw_batch(*stream(300)), size=1).result(60)
    erased_twice(runner, gate)
    waiting = runner.erase(record=250)
    ended = threading.Thread(target=runner.close)
    ended.start()
    gate.go_on.release(1000)
    assert waiting.result(60).slots == 1
    ended.join(60)
    assert not ended.is_alive()


def test_health_status_and_metrics_say_that_steps_wait(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gate = held(tmp_path / "state")
    with (
        served(tmp_path / "state", config(), QUICK, gate=gate) as service,
        caplog.at_level("WARNING"),
    ):

        def seen() -> tuple[Any, ...]:
            (row,) = service.ask("GET", "/v1/status").json["streams"]
            lines = service.ask("GET", "/metrics").body.decode().splitlines()
            (metric,) = [each for each in lines if each.startswith("tidegate_steps_waiting{")]
            health = service.ask("GET", "/v1/health")
            assert health.status == 200
            waiting = row["steps_waiting"], float(metric.rpartition(" ")[2])
            return health.json["status"], row["behind"], *waiting

        gate.go_on.release(100)
        service.send(350)
        until(lambda: gate.store.done("records") == 300)
        while gate.go_on.acquire(blocking=False):
            pass
        service.send(200, 350)
        until(lambda: seen() == ("behind", True, 2, 2.0))
        gate.go_on.release(100)
        until(lambda: seen() == ("ok", False, 0, 0.0))
    told = [message for message in caplog.messages if "training" in message]
    assert told[0].startswith("training is behind: ")
    assert told[-1] == "training has caught up"


class Slow(TrainingProcessGate):
    """A gate whose first fit never ends."""

    began: threading.Event | None = None

    def train(self, job: FitJob) -> Fitted:
        if self.began is None:
            self.began = threading.Event()
            job = replace(job, trainer=replace(job.trainer, bits=Waits()))
            threading.Timer(2.0, self.began.set).start()
        return super().train(job)


class Waits:
    """Random bits that never come."""

    private = True

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            time.sleep(600)
        raise AttributeError(name)


@pytest.mark.slow
def test_a_fit_in_the_training_process_is_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is killed while it trains, the step begins again, and nothing is reported as trouble."""
    settings = config(not_private_seed=3)
    gate = Slow.open(tmp_path / "one", settings)
    with GateRunner(gate) as runner, caplog.at_level("ERROR"):
        runner.take(raw_batch(*stream(300)), size=1).result()
        until(lambda: gate.began is not None and gate.began.is_set())
        assert runner.erase(record=250).result(60).slots == 1
        until(lambda: runner.current.number >= 0)
        assert not runner.trouble
        found = runner.current
        assert isinstance(found, Current)
        runner.erase(record=0).result()  # while nothing is trained
        runner.take(raw_batch(*stream(100, 300)), size=1).result()
        until(lambda: runner.current.number == 1)
        assert not runner.trouble
    assert not caplog.messages
    X, y = stream(300)
    X[250] = np.nan
    with Gate.open(tmp_path / "two", settings) as other:
        other.ingest(X, y)
        (wanted,) = [release.weights for release in other.releases()]
    assert np.array_equal(found.release.weights, wanted)
    with Gate.look(tmp_path / "one") as looked:
        assert not list(verify(looked))

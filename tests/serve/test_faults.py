"""Slow and vanished clients, a service that is killed, a disk that fails, fits that take long."""

import json
import multiprocessing
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock, patch

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.feeder import serve
from tests.serve.served import Served, become, config, served, slow_disk, stream
from tidegate import client as client_module
from tidegate.checks import StoreError
from tidegate.client import Client
from tidegate.gate import Gate
from tidegate.learn.learner import Trainer
from tidegate.schedule import Span
from tidegate.serve import connections, gate_runner
from tidegate.serve.access_tokens import Tokens
from tidegate.serve.limits import Limits
from tidegate.serve.training_process import TrainingProcessGate
from tidegate.state import publish_folder
from tidegate.state.folder_store import FolderStore
from tidegate.state.verification import verify


def request(running: Served, length: int) -> bytes:
    """The head of a request that promises a body."""
    return (
        f"POST /v1/records HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
        f"{running.tokens['ingest']}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {length}\r\n\r\n"
    ).encode()


def until_closed(connection: socket.socket) -> bytes:
    connection.settimeout(20)
    found = b""
    while data := connection.recv(4096):
        found += data
    return found


def test_a_body_that_does_not_arrive_is_given_up(tmp_path: Path) -> None:
    limits = Limits(patience=0.3, rate=1000, burst=1000)
    with served(tmp_path / "state", limits=limits) as running:
        with socket.create_connection(("127.0.0.1", running.port)) as slow:
            slow.sendall(request(running, 1000) + b'{"x": ')
            assert b" 408 " in until_closed(slow).splitlines()[0]
        assert running.send(10).json == {"count": 10, "taken": 10}


def test_a_connection_without_a_request_is_closed(tmp_path: Path) -> None:
    with patch.object(connections, "IDLE", 0.2), served(tmp_path / "state") as running:
        for head in (
            b"",
            b"GET /v1/health HTTP/1.1\r\n",
            b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n",
        ):
            with socket.create_connection(("127.0.0.1", running.port)) as idle:
                idle.sendall(head)
                assert (b" 200 " in until_closed(idle)) == head.endswith(b"\r\n\r\n")


def test_a_long_question_is_not_taken_for_an_idle_connection(tmp_path: Path) -> None:
    with patch.object(connections, "IDLE", 0.1), served(tmp_path / "state") as running:
        assert running.ask("GET", "/v1/releases/latest?wait=0.7").status == 404


def test_clients_that_vanish_leave_nothing_behind(tmp_path: Path) -> None:
    with served(tmp_path / "state") as running:
        X, y = stream(10)
        body = json.dumps({"x": X.tolist(), "y": y.tolist()}).encode()
        for cut in (0, 10, len(body) - 1):
            with socket.create_connection(("127.0.0.1", running.port)) as gone:
                gone.sendall(request(running, len(body)) + body[:cut])
        with socket.create_connection(("127.0.0.1", running.port)) as gone:
            gone.sendall(request(running, len(body)) + body)  # whole, but nobody waits
        assert become(lambda: running.runner.gate.store.count("records") == 10)
        assert running.send(5).json == {"count": 15, "taken": 5}


def test_more_than_may_wait_is_sent_away_and_comes_back(tmp_path: Path) -> None:
    """Back-pressure: while the disk is slow, what waits is bounded and the rest is told to wait."""
    limits = Limits(waiting=1000, rate=10_000, burst=10_000)
    with (
        served(tmp_path / "state", limits=limits) as running,
        slow_disk() as going,
        ThreadPoolExecutor(8) as pool,
    ):
        sent = [pool.submit(running.send, 20) for _ in range(8)]
        assert become(lambda: sum(each.done() for each in sent) == 7)
        away = [each.result() for each in sent if each.done()]
        assert {answer.status for answer in away} == {429}
        assert all(answer.headers["retry-after"] == "1" for answer in away)
        assert running.ask("GET", "/v1/status").status == 200, "who only reads does not wait"
        with running.client() as client:
            patient = pool.submit(client.ingest, *stream(20))
            going.set()
            taken = [each.result() for each in sent if each.result().status == 200]
            assert len(taken) == 8 - len(away)
            patient.result()
            assert client.status()["streams"][0]["records"] == 20 * (len(taken) + 1)


def test_training_keeps_nobody_waiting(tmp_path: Path) -> None:
    """While a fit does not end, records are taken and durable, and the last release predicts."""
    going, train = threading.Event(), Trainer.train

    def long(self: Any, *words: Any) -> Any:
        going.wait(120)
        return train(self, *words)

    with served(tmp_path / "state") as running, running.client() as client:
        client.ingest(*stream(300))
        running.wait_for(0)
        with patch.object(Trainer, "train", long):
            assert client.ingest(*stream(100, 300)) == 400
            while not client.status()["training"]:
                time.sleep(0.01)
            assert client.ingest(*stream(250, 400)) == 650
            assert client.predict(stream(5)[0]).release == 0
            assert client.status()["releases"] == 1
            with Gate.look(tmp_path / "state") as gate:
                assert gate.store.count("records") == 650
            going.set()
            for release in client.follow(1):
                if release["number"] == 3:
                    break


def test_a_step_that_the_disk_refuses_is_made_again(tmp_path: Path) -> None:
    room, publish = threading.Event(), FolderStore.publish

    def failing(self: FolderStore, *words: Any, **more: Any) -> Any:
        if not room.is_set():
            raise StoreError("no room")
        return publish(self, *words, **more)

    with (
        patch.object(gate_runner, "PATIENCE", 0.3),
        patch.object(FolderStore, "publish", failing),
        served(tmp_path / "state") as running,
        running.client() as client,
    ):
        client.ingest(*stream(300))
        assert become(lambda: running.ask("GET", "/v1/health").status == 503)
        assert client.status()["releases"] == 0
        room.set()
        assert become(lambda: client.status()["releases"] == 1)
        assert become(lambda: running.ask("GET", "/v1/health").status == 200)
    with Gate.look(tmp_path / "state") as gate:
        assert list(verify(gate)) == [], "what was refused was not charged"


def test_a_release_that_could_not_be_published_is_served_once_it_is(tmp_path: Path) -> None:
    failed, catch_up = list[int](), publish_folder.catch_up

    def failing(*words: Any) -> None:
        if not failed and FolderStore.newest(words[1]) is not None:
            failed.append(1)
            raise StoreError("no room in the folder")
        catch_up(*words)

    folder = tmp_path / "published"
    with (
        patch.object(gate_runner, "PATIENCE", 0.1),
        patch.object(publish_folder, "catch_up", failing),
        served(tmp_path / "state", config(publish={"folder": str(folder)})) as running,
        running.client() as client,
    ):
        client.ingest(*stream(300))
        assert become(lambda: running.ask("GET", "/v1/releases/latest").status == 200)
    assert failed
    assert (folder / "latest").read_text() == "000000\n"


def test_a_store_that_no_longer_answers_is_told_by_health(tmp_path: Path) -> None:
    def health(expected: int) -> None:
        assert become(lambda: running.ask("GET", "/v1/health").status == expected)

    gone = Mock(side_effect=StoreError("the connection is lost"))
    with patch.object(gate_runner, "PATIENCE", 0.1), served(tmp_path / "state") as running:
        with patch.object(FolderStore, "append", gone), patch.object(FolderStore, "done", gone):
            assert running.send(10).status == 503
            health(503)
        health(200)


def test_a_batch_that_the_disk_refuses_is_not_acknowledged(tmp_path: Path) -> None:
    with served(tmp_path / "state") as running:
        with patch.object(FolderStore, "append", side_effect=StoreError("/secret/path: no room")):
            answer = running.send(10)
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "/secret" not in answer.json["error"]
        assert running.send(10).json["count"] == 10


children = multiprocessing.get_context("forkserver")
children.set_forkserver_preload(["tests.serve.feeder"])


def start(kind: type[Gate], folder: Path, port: int) -> Any:
    """A service in a process of its own, which takes records."""
    ours, theirs = children.Pipe()
    process = children.Process(target=serve, args=(kind, folder, port, theirs))
    process.start()
    assert ours.recv()
    ours.close()
    return process


@pytest.mark.parametrize(
    ("kind", "kills"), [(Gate, 1), pytest.param(TrainingProcessGate, 6, marks=pytest.mark.slow)]
)
def test_killed_while_it_takes_records_it_has_each_acknowledged_one_once(
    tmp_path: Path, kind: type[Gate], kills: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "LONGEST", 0.2)
    folder = tmp_path / "state"
    Gate.open(folder, config()).close()
    token = Tokens(folder).create("app", ["ingest", "read"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    size, batches, counts = 10, 40 * (kills + 1), list[int]()
    process = start(kind, folder, port)

    def feed() -> None:
        with Client(f"http://127.0.0.1:{port}", token) as client:
            for number in range(batches):
                counts.append(client.ingest(*stream(size, size * number), key=str(number)))

    sender = threading.Thread(target=feed)
    sender.start()
    try:
        for kill in range(1, kills + 1):
            while len(counts) < 40 * kill and sender.is_alive():
                time.sleep(0.002)
            process.kill()
            process.join()
            process = start(kind, folder, port)
        sender.join()
        assert counts == [size * (number + 1) for number in range(batches)]
        process.terminate()
        process.join(20)
    finally:
        process.kill()
        process.join()
    with Gate.open(folder) as gate:
        list(gate.advance())
        total = size * batches
        assert gate.store.count("records") == total
        first = gate.progress.needed("records")
        held = gate.store.read("records", Span(first, total))
        wanted, _ = stream(total - first, first)
        np.testing.assert_allclose(held.X, wanted, atol=1e-6)
        assert list(verify(gate)) == []

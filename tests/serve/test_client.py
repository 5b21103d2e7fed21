"""The Python client, and the commands."""

import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.cli.run import json_lines, tidegate
from tests.serve.served import Served, config, served, stream
from tidegate import Client
from tidegate.checks import InvalidValueError
from tidegate.client import ServiceError
from tidegate.demo.demo_state import STEP
from tidegate.release import Model


@pytest.fixture
def client(service: Served) -> Iterator[Client]:
    with service.client() as made:
        yield made


def test_the_model_predicts_here_as_the_service_does(client: Client) -> None:
    X, _ = stream(30, 77)
    there, model = client.predict(X), client.model()
    assert isinstance(model, Model)
    assert np.array_equal(there.labels, model.predict(X))
    np.testing.assert_allclose(there.probabilities, model.predict_proba(X))
    assert client.model(0).weights.shape == model.weights.shape


def test_surveyed_releases_predict_alike_on_every_way(tmp_path: Path) -> None:
    """Over HTTP, from the client's model, from the state and from exported files."""
    told = config(budget={"epsilon": 2.0, "delta": 1e-6}, survey={"share": "1/10"})
    X, _ = stream(30, 77)
    with served(tmp_path / "state", told) as running:
        with running.client() as client:
            client.ingest(*stream(400))
            running.wait_for(1)
            there, model = client.predict(X), client.model()
        lists = running.ask("POST", "/v1/predict", {"x": X.tolist()}).json
        wide = running.ask("POST", "/v1/predict", {"x": [[0.5] * 3]})
        assert (wide.status, "of 2 columns" in wide.json["error"]) == (422, True)
    assert isinstance(model, Model)
    assert model.transform is not None
    assert model.weights.shape == (3,)
    expected = model.predict_proba(X)
    np.testing.assert_allclose(there.probabilities, expected, rtol=1e-6)
    np.testing.assert_allclose(lists["probabilities"], expected, rtol=1e-6)
    new = tmp_path / "new.csv"
    new.write_text("".join(f"{a},{b}\n" for a, b in [("a", "b"), *X.tolist()]))
    state = str(tmp_path / "state")
    for ending in ("npz", "safetensors"):
        tidegate("export", state, str(tmp_path / f"m.{ending}"))
    for source in (state, *(str(tmp_path / f"m.{ending}") for ending in ("npz", "safetensors"))):
        rows = json_lines("predict", source, str(new))
        by_command = [[row["probabilities"][name] for name in ("0", "1")] for row in rows]
        np.testing.assert_allclose(by_command, expected, rtol=1e-5)  # of records as float32


def test_releases_come_in_order(client: Client) -> None:
    assert [each["number"] for each in client.releases(1)] == [1, 2]
    assert client.ledger()["lines"][0]["fits"] > 3
    assert client.ledger(record=3)["summary"]["record"] == 3


@pytest.mark.parametrize("X", [[[1.0], [2.0, 3.0]], np.zeros((2, 2, 2)), np.zeros(2)])
def test_what_is_no_batch_is_not_sent(client: Client, X: object) -> None:
    with pytest.raises(InvalidValueError, match="must be"):
        client.ingest(X, [0])


def test_what_the_service_says_is_told(client: Client, service: Served) -> None:
    with pytest.raises(ServiceError, match="of 2 columns") as refused:
        client.ingest(np.zeros((1, 3)), [0])
    assert refused.value.status == 422
    with Client(service.url, "wrong") as stranger, pytest.raises(ServiceError) as denied:
        stranger.status()
    assert denied.value.status == 401
    assert "wrong" not in repr(stranger)


def test_a_service_that_is_away_is_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", "x", patience=0.2) as client:
        with pytest.raises(ServiceError, match="does not answer") as away:
            client.status()
        assert away.value.status is None


@pytest.mark.parametrize("later", ["Wed, 21 Oct 2026 07:28:00 GMT", "soon", "1e9", "0"])
def test_any_retry_after_is_understood_or_passed_over(later: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:

        def answer() -> None:
            inner, _ = proxy.accept()
            with inner:
                inner.recv(65536)
                head = f"HTTP/1.1 503 Busy\r\nRetry-After: {later}\r\nContent-Length: 0\r\n\r\n"
                inner.sendall(head.encode())

        thread = threading.Thread(target=answer)
        thread.start()
        url = f"http://127.0.0.1:{proxy.getsockname()[1]}"
        with Client(url, "x", patience=0.0) as client, pytest.raises(ServiceError) as busy:
            client.status()
        thread.join()
        assert busy.value.status == 503


@pytest.mark.parametrize("url", ["", "127.0.0.1:1", "file:///etc/passwd", "http://"])
def test_a_url_is_one_of_http(url: str) -> None:
    with pytest.raises(InvalidValueError, match="url must be"):
        Client(url, "x")


def test_an_answer_that_is_lost_is_asked_for_again_and_the_batch_taken_once(tmp_path: Path) -> None:
    """Between client and service stands one that swallows the first answer."""
    with served(tmp_path / "state") as running, socket.create_server(("127.0.0.1", 0)) as between:

        def swallow() -> None:
            for lost in (True, False):
                inner, _ = between.accept()
                with inner, socket.create_connection(("127.0.0.1", running.port)) as outer:
                    data = b""
                    while b"\r\n\r\n" not in data:
                        data += inner.recv(65536)
                    head, _, body = data.partition(b"\r\n\r\n")
                    found = re.search(rb"(?i)content-length: (\d+)", head)
                    assert found is not None
                    while len(body) < int(found[1]):
                        body += inner.recv(65536)
                    outer.sendall(head + b"\r\nConnection: close\r\n\r\n" + body)
                    while answer := outer.recv(65536):
                        if not lost:
                            inner.sendall(answer)

        thread = threading.Thread(target=swallow)
        thread.start()
        token, port = running.tokens["ingest"], between.getsockname()[1]
        with Client(f"http://127.0.0.1:{port}", token) as client:
            assert client.ingest(*stream(10)) == 10
        thread.join()


def test_tokens_are_made_listed_and_revoked_while_the_service_runs(service: Served) -> None:
    state = str(service.folder)
    create = ("token", "create", state, "--scope", "read")
    made = tidegate(*create, "--name", "board", "--expires", "30d")
    token = made.stdout.strip()
    assert service.ask("GET", "/v1/status", token=token).status == 200
    assert service.ask("GET", "/v1/audit", token=token).status == 403
    rows = json_lines("token", "list", state)
    (row,) = [row for row in rows if row["name"] == "board"]
    assert row["scopes"] == "read"
    assert row["valid"]
    assert "hash" not in row
    assert tidegate("token", "revoke", state, "board").returncode == 0
    assert service.ask("GET", "/v1/status", token=token).status == 401
    assert tidegate("token", "revoke", state, "board").returncode == 2
    noted = service.ask("GET", "/v1/audit?last=100").json["lines"]
    made_and_ended = [line["what"] for line in noted if line["token"] == "board"]
    assert [what for what in made_and_ended if "token" in what] == ["token create", "token revoke"]
    again = tidegate(*create, "--name", "x", "--expires", "never")
    assert (again.returncode, "expires must be" in again.stderr) == (2, True)
    without = tidegate("token", "create", state, "--name", "x")
    choices = "Missing option '--scope'. Choose from: ingest, read, admin"
    assert (without.returncode, choices in without.stderr) == (2, True)


def test_a_token_needs_a_state(tmp_path: Path) -> None:
    asked = tidegate("token", "create", str(tmp_path), "--name", "x", "--scope", "read")
    assert (asked.returncode, "holds no state" in asked.stderr) == (2, True)


@pytest.mark.slow
def test_the_demo_is_served_and_stops_when_told(tmp_path: Path) -> None:
    state = tmp_path / "demo.state"
    command = [sys.executable, "-m", "tidegate", "serve", "--demo", str(state), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith(f"Serving {state} at http://127.0.0.1:")
            found = re.search(r"(http://\S+)/#token=(\S+)", process.stdout.readline())
            assert found is not None
            with Client(found[1], found[2]) as client:
                assert next(client.follow())["at"] == STEP  # Fading releases at every step
            process.send_signal(signal.SIGTERM)
            rest = process.stdout.read()
            assert (process.wait(20), "Stopped" in rest) == (0, True)
        finally:
            process.kill()
    rows = json_lines("token", "list", str(state))
    assert [row["valid"] for row in rows] == [False], "the link ends with the server"


def test_a_port_that_is_taken_is_named(service: Served, tmp_path: Path) -> None:
    asked = tidegate("serve", str(tmp_path / "state"), "--port", str(service.port))
    assert asked.returncode == 2
    assert f"port {service.port}: Address already in use; choose another" in asked.stderr


def test_a_service_needs_a_state_or_a_configuration(tmp_path: Path) -> None:
    asked = tidegate("serve", str(tmp_path / "none"), "--port", "0")
    assert (asked.returncode, "holds no state" in asked.stderr) == (2, True)
    assert tidegate("serve").returncode == 2

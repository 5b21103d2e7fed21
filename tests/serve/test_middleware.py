"""Who may do what, what is said to those who may not, and what is noted."""

import json
import os
import socket
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import SCOPES, Served, served, stream
from tidegate.checks import InvalidValueError
from tidegate.serve.access_tokens import Audit, Tokens
from tidegate.serve.limits import Limits

ROUTES = {
    "POST /v1/records": "ingest",
    "POST /v1/erasures": "erase",
    "POST /v1/predict": "read",
    "GET /v1/releases": "read",
    "GET /v1/releases/latest": "read",
    "GET /v1/releases/events": "read",
    "GET /v1/releases/0": "read",
    "GET /v1/releases/0/card.md": "read",
    "GET /v1/ledger": "read",
    "GET /v1/ledger/strip": "read",
    "GET /v1/plan": "read",
    "GET /v1/status": "read",
    "GET /v1/openapi.json": "read",
    "GET /metrics": "read",
    "GET /v1/audit": "admin",
}


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_but_health_needs_its_scope(service: Served, route: str) -> None:
    method, path = route.split()
    tokens = Tokens(service.folder)
    expired = tokens.create(f"expired-{len(tokens.all())}", SCOPES, timedelta(seconds=-1))
    name = f"revoked-{len(tokens.all())}"
    revoked = tokens.create(name, SCOPES)
    tokens.revoke(name)
    said = set()
    for token in ("", "tidegate_" + "A" * 43, expired, revoked, "é" * 10, "x" * 5000):
        answer = service.ask(method, path, token=token)
        assert answer.status == 401
        said.add((answer.body, answer.headers["www-authenticate"]))
    for scope in set(SCOPES) - {ROUTES[route]}:
        answer = service.ask(method, path, token=service.tokens[scope])
        assert answer.status == 403
        said.add((answer.body, "Bearer"))
    assert len(said) == 1, "nothing tells them apart"


def test_every_route_is_in_the_list(service: Served) -> None:
    document = service.ask("GET", "/v1/openapi.json").json
    known = {
        path.replace("{number}", "0").replace("{file}", "card.md") for path in document["paths"]
    }
    assert known - {route.split()[1] for route in ROUTES} == {"/v1/health"}


def test_health_is_open_and_says_nothing_else(service: Served) -> None:
    answer = service.ask("GET", "/v1/health", token="")
    assert (answer.status, answer.json) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/v1/health", "/v1/status", "/nowhere"])
def test_every_answer_has_its_headers(service: Served, path: str) -> None:
    headers = service.ask("GET", path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "server" not in headers


def test_only_the_hash_of_a_token_is_kept_where_only_its_owner_reads_it(tmp_path: Path) -> None:
    secret = Tokens(tmp_path).create("app", ["ingest"])
    file = tmp_path / "tokens.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert secret not in file.read_text()
    assert len(secret) >= 43, "256 bits"


def test_a_token_is_worth_something_until_it_expires_or_is_revoked(tmp_path: Path) -> None:
    tokens, server = Tokens(tmp_path), Tokens(tmp_path)
    secret = tokens.create("app", ["read", "ingest"], timedelta(days=1))
    found = server.find(secret)
    assert found is not None
    assert (found.name, found.scopes) == ("app", ("ingest", "read"))
    assert not found.valid(datetime.now(UTC) + timedelta(days=2))
    with pytest.raises(InvalidValueError, match="a token named app exists: revoke it"):
        tokens.create("app", ["read"])
    tokens.revoke("app")
    assert server.find(secret) is None, "at once, also in another process"
    with pytest.raises(InvalidValueError, match="no token app"):
        tokens.revoke("app")
    assert server.find(tokens.create("app", ["read"])) is not None, "it can be made anew"
    assert len(server.all()) == 1


@pytest.mark.parametrize("name", ["", "a b", "../x", "é", "x" * 65, "a\n"])
def test_a_name_is_made_of_letters(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidValueError, match="name must be"):
        Tokens(tmp_path).create(name, ["read"])
    with pytest.raises(InvalidValueError, match="scope must be"):
        Tokens(tmp_path).create("app", ["write"])


DAMAGED = [
    '[{"name": "app"',
    "{}x",
    "[7]",
    '[{"name": "a", "scopes": ["read"], "hash": 5, "created": "x"}]',
    '[{"name": "a", "scopes": ["read"], "hash": "é", "created": "x"}]',
    '[{"name": "a", "scopes": ["read"], "hash": "", "created": "x", "expires": "2026-01-01"}]',
]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_of_tokens_lets_nobody_in(tmp_path: Path, text: str) -> None:
    tokens = Tokens(tmp_path)
    secret = tokens.create("app", ["read"])
    (tmp_path / "tokens.json").write_text(text)
    with pytest.raises(InvalidValueError, match="damaged"):
        tokens.find(secret)


def test_strangers_are_not_told_that_the_file_of_tokens_is_damaged(tmp_path: Path) -> None:
    with served(tmp_path / "state") as running:
        denied = running.ask("GET", "/v1/status", token="wrong")
        (running.folder / "tokens.json").write_text(DAMAGED[0])
        for token in ("wrong", running.tokens["read"]):
            answer = running.ask("GET", "/v1/status", token=token)
            assert (answer.status, answer.body) == (401, denied.body)


def test_writers_take_turns(tmp_path: Path) -> None:
    def create(number: int) -> None:
        Tokens(tmp_path).create(f"app-{number}", ["read"])

    threads = [threading.Thread(target=create, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {token.name for token in Tokens(tmp_path).all()} == {f"app-{n}" for n in range(8)}


def test_who_did_what_is_noted_without_what_was_sent(service: Served) -> None:
    secret = 271828.182845
    service.ask("POST", "/v1/records", {"x": [[secret, secret]], "y": ["Heinz"]})
    service.ask("GET", "/v1/status", token="a-wrong-token")
    lines = service.ask("GET", "/v1/audit?last=2").json["lines"]
    sent, denied = lines
    assert sent["token"].startswith("ingest")
    assert (sent["what"], sent["outcome"], sent["records"]) == ("POST /v1/records", 200, 1)
    assert (denied["token"], denied["what"], denied["outcome"]) == (None, "GET /v1/status", 401)
    file = service.folder / "audit.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    text = file.read_text()
    for unsaid in (str(secret), "Heinz", "a-wrong-token", *service.tokens.values()):
        assert unsaid not in text
    os.rename(file, file.with_suffix(".1"))
    service.ask("GET", "/v1/status")
    assert len(file.read_text().splitlines()) == 1, "a log that was moved away is begun anew"
    assert all(json.loads(line)["time"] for line in text.splitlines())


def test_a_torn_line_hides_no_other(tmp_path: Path) -> None:
    Audit(tmp_path).note("a", "GET /v1/status", 200)
    with (tmp_path / "audit.jsonl").open("ab") as log:
        log.write(b'{"time": "2026-01-0')  # here the power failed
    audit = Audit(tmp_path)
    audit.note("b", "GET /v1/status", 200)
    assert [line["token"] for line in audit.last(10)] == ["a", "b"]


def test_what_cannot_be_noted_is_not_answered(tmp_path: Path) -> None:
    """The disk refuses the log's line: said as any other refusal of the disk, to be tried again."""
    with served(tmp_path / "state") as running:
        (running.folder / "audit.jsonl").mkdir()
        answer = running.ask("GET", "/v1/status")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert str(tmp_path) not in answer.json["error"]
        assert running.ask("GET", "/v1/health", token="").status == 200
        (running.folder / "audit.jsonl").rmdir()
        assert running.ask("GET", "/v1/status").status == 200


def test_one_token_cannot_take_all_the_time_there_is(tmp_path: Path) -> None:
    with served(tmp_path / "state", limits=Limits(rate=0.01, burst=3)) as running:
        answers = [running.ask("GET", "/v1/plan") for _ in range(5)]
        assert [answer.status for answer in answers] == [200, 200, 200, 429, 429]
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 100
        with running.client("read", patience=0) as other:
            assert other.get("/v1/plan")["forever"]


def test_keys_of_one_token_are_not_those_of_another(tmp_path: Path) -> None:
    with (
        served(tmp_path / "state") as running,
        running.client("ingest") as one,
        running.client("ingest") as other,
    ):
        assert one.ingest(*stream(10), key="monday") == 10
        assert one.ingest(*stream(10), key="monday") == 10
        assert other.ingest(*stream(10), key="monday") == 20


def test_what_is_replaced_is_durable_when_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name too: a power failure must not bring a revoked token back."""
    synced, fsync = list[tuple[bool, str]](), os.fsync

    def noted(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        file = tmp_path / "tokens.json"
        synced.append((is_folder, file.read_text() if file.exists() else ""))
        fsync(descriptor)

    tokens = Tokens(tmp_path)
    tokens.create("app", ["read"])
    monkeypatch.setattr(os, "fsync", noted)
    tokens.revoke("app")
    assert [is_folder for is_folder, _ in synced] == [False, True], "the file, then its folder"
    assert '"revoked": "2' in synced[-1][1], "after it was replaced"


def raw(service: Served, head: str, body: bytes = b"") -> bytes:
    """What is said to a request that a client would not make."""
    said = b""
    with socket.create_connection(("127.0.0.1", service.port), timeout=20) as connection:
        connection.sendall(head.replace("\n", "\r\n").encode() + body)
        while data := connection.recv(65536):
            said += data
    return said


def test_a_request_with_two_lengths_is_refused(service: Served) -> None:
    """The second request of this body would be a request of its own to who reads the other."""
    before = service.runner.gate.store.count("records")
    smuggled = b"0\r\n\r\nGET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"
    for order in (1, -1):
        lengths = ["Transfer-Encoding: chunked", f"Content-Length: {len(smuggled)}"][::order]
        head = "\n".join(
            [
                "POST /v1/records HTTP/1.1",
                "Host: x",
                f"Authorization: Bearer {service.tokens['ingest']}",
                "Content-Type: application/json",
                *lengths,
                "",
                "",
            ]
        )
        said = raw(service, head, smuggled)
        assert said.startswith(b"HTTP/1.1 400 ")
        assert said.count(b"HTTP/1.1 ") == 1, "and the connection is closed"
        assert b"Content-Length or Transfer-Encoding" in said
        assert b"nosniff" in said
    assert service.runner.gate.store.count("records") == before


@pytest.mark.parametrize("path", ["/v1/status/", "/v1/health/", "/v1/releases/latest/", "/v1/"])
def test_nobody_is_sent_to_the_host_that_a_request_names(service: Served, path: str) -> None:
    answer = service.ask("GET", path, Host="evil.example")
    assert answer.status in {404, 422}
    assert "location" not in {name.lower() for name in answer.headers}
    assert b"evil" not in answer.body


def test_a_token_in_the_wrong_place_is_not_noted(service: Served) -> None:
    secret = service.tokens["read"]
    places = (
        f"GET /v1/releases/{secret}",
        f"GET /v1/releases/{secret}/card.md",
        f"GET /v1/releases/1/{secret}",
        f"GET /v1/{secret}",
        f"GET /v1/status/{secret}",
        f"GET /v1/status?token={secret}",
        f"{secret} /v1/status",
    )
    for place in places:
        for token in (secret, "wrong"):
            head = (
                f"{place} HTTP/1.1\nHost: x\nAuthorization: Bearer {token}\nConnection: close\n\n"
            )
            said = raw(service, head)
            assert said.startswith(b"HTTP/1.1 4") or ("?" in place and token == secret), place
    service.ask("GET", "/v1/releases/1/card.md")
    lines = service.ask("GET", "/v1/audit?last=200").json["lines"]
    assert secret not in json.dumps(lines)
    assert secret not in (service.folder / "audit.jsonl").read_text()
    assert lines[-1]["path"] == "/v1/releases/1/card.md"
    assert lines[-1]["what"] == "GET /v1/releases/{number}/{file}"

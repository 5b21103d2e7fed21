"""What the service says does not depend on what records hold, but for what is released.

Two services get as many records in the same batches. Those of one are fine; of the other hardly any
can be used. Whoever asks must not be able to tell which is which.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import SCOPES, Served, become, served, stream
from tests.serve.test_events import ask, read
from tests.serve.test_middleware import ROUTES

Said = dict[str, Any]

SECRET = 271828.1828
SOILED = [SECRET, "Heinz", None, float("nan"), 1e308, [], {"a": SECRET}, True]


def fine(n: int, start: int) -> bytes:
    X, y = stream(n, start)
    return json.dumps({"x": X.tolist(), "y": y.tolist()}).encode()


def soiled(n: int, start: int) -> bytes:
    slots = range(start, start + n)
    x = [[SOILED[slot % len(SOILED)], SECRET] for slot in slots]
    return json.dumps({"x": x, "y": [SOILED[slot % 3] for slot in slots]}).encode()


def answers(service: Served) -> Iterator[tuple[str, Any]]:
    """All that anybody can hear: every route with every token and without, and the first event."""
    for route in [*ROUTES, "GET /v1/health", "GET /", "GET /nowhere"]:
        method, path = route.split()
        if method == "GET" and not path.endswith("events"):
            for token in ("", *(service.tokens[scope] for scope in SCOPES)):
                answer = service.ask(method, path, token=token)
                headers = {name: value for name, value in answer.headers.items() if name != "date"}
                yield route, (answer.status, headers, plain(answer.body.decode(errors="replace")))
    with ask(service) as connection:
        said = read(connection, b"\n\n").decode()
        yield "events", plain(said[said.index("event: ") :])


def plain(said: str) -> str:
    """Without the times of this run."""
    return re.sub(r'"time": ?"[^"]*"', '"time"', said)


def words(said: Any) -> set[str]:
    """The keys, numbers and words of an answer, each as a whole: `0.37` is not in `0.371`."""
    return {word.strip(".") for word in re.findall(r"[\w.+-]+", str(said))}


def test_nobody_can_tell_what_records_hold(tmp_path: Path) -> None:
    with served(tmp_path / "fine") as one, served(tmp_path / "soiled") as other:
        for start in (0, 90, 180):
            taken = [
                service.ask("POST", "/v1/records", made(90, start), Content_Type="application/json")
                for service, made in ((one, fine), (other, soiled))
            ]
            assert taken[0].status == taken[1].status == 200
            assert taken[0].body == taken[1].body
        assert other.runner.gate.store.quarantined("records") > 100, "private, and so it is"
        for (route, mine), (_, its) in zip(answers(one), answers(other), strict=True):
            assert mine == its, route
        for service, made in ((one, fine), (other, soiled)):
            body = made(130, 270)
            service.ask("POST", "/v1/records", body, Content_Type="application/json")
            assert become(lambda it=service: known(it)["releases"] == 2)  # type: ignore[misc]
        assert known(one) == known(other)
        for path in ("/v1/ledger", "/v1/ledger/strip", "/v1/plan"):
            assert one.ask("GET", path).json == other.ask("GET", path).json
        for _, said in answers(other):
            assert not {str(SECRET), str(int(SECRET))} & words(said)
            assert "Heinz" not in str(said)


def known(service: Served) -> Said:
    """The status but for what was released: the time of it, and how good it is."""
    status: Said = service.ask("GET", "/v1/status").json
    for point in status["quality"]:
        for noisy in ("accuracy", "deviation", "scores", "drift", "verdict"):
            del point[noisy]
    for row in status["surveys"]:
        del row["classes"], row["unusable"], row["drift"]
    del status["newest"], status["training"], status["scores"], status["drift"]
    return status

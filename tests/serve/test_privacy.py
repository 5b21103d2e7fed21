"""What the service says does not depend on what records hold, but for what is released.

Two services get as many records in the same batches. Those of one are fine; of the other hardly any
can be used. Whoever asks must not be able to tell which is which.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from prometheus_client import generate_latest

from tests.serve.leaks import DIGITS, answers, digits, holds, leaks
from tests.serve.served import Served, become, served, stream
from tidegate.serve.facts import Facts
from tidegate.serve.routes import watch_routes
from tidegate.serve.service import Service

Said = dict[str, Any]

NUMBER = float(DIGITS) / 10**7
WORD = "Heinz-qzvwkxjyqzvwkxjy"
SOILED = [NUMBER, WORD, None, float("nan"), 1e308, [], {WORD: int(DIGITS)}, True]


def fine(n: int, start: int) -> bytes:
    X, y = stream(n, start)
    return json.dumps({"x": X.tolist(), "y": y.tolist()}).encode()


def soiled(n: int, start: int) -> bytes:
    slots = range(start, start + n)
    x = [[SOILED[slot % len(SOILED)], NUMBER] for slot in slots]
    return json.dumps({"x": x, "y": [SOILED[slot % 3] for slot in slots]}).encode()


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
        assert leaks(other, DIGITS, WORD) == {}


SPELLED: dict[str, Any] = {
    "a number": NUMBER,
    "a whole number": int(DIGITS),
    "with a sign and an exponent": f"{-NUMBER:.15e}",
    "with commas": f"{int(DIGITS):,}",
    "rounded": f"{NUMBER:.12g}",
    "inside a number": f"4{DIGITS[:8]}.{DIGITS[8:]}18",
    "inside a whole number": int(f"4{DIGITS}18"),
    "inside a word": f"column_x{DIGITS}s",
    "a word inside a word": f"x0{WORD.upper()}41",
    "a key": {f"{WORD}_0": 0},
}


@pytest.mark.parametrize("spelled", SPELLED)
def test_a_secret_is_found_inside_longer_words_and_numbers(spelled: str) -> None:
    said = json.dumps({"counts": [12, 0.5], "planted": SPELLED[spelled], "n": 7})
    assert holds(said, WORD if "Heinz" in said or "HEINZ" in said else DIGITS)


def test_chance_is_no_secret() -> None:
    said = json.dumps({"x": [slot / 7 for slot in range(10_000)], "y": list(range(10_000))})
    assert not holds(said, DIGITS)
    assert digits(NUMBER)[:15] == DIGITS[:15], "what is searched is what the records hold"


def with_note(real: Callable[..., Said], note: Any) -> Callable[..., Said]:
    return lambda *given: {**real(*given), "note": note}


PLANTED: dict[str, tuple[Any, str]] = {
    "GET /v1/plan": (Facts, "plan"),
    "GET /v1/ledger": (Facts, "ledger"),
    "GET /v1/releases/0": (Facts, "_summary"),
    "GET /v1/status": (Service, "status"),
    "events": (Service, "progress"),
}


@pytest.mark.parametrize("route", PLANTED)
def test_a_planted_leak_is_found(
    service: Served, route: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other tests of what is private search all answers as this one does."""
    owner, name = PLANTED[route]
    for note, secret in ((f"x{DIGITS}9", DIGITS), ({f"{WORD}s": 1}, WORD)):
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, with_note(getattr(owner, name), note))
            assert secret in leaks(service, DIGITS, WORD)[route]
    assert leaks(service, DIGITS, WORD) == {}


def test_a_leak_that_is_planted_in_a_label_of_metrics_is_found(
    service: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = f'tidegate_records{{stream="r{DIGITS}x"}} 1\n'.encode()
    monkeypatch.setattr(watch_routes, "generate_latest", lambda of: generate_latest(of) + label)
    assert leaks(service, DIGITS, WORD) == {"GET /metrics": {DIGITS}}


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

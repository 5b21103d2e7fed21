"""No wrong token takes longer than another: by what is done, and by the clock."""

import asyncio
import hmac
import math
import secrets
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from tests.serve.served import SCOPES, config
from tidegate.gate import Gate
from tidegate.serve.access_tokens import Token, Tokens
from tidegate.serve.gate_runner import GateRunner
from tidegate.serve.limits import Limits
from tidegate.serve.server import create_app


def wrong_tokens(folder: Path) -> dict[str, str]:
    """Tokens that are worth nothing, each for another reason; there are good ones beside them."""
    tokens = Tokens(folder)
    good = tokens.create("good", SCOPES)
    expired = tokens.create("expired", SCOPES, timedelta(seconds=-1))
    revoked = tokens.create("revoked", SCOPES)
    tokens.revoke("revoked")
    tokens.create("last", SCOPES)
    other = "A" if good[-1] != "A" else "B"
    return {
        "unknown": f"tidegate_{secrets.token_urlsafe(32)}",
        "a good one but for its end": good[:-1] + other,
        "a good one but for its beginning": "T" + good[1:],
        "too short": good[:-5],
        "expired": expired,
        "revoked": revoked,
    }


def test_the_same_is_done_for_every_wrong_token(tmp_path: Path) -> None:
    wrong, done = wrong_tokens(tmp_path), {}
    compare, valid = hmac.compare_digest, Token.valid
    for name, secret in wrong.items():
        calls: Counter[str] = Counter()

        def compared(a: str, b: str, calls: Counter[str] = calls) -> bool:
            calls["compared"] += 1
            return compare(a, b)

        def looked(self: Token, at: Any, calls: Counter[str] = calls) -> bool:
            calls["looked at"] += 1
            return valid(self, at)

        tokens = Tokens(tmp_path)
        assert tokens.find(secret) is None  # reads the file
        with patch.object(hmac, "compare_digest", compared), patch.object(Token, "valid", looked):
            assert tokens.find(secret) is None
        done[name] = calls
    assert all(calls == {"compared": 4, "looked at": 4} for calls in done.values()), done


PAIRS = 3000
FALSE_ALARM = 1e-6


@pytest.mark.slow
def test_the_clock_does_not_tell_wrong_tokens_apart(tmp_path: Path) -> None:
    """A sign test of each kind against unknown tokens, on the time of the whole answer.

    Within a pair a coin decides which is asked first. If both take equally long, whatever else
    the machine does, each is the faster with probability 1/2, independently of the other pairs.
    By Hoeffding's inequality the number of wins then strays from n/2 by more than t with
    probability at most 2 exp(-2 t^2 / n): with t as below, 1e-6 for all kinds together.
    """
    folder = tmp_path / "state"
    with GateRunner(Gate.open(folder, config())) as runner:
        wrong = wrong_tokens(folder)
        app = create_app(runner, folder, Limits(rate=1e9, burst=10**9))
        wins = asyncio.run(_wins(app, wrong))
    allowed = math.sqrt(PAIRS * math.log(2 * len(wins) / FALSE_ALARM) / 2)
    assert all(abs(won - PAIRS / 2) <= allowed for won in wins.values()), wins


async def _wins(app: Any, wrong: dict[str, str]) -> dict[str, float]:
    unknown, found = wrong.pop("unknown"), {}
    for _ in range(200):  # past the burst of strangers that is noted in the log, line by line
        await _taken(app, unknown)
    for name, secret in wrong.items():
        won = 0.0
        for _ in range(PAIRS):
            if secrets.randbits(1):
                first, second = await _taken(app, secret), await _taken(app, unknown)
            else:
                second, first = await _taken(app, unknown), await _taken(app, secret)
            won += 0.5 if first == second else float(first < second)
        found[name] = won
    return found


async def _taken(app: Any, secret: str) -> float:
    """Seconds until a request with a token is denied."""
    status = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        status.append(message.get("status"))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "path": "/v1/status",
        "raw_path": b"/v1/status",
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "headers": [(b"authorization", f"Bearer {secret}".encode())],
    }
    start = time.perf_counter()
    await app(scope, receive, send)
    taken = time.perf_counter() - start
    assert status[0] == 401
    return taken

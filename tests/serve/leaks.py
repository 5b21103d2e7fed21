"""Looks for secrets in what a service says, also inside longer words and numbers.

A secret is so long that chance does not hit it: 16 random digits.
"""

import re
from collections.abc import Iterator
from typing import Any

from tests.serve.served import SCOPES, Served
from tests.serve.test_events import ask, read
from tests.serve.test_middleware import ROUTES

DIGITS = "7391640582917346"
"""A whole number that a float holds exactly."""

SEARCHED = 11
"""The first digits of a number that are searched, so that it may be rounded to 12."""


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


def digits(number: float) -> str:
    """The digits of a number, without sign, point, exponent, and zeros in front."""
    return re.sub(r"\D", "", f"{number:.16e}".partition("e")[0]).strip("0")


def holds(said: Any, secret: str) -> bool:
    """Whether an answer holds a secret, which consists of digits or of other characters.

    It may stand inside a longer word or number, in other case, and with points, signs, commas or an
    exponent in between. A number may be rounded to 12 digits.
    """
    text = str(said)
    if secret.isdecimal():
        assert len(secret) >= 15, "chance could hit it"
        return secret[:SEARCHED] in re.sub(r"\D", "", text)
    return secret.lower() in text.lower()


def leaks(service: Served, *secrets: str) -> dict[str, set[str]]:
    """The routes whose answers hold secrets, and which."""
    found: dict[str, set[str]] = {}
    for route, said in answers(service):
        for secret in secrets:
            if holds(said, secret):
                found.setdefault(route, set()).add(secret)
    return found

"""Limits on connections: those without a request are closed, and excess ones too.

Uvicorn itself waits for ever for the head of a request, so a client could hold all connections with
one byte a minute. Bodies have a time limit of their own.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

IDLE = 10.0
"""Seconds in which the head of a request must arrive."""


class Connections:
    """Makes uvicorn's protocol for each new connection, and closes another if there are too many.

    So no client can block the connections of others: see `victim`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: list[H11Protocol] = []  # oldest first

    def __call__(self, **given: Any) -> H11Protocol:
        """The protocol of a connection that is being accepted; uvicorn calls this."""
        new = H11Protocol(**given)
        new.loop.call_soon(self._admit, new)  # once all before it have a transport
        return new

    def _admit(self, new: H11Protocol) -> None:
        new.loop.call_later(IDLE, _close_if_idle, new, None)
        self._open = [*(each for each in self._open if each in each.connections), new]
        if len(self._open) > self._most:
            dropped = self._open.pop(victim([_seen(each) for each in self._open]))
            dropped.transport.abort()  # without waiting for the client to read


def _seen(connection: H11Protocol) -> tuple[str | None, bool]:
    """The token of the last request, None without a valid one; and whether it was answered."""
    scope: Any = connection.scope  # None before the first
    request: Any = connection.cycle
    token = scope["state"].get("token") if scope else None
    return token, bool(request) and request.response_complete


def _close_if_idle(connection: H11Protocol, answered: object) -> None:
    """Close a connection that has had no request since the last look.

    Args:
        connection: The connection.
        answered: Its last request at that look, None if there was none; anything else if it was
            not answered yet.
    """
    request: Any = connection.cycle  # the last one, None before the first
    busy = bool(request) and not request.response_complete
    if request is answered and not busy:
        connection.transport.close()
    elif not connection.transport.is_closing():
        seen = connection if busy else request
        connection.loop.call_later(IDLE, _close_if_idle, connection, seen)


def victim(connections: Sequence[tuple[str | None, bool]]) -> int:
    """The index of the connection to close when there are too many.

    It is the oldest without a token whose request was answered: it was a stranger's, or wanted
    nothing that needs a token. If there is none, it is the oldest without a token, which may still
    be about to show one. If only the newest has none, it is the oldest of the token with the most
    connections. So nobody can lock out a token that has fewer connections.

    Args:
        connections: The token of each connection, None without one, as for the newest; and whether
            its last request was answered. Oldest first.
    """
    if (None, True) in connections:
        return connections.index((None, True))
    tokens = [token for token, _ in connections]
    having = Counter(tokens)
    if having[None] > 1 or len(having) == 1:
        return tokens.index(None)
    del having[None]
    most = max(having.values())
    return next(index for index, token in enumerate(tokens) if having[token] == most)

"""The HTTP protocol with limits: idle connections are closed, and excess ones too."""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from tidegate.serve.limits import Limits

IDLE = 10.0
"""Seconds in which the head of a request must arrive."""


class Guarded(H11Protocol):
    """HTTP/1.1 in which no client can block the connections of others.

    Uvicorn itself waits for ever for the head of a request, so a client could hold all connections
    with one byte a minute. Bodies have a time limit of their own. If there are too many
    connections, each new one closes another: see `victim`.
    """

    most = Limits.connections

    def connection_made(self, transport: Any) -> None:
        """Start the idle timer, and close a connection if there are too many."""
        super().connection_made(transport)
        self.opened, self._dropped = self.loop.time(), False
        self._seen: object = None
        self._look()
        if len(self.connections) > self.most:
            there = [each for each in self.connections if isinstance(each, Guarded)]
            there = sorted((each for each in there if not each._dropped), key=attrgetter("opened"))
            if len(there) > self.most:
                dropped = there[victim([(each.token, each.answered) for each in there])]
                dropped._dropped = True
                dropped.transport.abort()  # without waiting for the client to read

    @property
    def token(self) -> str | None:
        """The token of the last request; None without a valid one."""
        scope: Any = self.scope  # None before the first
        token: str | None = scope["state"].get("token") if scope else None
        return token

    @property
    def answered(self) -> bool:
        """Whether the last request has its response."""
        request: Any = self.cycle
        return request is not None and request.response_complete

    def _look(self) -> None:
        """Close a connection that has had no request since the last check."""
        request: Any = self.cycle  # the last one, None before the first
        idle = request is None or request.response_complete
        if idle and self._seen is (request or self):
            self.transport.close()
        elif not self.transport.is_closing():
            self._seen = (request or self) if idle else None
            self.loop.call_later(IDLE, self._look)

    def _unsupported_upgrade_warning(self) -> None:
        """Log nothing, since anyone can ask for WebSockets any number of times."""


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

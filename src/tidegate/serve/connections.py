"""Connections: how long one may idle, and which are closed when there are too many."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from tidegate.serve.limits import Limits

IDLE = 10.0
"""Seconds in which the head of a request must arrive."""


class Guarded(H11Protocol):
    """HTTP/1.1 whose connections nobody can hold or take up for others.

    Uvicorn itself waits for ever for the head of a request, so that anybody could hold all
    connections with a byte a minute. Bodies have a limit of their own. If there are too many
    connections, one is closed for each that is opened: see `victim`.
    """

    most = Limits.connections

    def connection_made(self, transport: Any) -> None:
        """Start to look at the connection from time to time."""
        super().connection_made(transport)
        self._opened, self._dropped = self.loop.time(), False
        self._seen: object = None
        self._look()
        if len(self.connections) > self.most:
            there = [each for each in self.connections if isinstance(each, Guarded)]
            there = [each for each in there if not each._dropped]
            if len(there) > self.most:
                victim(there)._drop()

    def _drop(self) -> None:
        """Close the connection at once, even if the client does not read what it is sent."""
        self._dropped = True
        self.transport.abort()

    @property
    def opened(self) -> float:
        """When the connection was opened."""
        return self._opened

    @property
    def token(self) -> str | None:
        """The token of the last request; None for a stranger."""
        scope: Any = self.scope  # None before the first
        token: str | None = scope["state"].get("token") if scope else None
        return token

    def _look(self) -> None:
        """Close a connection that has had no request since it was last looked at."""
        request: Any = self.cycle  # the last one, None before the first
        idle = request is None or request.response_complete
        if idle and self._seen is (request or self):
            self.transport.close()
        elif not self.transport.is_closing():
            self._seen = (request or self) if idle else None
            self.loop.call_later(IDLE, self._look)

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: strangers may ask for WebSockets as often as they like."""


class Connection(Protocol):
    """What is known of an open connection."""

    @property
    def opened(self) -> float:
        """When it was opened."""

    @property
    def token(self) -> str | None:
        """The token of its last request; None for a stranger."""


Open = TypeVar("Open", bound=Connection)


def victim(connections: Sequence[Open]) -> Open:
    """The connection to close when there are too many: the oldest of those with least right to it.

    Those are the strangers' or, if there are none but the newest, those of the token that has most.
    So no token can be kept out by a stranger, nor by a token that has more connections than it.

    Args:
        connections: All of them, the newest included, which is a stranger's still.
    """
    strangers = [each for each in connections if each.token is None]
    having = Counter(each.token for each in connections)
    if len(strangers) > 1 or len(having) == 1:
        return min(strangers, key=lambda each: each.opened)
    del having[None]
    most = max(having.values())
    greedy = [each for each in connections if having[each.token] == most]
    return min(greedy, key=lambda each: each.opened)

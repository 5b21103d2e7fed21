"""Connections: how long one may idle, and which are closed when there are too many."""

from collections import Counter
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

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
        self.opened, self._dropped = self.loop.time(), False
        self._seen: object = None
        self._look()
        if len(self.connections) > self.most:
            there = [each for each in self.connections if isinstance(each, Guarded)]
            there = sorted((each for each in there if not each._dropped), key=attrgetter("opened"))
            if len(there) > self.most:
                dropped = there[victim([each.token for each in there])]
                dropped._dropped = True
                dropped.transport.abort()  # even if the client does not read what it is sent

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


def victim(tokens: Sequence[str | None]) -> int:
    """Which connection to close when there are too many: the oldest of those with least right.

    Those are the strangers' or, if there are none but the newest, those of the token that has most.
    So no token can be kept out by a stranger, nor by a token that has more connections than it. The
    tokens are those of all connections, oldest first; a stranger, as the newest still is, has None.
    """
    having = Counter(tokens)
    if having[None] > 1 or len(having) == 1:
        return tokens.index(None)
    del having[None]
    most = max(having.values())
    return next(index for index, token in enumerate(tokens) if having[token] == most)

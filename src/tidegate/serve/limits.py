"""The limits on clients, a rate limiter, and slots of which no token can take all."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tidegate.checks import InvalidValueError, refuse

Body = bytes | bytearray
"""What a request sends."""

MAX_MEMBERS = 1000
"""The most members of a body's object, each of which takes time; a batch needs three."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The limits on clients.

    A token may always have one body and one watcher, and more while the service has slots left.
    """

    body: int = 2**24  # bytes of a request's body
    text_body: int = 2**19  # the same for texts, which take far more memory once hashed
    unfolded: int = 2**24  # bytes of a body's values, as floats
    records: int = 100_000  # records in a body
    encoded: int = 1024  # the same if a network encodes them, which takes milliseconds for each
    answers: int = 2**20  # probabilities in the response to a prediction
    bodies: int = 16  # bodies that may arrive or wait to be made durable at a time
    token_bodies: int = 4  # how many of them one token may have
    waiting: int = 2**26  # bytes of batches that may wait to be made durable
    rate: float = 200.0  # requests per second of one token, on average
    burst: int = 400  # requests of one token at once
    patience: float = 30.0  # seconds for a body to arrive
    watchers: int = 64  # requests that may wait for news at a time
    token_watchers: int = 16  # how many of them one token may have
    erasing: float = 1.0  # seconds: erasures are answered at whole multiples, see docs/threats.md
    erasing_wait: float = 30.0  # seconds after which a request for an erasure is answered 503
    wait: float = 60.0  # seconds that one request may wait for news
    connections: int = 512  # open connections; `connections.victim` chooses which to close


def check_members(n: int) -> None:
    """Refuse a body whose object has too many members."""
    if n > MAX_MEMBERS:
        raise refuse("a body", f"an object of at most {MAX_MEMBERS:,} members", shown=f"{n:,}")


def check_number(n: int, most: int) -> None:
    """Refuse a body with too many records."""
    if n > most:
        raise refuse("a body", f"of at most {most} records", n)


def check_size(size: int, most: int) -> None:
    """Refuse a body that is too large once read."""
    if size > most:
        wrong = f"the values of the body take {size} bytes, but at most {most} are allowed"
        raise InvalidValueError(f"{wrong}: send fewer records at a time")


class Bucket:
    """A token bucket: allows `rate` requests per second on average, and bursts.

    >>> bucket = Bucket(rate=0.001, burst=2)
    >>> [bucket.wait() > 0 for _ in range(3)]
    [False, False, True]
    """

    def __init__(self, *, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = float(burst), time.monotonic()

    def wait(self) -> float:
        """0 if a request may pass now, otherwise the seconds until it may."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + self._rate * (now - self._at))
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0


class NoSlotError(RuntimeError):
    """The token has all the slots it may have at the moment."""


class Slots:
    """Slots of which every token may always have one.

    A token may have more, up to `each`, while fewer than `most` are taken. So a token is refused
    only if it already has a slot, and all tokens together take at most `most` slots and one for
    each token. `what` names the slots in errors.

    >>> slots = Slots("bodies", most=2, each=2)
    >>> with slots.taken("app"), slots.taken("app"), slots.taken("board"):
    ...     slots.free("app"), slots.free("board"), slots.free("another")
    (False, False, True)
    """

    def __init__(self, what: str, *, most: int, each: int) -> None:
        self._what, self._most, self._each = what, most, each
        self._held: Counter[str] = Counter()

    def free(self, token: str) -> bool:
        """Whether a token may take one more."""
        held = self._held[token]
        return not held or (held < self._each and self._held.total() < self._most)

    @contextmanager
    def taken(self, token: str) -> Iterator[None]:
        """Hold a slot until the context ends."""
        if not self.free(token):
            raise NoSlotError(f"this token has too many {self._what} at once: try again later")
        self._held[token] += 1
        try:
            yield
        finally:
            self._held[token] -= 1

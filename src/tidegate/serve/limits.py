"""What a client may ask of the service, and for how long."""

import time
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a client may ask of the service.

    Of bodies and watchers a token may always have one, and more while the service has slots left.

    Attributes:
        body: Bytes of a request's body.
        text_body: The same for a gate whose records are texts, which take far more once hashed.
        unfolded: Bytes that the values of an Arrow body may take as the floats they are read as.
        records: Records in a body.
        answers: Probabilities in the answer to a prediction.
        bodies: Bodies that may arrive or wait to be made durable at a time.
        token_bodies: How many of them may be of one token.
        waiting: Bytes of batches that may wait to be made durable.
        rate: Requests a second of one token, on average.
        burst: How many of them may come at once.
        patience: Seconds for a body to arrive.
        watchers: How many may wait for news at a time.
        token_watchers: How many of them may be of one token.
        wait: Seconds that one question for news may wait.
        connections: Open connections; more close those of strangers, then of the busiest token.
    """

    body: int = 2**24
    text_body: int = 2**19
    unfolded: int = 2**24
    records: int = 100_000
    answers: int = 2**20
    bodies: int = 16
    token_bodies: int = 4
    waiting: int = 2**26
    rate: float = 200.0
    burst: int = 400
    patience: float = 30.0
    watchers: int = 64
    token_watchers: int = 16
    wait: float = 60.0
    connections: int = 512


class Bucket:
    """Lets through `rate` a second on average, and a burst of them at once.

    >>> bucket = Bucket(rate=0.001, burst=2)
    >>> [bucket.wait() > 0 for _ in range(3)]
    [False, False, True]
    """

    def __init__(self, *, rate: float, burst: int) -> None:
        self._rate, self._burst = rate, burst
        self._left, self._at = float(burst), time.monotonic()

    def wait(self) -> float:
        """0 if one may pass now, otherwise after how many seconds it may."""
        now = time.monotonic()
        self._left = min(self._burst, self._left + self._rate * (now - self._at))
        self._at = now
        if self._left < 1:
            return (1 - self._left) / self._rate
        self._left -= 1
        return 0.0

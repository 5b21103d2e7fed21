"""What a client may ask of the service, and for how long."""

import time
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a client may ask of the service.

    Of bodies and watchers a token may always have one, and more while the service has slots left.
    """

    body: int = 2**24  # bytes of a request's body
    text_body: int = 2**19  # the same where records are texts, which take far more once hashed
    unfolded: int = 2**24  # bytes of an Arrow body's values, as the floats they are read as
    records: int = 100_000  # in a body
    answers: int = 2**20  # probabilities in the answer to a prediction
    bodies: int = 16  # that may arrive or wait to be made durable at a time
    token_bodies: int = 4  # how many of them may be of one token
    waiting: int = 2**26  # bytes of batches that may wait to be made durable
    rate: float = 200.0  # requests a second of one token, on average
    burst: int = 400  # how many of them may come at once
    patience: float = 30.0  # seconds for a body to arrive
    watchers: int = 64  # that may wait for news at a time
    token_watchers: int = 16  # how many of them may be of one token
    wait: float = 60.0  # seconds that one question for news may wait
    connections: int = 512  # open; more close those of strangers, then of the busiest token


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

"""Concurrency slots shared by all tokens, of which no token can take all."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


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

"""What all sources that read from a broker share."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from tidegate.gate.sources.columns import Columns
from tidegate.gate.sources.files import Follow
from tidegate.gate.sources.json_lines import JsonLines
from tidegate.gate.sources.source import RawBatch, SourceError

log = logging.getLogger("tidegate.sources")

PATIENCE = 60.0
"""Seconds that a broker which does not answer is waited for, unless told otherwise."""

PAUSE = 0.25
"""Seconds between two tries."""

MOST, ENTRIES = 4096, 2**20
"""Most messages in a batch, and most values that are read from them."""

BYTES = 2**24
"""Bytes that are requested at a time; a batch of long messages takes several requests."""

Resume = tuple[str, str]
"""An offset that cannot be gone on from, and the one that the operator says to take instead."""


def instead(offset: str | None, resume: Resume | None) -> str | None:
    """The offset to go on from: another one where the operator has named exactly this one.

    Once records are taken the offset is another, so that a consent is used once.

    >>> instead("7@-", ("7@-", "9@-")), instead("12@-", ("7@-", "9@-"))
    ('9@-', '12@-')
    """
    return resume[1] if resume is not None and resume[0] == offset else offset


class LostError(Exception):
    """Records that were to come next are gone, or are not those that the offset is one of.

    The remedy is how to go on from where it was, or what it is to take the other offset instead.
    """

    def __init__(
        self, what: str, other: str, remedy: str = "bring them back, or to go on without them"
    ) -> None:
        super().__init__(what)
        self.other, self._remedy = other, remedy

    def refusal(self, offset: str) -> SourceError:
        """What to tell the operator, given the offset that the Gate has kept."""
        resume = f"resume = ['{offset}', '{self.other}']"
        return SourceError(
            f"{self}: {self._remedy} add {resume} to its [source], see docs/sources.md"
        )


def batch_size(columns: Columns) -> int:
    """The number of messages in a batch, unless fewer are there.

    Their bytes must not decide where a batch ends. So a batch takes up to this number times the
    broker's longest message, and two of them may be in memory.

    >>> batch_size(Columns(label="y", text="title"))
    4096
    >>> batch_size(Columns(label="y", features=tuple(f"x{i}" for i in range(1023))))
    1024
    """
    return max(64, min(MOST, ENTRIES // len(columns.names)))


def check_same(what: str, whose: str | None, named: str, other: str) -> None:
    """Refuse an offset of other messages than those that [source] names.

    One that an operator has written does not say `whose` it is, and fits all.
    """
    if whose not in {None, named}:
        raise LostError(
            f"the offset is one of {what} {whose}, but [source] names {named}",
            other,
            f"put {whose} back, or to go on with {named}",
        )


def raw_batch_of(bodies: list[bytes], columns: Columns, offset: str) -> RawBatch:
    """The slots of some messages: each holds one record, a JSON object, whatever is in it."""
    return replace(JsonLines(columns=columns).part(bodies), offset=offset)


@dataclass
class Patience:
    """How long a broker that does not answer is waited for."""

    who: str
    seconds: float
    since: float | None = field(default=None, init=False)

    def renew(self) -> None:
        """It has answered."""
        if self.since is not None:
            log.warning("%s answers again", self.who)
        self.since = None

    def wait(self, why: str) -> None:
        """Wait a little; refused once it has been long enough."""
        if self.since is None:
            self.since = time.monotonic()
            told = "%s does not answer (%s): waiting up to %g s for it"
            log.warning(told, self.who, why, self.seconds)
        if time.monotonic() - self.since >= self.seconds:
            raise SourceError(
                f"{self.who} has not answered for {self.seconds:g} s ({why}): "
                "run again when it does, to go on from where this stopped"
            )
        time.sleep(PAUSE)


class Pulled(NamedTuple):
    """The bodies of a batch of messages one after the other, and the offset after them."""

    bodies: list[bytes]
    offset: str


@dataclass(frozen=True, kw_only=True)
class Broker(ABC):
    """A source that reads from a broker.

    Args:
        name: What the offset is kept under.
        columns: Which keys of a message are read.
        follow: To look again at the end of what there is.
        patience: Seconds that a broker which does not answer is waited for.
        resume: An offset that is gone, and one to take instead.
    """

    name: str
    columns: Columns
    follow: Follow | None = None
    patience: float = PATIENCE
    resume: Resume | None = None

    @abstractmethod
    def look(self, offset: str | None) -> Generator[Pulled]:
        """All messages that are there after an offset, in batches that end by counts.

        Raises LostError if those that come next are gone or are others, SourceError for what will
        not pass, and ConnectionError or TimeoutError for what may.
        """

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """See `Source`: through connections that fail and come back."""
        place, kept = instead(offset, self.resume), offset
        patience = Patience(str(self), self.patience)
        while True:
            try:
                with closing(self.look(place)) as look:
                    for pulled in look:
                        patience.renew()
                        place = kept = pulled.offset
                        yield raw_batch_of(pulled.bodies, self.columns, kept)
            except LostError as error:
                if kept is not None:
                    raise error.refusal(kept) from error
                patience.wait(str(error))  # nothing was promised yet: what is first has moved
                continue
            except (ConnectionError, TimeoutError) as error:
                patience.wait(str(error) or type(error).__name__)
                continue
            patience.renew()
            if self.follow is None or not self.follow():
                return

"""The base class of sources that read from a broker."""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tidegate.gate.sources.columns import SourceColumns
from tidegate.gate.sources.files import Follow
from tidegate.gate.sources.json_lines import JsonLines
from tidegate.gate.sources.source import RawBatch, SourceError

log = logging.getLogger("tidegate.sources")

PATIENCE = 60.0
"""The default number of seconds to wait for a broker that does not answer."""

PAUSE = 0.25
"""Seconds between two tries."""

MAX_MESSAGES, MAX_VALUES = 4096, 2**20
"""The most messages in a batch, and the most values read from them."""

BYTES = 2**24
"""Bytes per request; a batch of long messages takes several requests."""

UNKNOWN = "\N{REPLACEMENT CHARACTER}"
"""What a client of a broker shows in a header instead of bytes that are not UTF-8."""

Resume = tuple[str, str]
"""An offset that cannot be continued, and the one that the operator allows instead."""


def instead(offset: str | None, resume: Resume | None) -> str | None:
    """The offset to continue from: the operator's, if `resume` names exactly this offset.

    Once records are taken the offset changes, so `resume` takes effect only once.

    >>> instead("7@-", ("7@-", "9@-")), instead("12@-", ("7@-", "9@-"))
    ('9@-', '12@-')
    """
    return resume[1] if resume is not None and resume[0] == offset else offset


class LostError(Exception):
    """The next records are gone, or the offset belongs to other messages.

    Args:
        what: What happened.
        other: The offset to continue from instead.
        remedy: How to repair it, and what the other offset would do.
    """

    def __init__(
        self, what: str, other: str, remedy: str = "restore them, or to continue without them"
    ) -> None:
        super().__init__(what)
        self.other, self._remedy = other, remedy

    def refusal(self, offset: str) -> SourceError:
        """The error for the operator, given the offset that the gate has kept."""
        resume = f"resume = ['{offset}', '{self.other}']"
        return SourceError(
            f"{self}: {self._remedy} add {resume} to its [source], see docs/sources.md"
        )


def batch_size(columns: SourceColumns) -> int:
    """The number of messages in a batch, unless fewer are available.

    A batch must not end by bytes, so it can be as large as this number times the longest message,
    and two batches can be in memory.

    >>> batch_size(SourceColumns(label="y", text="title"))
    4096
    >>> batch_size(SourceColumns(label="y", features=tuple(f"x{i}" for i in range(1023))))
    1024
    """
    return max(64, min(MAX_MESSAGES, MAX_VALUES // len(columns.names)))


def check_same(what: str, whose: str | None, named: str, other: str) -> None:
    """Refuse an offset of another stream or topic than [source] names.

    `whose` is None for an offset that the operator wrote in `resume`; it is accepted.
    """
    if whose not in {None, named}:
        raise LostError(
            f"the offset belongs to {what} {whose}, but [source] names {named}",
            other,
            f"name {whose} again, or to continue with {named}",
        )


def raw_batch_of(
    bodies: list[bytes], columns: SourceColumns, offset: str, ids: list[Any] | None = None
) -> RawBatch:
    """A batch of messages, each a slot with one record as a JSON object.

    Args:
        bodies: The messages.
        columns: Which keys of a message are read.
        offset: The offset after them.
        ids: The ids of their persons, if they are not in the messages.
    """
    raw = replace(JsonLines(columns=columns).part(bodies), offset=offset)
    return raw if ids is None else replace(raw, persons=ids)


def id_of(header: bytes | str | None) -> Any:
    """The id in a header of a message; an empty tuple, which is no id, if it is not text."""
    if header is None:
        return None
    try:
        text = header if isinstance(header, str) else header.decode()
    except UnicodeDecodeError:
        return ()
    return () if UNKNOWN in text else text


@dataclass
class Patience:
    """Waits for a broker that does not answer, up to a number of seconds."""

    who: str
    seconds: float
    since: float | None = field(default=None, init=False)

    def renew(self) -> None:
        """Reset the clock, because the broker has answered."""
        if self.since is not None:
            log.warning("%s answers again", self.who)
        self.since = None

    def wait(self, why: str) -> None:
        """Wait a little; raise SourceError once the time is up."""
        if self.since is None:
            self.since = time.monotonic()
            line = "%s does not answer (%s): waiting up to %g s for it"
            log.warning(line, self.who, why, self.seconds)
        if time.monotonic() - self.since >= self.seconds:
            raise SourceError(
                f"{self.who} has not answered for {self.seconds:g} s ({why}): "
                "run again when it does, to continue where this run stopped"
            )
        time.sleep(PAUSE)


class Pulled(NamedTuple):
    """A batch of messages in order.

    Attributes:
        bodies: Their bodies.
        offset: The offset after them.
        ids: The ids of their persons, if headers say whose records are.
    """

    bodies: list[bytes]
    offset: str
    ids: list[Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Broker(ABC):
    """A source that reads from a broker.

    Args:
        name: The name under which the offset is kept.
        columns: Which keys of a message are read.
        follow: Called at the end of the messages: whether to look for more.
        patience: Seconds to wait for a broker that does not answer.
        resume: An offset that no longer exists, and the one to use instead.
        id_header: The header of a message that says whose its record is, if persons are protected
            and no field of the message says so.
    """

    name: str
    columns: SourceColumns
    follow: Follow | None = None
    patience: float = PATIENCE
    resume: Resume | None = None
    id_header: str | None = None

    @abstractmethod
    def look(self, offset: str | None) -> Generator[Pulled]:
        """All available messages after an offset, in batches that end by counts.

        Raises LostError if the next messages are gone or are others, SourceError for a permanent
        failure, and ConnectionError or TimeoutError for a temporary one.
        """

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """See `Source`; reconnects after temporary failures."""
        place, kept = instead(offset, self.resume), offset
        patience = Patience(str(self), self.patience)
        while True:
            try:
                with closing(self.look(place)) as look:
                    for pulled in look:
                        patience.renew()
                        place = kept = pulled.offset
                        yield raw_batch_of(pulled.bodies, self.columns, kept, pulled.ids)
            except LostError as error:
                if kept is not None:
                    raise error.refusal(kept) from error
                patience.wait(str(error))  # nothing was taken yet: the first message has moved
                continue
            except (ConnectionError, TimeoutError) as error:
                patience.wait(str(error) or type(error).__name__)
                continue
            patience.renew()
            if self.follow is None or not self.follow():
                return

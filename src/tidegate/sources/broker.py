"""The base class of sources that read from a broker."""

import time
from abc import abstractmethod
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tidegate.checks import flag, one_of, positive, word, words
from tidegate.kinds import parameter
from tidegate.sources.configured import ConfiguredSource, Resume, log, resumed
from tidegate.sources.json_records import json_batch
from tidegate.sources.source import RawBatch, SourceColumns, SourceError

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

FIELD, HEADER = "field", "header"
"""Where the id of a person is in a message."""


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


def one_or_more(name: str, value: object) -> tuple[str, ...]:
    """Check one text, or a list of them."""
    return (word(name, value),) if isinstance(value, str) else words(name, value)


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
    raw = json_batch(bodies, columns)
    # Messages cannot be corrected, and a batch may hold only one: no column is missed in all.
    persons = raw.persons if ids is None else ids
    return replace(raw, offset=offset, persons=persons, absent=None)


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
class Broker(ConfiguredSource):
    """A source that reads messages from a broker, each with one record, a JSON object.

    Args:
        patience: Seconds to wait for a broker that does not answer.
        resume: An offset that no longer exists, and the one to use instead.
        id_from: Where a message says whose its record is, if persons are protected.
    """

    follow: bool = parameter("wait for new messages", flag, default=False)
    patience: float = parameter("seconds to wait for an answer", positive, default=PATIENCE)
    resume: Resume | None = parameter(
        "the two texts in the error about lost messages, to continue without them",
        resumed,
        default=None,
    )
    id_from: str | None = parameter(
        "where a message has its person.id: in a field of its JSON (the default) or in a header",
        one_of(FIELD, HEADER),
        default=None,
    )

    @property
    def person_key(self) -> str:
        """See `ConfiguredSource`."""
        return "id_from" if self.id_from == HEADER else ""

    @property
    def id_header(self) -> str | None:
        """The header of a message that says whose its record is, if none of its fields does."""
        return self.columns.person if self.id_from == HEADER else None

    @abstractmethod
    def look(self, offset: str | None) -> Generator[Pulled]:
        """All available messages after an offset, in batches that end by counts.

        Raises LostError if the next messages are gone or are others, SourceError for a permanent
        failure, and ConnectionError or TimeoutError for a temporary one.
        """

    def batches(self, offset: str | None) -> Iterator[RawBatch]:
        """See `Source`; reconnects after temporary failures."""
        place, kept = instead(offset, self.resume), offset
        columns = self.columns if self.id_header is None else replace(self.columns, person=None)
        patience = Patience(str(self), self.patience)
        while True:
            try:
                with closing(self.look(place)) as look:
                    for pulled in look:
                        patience.renew()
                        place = kept = pulled.offset
                        yield raw_batch_of(pulled.bodies, columns, kept, pulled.ids)
            except LostError as error:
                if kept is not None:
                    raise error.refusal(kept) from error
                patience.wait(str(error))  # nothing was taken yet: the first message has moved
                continue
            except (ConnectionError, TimeoutError) as error:
                patience.wait(str(error) or type(error).__name__)
                continue
            patience.renew()
            if not (self.follow and self.wait()):
                return

"""A source that reads a NATS JetStream stream: each message is a slot."""

import re
from collections.abc import Generator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tidegate.checks import optional_module, place, refuse, word
from tidegate.kinds import parameter
from tidegate.sources.broker import Broker, Pulled, check_same, one_or_more
from tidegate.sources.configured import ALL_SUBJECTS, SourceIdentity, of_channel, register
from tidegate.sources.source import OTHER_SOURCE, SourceError


@dataclass(frozen=True, kw_only=True)
class StreamOffset:
    """How far a stream has been read: its offset.

    A recreated stream starts again at sequence 1, so the time is compared too.
    """

    sequence: int  # the sequence number of the last message taken, 0 before the first
    time: str = "-"  # when the server stored it, if known
    whose: str | None = field(default=None, compare=False)  # stream and subject, if known

    def text(self) -> str:
        """As an offset."""
        return "@".join(filter(None, (str(self.sequence), self.time, self.whose)))

    @classmethod
    def of(cls, offset: str | None) -> "StreamOffset":
        """From an offset.

        >>> StreamOffset.of("41@2026-01-02T03:04:05+00:00@records/records.north").whose
        'records/records.north'
        >>> StreamOffset.of("57@-")
        StreamOffset(sequence=57, time='-', whose=None)
        """
        sequence, *rest = ("0@-" if offset is None else offset).split("@", 2)
        if not (sequence.isascii() and sequence.isdigit() and rest and all(rest)):
            raise SourceError(f"the offset is not one of a NATS stream: {OTHER_SOURCE}")
        return cls(sequence=int(sequence), time=rest[0], whose="".join(rest[1:]) or None)


def urls(name: str, value: object) -> tuple[str, ...]:
    """One or more servers, without passwords, because configurations are shown and stored."""
    given = one_or_more(name, value)
    for url in given:
        if "@" in url:
            raise refuse(name, "without user and password (see docs/sources.md)", shown="some")
        if not _is_server(url):
            raise refuse(name, "such as nats://host:4222 or tls://host:4222", url)
    return given


def _is_server(url: str) -> bool:
    try:
        parts = urlsplit(url)
        supported = url.startswith(("nats://", "tls://"))  # the client does not accept TLS://
        return supported and bool(parts.hostname) and parts.port != 0
    except ValueError:  # unclosed brackets, or a port that is not a number
        return False


def stream_name(name: str, value: object) -> str:
    """The name of a NATS stream."""
    if not re.fullmatch(r"[^\s.*>/\\]+", stream := word(name, value)):
        raise refuse(name, "the name of a stream, without spaces, dots, slashes, * and >", value)
    return stream


def subjects(name: str, value: object) -> str:
    """A NATS subject, with or without wildcards."""
    if not re.fullmatch(r"([^\s.>]+\.)*([^\s.>]+|>)", subject := word(name, value)):
        raise refuse(name, "such as records.north, records.* or records.>", value)
    return subject


@register
@dataclass(frozen=True, kw_only=True)
class NatsStream(Broker):
    """The messages of a stream, or of some of its subjects, in the order of their sequence.

    Each message holds one record, a JSON object. The offset names the stream, the subject and the
    sequence number of the last message taken; the gate keeps it with the records. So nothing
    depends on acknowledgements, and other readers are not affected. It is an error if messages are
    deleted before they are taken, or if the stream or subject changes. For the other arguments, see
    `Broker`.

    Args:
        url: The URLs of the servers.
        stream: The name of the stream.
        subject: Which messages to read, all if None; `*` and `>` are wildcards.
        credentials: A file of credentials.
        ca: A file of certificates to trust, if not those of the system.
    """

    type = "nats"
    about = "a stream of NATS JetStream"

    url: tuple[str, ...] = parameter("nats://host:4222, or a list; no password in it", urls)
    stream: str = parameter("the name of the stream", stream_name)
    subject: str | None = parameter("only these, such as records.north.>", subjects, default=None)
    credentials: str | None = parameter("a NATS credentials file", place, default=None, repr=False)
    ca: str | None = parameter("certificates to trust, if not the system's", place, default=None)

    def look(self, offset: str | None) -> Generator[Pulled]:
        """See `Broker`; fetches the next batch while one is taken."""
        place = StreamOffset.of(offset)
        # Sequence numbers count all subjects: earlier messages of another subject are not taken.
        same_stream = (place.whose or "").startswith(f"{self.stream}/")
        other = StreamOffset(sequence=place.sequence if same_stream else 0)
        check_same("stream/subject", place.whose, self.whose, other.text())
        client = optional_module("tidegate.sources.clients.nats_reader", "nats")
        with client.reading(self, place) as pull:
            coming = pull()
            while (pulled := coming.result()) is not None:
                coming = pull()
                yield pulled

    @property
    def identity(self) -> SourceIdentity:
        """See `ConfiguredSource`."""
        hosts = [urlsplit(url).netloc for url in self.url]
        return of_channel(f"stream {self.stream}", hosts, 4222, self.subject or ALL_SUBJECTS)

    @property
    def whose(self) -> str:
        """The stream and subject that are read, with a slash, which no stream name has."""
        return f"{self.stream}/{self.subject or '>'}"

    @property
    def encrypted(self) -> bool:
        """Whether TLS is required."""
        return self.ca is not None or any(each.startswith("tls:") for each in self.url)

    def __str__(self) -> str:
        return f"the NATS server at {', '.join(self.url)}"

"""A source that reads a NATS JetStream stream: each message is a slot."""

from collections.abc import Generator
from dataclasses import dataclass, field

from tidegate.checks import not_installed
from tidegate.gate.sources.broker import Broker, Pulled, check_same
from tidegate.gate.sources.source import OTHER_SOURCE, SourceError


@dataclass(frozen=True, kw_only=True)
class Place:
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
    def of(cls, offset: str | None) -> "Place":
        """From an offset.

        >>> Place.of("41@2026-01-02T03:04:05+00:00@records/records.north").whose
        'records/records.north'
        >>> Place.of("57@-")
        Place(sequence=57, time='-', whose=None)
        """
        sequence, *rest = ("0@-" if offset is None else offset).split("@", 2)
        if not (sequence.isascii() and sequence.isdigit() and rest and all(rest)):
            raise SourceError(f"the offset is not one of a NATS stream: {OTHER_SOURCE}")
        return cls(sequence=int(sequence), time=rest[0], whose="".join(rest[1:]) or None)


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

    url: tuple[str, ...]
    stream: str
    subject: str | None = None
    credentials: str | None = field(default=None, repr=False)
    ca: str | None = None

    def look(self, offset: str | None) -> Generator[Pulled]:
        """See `Broker`; fetches the next batch while one is taken."""
        place = Place.of(offset)
        # Sequence numbers count all subjects: earlier messages of another subject are not taken.
        same_stream = (place.whose or "").startswith(f"{self.stream}/")
        other = Place(sequence=place.sequence if same_stream else 0)
        check_same("stream/subject", place.whose, self.whose, other.text())
        try:
            from tidegate.gate.sources.nats_reader import reading  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise SourceError(not_installed(error.name, "nats")) from error
        with reading(self, place) as pull:
            coming = pull()
            while (pulled := coming.result()) is not None:
                coming = pull()
                yield pulled

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

"""A stream of NATS JetStream as a source: a message is a slot."""

from collections.abc import Generator
from dataclasses import dataclass, field

from tidegate.gate.sources.broker import Broker, Pulled, check_same
from tidegate.gate.sources.source import SourceError


@dataclass(frozen=True, kw_only=True)
class Place:
    """How far a stream has been read: its offset.

    Sequences start again in a stream that is made anew: only a message that has the time as well is
    taken for the same.
    """

    sequence: int  # of the last message that was taken, 0 before the first
    time: str = "-"  # when the server stored it, if that is known
    whose: str | None = field(default=None, compare=False)  # stream and subject, if it says so

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
            raise SourceError("the offset is not one of a NATS stream")
        return cls(sequence=int(sequence), time=rest[0], whose="".join(rest[1:]) or None)


@dataclass(frozen=True, kw_only=True)
class NatsStream(Broker):
    """The messages of a stream, or those of some of its subjects, in the order of their sequence.

    Each message holds one record, a JSON object. The offset is the sequence of the last message
    taken, and of which stream and subject it is; the Gate keeps it with the records: nothing
    depends on acknowledgements, and nobody else's reading is disturbed. Messages that are gone
    before they were taken, and a stream or subject that is another one, are refused. `Broker` says
    what the other arguments are.

    Args:
        url: Those of the servers.
        stream: The name of the stream.
        subject: Which messages of it, all if None; `*` and `>` are wildcards.
        credentials: A file of credentials.
        ca: A file of certificates to trust, if not those of the system.
    """

    url: tuple[str, ...]
    stream: str
    subject: str | None = None
    credentials: str | None = field(default=None, repr=False)
    ca: str | None = None

    def look(self, offset: str | None) -> Generator[Pulled]:
        """See `Broker`; the next messages are on their way while some are taken."""
        place = Place.of(offset)
        # Sequences count all subjects of a stream: what another one has before it stays untaken.
        same_stream = (place.whose or "").startswith(f"{self.stream}/")
        other = Place(sequence=place.sequence if same_stream else 0)
        check_same("stream/subject", place.whose, self.whose, other.text())
        try:
            from tidegate.gate.sources.nats_reader import reading  # noqa: PLC0415
        except ModuleNotFoundError as error:
            missing = f"{error.name} is not installed: pip install 'tidegate[nats]'"
            raise SourceError(missing) from error
        with reading(self, place) as pull:
            coming = pull()
            while (pulled := coming.result()) is not None:
                coming = pull()
                yield pulled

    @property
    def whose(self) -> str:
        """Which messages are read: no name of a stream has a slash."""
        return f"{self.stream}/{self.subject or '>'}"

    @property
    def encrypted(self) -> bool:
        """Whether nothing may be said in plain text."""
        return self.ca is not None or any(each.startswith("tls:") for each in self.url)

    def __str__(self) -> str:
        return f"the NATS server at {', '.join(self.url)}"

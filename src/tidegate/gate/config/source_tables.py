"""[source]: where records come from, with one table class for each kind of source."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tidegate.checks import InvalidValueError, flag, positive, refuse
from tidegate.gate.config.keys import given_keys, key, one_of, place, read_table, word, words
from tidegate.gate.config.source_identity import ALL_SUBJECTS, SourceIdentity, of_channel, of_path
from tidegate.gate.config.tables import FILES
from tidegate.gate.sources import (
    Files,
    KafkaTopic,
    NatsStream,
    Source,
    SourceColumns,
    StandardInput,
    every,
    once,
)
from tidegate.gate.sources.broker import PATIENCE, Broker, Resume
from tidegate.gate.sources.csv_file import as_delimiter
from tidegate.gate.sources.files import NEXT, Follow

STANDARD_INPUT = "-"

FIELD, HEADER = "field", "header"
"""Where the id of a person is in a message."""


def _waiting(follow: bool, pause: float | None) -> Follow | None:
    """How a followed source waits for more; without a pause it stops at the end."""
    if not follow:
        return None
    return once if pause is None else every(pause)


def resumed(name: str, value: object) -> Resume:
    """An offset that no longer exists, and the one to use instead."""
    old, *new = words(name, value)
    if len(new) != 1:
        raise refuse(name, "the two texts of the error about lost messages", value)
    return old, new[0]


def passed_over(name: str, value: object) -> Resume:
    """The mark of an offset, and how many records of its file to skip instead."""
    offset, instead = resumed(name, value)
    if instead != NEXT and not (instead.isascii() and instead.isdigit()):
        allowed = 'the mark of an offset, and a number of records in quotes or "next"'
        raise refuse(name, allowed, value)
    return offset, instead


@dataclass(frozen=True, kw_only=True)
class FileTable:
    """[source]: files; `path` is a file, a folder, or "-" for standard input."""

    type: str = key(
        one_of(*FILES), 'the format; jsonl: JSON lines. "nats" and "kafka": see docs/sources.md'
    )
    path: str = key(place, 'file or folder, relative to the working directory; "-": standard input')
    follow: bool = key(
        flag, "wait for new lines in a file, or new files in a folder", default=False
    )
    delimiter: str | None = key(
        as_delimiter, "the separator, if it is not a comma", only=("csv",), default=None
    )
    resume: Resume | None = key(
        passed_over,
        "the two texts in the error about a changed file, to continue with it",
        default=None,
    )

    def __post_init__(self) -> None:
        if self.path == STANDARD_INPUT and self.type != "jsonl":
            raise refuse("type", 'jsonl if the path is "-" (standard input)', self.type)
        if self.delimiter is not None and self.type != "csv":
            raise InvalidValueError(f"delimiter is a key of csv, not of {self.type}: remove it")

    @property
    def identity(self) -> SourceIdentity:
        """What is read."""
        return of_path(Path(self.path))

    def build(self, name: str, columns: SourceColumns, *, pause: float | None = 1.0) -> Source:
        """The source; a followed one looks for more after each pause, in seconds.

        With pause None it stops at the last complete record and can be resumed.
        """
        if self.path == STANDARD_INPUT:
            pipe = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115 (not ours to close)
            return StandardInput(name=name, columns=columns, stream=pipe, resume=self.resume)
        more = {} if self.delimiter is None else {"delimiter": self.delimiter}
        reader, follow = FILES[self.type](columns=columns, **more), _waiting(self.follow, pause)
        path = Path(self.path)
        return Files(name=name, path=path, format=reader, follow=follow, resume=self.resume)


def urls(name: str, value: object) -> tuple[str, ...]:
    """One or more servers, without passwords, because configurations are shown and stored."""
    given = _one_or_more(name, value)
    for url in given:
        if "@" in url:
            raise refuse(name, "without user and password (see docs/sources.md)", shown="some")
        if not _is_server(url):
            raise refuse(name, "such as nats://host:4222 or tls://host:4222", url)
    return given


def _one_or_more(name: str, value: object) -> tuple[str, ...]:
    return (word(name, value),) if isinstance(value, str) else words(name, value)


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


def servers(name: str, value: object) -> tuple[str, ...]:
    """One or more brokers, each with host and port."""
    given = _one_or_more(name, value)
    for each in given:
        host, colon, port = each.rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit()) or set("/@,") & set(each):
            raise refuse(name, "such as host:9092", shown="something else")
    return given


@dataclass(frozen=True, kw_only=True)
class BrokerTable:
    """[source]: the keys that all brokers have."""

    source: ClassVar[type[Broker]]

    follow: bool = key(flag, "wait for new messages", default=False)
    patience: float = key(
        positive, "seconds to wait for a server that does not answer", default=PATIENCE
    )
    resume: Resume | None = key(
        resumed,
        "the two texts in the error about lost messages, to continue without them",
        default=None,
    )
    id_from: str | None = key(
        one_of(FIELD, HEADER),
        "where a message has its person.id: in a field of its JSON (the default) or in a header",
        default=None,
    )

    def build(self, name: str, columns: SourceColumns, *, pause: float | None = 1.0) -> Source:
        """The source; see `FileTable.build`."""
        keys = {**given_keys(self, "type", "id_from"), "follow": _waiting(self.follow, pause)}
        if self.id_from == HEADER:
            keys["id_header"], columns = columns.person, replace(columns, person=None)
        return self.source(name=name, columns=columns, **keys)


@dataclass(frozen=True, kw_only=True)
class NatsTable(BrokerTable):
    """[source]: a stream of NATS JetStream, or some of its subjects."""

    source = NatsStream

    type: str = key(one_of("nats"), "a stream of NATS JetStream")
    url: tuple[str, ...] = key(
        urls, "a server such as nats://host:4222, or a list; no password in it"
    )
    stream: str = key(stream_name, "the name of the stream")
    subject: str | None = key(
        subjects, "read only these messages, such as records.north.>", default=None
    )
    credentials: str | None = key(place, "a file of NATS credentials", default=None)
    ca: str | None = key(
        place, "a file of certificates to trust, if not the system's", default=None
    )

    @property
    def identity(self) -> SourceIdentity:
        """What is read."""
        hosts = [urlsplit(url).netloc for url in self.url]
        return of_channel(f"stream {self.stream}", hosts, 4222, self.subject or ALL_SUBJECTS)


@dataclass(frozen=True, kw_only=True)
class KafkaTable(BrokerTable):
    """[source]: a topic of Kafka."""

    source = KafkaTopic

    type: str = key(one_of("kafka"), "a topic of Kafka")
    servers: tuple[str, ...] = key(servers, "a broker such as host:9092, or a list")
    topic: str = key(word, "the name of the topic")
    settings: str | None = key(place, "a file of settings for librdkafka", default=None)

    @property
    def identity(self) -> SourceIdentity:
        """What is read."""
        return of_channel(f"topic {self.topic}", self.servers, 9092)


SourceTable = FileTable | NatsTable | KafkaTable
BROKERS = {"nats": NatsTable, "kafka": KafkaTable}


def one_source(name: str, value: object) -> SourceTable:
    """The source of one stream."""
    kinds: dict[str, type[Any]] = {**dict.fromkeys(FILES, FileTable), **BROKERS}
    kind = value.get("type") if isinstance(value, Mapping) else None
    if kind is not None:
        one_of(*kinds)(f"{name}.type", kind)  # the other keys depend on it
    table: SourceTable = read_table(FileTable if kind is None else kinds[kind], name, value)
    return table


@dataclass(frozen=True, kw_only=True)
class TwoSources:
    """[source.source] and [source.target]: where the records of two streams come from."""

    source: SourceTable = key(one_source, "of the source stream")
    target: SourceTable = key(one_source, "of the target stream")


def one_or_two(name: str, value: object) -> SourceTable | TwoSources:
    """The source of one stream, or of two."""
    if isinstance(value, Mapping) and not {"source", "target"}.isdisjoint(value):
        return read_table(TwoSources, name, value)
    return one_source(name, value)

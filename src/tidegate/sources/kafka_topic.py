"""A source that reads a Kafka topic: each message is a slot."""

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.checks import optional_module, place, refuse, word
from tidegate.kinds import parameter
from tidegate.sources.broker import Broker, Pulled, check_same, one_or_more
from tidegate.sources.configured import SourceIdentity, of_channel, register
from tidegate.sources.source import OTHER_SOURCE, SourceError

NOT_KAFKA = f"the offset is not one of a Kafka topic: {OTHER_SOURCE}"


class PartitionOffset(NamedTuple):
    """How far a partition has been read.

    A recreated topic starts again at offset 0, so the timestamp is compared too.
    """

    offset: int  # the offset of the last message that was taken
    time: int | None  # its timestamp in milliseconds, if known


def as_text(places: Mapping[int, PartitionOffset], topic: str | None = None) -> str:
    """The offset of a topic: its name, and the place in each of its partitions.

    >>> as_text({1: PartitionOffset(7, 1767323045000), 0: PartitionOffset(41, None)}, "records")
    '{"topic": "records", "0": [41, null], "1": [7, 1767323045000]}'
    """
    named = {} if topic is None else {"topic": topic}
    return json.dumps(named | {str(partition): places[partition] for partition in sorted(places)})


def places_of(offset: str | None) -> tuple[str | None, dict[int, PartitionOffset]]:
    """The topic of an offset (None if it names none), and the places in its partitions.

    >>> places_of('{"topic": "records", "0": [41, null]}')
    ('records', {0: PartitionOffset(offset=41, time=None)})
    """
    try:
        parsed = json.loads("{}" if offset is None else offset)
        topic = parsed.pop("topic", None)
        places = {int(partition): PartitionOffset(*place) for partition, place in parsed.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise SourceError(NOT_KAFKA) from error
    numbers = [*places, *(each for place in places.values() for each in place if each is not None)]
    if not (all(type(number) is int for number in numbers) and isinstance(topic, str | None)):
        raise SourceError(NOT_KAFKA)
    return topic, places


def servers(name: str, value: object) -> tuple[str, ...]:
    """One or more brokers, each with host and port."""
    given = one_or_more(name, value)
    for each in given:
        host, colon, port = each.rpartition(":")
        if not (host and colon and port.isascii() and port.isdigit()) or set("/@,") & set(each):
            raise refuse(name, "such as host:9092", shown="something else")
    return given


@register
@dataclass(frozen=True, kw_only=True)
class KafkaTopic(Broker):
    """The messages of a topic, in an order that depends on offsets alone.

    Each message holds one record, a JSON object. Partitions are read in turn, `chunk` offsets at a
    time: the first chunk of partition 0, the first of 1, ..., the second of 0, and so on. So the
    order never depends on the length of records. The gate keeps the offset with the records: there
    is no consumer group, and nothing is committed to the broker. For the other arguments, see
    `Broker`.

    Args:
        servers: Some of the brokers.
        topic: The name of the topic.
        settings: A file of more settings for the client, such as credentials.
        chunk: How many offsets of a partition are read at a time.
    """

    type = "kafka"
    about = "a topic of Kafka"

    servers: tuple[str, ...] = parameter("a broker such as host:9092, or a list", servers)
    topic: str = parameter("the name of the topic", word)
    settings: str | None = parameter("a file of settings for librdkafka", place, default=None)
    chunk: int = 4096

    def look(self, offset: str | None) -> Generator[Pulled]:
        """See `Broker`."""
        topic, places = places_of(offset)
        check_same("topic", topic, self.topic, as_text({}))
        client = optional_module("tidegate.sources.clients.kafka_reader", "kafka")
        with client.reading(self, places) as reader:
            yield from reader.chunks()

    @property
    def identity(self) -> SourceIdentity:
        """See `ConfiguredSource`."""
        return of_channel(f"topic {self.topic}", self.servers, 9092)

    def __str__(self) -> str:
        return f"the Kafka broker at {', '.join(self.servers)}"

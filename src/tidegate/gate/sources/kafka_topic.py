"""A source that reads a Kafka topic: each message is a slot."""

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.checks import not_installed
from tidegate.gate.sources.broker import Broker, Pulled, check_same
from tidegate.gate.sources.source import OTHER_SOURCE, SourceError

NOT_KAFKA = f"the offset is not one of a Kafka topic: {OTHER_SOURCE}"


class Place(NamedTuple):
    """How far a partition has been read.

    A recreated topic starts again at offset 0, so the timestamp is compared too.
    """

    offset: int  # the offset of the last message that was taken
    time: int | None  # its timestamp in milliseconds, if known


def as_text(places: Mapping[int, Place], topic: str | None = None) -> str:
    """The offset of a topic: its name, and the place in each of its partitions.

    >>> as_text({1: Place(7, 1767323045000), 0: Place(41, None)}, "records")
    '{"topic": "records", "0": [41, null], "1": [7, 1767323045000]}'
    """
    named = {} if topic is None else {"topic": topic}
    return json.dumps(named | {str(partition): places[partition] for partition in sorted(places)})


def places_of(offset: str | None) -> tuple[str | None, dict[int, Place]]:
    """The topic of an offset (None if it names none), and the places in its partitions.

    >>> places_of('{"topic": "records", "0": [41, null]}')
    ('records', {0: Place(offset=41, time=None)})
    """
    try:
        parsed = json.loads("{}" if offset is None else offset)
        topic = parsed.pop("topic", None)
        places = {int(partition): Place(*place) for partition, place in parsed.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise SourceError(NOT_KAFKA) from error
    numbers = [*places, *(each for place in places.values() for each in place if each is not None)]
    if not (all(type(number) is int for number in numbers) and isinstance(topic, str | None)):
        raise SourceError(NOT_KAFKA)
    return topic, places


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

    servers: tuple[str, ...]
    topic: str
    settings: str | None = None
    chunk: int = 4096

    def look(self, offset: str | None) -> Generator[Pulled]:
        """See `Broker`."""
        topic, places = places_of(offset)
        check_same("topic", topic, self.topic, as_text({}))
        try:
            from tidegate.gate.sources.kafka_reader import reading  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise SourceError(not_installed(error.name, "kafka")) from error
        with reading(self, places) as reader:
            yield from reader.chunks()

    def __str__(self) -> str:
        return f"the Kafka broker at {', '.join(self.servers)}"

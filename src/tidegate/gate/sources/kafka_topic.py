"""A topic of Kafka as a source: a message is a slot."""

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from tidegate.gate.sources.broker import Broker, Pulled, check_same
from tidegate.gate.sources.source import SourceError


class Place(NamedTuple):
    """How far a partition has been read.

    Offsets start again in a topic that is made anew: only a message that has the time as well is
    the same.
    """

    offset: int  # of the last message that was taken
    time: int | None  # the message's timestamp, in milliseconds, if it is known


def as_text(places: Mapping[int, Place], topic: str | None = None) -> str:
    """The offset of a topic: its name, and the place of each of its partitions.

    >>> as_text({1: Place(7, 1767323045000), 0: Place(41, None)}, "records")
    '{"topic": "records", "0": [41, null], "1": [7, 1767323045000]}'
    """
    whose = {} if topic is None else {"topic": topic}
    return json.dumps(whose | {str(partition): places[partition] for partition in sorted(places)})


def places_of(offset: str | None) -> tuple[str | None, dict[int, Place]]:
    """The topic of an offset, None if it does not say, and the places of the partitions read.

    >>> places_of('{"topic": "records", "0": [41, null]}')
    ('records', {0: Place(offset=41, time=None)})
    """
    try:
        known = json.loads("{}" if offset is None else offset)
        topic = known.pop("topic", None)
        places = {int(partition): Place(*place) for partition, place in known.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise SourceError("the offset is not one of a Kafka topic") from error
    numbers = [*places, *(each for place in places.values() for each in place if each is not None)]
    if not (all(type(number) is int for number in numbers) and isinstance(topic, str | None)):
        raise SourceError("the offset is not one of a Kafka topic")
    return topic, places


@dataclass(frozen=True, kw_only=True)
class KafkaTopic(Broker):
    """The messages of a topic, in an order that offsets alone decide.

    Each message holds one record, a JSON object. Of a topic with several partitions they come in
    chunks of `chunk` offsets: the first of partition 0, the first of 1, ..., the second of 0, and
    so on, as far as there are any: where a record comes never depends on how long others are. The
    offset names the topic, and is kept by the Gate with the records: there is no consumer group,
    and nothing is committed to the broker. `Broker` says what the other arguments are.

    Args:
        servers: Some of the brokers.
        topic: The name of the topic.
        settings: A file of more settings for the client, such as credentials.
        chunk: How many offsets of a partition are taken in one go.
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
            missing = f"{error.name} is not installed: pip install 'tidegate[kafka]'"
            raise SourceError(missing) from error
        with reading(self, places) as reader:
            yield from reader.chunks()

    def __str__(self) -> str:
        return f"the Kafka broker at {', '.join(self.servers)}"

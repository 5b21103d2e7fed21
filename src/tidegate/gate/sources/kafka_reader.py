"""One look at a topic of Kafka, through a client that is gone afterwards."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidegate.gate.sources.broker import LostError, Pulled, batch_size
from tidegate.gate.sources.kafka_topic import KafkaTopic, Place, as_text
from tidegate.gate.sources.source import SourceError

TIMEOUT = 10.0
"""Seconds that a broker may take for one answer."""

STEP = 64
"""Messages that are taken from the client at a time."""

FINAL = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
}
"""Errors that do not pass by waiting."""


@contextmanager
def reading(source: KafkaTopic, places: dict[int, Place]) -> Iterator["Reader"]:
    """A reader of what a topic has after some places."""
    consumer = _client(source)
    try:
        yield Reader(source, places, consumer)
    except KafkaException as exception:
        raise _explained(source, exception.args[0]) from exception
    finally:
        consumer.close()


def _client(source: KafkaTopic) -> Consumer:
    """A client: all that the offset's promise rests on cannot be changed."""
    more = {} if source.settings is None else read_settings(source.settings)
    known: dict[str, str | int | float | bool | None] = {
        **more,
        "bootstrap.servers": ",".join(source.servers),
        "group.id": "tidegate",  # the client wants one; nothing is committed under it
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 10,  # nobody waits for news here
        "fetch.queue.backoff.ms": 5,
        "log_level": 0,  # errors are told by whoever waits
    }
    try:
        return Consumer(known)
    except (KafkaException, AttributeError) as exception:
        names = [name for name in more if name in re.findall(r"[\w.]+", str(exception))]
        which = " and ".join(names) or "some of the settings"
    # Neither the message nor its cause may be told: they quote values.
    raise SourceError(f"{source.settings} of [source]: the client does not take {which}")


def read_settings(file: str) -> dict[str, str]:
    """The lines `name=value` of a file; what another one holds may be a secret."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise SourceError(f"{file} of [source] cannot be read") from None
    found: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or re.fullmatch(r"[a-z0-9]+(\.[a-z0-9]+)+", name) is None:
            told = "is not a setting such as sasl.username=ward"
            raise SourceError(f"line {number} of {file} of [source] {told}")
        found[name] = value
    return found


def _explained(source: KafkaTopic, error: KafkaError) -> Exception:
    told = KafkaError(error.code()).str()  # the error's own words may quote a setting
    if error.code() in FINAL:
        return SourceError(f"{source} refuses topic {source.topic}: {told}")
    return ConnectionError(told)


class Reader:
    """Reads what the partitions of a topic have after the last messages that were taken of each."""

    def __init__(self, source: KafkaTopic, places: dict[int, Place], consumer: Consumer) -> None:
        self._source, self._places, self._consumer = source, dict(places), consumer
        self._assigned: int | None = None
        self._next: dict[int, int] = {}  # the offset to read next, of each partition
        self._end: dict[int, int] = {}  # where each ended when it was looked at

    def chunks(self) -> Iterator[Pulled]:
        """All messages that are there, in the order of their chunks."""
        for partition in self._partitions():
            self._check(partition)
        size, most = self._source.chunk, batch_size(self._source.columns)
        while left := [each for each, at in self._next.items() if at < self._end[each]]:
            partition = min(left, key=lambda each: (self._next[each] // size, each))
            stop = min((self._next[partition] // size + 1) * size, self._end[partition])
            bodies: list[bytes] = []
            while self._next[partition] < stop and len(bodies) < most:
                for message in self._some(partition, stop, most - len(bodies)):
                    bodies.append(message.value() or b"")
                    self._places[partition] = _place(message)
            if bodies:
                yield Pulled(bodies, as_text(self._places, self._source.topic))

    def _partitions(self) -> list[int]:
        topic = self._consumer.list_topics(self._source.topic, timeout=TIMEOUT).topics
        known = topic[self._source.topic]
        if known.error is not None:
            raise KafkaException(known.error)
        if missing := sorted(self._places.keys() - known.partitions.keys()):
            places = {each: self._places[each] for each in self._places if each not in missing}
            raise self._lost(f"has no partition {missing[0]} any more", places)
        return sorted(known.partitions)

    def _check(self, partition: int) -> None:
        """Refuse a partition that has lost what comes next."""
        which = TopicPartition(self._source.topic, partition)
        first, end = self._consumer.get_watermark_offsets(which, timeout=TIMEOUT)
        self._end[partition] = end
        # Nothing is promised of what was trimmed before the first look, but of all after it.
        place = self._places.setdefault(partition, Place(first - 1, None))
        taken = place.offset
        self._next[partition] = taken + 1
        if end <= taken:
            told = f"ends before message {end}, but {taken} was taken: it was made anew, or cut off"
            raise self._lost_in(partition, told, end - 1)
        if first > taken + 1:
            told = f"has lost messages {taken + 1} to {first - 1} before they were taken"
            raise self._lost_in(partition, told, first - 1)
        if first <= taken and place.time is not None:
            self._next[partition] = taken
            if [_place(each) for each in self._some(partition, taken + 1)] != [place]:
                told = f"has another message {taken} than the one that was taken, or none"
                raise self._lost_in(partition, told, taken)

    def _some(self, partition: int, stop: int, most: int = STEP) -> list[Message]:
        """The next messages of a partition before an offset, which not all offsets have."""
        at = self._next[partition]
        if self._assigned != partition:
            self._consumer.assign([TopicPartition(self._source.topic, partition, at)])
            self._assigned = partition
        arrived = self._consumer.consume(1, timeout=TIMEOUT)
        if not arrived:
            raise TimeoutError("nothing came")
        wanted = min(stop - at, most, STEP)
        if wanted > 1:  # what is there already: offsets of no message would be waited for
            arrived += self._consumer.consume(wanted - 1, timeout=0)
        found: list[Message] = []
        for message in arrived:
            error, offset = message.error(), message.offset() or 0
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if error is not None and offset < stop:  # of a copy that lags: nothing may be skipped
                raise ConnectionError("the partition ends before what it said it holds")
            if offset >= stop:  # what is beyond is read again in its turn
                self._assigned, self._next[partition] = None, stop
                return found
            if message.partition() != partition or offset < self._next[partition]:
                raise ConnectionError("a message came that was not asked for")  # not twice
            found.append(message)
            self._next[partition] = offset + 1
        return found

    def _lost_in(self, partition: int, told: str, last: int) -> LostError:
        places = {**self._places, partition: Place(last, None)}
        return self._lost(f"partition {partition} {told}", places)

    def _lost(self, told: str, places: dict[int, Place]) -> LostError:
        where = f"topic {self._source.topic} of {self._source}"
        return LostError(f"{where}: {told}", as_text(places))


def _place(message: Message) -> Place:
    return Place(message.offset() or 0, message.timestamp()[1])

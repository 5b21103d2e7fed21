"""Reads the available messages of a Kafka topic, with a client that is closed afterwards."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tidegate.sources.broker import LostError, Pulled, batch_size, id_of
from tidegate.sources.kafka_topic import KafkaTopic, PartitionOffset, as_text
from tidegate.sources.source import SourceError

TIMEOUT = 10.0
"""Seconds to wait for one response of a broker."""

STEP = 64
"""Messages taken from the client at a time."""

FINAL_ERRORS = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
}
"""Permanent errors: waiting does not help."""


@contextmanager
def reading(source: KafkaTopic, places: dict[int, PartitionOffset]) -> Iterator["Reader"]:
    """A reader of the messages after some places."""
    consumer = _client(source)
    try:
        yield Reader(source, places, consumer)
    except KafkaException as exception:
        raise _explained(source, exception.args[0]) from exception
    finally:
        consumer.close()


def _client(source: KafkaTopic) -> Consumer:
    """A client; the user's settings cannot override those that exactly-once reading needs."""
    more = read_settings(source.settings) if source.settings else {}
    settings: dict[str, str | int | float | bool | None] = {
        **more,
        "bootstrap.servers": ",".join(source.servers),
        "group.id": "tidegate",  # the client requires one; nothing is committed under it
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "allow.auto.create.topics": False,
        "fetch.wait.max.ms": 10,  # the Broker class waits for new messages
        "fetch.queue.backoff.ms": 5,
        "log_level": 0,  # the Patience class logs errors
    }
    try:
        return Consumer(settings)
    except (KafkaException, AttributeError) as exception:
        names = [name for name in more if name in re.findall(r"[\w.]+", str(exception))]
        which = " and ".join(names) or "some of the settings"
    # Raised outside of the handler: the message and its cause quote values, which may be secret.
    wrong = f"the Kafka client refuses {which} in {source.settings}"
    raise SourceError(f"{wrong}: correct the file, see the configuration page of librdkafka")


def read_settings(file: str) -> dict[str, str]:
    """Read the lines `name=value` of a file. No error quotes a line: it may hold a secret."""
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        wrong = f"{file}, named by source.settings, cannot be read"
        raise SourceError(f"{wrong}: check its path, permissions and encoding") from None
    settings: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), start=1):
        if not line or line.startswith("#"):
            continue
        name, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not re.fullmatch(r"[a-z0-9]+(\.[a-z0-9]+)+", name):
            allowed = "must be a setting such as sasl.username=ward"
            raise SourceError(f"line {number} of {file}, named by source.settings, {allowed}")
        settings[name] = value
    return settings


def _explained(source: KafkaTopic, error: KafkaError) -> Exception:
    reason = KafkaError(error.code()).str()  # the error's own message may quote a setting
    if error.code() in FINAL_ERRORS:
        wrong = f"{source} refuses topic {source.topic}: {reason}"
        return SourceError(f"{wrong}; check source.topic and source.settings")
    return ConnectionError(reason)


class Reader:
    """Reads the messages of each partition after the last one that was taken."""

    def __init__(
        self, source: KafkaTopic, places: dict[int, PartitionOffset], consumer: Consumer
    ) -> None:
        self._source, self._places, self._consumer = source, dict(places), consumer
        self._assigned: int | None = None
        self._next: dict[int, int] = {}  # the next offset of each partition
        self._end: dict[int, int] = {}  # the end of each partition when it was checked

    def chunks(self) -> Iterator[Pulled]:
        """All available messages, in the order of their chunks."""
        for partition in self._partitions():
            self._check(partition)
        size, most = self._source.chunk, batch_size(self._source.columns)
        while left := [each for each, at in self._next.items() if at < self._end[each]]:
            partition = min(left, key=lambda each: (self._next[each] // size, each))
            stop = min((self._next[partition] // size + 1) * size, self._end[partition])
            bodies, ids = list[bytes](), list[Any]()
            while self._next[partition] < stop and len(bodies) < most:
                for message in self._some(partition, stop, most - len(bodies)):
                    bodies.append(message.value() or b"")
                    if name := self._source.id_header:
                        ids.append(_id(message, name))
                    self._places[partition] = _place(message)
            if bodies:
                offset = as_text(self._places, self._source.topic)
                yield Pulled(bodies, offset, ids or None)

    def _partitions(self) -> list[int]:
        topics = self._consumer.list_topics(self._source.topic, timeout=TIMEOUT).topics
        topic = topics[self._source.topic]
        if topic.error is not None:
            raise KafkaException(topic.error)
        if missing := sorted(self._places.keys() - topic.partitions.keys()):
            places = {each: self._places[each] for each in self._places if each not in missing}
            raise self._lost(f"has no partition {missing[0]} any more", places)
        return sorted(topic.partitions)

    def _check(self, partition: int) -> None:
        """Refuse a partition that has lost its next messages."""
        which = TopicPartition(self._source.topic, partition)
        first, end = self._consumer.get_watermark_offsets(which, timeout=TIMEOUT)
        self._end[partition] = end
        # Messages deleted before the first look are not missed; all later ones are.
        place = self._places.setdefault(partition, PartitionOffset(first - 1, None))
        taken = place.offset
        self._next[partition] = taken + 1
        if end <= taken:
            what = f"ends before message {end}, but {taken} was taken: it was recreated or cut off"
            raise self._lost_in(partition, what, end - 1)
        if first > taken + 1:
            what = f"has lost messages {taken + 1} to {first - 1} before they were taken"
            raise self._lost_in(partition, what, first - 1)
        if first <= taken and place.time is not None:
            self._next[partition] = taken
            if [_place(each) for each in self._some(partition, taken + 1)] != [place]:
                what = f"has another message {taken} than the one that was taken, or none"
                raise self._lost_in(partition, what, taken)

    def _some(self, partition: int, stop: int, most: int = STEP) -> list[Message]:
        """The next messages of a partition before `stop`; some offsets have no message."""
        at = self._next[partition]
        if self._assigned != partition:
            self._consumer.assign([TopicPartition(self._source.topic, partition, at)])
            self._assigned = partition
        arrived = self._consumer.consume(1, timeout=TIMEOUT)
        if not arrived:
            raise TimeoutError("no message arrived")
        wanted = min(stop - at, most, STEP)
        if wanted > 1:  # only those already there: an offset may have no message
            arrived += self._consumer.consume(wanted - 1, timeout=0)
        messages: list[Message] = []
        for message in arrived:
            error, offset = message.error(), message.offset() or 0
            if error is not None and error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            if error is not None and offset < stop:  # a lagging replica: nothing may be skipped
                raise ConnectionError("the partition ends before its reported end")
            if offset >= stop:  # later messages are read again in their turn
                self._assigned, self._next[partition] = None, stop
                return messages
            if message.partition() != partition or offset < self._next[partition]:
                raise ConnectionError("an unexpected message arrived")  # never take one twice
            messages.append(message)
            self._next[partition] = offset + 1
        return messages

    def _lost_in(self, partition: int, what: str, last: int) -> LostError:
        places = {**self._places, partition: PartitionOffset(last, None)}
        return self._lost(f"partition {partition} {what}", places)

    def _lost(self, what: str, places: dict[int, PartitionOffset]) -> LostError:
        where = f"topic {self._source.topic} of {self._source}"
        return LostError(f"{where}: {what}", as_text(places))


def _id(message: Message, name: str) -> Any:
    """The id in a header of a message: in the last one, if it has several of this name."""
    headers: Any = message.headers() or ()
    given = [value for header, value in headers if header == name]
    return id_of(given[-1]) if given else None


def _place(message: Message) -> PartitionOffset:
    return PartitionOffset(message.offset() or 0, message.timestamp()[1])

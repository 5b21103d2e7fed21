"""Messages of brokers through a Gate, against the client libraries alone, in the same run."""

import asyncio
import json
import shutil
import socket
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nats
import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from nats.js.api import AckPolicy, ConsumerConfig

from tidegate import Config, Gate
from tidegate_lab.bench.table import Run, medians, number, show

N, WIDTH, ROUNDS = 50_000, 8, 3
PULL = 500  # at which the client of NATS is fastest
COLUMNS = [f"x{index}" for index in range(WIDTH)]
TOPIC, PARTITIONS = "records", 4  # each of which that broker lets have 5 megabytes


def bodies() -> list[bytes]:
    rows = np.random.default_rng(0).standard_normal((N, WIDTH)).astype(np.float32).tolist()
    pairs = [zip(COLUMNS, row, strict=True) for row in rows]
    return [json.dumps({**dict(row), "y": index % 2}).encode() for index, row in enumerate(pairs)]


def through_a_gate(folder: Path, source: dict[str, Any]) -> Run:
    """Take all records in; no step is ever complete, so that nothing is learnt."""
    config = Config.of(
        {
            "schedule": {"kind": "independent", "step": 2 * N},
            "budget": {"epsilon": 1.0},
            "records": {"classes": [0, 1], "norm": 4.0, "columns": COLUMNS, "label": "y"},
            "source": source,
        }
    )
    rounds = count()

    def run() -> None:
        with Gate.open(folder / f"{source['type']}{next(rounds)}", config) as gate:
            (known,) = config.sources().values()
            for raw in known.batches(None):
                gate.take(raw, source=known.name)
            assert gate.store.count("records") == N

    return run


@contextmanager
def nats_server(folder: Path) -> Iterator[str]:
    beside = f"{sysconfig.get_path('scripts')}/nats-server"  # where pip puts it
    program = shutil.which(beside) or shutil.which("nats-server") or "/usr/sbin/nats-server"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [program, "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", str(folder)]
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    time.sleep(1)
    try:
        yield f"nats://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def fill_nats(url: str, sent: list[bytes]) -> None:
    async with await nats.connect(url) as client:
        stream = client.jetstream()
        await stream.add_stream(name=TOPIC, subjects=[TOPIC])
        for start in range(0, N, 1000):
            for body in sent[start : start + 1000]:
                await stream.publish_async(TOPIC, body)
            await stream.publish_async_completed()


async def _nats_alone(url: str, use: Callable[[bytes], object]) -> None:
    async with await nats.connect(url) as client:
        config = ConsumerConfig(ack_policy=AckPolicy.NONE)
        pulling = await client.jetstream().pull_subscribe(TOPIC, stream=TOPIC, config=config)
        left = N
        while left:
            messages = await pulling.fetch(min(PULL, left))
            left -= len([use(each.data) for each in messages])


def nats_alone(url: str, use: Callable[[bytes], object]) -> None:
    asyncio.run(_nats_alone(url, use))


def kafka_alone(server: str, use: Callable[[bytes], object]) -> None:
    settings: dict[str, Any] = {"bootstrap.servers": server, "group.id": "bench"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    left = N
    while left:
        messages = consumer.consume(min(1024, left), timeout=10)
        left -= len([use(each.value() or b"") for each in messages])
    consumer.close()


def fill_kafka(sent: list[bytes]) -> tuple[Producer, str]:
    """The broker inside librdkafka, which ends with its producer."""
    producer = Producer({"bootstrap.servers": "unused", "test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    for index, body in enumerate(sent):
        producer.produce(TOPIC, body, partition=index % PARTITIONS)
        producer.poll(0)
    producer.flush(60)
    return producer, f"{broker.host}:{broker.port}"


def main() -> None:
    sent = bodies()
    with TemporaryDirectory() as name, nats_server(Path(name) / "nats") as url:
        folder = Path(name)
        (folder / "records.jsonl").write_bytes(b"\n".join([*sent, b""]))
        asyncio.run(fill_nats(url, sent))
        producer, server = fill_kafka(sent)
        gates: list[dict[str, Any]] = [
            {"type": "nats", "url": url, "stream": TOPIC},
            {"type": "kafka", "servers": server, "topic": TOPIC},
            {"type": "jsonl", "path": str(folder / "records.jsonl")},
        ]
        runs: dict[str, Run] = {each["type"]: through_a_gate(folder, each) for each in gates}
        for how, use in (" alone", len), (" and json", json.loads):
            runs["nats" + how] = partial(nats_alone, url, use)
            runs["kafka" + how] = partial(kafka_alone, server, use)
        times = medians(runs, ROUNDS)
        del producer
    rows = []
    for kind in ("nats", "kafka", "jsonl"):
        others = [times.get(kind + how) for how in (" alone", " and json")]
        against = ["-" if each is None else rate(each) for each in others]
        ratio = "-" if others[1] is None else f"{number(times[kind] / others[1])} x its time"
        rows.append([kind, rate(times[kind]), *against, ratio])
    names = ("source", "through the Gate", "client alone", "client, json.loads", "against that")
    show(f"{N:,} messages of {WIDTH} numbers, made durable", rows, names)


def rate(seconds: float) -> str:
    return f"{N / seconds:,.0f} a second"

"""The service beside the Gate it serves: records a second, and predictions while a fit runs."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import orjson

from tidegate import Client, Config, Gate
from tidegate.serve.access_tokens import Tokens
from tidegate.serve.limits import Limits
from tidegate.serve.server import listen, run, running_gate, server
from tidegate.serve.training_process import TrainingProcessGate
from tidegate.sources import raw_batch
from tidegate_lab.bench.table import ms, number, show, yes

BATCH, BATCHES, WIDTH = 1000, 60, 32
ROUNDS = 5
SENDERS = 4
STEP, CLASSES, STEPS = 50_000, 10, 3
PREDICTIONS, RECORDS = 1000, 10

STRAIGHT = "straight to the Gate"

Batch = tuple[Any, Any]
Send = Callable[[Batch], object]


class Where(NamedTuple):
    """A service in a process of its own."""

    port: int
    token: str

    def client(self) -> Client:
        return Client(f"http://127.0.0.1:{self.port}", self.token)


def config(step: int, classes: int) -> Config:
    return Config.of(
        {
            "schedule": {"kind": "independent", "step": step},
            "budget": {"epsilon": 1.0, "delta": 1e-6},
            "records": {"classes": list(range(classes)), "norm": 4.0},
        }
    )


def made(n: int, size: int, classes: int = 2) -> list[Batch]:
    rng = np.random.default_rng(0)
    return [
        (rng.standard_normal((size, WIDTH), np.float32), rng.integers(classes, size=size))
        for _ in range(n)
    ]


def serve(folder: Path, known: Config, pipe: Connection) -> None:
    limits = Limits(rate=1e6, burst=10**6)
    with (
        listen("127.0.0.1", 0) as listening,
        running_gate(TrainingProcessGate.open(folder, known), limits) as runner,
    ):
        token = Tokens(folder).create("bench", ["ingest", "read"])
        pipe.send(Where(listening.getsockname()[1], token))
        run(server(runner, folder, limits), listening)


@contextmanager
def served(folder: Path, known: Config) -> Iterator[Where]:
    spawned = multiprocessing.get_context("spawn")
    ours, theirs = spawned.Pipe()
    process = spawned.Process(target=serve, args=(folder, known, theirs))
    process.start()
    try:
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


def rate(batches: list[Batch], *sends: Send) -> float:
    """Records a second, from as many senders as there are."""
    start = time.perf_counter()
    with ThreadPoolExecutor(len(sends)) as pool:
        parts = [batches[index :: len(sends)] for index in range(len(sends))]
        list(pool.map(lambda send, part: [send(each) for each in part], sends, parts))
    return BATCH * len(batches) / (time.perf_counter() - start)


def as_json(where: Where) -> Send:
    connection = HTTPConnection("127.0.0.1", where.port)
    head = {"Authorization": f"Bearer {where.token}", "Content-Type": "application/json"}

    def send(batch: Batch) -> None:
        X, y = batch
        body = orjson.dumps({"x": X, "y": y}, option=orjson.OPT_SERIALIZE_NUMPY)
        connection.request("POST", "/v1/records", body, head)
        answer = connection.getresponse()
        told = answer.read()
        assert answer.status == 200, told

    return send


def ingest() -> dict[str, float]:
    """Records a second, each way into a state of its own, in turns, all without training."""
    batches, known = made(BATCHES, BATCH), config(10**9, 2)
    with (
        TemporaryDirectory() as folder,
        Gate.open(Path(folder) / "straight", known) as gate,
        served(Path(folder) / "served", known) as where,
    ):
        clients = [where.client() for _ in range(SENDERS)]
        ways: dict[str, list[Send]] = {
            STRAIGHT: [lambda each: gate.take(raw_batch(*each))],
            "Arrow, 1 sender": [_into(clients[0])],
            f"Arrow, {SENDERS} senders": list(map(_into, clients)),
            "JSON, 1 sender": [as_json(where)],
        }
        found: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, sends in ways.items():
                found[name].append(rate(batches, *sends))
    return {name: median(speeds) for name, speeds in found.items()}


def _into(client: Client) -> Send:
    return lambda each: client.ingest(*each)


def predictions(client: Client, going: Callable[[], bool]) -> list[float]:
    """Seconds for each prediction, as long as it is going on."""
    X, taken = made(1, RECORDS)[0][0], list[float]()
    while len(taken) < PREDICTIONS and (len(taken) % 50 or going()):
        start = time.perf_counter()
        client.predict(X)
        taken.append(time.perf_counter() - start)
        time.sleep(0.002)
    return taken


def predict() -> tuple[list[float], list[float]]:
    """Seconds for predictions while nothing else happens, and while fits run."""
    known = config(STEP, CLASSES)
    with TemporaryDirectory() as folder, served(Path(folder) / "state", known) as where:
        client, watcher = where.client(), where.client()
        (first,) = made(1, STEP, CLASSES)
        client.ingest(*first)
        next(client.follow())
        while watcher.status()["training"]:
            time.sleep(0.1)
        predictions(client, lambda: True)  # warm
        idle = predictions(client, lambda: True)
        for _ in range(STEPS):
            client.ingest(*first)
        busy = predictions(client, lambda: bool(watcher.status()["training"]))
    return idle, busy


def main() -> None:
    found = ingest()
    straight = found.pop(STRAIGHT)
    rows = [
        [name, f"{speed:,.0f}/s", f"{straight:,.0f}/s", f"{number(speed / straight)} x", *met]
        for name, speed in found.items()
        for met in ([">= 0.5", yes(speed >= straight / 2)],)
    ]
    columns = ("over HTTP", "records", "straight to the Gate", "ratio", "bar", "met")
    show(f"Records in batches of {BATCH:,} x {WIDTH}, each batch durable", rows, columns)
    idle, busy = predict()
    quantiles = {"median": 0.5, "p99": 0.99}
    rows = []
    for name, part in quantiles.items():
        quiet, loud = float(np.quantile(idle, part)), float(np.quantile(busy, part))
        bar = ["<= 2", yes(loud <= 2 * quiet)] if name == "p99" else ["", ""]
        rows.append([name, ms(loud), ms(quiet), f"{number(loud / quiet)} x", *bar])
    title = f"Predictions of {RECORDS} records: {len(busy):,} during fits, {len(idle):,} idle"
    show(title, rows, ("prediction", "during a fit", "idle", "ratio", "bar", "met"))

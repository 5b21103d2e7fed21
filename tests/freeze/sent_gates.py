"""Gates that are sent numbers: every schedule, learner and loss; persons and two streams."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.freeze import records
from tests.freeze.gates import PURE, Batch, Tables, gate, person, tables
from tests.freeze.made import Configuration
from tests.state.postgres_server import server

SLIDING = {"kind": "sliding", "window": 150, "step": 50}
FADING = {
    "kind": "fading",
    "step": 60,
    "forget": "1/2",
    "memory": 3,
    "first": 1,
    "linger": "1/4",
}
CONTINUAL = {"kind": "continual", "block": 80, "step": 40}
GROWING = {"kind": "growing", "block": 80, "step": 40, "growth": "1/4"}
CUMULATIVE = {"kind": "cumulative", "block": 90}
TWO = {"kind": "twostream", "step": 60, "source": CUMULATIVE}
TAPERED = {"name": "tapered", "rate": "1/3"}
SQUARED = {"kind": "gradient", "loss": "squared", "regularization": 0.0}
ASKED = {"growing", "fading accuracy", "continual softmax", "target squared", "persons target"}
"""Those of which it is also frozen what commands say."""

NOT_SURVEYED: Tables = {"survey": {"share": "0"}}
NOT_SCORED: Tables = {"quality": {"share": "0", "scores": True}}
TARGET = {"target": [0.0, 8.0], "norm": 1.5, "dtype": "float64", "spelling": 2}
FLOAT32 = {"records": {"classes": [0, 1], "norm": 1.5, "dtype": "float32", "spelling": 2}}
THREE = {"classes": ["low", "mid", "high"], "norm": 1.5, "dtype": "float32", "spelling": 2}


def learner(kind: str, loss: str, regularization: float = 0.0, **more: Any) -> Tables:
    """The table of a learner."""
    return {"learner": {"kind": kind, "loss": loss, "regularization": regularization, **more}}


def output(loss: str) -> Tables:
    """The learner that adds noise to the minimiser."""
    return learner("output", loss, 0.1, slack=2.0**-10)


def cut(X: Any, y: Any, persons: Any = None, at: Sequence[int] = (70, 200)) -> list[Batch]:
    """Records in batches that end anywhere."""
    ends = [0, *at, len(y)]
    return [
        (X[i:j], y[i:j], None if persons is None else persons[i:j], None) for i, j in pairwise(ends)
    ]


def plain(n: int = 290) -> list[Batch]:
    return cut(*records.with_gaps(n))


def named(n: int = 250) -> list[Batch]:
    return cut(*records.three(n))


def valued(n: int = 250) -> list[Batch]:
    return cut(*records.targets(n))


def owned(n: int = 310) -> list[Batch]:
    return cut(*records.with_gaps(n), records.people(n))


def in_turns(
    make: Callable[..., tuple[Any, Any]] = records.with_gaps, *, protected: bool = False
) -> list[Batch]:
    """Batches of two streams, in turns."""
    persons = records.people(140) if protected else None
    found: list[Batch] = []
    for seed, (n, name) in enumerate([(100, "source"), (70, "target"), (90, "source")] * 2):
        X, y = make(n, seed=seed)
        found.append((X, y, None if persons is None else persons[:n], name))
    return found


def questions(d: int = 3) -> Any:
    return records.numbers(20, d, seed=9)[0]


def sparse() -> list[Batch]:
    return cut(*records.sparse(260))


def scheduled() -> list[Configuration]:
    """Every schedule, learner and loss."""
    kept = {"schedule": SLIDING}
    more: list[tuple[str, Tables, Callable[[], list[Batch]]]] = [
        ("sliding refitted", {"schedule": {**SLIDING, "refit": True}}, plain),
        ("sliding pure", {**PURE, **kept}, plain),
        (
            "sliding pure scored",
            {**PURE, **kept, "quality": {"share": "1/10", "scores": True}},
            plain,
        ),
        (
            "sliding sampled",
            {**PURE, **output("huber"), "schedule": {**SLIDING, "sample": 40}},
            plain,
        ),
        ("sliding tapered", {**kept, "allocation": {"name": "tapered", "rate": "1/3"}}, plain),
        ("sliding on disk", {**kept, "compute": {"engine": "disk"}}, plain),
        (
            "continual softmax",
            {
                "schedule": CONTINUAL,
                "records": THREE,
                **learner("gradient", "softmax"),
                **NOT_SURVEYED,
            },
            named,
        ),
        ("continual sampled", {"schedule": {**CONTINUAL, "sample": 50}, **PURE}, plain),
        ("continual output", {"schedule": CONTINUAL, **output("logistic")}, plain),
        ("basic", {"schedule": {"kind": "basic", "block": 80, "step": 40}, **NOT_SCORED}, plain),
        (
            "multiresolution huber",
            {
                "schedule": {"kind": "multiresolution", "block": 40},
                **learner("gradient", "huber", 0.01),
            },
            plain,
        ),
        (
            "multiresolution pure softmax",
            {
                "schedule": {"kind": "multiresolution", "block": 40, "sample": 30},
                "records": THREE,
                **PURE,
                **output("softmax"),
            },
            named,
        ),
        (
            "independent by hand",
            {
                "schedule": {"kind": "independent", "step": 70},
                **learner("gradient", "logistic", 0.0, steps=5, rate=0.5, clip=0.75, spread=0.25),
            },
            plain,
        ),
        ("growing", {"schedule": GROWING}, plain),
        ("fading", {"schedule": FADING}, plain),
        (
            "fading accuracy",
            {"schedule": FADING, "quality": {"share": "1/20", "scores": False}},
            plain,
        ),
        (
            "fading with lead",
            {
                "schedule": {**FADING, "first": 2},
                "records": THREE,
                **learner("gradient", "softmax", 0.0, lead=0.4),
            },
            named,
        ),
        ("fading pure", {"schedule": {**FADING, "memory": 1}, **PURE}, plain),
    ]
    return [
        gate("sliding", tables(kept), plain, questions, asked=True),
        *(
            gate(name, tables(given), batches, questions, asked=name in ASKED)
            for name, given, batches in more
        ),
        gate("sparse", tables(kept, NOT_SCORED), sparse, lambda: questions(8)),
        gate("sparse float32", tables(kept, FLOAT32), sparse, lambda: questions(8)),
        gate(
            "sparse pure",
            tables({"schedule": CONTINUAL}, PURE),
            sparse,
            lambda: questions(8),
            sampled=True,
        ),
    ]


def predicting() -> list[Configuration]:
    """Targets, two streams and persons."""
    target: Tables = {"records": TARGET, **learner("gradient", "squared")}
    rows: list[tuple[str, Tables, Callable[[], list[Batch]]]] = [
        ("target squared", {"schedule": SLIDING, **target}, valued),
        ("target huber", {"schedule": GROWING, **target, **learner("gradient", "huber")}, valued),
        ("target pure", {"schedule": CONTINUAL, **PURE, **target, **output("huber")}, valued),
        (
            "target output",
            {"schedule": SLIDING, **target, **output("huber"), **NOT_SURVEYED},
            valued,
        ),
        ("two streams pure", {"schedule": {**TWO, "source": SLIDING}, **PURE}, in_turns),
        ("two streams target", {"schedule": TWO, **target}, lambda: in_turns(records.targets)),
        ("persons for a period", {"schedule": FADING, **person(2, 4)}, owned),
        (
            "persons sliding",
            {"schedule": SLIDING, **person(3), **NOT_SURVEYED, **NOT_SCORED},
            owned,
        ),
        ("persons growing", {"schedule": GROWING, **person(2)}, owned),
        ("persons refitted", {"schedule": {**SLIDING, "refit": True}, **person(2)}, owned),
        (
            "persons target",
            {"schedule": FADING, **target, **person(2)},
            lambda: cut(*records.targets(250), records.people(250)),
        ),
        (
            "persons with many records",
            {"schedule": SLIDING, **person(4, typical="5/2"), "allocation": TAPERED},
            owned,
        ),
        ("persons pure", {"schedule": SLIDING, **PURE, **person(2)}, owned),
        ("persons two streams", {"schedule": TWO, **person(2)}, lambda: in_turns(protected=True)),
    ]
    return [
        gate(
            "two streams", tables({"schedule": TWO}), in_turns, questions, sampled=True, asked=True
        ),
        gate(
            "persons",
            tables({"schedule": FADING}, person(2)),
            owned,
            questions,
            sampled=True,
            asked=True,
        ),
        *(
            gate(name, tables(given), batches, questions, asked=name in ASKED)
            for name, given, batches in rows
        ),
    ]


def on_server(folder: Path) -> Tables:  # noqa: ARG001 (the server has a folder of its own)
    return {"store": {"database": server().url}}


def on_postgres() -> list[Configuration]:
    """Some of the same on a server."""
    rows: list[tuple[str, Tables, Callable[[], list[Batch]]]] = [
        ("sliding", {"schedule": SLIDING}, plain),
        ("target squared", {"schedule": SLIDING, "records": TARGET, "learner": SQUARED}, valued),
        ("two streams", {"schedule": TWO}, in_turns),
        ("persons", {"schedule": FADING, **person(2)}, owned),
    ]
    return [
        gate(
            f"{name} on postgres", tables(given), batches, questions, files=on_server, postgres=True
        )
        for name, given, batches in rows
    ]


CONFIGURATIONS = [*scheduled(), *predicting(), *on_postgres()]

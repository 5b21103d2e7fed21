"""Configurations that go through a Gate. Every key is spelled out: a default may change."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.cli.run import tidegate
from tests.freeze.made import PERSON_KEY, SEED, TIME, Configuration, Made
from tests.freeze.parts import readable
from tidegate import Config, Gate, TwoStreamPlan

Tables = Mapping[str, Any]
Batch = tuple[Any, Any, Any, str | None]
"""Records, labels, persons and the stream of a batch."""

SPELLED: Tables = {
    "budget": {"epsilon": 64.0, "delta": 1e-6},
    "allocation": {"name": "paper"},
    "records": {"classes": [0, 1], "norm": 1.5, "dtype": "float64", "spelling": 2},
    "learner": {"kind": "gradient", "loss": "logistic", "regularization": 0.0},
    "survey": {"share": "1/20"},
    "quality": {"share": "1/20", "scores": True},
    "compute": {"engine": "memory"},
    "not_private_seed": SEED,
}
"""What all of them have in common, unless they say otherwise."""

PURE: Tables = {
    "budget": {"epsilon": 64.0},
    "learner": {"kind": "output", "loss": "logistic", "regularization": 0.1, "slack": 2.0**-10},
    "survey": {"share": "0"},
    "quality": {"share": "0", "scores": True},
}
"""A pure budget, without surveys and scores."""

LINGER = "1/4"


def tables(*given: Tables) -> dict[str, Any]:
    """The tables of a configuration: what is common, and on top of it what is given."""
    merged: dict[str, Any] = {}
    for each in (SPELLED, *given):
        merged |= each
    return merged


def person(contributions: int, period: int | None = None, typical: str = "1") -> Tables:
    """The table that protects persons."""
    limits: dict[str, Any] = {"contributions": contributions, "typical": typical}
    limits |= {} if period is None else {"period": period}
    return {"person": {"id": "who", "key": PERSON_KEY, **limits}}


def gate(
    name: str,
    settings: Tables,
    batches: Callable[[], Sequence[Batch]],
    questions: Callable[[], Any],
    *,
    files: Callable[[Path], Tables] | None = None,
    asked: bool = False,
    **more: Any,
) -> Configuration:
    """A configuration that is sent its records; if `asked`, what commands say is frozen too."""
    return Configuration(
        name=f"gate {name}",
        make=partial(_sent, (settings, batches, questions), files, asked),
        spelled=partial(_left_out_with, settings, files, **more),
        **more,
    )


def _sent(
    given: tuple[Tables, Callable[[], Sequence[Batch]], Callable[[], Any]],
    files: Callable[[Path], Tables] | None,
    asked: bool,
    folder: Path,
) -> Made:
    settings, batches, questions = given
    config = Config.of({**settings, **({} if files is None else files(folder))})
    with Gate.open(folder / "state", config, clock=lambda: TIME) as opened:
        send(opened, batches())
        made = made_by(opened, questions())
    return replace(made, more=answers(folder / "state")) if asked else made


def send(opened: Gate, batches: Sequence[Batch], first: int = 0) -> None:
    """Send batches, each by a name of its own."""
    for number, (X, y, persons, stream) in enumerate(batches, first):
        opened.ingest(X, y, persons=persons, stream=stream, key=str(number))


COMMANDS = (
    ("status",),
    ("ledger",),
    ("ledger", "--record", "110"),
    ("releases",),
    ("survey",),
    ("weights",),
    ("verify",),
)


def answers(state: Path) -> dict[str, str]:
    """What commands say about a state, as JSON, and their exit codes."""
    said = {}
    for command, *words in COMMANDS:
        done = tidegate(command, str(state), *words, "--format", "json")
        ended = f"exit code {done.returncode}\n"
        said[" ".join(["tidegate", command, *words])] = f"{readable(done.stdout)}{ended}"
    return said


def made_by(opened: Gate, questions: Any) -> Made:
    """What a Gate has made so far."""
    counts = {name: opened.store.count(name) for name in opened.streams}
    plan = opened.config.plan()
    until = counts["source" if isinstance(plan, TwoStreamPlan) else "records"]
    ledgers = opened.ledgers()
    return Made(
        releases=list(opened.releases()),
        ledgers=ledgers,
        counts=counts,
        plan=plan,
        until=until,
        questions=questions,
    )


def table(
    name: str,
    settings: Tables,
    rows: Callable[[], list[dict[str, Any]]],
    *,
    kind: str = "csv",
    numbers: Sequence[str] = (),
    **more: Any,
) -> Configuration:
    """A configuration that reads its records from a file; `numbers` are plain columns."""
    source = {"type": kind, "path": f"records.{kind}", "follow": False}
    spelled = {**settings, "source": {**source, **({"delimiter": ","} if kind == "csv" else {})}}
    return Configuration(
        name=f"gate {name}",
        make=partial(_read, spelled, rows, kind, numbers),
        spelled=partial(left_out, spelled),
        **more,
    )


def _read(
    settings: Tables,
    rows: Callable[[], list[dict[str, Any]]],
    kind: str,
    numbers: Sequence[str],
    folder: Path,
) -> Made:
    records = rows()
    path = folder / f"records.{kind}"
    with path.open("w", encoding="utf-8", newline="") as file:
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(records), path)
        elif kind == "jsonl":
            file.writelines(json.dumps(each) + "\n" for each in records)
        else:
            writer = csv.DictWriter(file, list(records[0]))
            writer.writeheader()
            writer.writerows(records)
    with chdir(folder):
        config = Config.of(settings)
        with Gate.open("state", config, clock=lambda: TIME) as opened:
            for _ in opened.run():
                pass
            asked: list[Any] = records[21:37]  # all of them can be predicted
            if numbers:
                asked = [[float(each[name]) for name in numbers] for each in asked]
            return made_by(opened, asked)


def left_out(settings: Tables) -> list[str]:
    """The keys of a configuration that it leaves to a default."""
    return list(_missing(json.loads(Config.of(settings).to_json()), settings, ""))


def _left_out_with(
    settings: Tables,
    files: Callable[[Path], Tables] | None,
    *,
    postgres: bool = False,
    sampled: bool = False,
) -> list[str]:
    """The same for a configuration that needs files; digests follow from these."""
    del sampled
    if files is None or postgres:
        return left_out(settings)
    with TemporaryDirectory() as folder:
        found = left_out({**settings, **files(Path(folder))})
    return [each for each in found if not each.endswith(".digest")]


def _missing(stated: Any, given: Any, place: str) -> Any:
    if isinstance(stated, Mapping):
        for name, each in stated.items():
            inside = given.get(name) if isinstance(given, Mapping) else None
            if each is not None and each != [] and inside is None:
                yield f"{place}{name}"
            else:
                yield from _missing(each, inside, f"{place}{name}.")
    elif isinstance(stated, list) and isinstance(given, list | tuple):
        for number, (one, other) in enumerate(zip(stated, given, strict=False)):
            yield from _missing(one, other, f"{place}{number}.")

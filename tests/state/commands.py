"""Commands in processes that can be killed, starved or locked out, all at one fixed time."""

import codecs
import multiprocessing
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.state.gate_files import (
    HEADER,
    LEARNER,
    SLIDING,
    TWO,
    config_text,
    csv_rows,
    publish_table,
    quality_table,
    source_table,
)
from tests.state.gatelife import TIME, stream
from tidegate.cli import export_command, main, run_command, state_commands  # noqa: F401 (loaded before anybody is locked out)
from tidegate.gate import Gate

children = multiprocessing.get_context("forkserver")
children.set_forkserver_preload(["tests.state.commands"])

NOBODY = 65534
for name in ("ascii", "utf-8-sig"):  # loaded now, too: they may lie where only we may read
    codecs.lookup(name)


class Ended(NamedTuple):
    """How a command ended: its code, and the lines it wrote to standard error."""

    code: int
    said: list[str]


def clocked() -> Any:
    """Makes every gate take it to be one fixed time."""
    return patch.dict(Gate.open.__func__.__kwdefaults__, clock=lambda: TIME)  # type: ignore[attr-defined]


def live(words: list[str], errors: str, limit: int | None, user: int | None) -> None:
    """Run a command; its files may have at most so many bytes, and it may be of another user."""
    said = os.open(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(said, 2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    if user is not None:
        os.setuid(user)
    with clocked():
        sys.argv = ["tidegate", *words]
        main()


def started(*words: str, errors: Path, limit: int | None = None, user: int | None = None) -> Any:
    """The process of a command that has just been started."""
    child = children.Process(target=live, args=(list(words), str(errors), limit, user))
    child.start()
    return child


def command(*words: str, errors: Path, **how: Any) -> Ended:
    """Run a command to its end."""
    child = started(*words, errors=errors, **how)
    child.join(120)
    assert child.exitcode is not None
    return Ended(child.exitcode, errors.read_text().splitlines())


def killed(child: Any, after: float) -> bool:
    """Whether a command was killed, or has ended well before."""
    child.join(after)
    child.kill()
    child.join(60)
    assert child.exitcode in {0, -signal.SIGKILL}
    return bool(child.exitcode)


def gate_text(folder: Path, *tables: str, schedule: str = SLIDING) -> str:
    """The configuration of a gate that evaluates its releases and publishes them."""
    shared = (LEARNER, quality_table("1/20"), publish_table(folder / "out"))
    return config_text(*shared, *tables, schedule=schedule)


def make(folder: Path, *, two: bool = False, kind: str = "csv", database: str = "") -> str:
    """A configuration for a folder; its source is there but empty."""
    names = ("source", "target") if two else ("records",)
    if kind == "parquet":
        (folder / "records").mkdir()
    else:
        for name in names:
            (folder / f"{name}.csv").write_text(HEADER)
    ending = "" if kind == "parquet" else ".csv"
    sources = (
        source_table(folder / f"{name}{ending}", kind, f"source.{name}" if two else "source")
        for name in names
    )
    store = f'[store]\ndatabase = "{database}"\n' if database else ""
    text = gate_text(folder, *sources, store, schedule=TWO if two else SLIDING)
    (folder / "gate.toml").write_text(text)
    return str(folder / "gate.toml")


def grow(folder: Path, start: int, n: int, *, name: str = "records", kind: str = "csv") -> None:
    """Add records to a source as its sender would."""
    if kind == "parquet":
        X, y = stream(n, start)
        table = pa.table([*np.ascontiguousarray(X.T), y], names=["a", "b", "c", "y"])
        hidden = folder / name / ".unfinished"
        pq.write_table(table, hidden)
        hidden.rename(folder / name / f"{start:06}.parquet")
        return
    with (folder / f"{name}.csv").open("a") as file:
        file.writelines(csv_rows(n, start))


def hashes(folder: Path) -> list[str]:
    """What a run in a folder has released."""
    with Gate.look(folder / "gate.state") as gate:
        return [release.hash for release in gate.releases()]

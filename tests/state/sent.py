"""Messages that are sent to brokers, and what a Gate makes of the same records in a file."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from tests.state.commands import command, grow, hashes, make
from tests.state.gatelife import stream

RECORDS = 2000


def bodies(start: int, n: int) -> list[bytes]:
    """Records that say where they belong."""
    return [json.dumps({"a": slot, "y": slot % 2}).encode() for slot in range(start, start + n)]


def messages(start: int, n: int) -> list[bytes]:
    """The same records as `grow` writes to files."""
    X, y = stream(n, start)
    values: Any = np.where(np.isnan(X), None, X)
    table = zip(values.tolist(), y.tolist(), strict=True)
    rows = [{"a": a, "b": b, "c": c, "y": label} for (a, b, c), label in table]
    return [json.dumps(row).encode() for row in rows]


def from_a_file(folder: Path) -> list[str]:
    folder.mkdir()
    path = make(folder)
    grow(folder, 0, RECORDS)
    assert command("run", path, "--quiet", errors=folder / "errors").code == 0
    return hashes(folder)

"""Lives of a store and of a Gate that forget, for processes that are killed or only look."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from tests.state.gatelife import config
from tests.state.gatelife import opened as gate_of
from tests.state.made import made
from tests.state.marked import batch, numbers
from tidegate.state.folder_store import FolderStore
from tidegate.state.store import NoStateError

SIZES = (1, 30, 7, 2, 160, 70, 3, 68)
STEP, WINDOW, BATCHES = 70, 210, 16
HUGE = 9000
"""Repetitions of a text for which a transaction is written to the log before it is committed."""


def opened(folder: Path) -> FolderStore:
    """The state, made if it is not there yet, and swept as a Gate does it."""
    try:
        store = FolderStore(folder)
    except NoStateError:
        store = FolderStore(folder, "config")
    store.sweep()
    return store


def live(folder: Path, failpoint: str = "") -> None:
    """Go on with a script of batches of all sizes: some make files, some rows, most wait."""
    os.environ["TIDEGATE_FAILPOINT"] = failpoint
    store = opened(folder)
    for index in range(int(store.offset("script") or 0), BATCHES):
        n, times = SIZES[index % len(SIZES)], HUGE if index % 5 == 3 else 1 + index % 50
        more: dict[str, Any] = {"source": "script", "offset": f"{index + 1}", "cut": STEP}
        store.append(batch("records", store.count("records"), n, times=times, **more))
        catch_up(store)
    catch_up(store)
    store.close()


def catch_up(store: FolderStore) -> None:
    """Carry out the fits that are due, and forget what is past the window."""
    store.forget("records", store.done("records") - WINDOW)  # what a kill has kept from it
    while (at := store.done("records") + STEP) <= store.count("records"):
        store.publish("records", at, [made(at // STEP, at)])
        store.forget("records", at - WINDOW)


def marked_stream(start: int, n: int) -> tuple[Any, Any]:
    """Records for a Gate, every seventh of which cannot be used."""
    slots = np.arange(start, start + n)
    return numbers(start, n, 2), np.where(slots % 7 == 3, 9, slots % 2)


def gate(folder: Path, failpoint: str = "") -> None:
    """Have a Gate take in a stream of small batches."""
    os.environ["TIDEGATE_FAILPOINT"] = failpoint
    with gate_of(folder, config()) as one:
        for start in range(0, 1300, 130):
            if start == one.store.count("records"):
                one.ingest(*marked_stream(start, 130))


def look(folder: Path, pipe: Any) -> None:
    """Look at a state as of one moment, until told to stop."""
    store = FolderStore(folder, read_only=True)
    with store.snapshot():
        pipe.send("looks")
        pipe.recv()
    store.close()

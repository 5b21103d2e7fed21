"""A store whose records are erased, for processes that are killed."""

import os
from datetime import UTC, datetime
from pathlib import Path

from tests.state.marked import batch
from tidegate.run.config.tables import Locations
from tidegate.state.erasure import Erasure, OneRecord
from tidegate.state.folder_store import FolderStore

TIME = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CUT, COUNT = 80, 200
"""Segments of 80 records in files; 40 wait in the database."""

VICTIMS = (3, 81, 90, 170)
"""In two files and in the database; the first and the last are also in the quarantine."""


def prepared(folder: Path, locations: Locations | None = None) -> FolderStore:
    """A store with records in files and waiting ones, every third of which is in the quarantine."""
    store = FolderStore(folder, "config", locations=locations)
    for start in range(0, COUNT, 20):
        store.append(batch("records", start, 20, cut=CUT, times=30))
    return store


def erase(store: FolderStore, slot: int, stream: str = "records") -> Erasure:
    """Erase a record."""
    (line,) = store.erase([OneRecord(stream, slot)], time=TIME)
    return line


def live(folder: Path, failpoint: str = "") -> None:
    """Erase all victims, and be killed at that."""
    os.environ["TIDEGATE_FAILPOINT"] = failpoint
    store = FolderStore(folder)
    store.sweep()
    for slot in VICTIMS:
        erase(store, slot)
    store.close()


def live_at_once(folder: Path, failpoint: str) -> None:
    """Erase all victims in one transaction, and be killed at that."""
    os.environ["TIDEGATE_FAILPOINT"] = failpoint
    store = FolderStore(folder)
    store.sweep()
    store.erase([OneRecord("records", slot) for slot in VICTIMS], time=TIME)
    store.close()

"""A scripted life of a store that can be interrupted anywhere and always ends the same."""

import os
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from tests.state.made import made, records
from tidegate.run.config.tables import Locations
from tidegate.state.folder_store import FolderStore
from tidegate.state.store import Batch, NoStateError, Quarantined
from tidegate.whole_file import write_whole

SIZES = (1, 3, 40, 7, 20, 2, 75)
STEP, WINDOW = 16, 80


def opened(folder: Path, locations: Locations) -> FolderStore:
    """The state, made if it is not there yet, and swept as a Gate does it."""
    try:
        store = FolderStore(folder, locations=locations, segment_records=32)
    except NoStateError:
        store = FolderStore(folder, "config", locations=locations, segment_records=32)
    store.sweep()
    return store


def batch(index: int) -> Batch:
    """A batch of the script."""
    whole, rest = divmod(index, len(SIZES))
    start, n = whole * sum(SIZES) + sum(SIZES[:rest]), SIZES[rest]
    return Batch(
        stream="records",
        records=records(start, n),
        quarantine=(Quarantined(slot=n - 1, reason="text", payload=f"{index}"),),
        source="script",
        offset=f"{index + 1}",
        key=f"batch {index}",
    )


def live(
    folder: Path,
    batches: int,
    locations: Locations,
    failpoint: str = "",
    started: Event | None = None,
) -> None:
    """Go on with the script to its end, noting beside the folder what has been acknowledged."""
    os.environ["TIDEGATE_FAILPOINT"] = failpoint
    if started is not None:
        started.set()
    store = opened(folder, locations)
    notes = os.open(folder.with_suffix(".notes"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for index in range(int(store.offset("script") or 0), batches):
        if index:
            store.append(batch(index - 1))  # sent twice
        count = store.append(batch(index))
        os.write(notes, b"count %d\n" % count)
        catch_up(store, notes)
    catch_up(store, notes)
    store.close()
    os.close(notes)


def hold(folder: Path, pipe: Any) -> None:
    """Hold a state, and go on with the script by a batch whenever that is asked for."""
    store = opened(folder, Locations())
    pipe.send(store.count("records"))
    for index in range(100):
        pipe.recv()
        pipe.send(store.append(batch(index)))


def write_file(path: Path, failpoint: str) -> None:
    """Write a file and be killed at that."""
    os.environ["TIDEGATE_FAILPOINT"] = failpoint
    write_whole(path, b"new", point="export")


def catch_up(store: FolderStore, notes: int) -> None:
    """Carry out the fits that are due: two a step, the second one released."""
    while (at := store.done("records") + STEP) <= store.count("records"):
        number = 2 * (at // STEP - 1)
        fits = [made(number, at, released=False), made(number + 1, at)]
        for release in store.publish("records", at, fits, state=f"{at}"):
            os.write(notes, b"release %s\n" % release.hash.encode())
        store.forget("records", at - WINDOW)

"""Opening a state: find or make it, lock it, bring it to the newest layout."""

import os
import secrets
import time
from dataclasses import asdict
from pathlib import Path

from tidegate.checks import StoreError
from tidegate.gate.layout import LAYOUT, MIGRATIONS, SCHEMA, migrate
from tidegate.gate.locations import ELSEWHERE, Elsewhere, Locations
from tidegate.gate.lock import Lock, held
from tidegate.gate.segment_folder import SegmentFolder, make_folder
from tidegate.gate.sqlite import FILE, SqliteDatabase
from tidegate.gate.state_database import StateDatabase
from tidegate.gate.store import DAMAGED, RESTORE, NoStateError, readable
from tidegate.gate.whole_file import UNFINISHED

PATIENCE = 1.0
"""Seconds to wait for another reader that upgrades a state just now."""

OURS = {FILE, f"{FILE}-wal", f"{FILE}-shm", "segments", "lock", ELSEWHERE}
"""All that a state folder holds."""


def holds_state(folder: Path) -> bool:
    """Whether a state is in a folder, or at least begun."""
    known = Elsewhere.of(folder)
    on_server = known is not None and known.locations.database is not None
    return on_server or (folder / FILE).is_file()


def no_state(folder: Path) -> NoStateError:
    """An error that says how to create the state that is not in a folder."""
    create = "create one with tidegate run or tidegate serve --config"
    return NoStateError(f"{folder} holds no state: check the path, or {create}")


def open_state(
    folder: Path,
    config: str | None = None,
    *,
    settings: str = "",
    locations: Locations | None = None,
    read_only: bool = False,
) -> tuple[StateDatabase, SegmentFolder]:
    """The database of a state, and where its segments are; see `FolderStore` for the arguments."""
    state = StateDatabase(folder, SqliteDatabase(folder, writes=not read_only))
    with state.explained():
        if config is not None:
            _make_folder(folder)
        elif not holds_state(folder):
            _refuse_remains(folder)
            raise no_state(folder)
        state.lock = None if read_only else Lock(folder)
        try:
            elsewhere = _elsewhere(folder, locations)
            files = elsewhere.segments(folder)
            if config is not None:
                files.make()  # refused before anything is decided
            state.db = elsewhere.database(folder, writes=not read_only)
            state.db.connect()
            if read_only and 0 < state.db.layout() < LAYOUT:
                _upgrade(state)
                state.db = elsewhere.database(folder, writes=False)
                state.db.connect()
            layout = _checked_layout(state, new=config is not None)
            if config is not None:
                _create(state, files, config, settings, elsewhere)
            if state.lock is not None:
                with readable(state.db.where):
                    _go_on(state, layout)
        except BaseException:
            state.close()
            raise
    return state, files


def _refuse_remains(folder: Path) -> None:
    """Refuse a folder that has the records of a state, but not its database."""
    if _any(folder / "segments") and (folder / "lock").exists():
        known = Elsewhere.of(folder)
        where = folder / FILE if known is None else f"what {folder / ELSEWHERE} names"
        raise StoreError(f"{where} is missing: {RESTORE}")


def _make_folder(folder: Path) -> None:
    _refuse_remains(folder)
    there = set(os.listdir(folder)) if folder.exists() else set()
    others = any(not UNFINISHED.fullmatch(name) for name in there - OURS)
    if others or _any(folder / "segments"):
        raise StoreError(f"{folder} holds other files: choose a folder of its own")
    make_folder(folder)
    folder.chmod(0o700)


def _any(folder: Path) -> bool:
    return folder.exists() and bool(os.listdir(folder))


def _elsewhere(folder: Path, wanted: Locations | None) -> Elsewhere:
    """Where all is: decided once and for all, when the state is made."""
    known = Elsewhere.of(folder)
    if known is None:
        here = (folder / FILE).exists()
        locations = Locations() if here or wanted is None else wanted
        known = Elsewhere(f"tidegate_{secrets.token_hex(8)}", locations)
    for name, place in asdict(known.locations).items():
        if wanted is not None and (other := getattr(wanted, name)) != place:
            told = f"{folder} has its {name} in {place or 'the folder'}"
            said = f"{told}, but [store] says {other or 'the folder'}"
            raise StoreError(f"{said}: set it back, or see docs/store.md for how to move it")
    return known


def _upgrade(state: StateDatabase) -> None:
    """Have a state of an older layout opened for writing, which brings it to the newest."""
    layout = state.db.layout()
    state.db.close()
    until = time.monotonic() + PATIENCE
    while True:
        try:
            open_state(state.folder)[0].close()
            break
        except StoreError as error:
            if time.monotonic() > until or not held(state.folder):
                told = f"{state.folder} has layout {layout}"
                what = f"must be upgraded to {LAYOUT} first"
                raise StoreError(f"{told} and {what}: {error}") from error
        time.sleep(PATIENCE / 20)


def _checked_layout(state: StateDatabase, *, new: bool) -> int:
    """The layout of a state that can be opened, 0 of one that is to be made."""
    layout = state.db.layout()
    state.ready = layout == LAYOUT
    if new and layout:
        raise StoreError(f"{state.folder} holds a state already: open it, or choose another")
    if not new and layout == 0:
        raise NoStateError(f"{state.folder} holds no state: the making of it was cut short")
    if layout > LAYOUT:
        told = f"{state.folder} has layout {layout}, of a newer Tidegate than this"
        raise StoreError(f"{told}, which reads layouts up to {LAYOUT}: upgrade Tidegate")
    if 0 < layout < LAYOUT and layout not in MIGRATIONS:
        told = f"{state.folder} has layout {layout}, which no released version has written"
        raise StoreError(f"{told}: start a new state")
    return layout


def _create(
    state: StateDatabase, files: SegmentFolder, config: str, settings: str, elsewhere: Elsewhere
) -> None:
    _check_nothing_is_lost(state, 0)
    if files.names():  # they would be swept
        raise StoreError(f"{state.db.where} is missing, but not its records: {RESTORE}")
    if elsewhere.locations != Locations():
        elsewhere.keep(state.folder)
    with state.transaction("create"):
        state.db.create(SCHEMA, LAYOUT)
        values = (config, settings)
        state.db.execute("INSERT INTO state VALUES (?, ?, 0, NULL, '{}', '')", values)


def _go_on(state: StateDatabase, layout: int) -> None:
    """See that a state is whole, and of the newest layout."""
    _check_nothing_is_lost(state, state.one("SELECT committed FROM state")[0])
    # layout 2 has a seal of another kind, which its migration checks
    if layout != 2 and state.one("SELECT seal FROM state")[0] != state.seal():
        raise StoreError(f"{state.db.where} {DAMAGED}")
    if 0 < layout < LAYOUT:
        with state.transaction("migrate"):
            state.sums = migrate(state.db)
    state.ready = True


def _check_nothing_is_lost(state: StateDatabase, committed: int) -> None:
    lost = 0 if state.lock is None else state.lock.committed - committed
    if lost > 0:
        raise StoreError(f"{state.db.where} has lost the last {lost} transaction(s): {RESTORE}")

"""Open a state: find or create it, lock it, and upgrade it to the newest layout."""

import os
import secrets
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from tidegate.checks import StoreError
from tidegate.run.config.tables import Locations
from tidegate.state import protected
from tidegate.state.damage import DAMAGED, RESTORE, readable
from tidegate.state.elsewhere import ELSEWHERE, Elsewhere
from tidegate.state.layout import LAYOUT, MIGRATIONS, SCHEMA, migrate
from tidegate.state.lock import Lock
from tidegate.state.segment_folder import SegmentFolder
from tidegate.state.sqlite import FILE, SqliteDatabase
from tidegate.state.state_database import StateDatabase
from tidegate.state.store import NoStateError
from tidegate.whole_file import UNFINISHED, make_folder

STATE_FILES = {FILE, f"{FILE}-wal", f"{FILE}-shm", "segments", "lock", ELSEWHERE, protected.FILE}
"""The files and folders of a state."""


KeyMaker = Callable[[Path], str]
"""Makes the key of persons in a state folder, and returns its check value."""


def holds_state(folder: Path) -> bool:
    """Whether a folder contains a state, even one whose creation was interrupted."""
    elsewhere = Elsewhere.of(folder)
    on_server = elsewhere is not None and elsewhere.locations.database is not None
    return on_server or (folder / FILE).is_file()


def marks_of_state(folder: Path) -> list[str]:
    """The names in a folder that make it a state, whatever they are; nothing is opened."""
    return [name for name in (FILE, ELSEWHERE) if os.path.lexists(folder / name)]


def layout_of(folder: Path) -> int:
    """The layout of a state."""
    if folder.is_file():
        raise StoreError(f"{folder} is a file: name a state folder")
    if not holds_state(folder):
        refuse_remains(folder)
        raise no_state(folder)
    state = StateDatabase(folder, _elsewhere(folder, None).database(folder, writes=False))
    try:
        with state.explained():
            state.db.connect()
            return checked_layout(state, new=False)
    finally:
        state.close()


def no_state(folder: Path) -> NoStateError:
    """An error that says how to create the state that is not in a folder."""
    create = "Only for a new gate: create one with tidegate run or tidegate serve --config"
    return NoStateError(
        f"{folder} holds no state: is the disk mounted? is the path right? {create}"
    )


def open_state(  # noqa: PLR0913, all are options of one state
    folder: Path,
    config: str | None = None,
    *,
    settings: str = "",
    locations: Locations | None = None,
    read_only: bool = False,
    upgrade: bool = True,
    make_key: KeyMaker | None = None,
) -> tuple[StateDatabase, SegmentFolder]:
    """Open or create a state: its database and segments. See `FolderStore` for the arguments."""
    state = StateDatabase(folder, SqliteDatabase(folder, writes=not read_only))
    with state.explained():
        if config is not None:
            _make_folder(folder)
        elif not holds_state(folder):
            refuse_remains(folder)
            raise no_state(folder)
        state.lock = None if read_only else Lock(folder)
        try:
            elsewhere = _elsewhere(folder, locations)
            files = elsewhere.segments(folder)
            if config is not None:
                files.make()  # fail here, before anything is fixed
            state.db = elsewhere.database(folder, writes=not read_only)
            state.db.connect()
            layout = checked_layout(state, new=config is not None)
            if read_only or not upgrade:
                _check_newest(folder, layout)
            if config is not None:
                check = None if make_key is None else make_key(folder)
                _create(state, files, (config, settings, check), elsewhere)
            if state.lock is not None:
                migrate_state(state, layout)
        except BaseException:
            state.close()
            raise
    return state, files


def refuse_remains(folder: Path) -> None:
    """Refuse a folder that has a state's segments but no database."""
    if _any(folder / "segments") and (folder / "lock").exists():
        inside = Elsewhere.of(folder) is None
        where = folder / FILE if inside else f"the database that {folder / ELSEWHERE} names"
        raise StoreError(f"{where} is missing: {RESTORE}")


def _make_folder(folder: Path) -> None:
    refuse_remains(folder)
    names = set(os.listdir(folder)) if folder.exists() else set()
    others = any(not UNFINISHED.fullmatch(name) for name in names - STATE_FILES)
    if others or _any(folder / "segments"):
        raise StoreError(f"{folder} holds other files: choose an empty or new folder")
    make_folder(folder)
    folder.chmod(0o700)


def _any(folder: Path) -> bool:
    return folder.exists() and bool(os.listdir(folder))


def _elsewhere(folder: Path, wanted: Locations | None) -> Elsewhere:
    """The locations of a state, which are fixed when it is created."""
    elsewhere = Elsewhere.of(folder)
    if elsewhere is None:
        here = (folder / FILE).exists()
        locations = Locations() if here or wanted is None else wanted
        elsewhere = Elsewhere(f"tidegate_{secrets.token_hex(8)}", locations)
    for name, place in asdict(elsewhere.locations).items():
        if wanted is not None and (other := getattr(wanted, name)) != place:
            actual = f"{folder} has its {name} in {place or 'the folder'}"
            conflict = f"{actual}, but [store] says {other or 'the folder'}"
            raise StoreError(f"{conflict}: set it back, or see docs/store.md for how to move it")
    return elsewhere


def checked_layout(state: StateDatabase, *, new: bool) -> int:
    """The layout of a state; refuse one that this version cannot open."""
    layout = state.db.layout()
    state.ready = layout == LAYOUT
    if new and layout:
        raise StoreError(f"{state.folder} already holds a state: open that, or choose another")
    if not new and layout == 0:
        raise NoStateError(f"{state.folder} holds no state: creating it was interrupted; run again")
    if layout > LAYOUT:
        newer = f"{state.folder} has layout {layout}, of a newer Tidegate"
        raise StoreError(f"{newer}; this one reads layouts up to {LAYOUT}: upgrade Tidegate")
    if 0 < layout < LAYOUT and layout not in MIGRATIONS:
        unknown = f"{state.folder} has layout {layout}, which no released version wrote"
        raise StoreError(f"{unknown}: start a new state")
    return layout


def _check_newest(folder: Path, layout: int) -> None:
    """Refuse a state of an older layout: only what is meant to write upgrades it."""
    if layout < LAYOUT:
        older = f"{folder} has layout {layout}; this version reads layout {LAYOUT}"
        raise StoreError(f"{older}: copy the state, then run tidegate upgrade {folder}")


def _create(
    state: StateDatabase,
    files: SegmentFolder,
    values: tuple[str, str, str | None],
    elsewhere: Elsewhere,
) -> None:
    """Create the tables of a state, with its configuration, settings and key's check value."""
    *settings, check = values
    _check_nothing_is_lost(state, 0)
    if files.names():  # they would be deleted
        raise StoreError(f"{state.db.where} is missing, but its segments are there: {RESTORE}")
    if elsewhere.locations != Locations():
        elsewhere.keep(state.folder)
    with state.transaction("create"):
        state.db.create(SCHEMA, LAYOUT)
        state.db.execute("INSERT INTO state VALUES (?, ?, 0, NULL, '{}', '')", settings)
        state.insert("person_key", [] if check is None else [(check,)])


def migrate_state(state: StateDatabase, layout: int) -> None:
    """Check that a state is intact, and upgrade it to the newest layout.

    Args:
        state: The state, open for writing.
        layout: Its layout; 0 if it has just been created.
    """
    with readable(state.db.where):
        _check_nothing_is_lost(state, state.one("SELECT committed FROM state")[0])
        # the seal of layout 2 is different; its migration checks it
        if layout != 2 and state.one("SELECT seal FROM state")[0] != state.seal():
            raise StoreError(f"{state.db.where}: {DAMAGED}")
        if 0 < layout < LAYOUT:
            with state.transaction("migrate"):
                state.sums = migrate(state.db)
        state.ready = True


def _check_nothing_is_lost(state: StateDatabase, committed: int) -> None:
    lost = 0 if state.lock is None else state.lock.committed - committed
    if lost > 0:
        raise StoreError(f"{state.db.where} has lost the last {lost} transaction(s): {RESTORE}")

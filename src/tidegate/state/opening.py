"""Open a state: find or create it, lock it, and upgrade it to the newest layout."""

import json
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, Self

from tidegate.checks import StoreError, json_of, optional_module
from tidegate.run.config.tables import Locations
from tidegate.state import protected
from tidegate.state.damage import DAMAGED, RESTORE, readable
from tidegate.state.database import FILE, Database, SqliteDatabase
from tidegate.state.layout import LAYOUT, MIGRATIONS, SCHEMA, migrate
from tidegate.state.lock import Lock, NotLocked
from tidegate.state.segments import LocalFolder, SegmentFolder, inside, segment_folder
from tidegate.state.state_database import Head, StateDatabase
from tidegate.state.store import NoStateError
from tidegate.whole_file import (
    LARGEST_NOTE,
    UNFINISHED,
    delete_unfinished,
    make_folder,
    read_whole,
    sync_folder,
    write_whole,
)

ELSEWHERE = "elsewhere.json"


class Elsewhere(NamedTuple):
    """The locations of one state, and its name there (a schema and a folder)."""

    name: str  # empty if all of it is in its own folder
    locations: Locations

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Read what `keep` wrote."""
        try:
            text = read_whole(folder / ELSEWHERE, LARGEST_NOTE)
        except FileNotFoundError:
            return cls("", Locations())
        with readable(str(folder / ELSEWHERE)):
            fields = json_of(text)
            if not fields["name"].isidentifier():  # it becomes part of SQL queries
                raise ValueError(fields["name"])
            return cls(fields.pop("name"), Locations(**fields))

    def keep(self, folder: Path) -> None:
        """Write the locations to a file in the state folder."""
        text = json.dumps({"name": self.name, **asdict(self.locations)}, indent=1)
        delete_unfinished(folder, ELSEWHERE)
        write_whole(folder / ELSEWHERE, text.encode(), point="elsewhere", mode=0o600)
        sync_folder(folder)

    def segments(self, folder: Path) -> SegmentFolder:
        """The folder of the state's segments."""
        if self.locations.segments is None:
            return LocalFolder(folder / "segments")
        return segment_folder(inside(self.locations.segments, self.name))

    def database(self, folder: Path, *, writes: bool) -> Database:
        """The database of the state, not yet connected."""
        if self.locations.database is None:
            return SqliteDatabase(folder, writes=writes)
        kind = optional_module("tidegate.state.postgres", "postgres").PostgresDatabase
        made: Database = kind(self.locations.database, self.name, writes=writes)
        return made


STATE_FILES = {FILE, f"{FILE}-wal", f"{FILE}-shm", "segments", "lock", ELSEWHERE, protected.FILE}
"""The files and folders of a state."""


KeyMaker = Callable[[Path], str]
"""Makes the key of persons in a state folder, and returns its check value."""


def holds_state(folder: Path) -> bool:
    """Whether a folder contains a state, even one whose creation was interrupted."""
    return bool(Elsewhere.of(folder).locations.database) or (folder / FILE).is_file()


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
            return checked_layout(state)
    finally:
        state.close()


def no_state(folder: Path) -> NoStateError:
    """An error that says how to create the state that is not in a folder."""
    create = "Only for a new gate: create one with tidegate run or tidegate serve --config"
    return NoStateError(
        f"{folder} holds no state: is the disk mounted? is the path right? {create}"
    )


def open_state(
    folder: Path,
    *,
    locations: Locations | None = None,
    read_only: bool = False,
    upgrade: bool = True,
) -> tuple[StateDatabase, SegmentFolder]:
    """Open a state: its database and segments. See `FolderStore` for the arguments."""
    state = StateDatabase(folder, SqliteDatabase(folder, writes=not read_only))
    with _closed_on_error(state):
        if not holds_state(folder):
            refuse_remains(folder)
            raise no_state(folder)
        state.lock = NotLocked() if read_only else Lock(folder)
        elsewhere = _elsewhere(folder, locations)
        files = elsewhere.segments(folder)
        state.db = elsewhere.database(folder, writes=not read_only)
        state.db.connect()
        layout = checked_layout(state)
        if layout < LAYOUT and (read_only or not upgrade):  # only what is meant to write upgrades
            older = f"{folder} has layout {layout}; this version reads layout {LAYOUT}"
            raise StoreError(f"{older}: copy the state, then run tidegate upgrade {folder}")
        if not read_only:
            migrate_state(state, layout)
    return state, files


def create_state(
    folder: Path,
    config: str,
    *,
    settings: str = "",
    locations: Locations | None = None,
    make_key: KeyMaker | None = None,
) -> tuple[StateDatabase, SegmentFolder]:
    """Create a state: its database and segments. See `FolderStore` for the arguments."""
    state = StateDatabase(folder, SqliteDatabase(folder, writes=True))
    with _closed_on_error(state):
        _make_folder(folder)
        state.lock = Lock(folder)
        elsewhere = _elsewhere(folder, locations)
        files = elsewhere.segments(folder)
        files.make()  # fail here, before anything is fixed
        state.db = elsewhere.database(folder, writes=True)
        state.db.connect()
        if state.db.layout():
            raise StoreError(f"{folder} already holds a state: open that, or choose another")
        keys = [] if make_key is None else [(make_key(folder),)]
        _check_nothing_is_lost(state, 0)
        if files.names():  # they would be deleted
            raise StoreError(f"{state.db.where} is missing, but its segments are there: {RESTORE}")
        if elsewhere.locations != Locations():
            elsewhere.keep(folder)
        with state.transaction("create"):
            state.db.create(SCHEMA, LAYOUT)
            values = (config, settings)
            state.db.execute("INSERT INTO state VALUES (?, ?, 0, NULL, '{}', '')", values)
            state.head = Head(*values, 0, None, "{}", "", ())
            state.insert("person_key", keys)
        state.ready = True
    return state, files


@contextmanager
def _closed_on_error(state: StateDatabase) -> Iterator[None]:
    """A context in which a state is opened."""
    with state.explained():
        try:
            yield
        except BaseException:
            state.close()
            raise


def refuse_remains(folder: Path) -> None:
    """Refuse a folder that has a state's segments but no database."""
    if _any(folder / "segments") and (folder / "lock").exists():
        outside = Elsewhere.of(folder).name
        where = f"the database that {folder / ELSEWHERE} names" if outside else folder / FILE
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
    if not elsewhere.name:
        here = (folder / FILE).exists()
        locations = Locations() if here or wanted is None else wanted
        elsewhere = Elsewhere(f"tidegate_{secrets.token_hex(8)}", locations)
    for name, place in asdict(elsewhere.locations).items():
        if wanted is not None and (other := getattr(wanted, name)) != place:
            actual = f"{folder} has its {name} in {place or 'the folder'}"
            conflict = f"{actual}, but [store] says {other or 'the folder'}"
            raise StoreError(f"{conflict}: set it back, or see docs/store.md for how to move it")
    return elsewhere


def checked_layout(state: StateDatabase) -> int:
    """The layout of a state; refuse one that this version cannot open."""
    layout = state.db.layout()
    state.ready = layout == LAYOUT
    if layout == 0:
        raise NoStateError(f"{state.folder} holds no state: creating it was interrupted; run again")
    if layout > LAYOUT:
        newer = f"{state.folder} has layout {layout}, of a newer Tidegate"
        raise StoreError(f"{newer}; this one reads layouts up to {LAYOUT}: upgrade Tidegate")
    if layout < LAYOUT and layout not in MIGRATIONS:
        unknown = f"{state.folder} has layout {layout}, which no released version wrote"
        raise StoreError(f"{unknown}: start a new state")
    return layout


def migrate_state(state: StateDatabase, layout: int) -> None:
    """Check that a state is intact, and upgrade it to the newest layout.

    Args:
        state: The state, open for writing.
        layout: Its layout.
    """
    with readable(state.db.where):
        _check_nothing_is_lost(state, state.one("SELECT committed FROM state")[0])
        # the seal of layout 2 is different; its migration checks it
        if layout != 2 and state.head.seal != state.head.digest():
            raise StoreError(f"{state.db.where}: {DAMAGED}")
        if layout < LAYOUT:
            with state.transaction("migrate"):
                state.sums = migrate(state.db)
        state.ready = True


def _check_nothing_is_lost(state: StateDatabase, committed: int) -> None:
    lost = state.lock.committed - committed
    if lost > 0:
        raise StoreError(f"{state.db.where} has lost the last {lost} transaction(s): {RESTORE}")

"""Remembers where the parts of a state are that are outside its folder."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, Self

from tidegate.checks import json_of, optional_module
from tidegate.run.config.tables import Locations
from tidegate.state.damage import readable
from tidegate.state.database import Database
from tidegate.state.segment_folder import LocalFolder, SegmentFolder, inside, segment_folder
from tidegate.state.sqlite import SqliteDatabase
from tidegate.whole_file import (
    LARGEST_NOTE,
    delete_unfinished,
    read_whole,
    sync_folder,
    write_whole,
)

ELSEWHERE = "elsewhere.json"


class Elsewhere(NamedTuple):
    """The locations of one state, and its name there (a schema and a folder)."""

    name: str
    locations: Locations

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """Read what `keep` wrote; None if everything is in the folder."""
        try:
            text = read_whole(folder / ELSEWHERE, LARGEST_NOTE)
        except FileNotFoundError:
            return None
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

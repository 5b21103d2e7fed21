"""Where a state's database and segments are, if they are not in its folder."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, Self
from urllib.parse import SplitResult, parse_qs, urlsplit

from tidegate.checks import optional_module, refuse
from tidegate.gate.database import Database
from tidegate.gate.segment_folder import (
    LocalFolder,
    SegmentFolder,
    inside,
    segment_folder,
    sync_folder,
)
from tidegate.gate.sqlite import SqliteDatabase
from tidegate.gate.store import readable
from tidegate.gate.whole_file import delete_unfinished, write_whole

ELSEWHERE = "elsewhere.json"

SECRETS = ("key", "secret", "token", "password")
"""What the names of credentials have in them."""


@dataclass(frozen=True, kw_only=True)
class Locations:
    """Where the parts of a state are.

    Attributes:
        database: A database of PostgreSQL, as a URL; None for SQLite in the folder.
        segments: Where segments are, as a path or a URI that pyarrow knows; None for the folder.

    >>> Locations(database="postgresql://tidegate:secret@db.example/ledgers")
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: database must be a URL without a password (give that in
    PGPASSWORD, ~/.pgpass or a service file), got one with a password
    """

    database: str | None = None
    segments: str | None = None

    def __post_init__(self) -> None:
        url = _parts("database", self.database or "postgresql:")
        if url.scheme not in {"postgresql", "postgres"}:
            told = url.scheme or "none"
            raise refuse("database", "a URL such as postgresql://host/database", told=told)
        query = parse_qs(url.query, keep_blank_values=True)
        if url.password is not None or any("password" in name.lower() for name in query):
            without = "a URL without a password (give that in PGPASSWORD, ~/.pgpass or a service"
            raise refuse("database", f"{without} file)", told="one with a password")
        url = _parts("segments", self.segments or "/")
        if url.scheme in {"", "file"} and not url.path.startswith("/"):
            allowed = "an absolute path, or a URI such as s3://bucket/records"
            raise refuse("segments", allowed, self.segments)
        if url.scheme in {"fsspec+file", "fsspec+local"}:  # neither durable nor for its owner only
            raise refuse("segments", "an absolute path for a folder of this machine", self.segments)
        names = " ".join(parse_qs(url.query, keep_blank_values=True)).lower()
        if "@" in url.netloc or any(word in names for word in SECRETS):
            without = "a URI without credentials (give those in the environment)"
            raise refuse("segments", without, told="one with some")


def _parts(name: str, value: str) -> SplitResult:
    try:
        return urlsplit(value)
    except ValueError:
        raise refuse(name, "an address", told="none that can be read") from None


class Elsewhere(NamedTuple):
    """Where the parts of one state are: their locations, and its name there."""

    name: str
    locations: Locations

    @classmethod
    def of(cls, folder: Path) -> Self | None:
        """What `keep` has written, None if it has not."""
        try:
            text = (folder / ELSEWHERE).read_text()
        except FileNotFoundError:
            return None
        with readable(str(folder / ELSEWHERE)):
            known = json.loads(text)
            if not known["name"].isidentifier():  # it becomes a part of queries
                raise ValueError(known["name"])
            return cls(known.pop("name"), Locations(**known))

    def keep(self, folder: Path) -> None:
        """Have a folder remember where the rest of the state is."""
        text = json.dumps({"name": self.name, **asdict(self.locations)}, indent=1)
        delete_unfinished(folder, ELSEWHERE)
        write_whole(folder / ELSEWHERE, text.encode(), point="elsewhere", mode=0o600)
        sync_folder(folder)

    def segments(self, folder: Path) -> SegmentFolder:
        """Where the segments of the state in a folder are."""
        if self.locations.segments is None:
            return LocalFolder(folder / "segments")
        return segment_folder(inside(self.locations.segments, self.name))

    def database(self, folder: Path, *, writes: bool) -> Database:
        """The database of the state in a folder, not connected yet."""
        if self.locations.database is None:
            return SqliteDatabase(folder, writes=writes)
        kind = optional_module("tidegate.gate.postgres", "postgres").PostgresDatabase
        made: Database = kind(self.locations.database, self.name, writes=writes)
        return made

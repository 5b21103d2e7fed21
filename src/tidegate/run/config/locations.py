"""The locations of a state's database and segments, if they are outside its folder."""

from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qs, urlsplit

from tidegate.checks import refuse

SECRETS = ("key", "secret", "token", "password")
"""Words in the names of credentials."""

UNSAFE = {
    *("file", "local", "asynclocal", "memory", "data", "dir", "generic", "reference"),
    *("cached", "blockcache", "filecache", "simplecache", "asyncwrapper", "async_wrapper"),
    *("http", "https", "zip", "tar", "libarchive", "git", "github", "gist", "pyscript"),
}
"""Protocols of fsspec that are not durable or not private, wrap another, or cannot be written."""


@dataclass(frozen=True, kw_only=True)
class Locations:
    """Where the database and the segments of a state are.

    Attributes:
        database: The URL of a PostgreSQL database; None for SQLite in the folder.
        segments: An absolute path or a URI that pyarrow supports; None for the folder.

    >>> Locations(database="postgresql://tidegate:secret@db.example/ledgers")
    Traceback (most recent call last):
    tidegate.checks.InvalidValueError: database must be a URL without a password (give that in
    PGPASSFILE, PGPASSWORD or a service file), got one with a password
    """

    database: str | None = None
    segments: str | None = None

    def __post_init__(self) -> None:
        url = _parts("database", self.database or "postgresql:")
        if url.scheme not in {"postgresql", "postgres"}:
            scheme = url.scheme or "none"
            raise refuse("database", "a URL such as postgresql://host/database", shown=scheme)
        query = parse_qs(url.query, keep_blank_values=True)
        if url.password is not None or any("password" in name.lower() for name in query):
            without = "a URL without a password (give that in PGPASSFILE, PGPASSWORD or a service"
            raise refuse("database", f"{without} file)", shown="one with a password")
        url = _parts("segments", self.segments or "/")
        if url.scheme in {"", "file"} and not url.path.startswith("/"):
            allowed = "an absolute path, or a URI such as s3://bucket/records"
            raise refuse("segments", allowed, self.segments)
        kind, _, protocol = url.scheme.partition("+")
        if kind == "fsspec" and ("::" in (self.segments or "") or protocol in UNSAFE):
            allowed = "an absolute path, or a URI of one file system that stores files durably"
            raise refuse("segments", allowed, self.segments)
        names = " ".join(parse_qs(url.query, keep_blank_values=True)).lower()
        if "@" in url.netloc or any(word in names for word in SECRETS):
            without = "a URI without credentials (give those in the environment)"
            raise refuse("segments", without, shown="one with credentials")


def _parts(name: str, value: str) -> SplitResult:
    try:
        return urlsplit(value)
    except ValueError:
        raise refuse(name, "a path or URL", shown="one that cannot be parsed") from None

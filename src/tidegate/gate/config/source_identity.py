"""The identity of what a source reads, so that no two ledgers are charged with the same records."""

import os
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

LOOPBACK_HOSTS = {"localhost", "127.0.0.1", "[::1]"}
ALL_SUBJECTS = ">"
"""The NATS wildcard for all subjects."""


class SourceIdentity(NamedTuple):
    """What a source reads, in a form that can be compared."""

    parts: frozenset[str]  # a file or folder, or a channel at each of its servers
    around: frozenset[str]  # the parts and the folders that contain them
    subject: str = ALL_SUBJECTS  # the subjects of a channel, with NATS wildcards


def of_path(path: Path) -> SourceIdentity:
    """The identity of a file, or of a folder with the targets of its symbolic and hard links.

    >>> of_path(Path("/data/north/../south.csv")).around >= {"/data/south.csv", "/data"}
    True
    """
    within = list(path.glob("*"))
    links = (each for each in within if each.is_symlink())
    paths = frozenset(map(os.path.realpath, (path, *links)))
    folders = (str(folder) for part in paths for folder in Path(part).parents)
    parts = paths.union(*map(_hard_link, (path, *within)))
    return SourceIdentity(parts, parts.union(folders))


def _hard_link(path: Path) -> set[str]:
    """An identifier of a file with more than one name."""
    try:
        info = path.stat()
    except OSError:
        return set()
    linked = path.is_file() and info.st_nlink > 1
    return {f"the file with inode {info.st_ino} of device {info.st_dev}"} if linked else set()


def same_file(one: Path, other: Path) -> bool:
    """Whether two paths lead to the same file; False if one leads to none."""
    try:
        return one.samefile(other)
    except OSError:
        return False


def of_channel(
    channel: str, servers: Iterable[str], port: int, subject: str = ALL_SUBJECTS
) -> SourceIdentity:
    """The identity of a stream or topic at each of its servers; `port` is the default port.

    >>> sorted(of_channel("topic a", ["Db.example:9092", "127.0.0.1"], 9092).parts)
    ['topic a at db.example:9092', 'topic a at localhost:9092']
    """
    parts = frozenset(f"{channel} at {_server(each, port)}" for each in servers)
    return SourceIdentity(parts, parts, subject)


def _server(address: str, port: int) -> str:
    host, _, own = address.lower().rpartition(":")
    if not own.isdecimal():
        host, own = address.lower(), str(port)
    host = host.removesuffix(".")
    return f"{'localhost' if host in LOOPBACK_HOSTS else host}:{int(own)}"


def shared(one: SourceIdentity, other: SourceIdentity) -> str | None:
    """What two sources both read, or None if they have nothing in common.

    Copies, and servers with two names, are not detected.

    >>> shared(of_path(Path("/data/north.csv")), of_path(Path("/data/south.csv")))
    >>> shared(of_path(Path("/data/./north.csv")), of_path(Path("/data")))
    '/data'
    >>> north, all_wards = (of_channel("stream wards", ["host"], 4222, s) for s in ("north.*", ">"))
    >>> shared(north, all_wards)
    'stream wards at host:4222 (> and north.*)'
    """
    common = (one.parts & other.around) | (other.parts & one.around)
    if not common or not subjects_meet(one.subject, other.subject):
        return None
    subjects = {one.subject, other.subject}
    named = max(common, key=lambda part: (os.path.isabs(part), part))
    return named + (f" ({' and '.join(sorted(subjects))})" if subjects != {ALL_SUBJECTS} else "")


def subjects_meet(one: str, other: str) -> bool:
    """Whether a NATS subject can match both: `*` is any word, a final `>` one or more words.

    >>> subjects_meet("north.*.beds", "north.>"), subjects_meet("north", "north.>")
    (True, False)
    """
    for words in zip_longest(one.split("."), other.split(".")):
        if None in words:
            return False
        if ALL_SUBJECTS in words:
            return True
        if "*" not in words and words[0] != words[1]:
            return False
    return True

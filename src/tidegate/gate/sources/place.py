"""How far a source of files is: its offset."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

from tidegate.checks import whole
from tidegate.gate.sources.chain import Seen
from tidegate.gate.sources.source import SourceError

MOST = 2**14
"""How many files of a folder are remembered."""

UNKNOWN = bytes(8)
"""The digest of a file that was not kept."""


def mark(offset: str) -> str:
    """What stands for an offset where a person writes it down.

    >>> mark('{"at": 70}')
    '525a44102485f711'
    """
    return sha256(offset.encode()).hexdigest()[:16]


def consented(offset: str, resume: tuple[str, str] | None) -> str | None:
    """Where to go on instead, if the operator has said so for exactly this offset."""
    return resume[1] if resume is not None and resume[0] == mark(offset) else None


def as_count(instead: str) -> int:
    """How many records the operator says to pass over."""
    if not (instead.isascii() and instead.isdigit()):
        raise SourceError(f"resume names {instead}, but it must be a number of records here")
    return int(instead)


class Entry(NamedTuple):
    """A file of a folder that was taken in: 24 bytes in all."""

    name: bytes  # the first of the SHA-256 of its name
    inode: bytes
    tail: bytes  # the first of the digest of what it held


@dataclass(frozen=True)
class Taken:
    """The files of a folder that were taken in to their end, in the order of their names.

    >>> taken = Taken().plus("a.csv", 17, None)
    >>> "a.csv" in taken, "b.csv" in taken, Taken.of(taken.text()) == taken
    (True, False, True)
    """

    entries: tuple[Entry, ...] = ()

    @classmethod
    def of(cls, text: str) -> "Taken":
        """From an offset."""
        data = b64decode(text, validate=True)
        if len(data) % 24:
            raise ValueError("cut off")
        pieces = (data[start : start + 24] for start in range(0, len(data), 24))
        return cls(tuple(Entry(piece[:8], piece[8:16], piece[16:]) for piece in pieces))

    def text(self) -> str:
        """For an offset."""
        return b64encode(b"".join(b"".join(entry) for entry in self.entries)).decode()

    def __contains__(self, name: object) -> bool:
        return _short(str(name)) in self._names

    @cached_property
    def _names(self) -> frozenset[bytes]:
        return frozenset(entry.name for entry in self.entries)

    def plus(self, name: str, inode: int, tail: str | None) -> "Taken":
        """One more file, and the digest of all it holds, if that is known."""
        short = UNKNOWN if tail is None else bytes.fromhex(tail)[:8]
        return Taken((*self.entries, Entry(_short(name), _number(inode), short)))

    def pruned(self, present: Iterable[str], folder: str) -> "Taken":
        """At most `MOST` files: of those that are gone from the folder the first are forgotten."""
        if (over := len(self.entries) - MOST) <= 0:
            return self
        there = frozenset(map(_short, present))
        gone = [entry for entry in self.entries if entry.name not in there][:over]
        if len(gone) < over:
            raise SourceError(
                f"{folder} holds more than {MOST:,} files that were taken in: "
                "delete some of them, or move them elsewhere"
            )
        return Taken(tuple(entry for entry in self.entries if entry not in set(gone)))

    def tails(self, inode: int | None = None) -> Iterator[str]:
        """How the digests of the files begin, or of those that had an inode."""
        wanted = None if inode is None else _number(inode)
        for entry in self.entries:
            if (wanted is None or entry.inode == wanted) and entry.tail != UNKNOWN:
                yield entry.tail.hex()


def _short(name: str) -> bytes:
    return sha256(name.encode()).digest()[:8]


def _number(inode: int) -> bytes:
    return (inode % 2**64).to_bytes(8)


@dataclass(frozen=True, kw_only=True)
class Place:
    """How far a source of files, or standard input, is.

    The stamp is of the times of the file when all that was read of it was read or checked; None if
    they do not show whether it was changed since.
    """

    file: str
    seen: Seen
    last: bool = False  # whether the file ends there
    records: int | None = None  # taken from the source in all, if that is known
    inode: int | None = None
    stamp: str | None = None
    taken: Taken = Taken()  # the files of the folder before it
    rank: int | None = None  # how many files there were up to this one, if version 0.1.0 says so

    def moved(self, seen: Seen, taken: int) -> "Place":
        """The place after so many more records were taken."""
        records = None if self.records is None else self.records + taken
        return replace(self, seen=seen, records=records)

    def text(self) -> str:
        """As an offset."""
        kept = {**vars(self), **vars(self.seen), "taken": self.taken.text()}
        del kept["seen"], kept["rank"]  # which only version 0.1.0 has kept
        return json.dumps(kept, sort_keys=True)

    @classmethod
    def of(cls, offset: str) -> "Place":
        """From an offset, also one that version 0.1.0 wrote.

        >>> place = Place(file="a.csv", seen=Seen(at=70, row=3), records=3)
        >>> Place.of(place.text()) == place
        True
        >>> Place.of('{"at": 70, "file": "a.csv", "last": true, "rank": 1}').seen
        Seen(at=70, row=None, header=None, block=1048576, chain=None, tail=None)
        """
        try:
            known = json.loads(offset)
            seen = Seen(**{name: known.pop(name) for name in SEEN if name in known})
            taken = Taken.of(known.pop("taken", ""))
            place = cls(seen=seen, taken=taken, **known)
            whole("records", 0 if place.records is None else place.records, least=0)
        except (AttributeError, TypeError, ValueError) as error:
            raise SourceError("the offset is not one of a file or folder") from error
        if not isinstance(place.file, str):
            raise SourceError("the offset is not one of a file or folder")
        return place


SEEN = ("at", "row", "header", "block", "chain", "tail")

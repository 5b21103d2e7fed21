"""How far a file, or a folder of files, was read: digests of that, and the offset that has them."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import NamedTuple

from tidegate.checks import whole
from tidegate.sources.source import OTHER_SOURCE, SourceError

# --- digests of what was read, which stay small however long a file is


START = "0" * 64
"""The chain before the first block."""

BYTES = 2**20
"""Bytes per block of a CSV or JSON lines file."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """How far a file was read, and a digest of everything that was read.

    In an offset of version 0.1.0, row, chain and tail are None.
    """

    at: int  # the position: bytes of a file of lines, rows of a Parquet file
    row: int | None = None  # the number of records before it
    header: str | None = None  # the SHA-256 of the header or schema, if there is one
    block: int = BYTES  # the size of a block, in the unit of `at`
    chain: str | None = None  # the digest of all blocks but the last
    tail: str | None = None  # the digest of `chain` and the last block, which may be incomplete

    @property
    def digested(self) -> bool:
        """Whether digests were kept."""
        return self.chain is not None

    def __post_init__(self) -> None:
        whole("at", self.at, least=0)
        whole("block", self.block)
        whole("row", 0 if self.row is None else self.row, least=0)


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where to start reading a file."""

    seen: Seen = Seen(at=0)  # what was read before, which must be unchanged
    thorough: bool = True  # check all of that, not only header and last block
    passed: int = 0  # how many records to skip instead


class Chain:
    """SHA-256 over blocks of a fixed size, each with the digest of the blocks before it.

    Data may be added in pieces of any size. Given the chain of the earlier blocks, only the last
    block is needed to check a position again.

    Args:
        block: The size of a block.
        lanes: How many byte strings each piece has; each lane has a digest within a block.
        at: The position where a block starts.
        chain: The chain of the blocks before `at`.

    >>> whole_at_once, in_pieces = Chain(4), Chain(4)
    >>> whole_at_once.add_bytes(b"ten bytes!")
    >>> for piece in (b"ten", b" byt", b"", b"es!"):
    ...     in_pieces.add_bytes(piece)
    >>> whole_at_once.tail == in_pieces.tail
    True
    """

    def __init__(self, block: int, *, lanes: int = 1, at: int = 0, chain: str = START) -> None:
        self.block, self.at, self.chain = block, at, chain
        self._lanes, self._begun = [sha256() for _ in range(lanes)], at

    @property
    def tail(self) -> str:
        """The digest of everything that was added."""
        digests = (lane.digest() for lane in self._lanes)
        return sha256(b"".join([bytes.fromhex(self.chain), *digests])).hexdigest()

    def add(self, size: int, *data: bytes | memoryview) -> None:
        """Add a piece that fits into the block: one byte string for each lane."""
        if self.at == self._begun + self.block:
            self.chain, self._begun = self.tail, self.at
            self._lanes = [sha256() for _ in self._lanes]
        for lane, each in zip(self._lanes, data, strict=True):
            lane.update(each)
        self.at += size

    def add_bytes(self, data: bytes | memoryview) -> None:
        """Add any number of bytes."""
        view = memoryview(data)
        while view:
            piece = view[: self.block - self.at % self.block]
            view = view[len(piece) :]
            self.add(len(piece), piece)

    def seen(self, row: int, header: str | None) -> Seen:
        """The position and digests, for an offset."""
        return Seen(
            at=self.at, row=row, header=header, block=self.block, chain=self.chain, tail=self.tail
        )


def resumed(seen: Seen, *, lanes: int = 1, thorough: bool) -> Chain:
    """A chain to check what was read: all of it if thorough, otherwise its last block."""
    if thorough or seen.chain is None:
        return Chain(seen.block, lanes=lanes)
    start = max(seen.at - 1, 0) // seen.block * seen.block
    return Chain(seen.block, lanes=lanes, at=start, chain=seen.chain)


class ChangedError(Exception):
    """A file is not the one that was read before, or its beginning has changed.

    The message follows the file's name; `back` says how to undo the change.
    """

    def __init__(self, what: str, back: str = "restore the earlier file") -> None:
        super().__init__(what)
        self.back = back


# --- offsets


NOT_FILES = f"the offset is not one of a file or folder: {OTHER_SOURCE}"

MAX_LISTED_FILES = 2**14
"""The most files of a folder that an offset lists."""

UNKNOWN = bytes(8)
"""Stands for a digest that was not kept."""


def mark(offset: str) -> str:
    """A short text that identifies an offset, for people to copy.

    >>> mark('{"at": 70}')
    '525a44102485f711'
    """
    return sha256(offset.encode()).hexdigest()[:16]


def consented(offset: str | None, resume: tuple[str, str] | None) -> str | None:
    """Where to continue instead, if `resume` names exactly this offset."""
    if offset is None or resume is None or resume[0] != mark(offset):
        return None
    return resume[1]


def as_count(instead: str) -> int:
    """The number of records to skip, from `resume`."""
    if not (instead.isascii() and instead.isdigit()):
        raise SourceError(f"resume must name a number of records here, got '{instead}'")
    return int(instead)


class Entry(NamedTuple):
    """A file of a folder that was taken, in 24 bytes."""

    name: bytes  # the first 8 bytes of the SHA-256 of its name
    inode: bytes
    tail: bytes  # the first 8 bytes of the digest of its content


@dataclass(frozen=True)
class Taken:
    """The files of a folder that were read to their end, in the order of their names.

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
        """Add a file, with the digest of its content if known."""
        short = UNKNOWN if tail is None else bytes.fromhex(tail)[:8]
        return Taken((*self.entries, Entry(_short(name), _number(inode), short)))

    def pruned(self, present: Iterable[str], folder: str) -> "Taken":
        """Drop the first files that are gone, to keep at most `MAX_LISTED_FILES` entries."""
        if (over := len(self.entries) - MAX_LISTED_FILES) <= 0:
            return self
        there = frozenset(map(_short, present))
        gone = [entry for entry in self.entries if entry.name not in there][:over]
        if len(gone) < over:
            raise SourceError(
                f"{folder} holds more than {MAX_LISTED_FILES:,} files that were taken: "
                "delete some of them, or move them elsewhere"
            )
        return Taken(tuple(entry for entry in self.entries if entry not in set(gone)))

    def tails(self, inode: int | None = None) -> Iterator[str]:
        """The first 8 bytes, in hex, of the files' digests; of one inode if it is given."""
        wanted = None if inode is None else _number(inode)
        for entry in self.entries:
            if (wanted is None or entry.inode == wanted) and entry.tail != UNKNOWN:
                yield entry.tail.hex()


def _short(name: str) -> bytes:
    return sha256(name.encode()).digest()[:8]


def _number(inode: int) -> bytes:
    return (inode % 2**64).to_bytes(8)


@dataclass(frozen=True, kw_only=True)
class FileOffset:
    """How far a source of files, or standard input, was read.

    The stamp holds the times of the file when everything read of it was last checked; None if they
    were too recent to show a later change.
    """

    file: str
    seen: Seen
    last: bool = False  # whether the file ends there
    records: int | None = None  # the records taken from the source in total, if known
    inode: int | None = None
    stamp: str | None = None
    taken: Taken = Taken()  # the files of the folder before this one
    rank: int | None = None  # the number of files up to this one; only in offsets of version 0.1.0

    def moved(self, seen: Seen, taken: int) -> "FileOffset":
        """The place after `taken` more records."""
        records = None if self.records is None else self.records + taken
        return replace(self, seen=seen, records=records)

    def text(self) -> str:
        """As an offset."""
        kept = {**vars(self), **vars(self.seen), "taken": self.taken.text()}
        del kept["seen"], kept["rank"]  # only version 0.1.0 kept the rank
        return json.dumps(kept, sort_keys=True)

    @classmethod
    def of(cls, offset: str) -> "FileOffset":
        """From an offset of this version or of 0.1.0.

        >>> place = FileOffset(file="a.csv", seen=Seen(at=70, row=3), records=3)
        >>> FileOffset.of(place.text()) == place
        True
        >>> FileOffset.of('{"at": 70, "file": "a.csv", "last": true, "rank": 1}').seen
        Seen(at=70, row=None, header=None, block=1048576, chain=None, tail=None)
        """
        try:
            keys = json.loads(offset)
            seen = Seen(**{name: keys.pop(name) for name in DIGEST_KEYS if name in keys})
            taken = Taken.of(keys.pop("taken", ""))
            place = cls(seen=seen, taken=taken, **keys)
            whole("records", 0 if place.records is None else place.records, least=0)
        except (AttributeError, TypeError, ValueError) as error:
            raise SourceError(NOT_FILES) from error
        if not isinstance(place.file, str):
            raise SourceError(NOT_FILES)
        return place


BEGINNING = FileOffset(file="", seen=Seen(at=0), last=True, records=0)
"""Before the first record of the first file."""

DIGEST_KEYS = ("at", "row", "header", "block", "chain", "tail")

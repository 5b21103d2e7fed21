"""Digests of what was read of a file, which stay small however long the file is."""

from dataclasses import dataclass
from hashlib import sha256

from tidegate.checks import whole

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

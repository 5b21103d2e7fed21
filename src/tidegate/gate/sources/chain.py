"""What was read of a file, as two digests that stay small however long the file is."""

from dataclasses import dataclass
from hashlib import sha256

from tidegate.checks import whole

START = "0" * 64
"""The chain of no block."""

BYTES = 2**20
"""Bytes in a block of a file of lines."""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """How far a file was read, and a digest of all that was read.

    Of an offset that version 0.1.0 has written, row, chain and tail are None.
    """

    at: int  # the position: bytes of a file of lines, rows of a Parquet file
    row: int | None = None  # how many records stand before it
    header: str | None = None  # the SHA-256 of what names the columns, if anything does
    block: int = BYTES  # the size of a block, in the unit of `at`
    chain: str | None = None  # the digest of all blocks but the last
    tail: str | None = None  # the digest of these and of the last, which need not be full

    def __post_init__(self) -> None:
        whole("at", self.at, least=0)
        whole("block", self.block)
        whole("row", 0 if self.row is None else self.row, least=0)


@dataclass(frozen=True, kw_only=True)
class Start:
    """From where a file is read."""

    seen: Seen | None = None  # what was read of it, which must still be there
    thorough: bool = True  # read all of that again to check it, not just header and last block
    passed: int = 0  # how many of its records are passed over instead


class Chain:
    """SHA-256 over blocks of a fixed size, each with the digest of those before it.

    Where the blocks end depends on their size alone, so what is added may come in pieces of any
    size. To check a position again takes the last block, given the chain of those before.

    Args:
        block: The size of a block.
        lanes: How many texts of bytes each piece has, digested side by side within a block.
        at: Where a block starts, ...
        chain: ... and the chain of the blocks before it.

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
        """The digest of all that was added."""
        digests = (lane.digest() for lane in self._lanes)
        return sha256(b"".join([bytes.fromhex(self.chain), *digests])).hexdigest()

    def add(self, size: int, *data: bytes | memoryview) -> None:
        """Add a piece that there is room for, in as many texts as there are lanes."""
        if self.at == self._begun + self.block:
            self.chain, self._begun = self.tail, self.at
            self._lanes = [sha256() for _ in self._lanes]
        for lane, each in zip(self._lanes, data, strict=True):
            lane.update(each)
        self.at += size

    def add_bytes(self, data: bytes | memoryview) -> None:
        """Add bytes, however many blocks they fill."""
        view = memoryview(data)
        while view:
            piece = view[: self.block - self.at % self.block]
            view = view[len(piece) :]
            self.add(len(piece), piece)

    def seen(self, row: int, header: str | None) -> Seen:
        """What was added, as an offset keeps it."""
        return Seen(
            at=self.at, row=row, header=header, block=self.block, chain=self.chain, tail=self.tail
        )


def resumed(seen: Seen, *, lanes: int = 1, thorough: bool) -> Chain:
    """The chain to which all that was read, or only its last block, is added to check it."""
    if thorough or seen.chain is None:
        return Chain(seen.block, lanes=lanes)
    start = max(seen.at - 1, 0) // seen.block * seen.block
    return Chain(seen.block, lanes=lanes, at=start, chain=seen.chain)


class ChangedError(Exception):
    """A file is not the one that was read before, or does not start with what was read of it.

    The message follows the file's name, and `back` says how to set it right.
    """

    def __init__(self, what: str, back: str = "put back what was there") -> None:
        super().__init__(what)
        self.back = back

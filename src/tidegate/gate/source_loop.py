"""The loop of `Gate.run`: read the sources and carry out the fits that become due."""

import select
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tidegate.checks import InvalidValueError
from tidegate.gate.durable_run import DurableRun
from tidegate.gate.sources import RawBatch, Source, StandardInput
from tidegate.gate.sources.files import Files, Follow
from tidegate.gate.sources.source import check_columns
from tidegate.gate.store import Store
from tidegate.release import StoredRelease

PAUSE = 1.0
"""Seconds between two reads of a source that is followed."""


AGAIN = "this batch was not taken; stop this run and start it again"


def never() -> bool:
    """The default of `stop`: never stop."""
    return False


def check_readable(sources: Iterable[Source]) -> None:
    """Check that sources can be read: refuse missing files, streams or columns."""
    for source in sources:
        if not isinstance(source, StandardInput):
            batches = source.batches(None)
            try:
                _check_first(source, next(batches, None))
            finally:
                _close([batches])


def releases_of(
    run: DurableRun,
    take: Callable[[str, RawBatch], object],
    sources: Mapping[str, Source],
    *,
    again: Follow,
    stop: Callable[[], bool],
) -> Generator[StoredRelease]:
    """Read the sources, carry out the fits that become due, and yield releases.

    While two streams both have records, they alternate (`Progress.turn`). The order depends only on
    what the files hold, not on how they are read or when a run was stopped.

    Args:
        run: Carries the steps out.
        take: Makes a batch of a stream durable, with the offset of its source.
        sources: The source of each stream.
        again: Called at the end of all sources; returns whether to read on.
        stop: Called before every batch and every step; returns whether to stop there.
    """
    progress = run.progress

    def batches(*, piped: bool) -> dict[str, Iterator[RawBatch]]:
        return {
            stream: _unread(source, run.store)
            for stream, source in sources.items()
            if isinstance(source, StandardInput) == piped
        }

    pipes, files = batches(piped=True), batches(piped=False)
    try:
        while True:
            waiting = {**pipes, **files}
            while left := [s for s in progress.streams if s in waiting or progress.complete(s)]:
                if stop():
                    return
                stream = min(left, key=progress.turn)
                if progress.complete(stream):
                    yield from run.carry_out(stream)
                elif stream in pipes and len(sources) > 1 and not _ready(sources[stream]):
                    del waiting[stream]  # do not make the other stream wait
                elif (raw := next(waiting[stream], None)) is not None:
                    take(stream, raw)
                else:
                    del waiting[stream]
                    pipes.pop(stream, None)  # a pipe does not continue after its end
            if pipes:
                _ready(*(sources[stream] for stream in pipes), seconds=PAUSE)
            elif not files or not again():
                return
            files = batches(piped=False)
    finally:
        _close([*pipes.values(), *files.values()])


def _unread(source: Source, store: Store) -> Generator[RawBatch]:
    """The batches of a source after its offset; refuse if another run reads it meanwhile."""
    offset = store.offset(source.name)
    batches = source.batches(offset)
    coming = ahead(batches) if isinstance(source, Files) else batches
    try:
        for raw in coming:
            if offset is None:
                _check_first(source, raw)
            if store.offset(source.name) != offset:  # records would be taken twice
                raise InvalidValueError(f"another run has read {source.name} since: {AGAIN}")
            yield raw
            offset = raw.offset if raw.n else offset
    finally:
        _close([coming, batches])


def _check_first(source: Source, raw: RawBatch | None) -> None:
    """Refuse a first batch that lacks a column in every record, as a CSV file without it is.

    Not of a broker: its messages cannot be corrected, and its first batch may hold only one.
    """
    if raw is not None and isinstance(source, Files | StandardInput):
        where = "standard input" if isinstance(source, StandardInput) else str(source.path)
        check_columns(raw, where)


def ahead(batches: Iterator[RawBatch]) -> Generator[RawBatch]:
    """The same batches, each read on another thread while the one before is made durable.

    >>> list(ahead(iter([])))
    []
    """
    with ThreadPoolExecutor(1, "reading") as reader:
        coming = reader.submit(next, batches, None)
        while (raw := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield raw


def _ready(*pipes: Source, seconds: float = 0) -> bool:
    """Whether a pipe has data or has ended; wait up to `seconds` for that."""
    streams: list[Any] = [pipe.stream for pipe in pipes if isinstance(pipe, StandardInput)]
    return bool(select.select(streams, [], [], seconds)[0])


def _close(opened: Iterable[Iterator[RawBatch]]) -> None:
    """Close connections now instead of at garbage collection."""
    for batches in opened:
        if isinstance(batches, Generator):
            batches.close()

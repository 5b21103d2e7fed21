"""The loop of `Gate.run`: take in what sources have, and carry out what becomes due."""

import select
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any

from tidegate.checks import InvalidValueError
from tidegate.executor import carry_out
from tidegate.gate.durable_run import DurableRun
from tidegate.gate.sources import RawBatch, Source, StandardInput
from tidegate.gate.sources.files import Follow
from tidegate.gate.store import Store
from tidegate.release import StoredRelease

PAUSE = 1.0
"""Seconds after which a source that is followed is looked at again."""


AGAIN = "nothing of this batch was taken; end this run, and start another to go on"


def never() -> bool:
    """Do not stop."""
    return False


def check_readable(sources: Iterable[Source]) -> None:
    """Refuse files and brokers' streams that are not there, and files that lack a column."""
    for source in sources:
        if not isinstance(source, StandardInput):
            batches = source.batches(None)
            try:
                next(batches, None)
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
    """Take in what the sources have, and carry out what becomes due.

    As long as two streams have records, they take turns by what was carried out (`Progress.turn`):
    what files hold decides the order, not how they are read or when a run was stopped.

    Args:
        run: Carries the steps out.
        take: Makes a batch of a stream durable, and the offset of its source with it.
        sources: The source of each stream.
        again: Called when all are at their ends: whether to look again.
        stop: Asked before every batch and every step: whether to stop there.
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
                    yield from carry_out(run, stream)
                elif stream in pipes and len(sources) > 1 and not _ready(sources[stream]):
                    del waiting[stream]  # the other stream need not wait for this one
                elif (raw := next(waiting[stream], None)) is not None:
                    take(stream, raw)
                else:
                    del waiting[stream]
                    pipes.pop(stream, None)  # a pipe that has ended has ended for good
            if pipes:
                _ready(*(sources[stream] for stream in pipes), seconds=PAUSE)
            elif not files or not again():
                return
            files = batches(piped=False)
    finally:
        _close([*pipes.values(), *files.values()])


def _unread(source: Source, store: Store) -> Generator[RawBatch]:
    """What a source has after its offset, as long as no other run takes it in meanwhile."""
    offset = store.offset(source.name)
    batches = source.batches(offset)
    try:
        for raw in batches:
            if store.offset(source.name) != offset:  # it would be taken twice
                raise InvalidValueError(f"another run has read {source.name} since: {AGAIN}")
            yield raw
            offset = raw.offset if raw.n else offset
    finally:
        _close([batches])


def _ready(*pipes: Source, seconds: float = 0) -> bool:
    """Whether a pipe has something to read, or has ended; by default without waiting for it."""
    streams: list[Any] = [pipe.stream for pipe in pipes if isinstance(pipe, StandardInput)]
    return bool(select.select(streams, [], [], seconds)[0])


def _close(opened: Iterable[Iterator[RawBatch]]) -> None:
    """End connections now: when a generator would be collected is nobody's to say."""
    for batches in opened:
        if isinstance(batches, Generator):
            batches.close()

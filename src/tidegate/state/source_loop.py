"""The loop of `Gate.run`: read the sources and carry out the fits that become due.

Files that the state has already taken are refused, and so are holdouts that are not public.
"""

import select
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidegate.checks import InvalidValueError
from tidegate.release.card import StoredRelease
from tidegate.run.config import Config, file_name
from tidegate.sources import RawBatch, Source, SourceError
from tidegate.sources.configured import Follow, shared
from tidegate.sources.file_offset import FileOffset
from tidegate.sources.files import Files, regular
from tidegate.sources.json_lines import StandardInput
from tidegate.sources.source import checked_first

if TYPE_CHECKING:
    from tidegate.state.durable_run import DurableRun
from tidegate.state.store import Store

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
                next(checked_first(batches, str(source)), None)
            finally:
                _close([batches])


def releases_of(
    run: "DurableRun",
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
        for raw in coming if offset is not None else checked_first(coming, str(source)):
            if store.offset(source.name) != offset:  # records would be taken twice
                raise InvalidValueError(f"another run has read {source.name} since: {AGAIN}")
            yield raw
            offset = raw.offset if raw.n else offset
    finally:
        _close([coming, batches])


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


PUBLIC = "holdout accuracies are published without noise, so use public records"
BLOCK = 2**20


def holdouts(config: Config) -> list[Files]:
    """The public records on which releases are tested, if the configuration names any."""
    found = config.holdout()
    return [] if found is None else [found]


def check_sources(config: Config) -> None:
    """Refuse a holdout that [source] reads, under any name, or that copies its files."""
    for holdout in holdouts(config):
        for identity in config.identities:
            if (both := shared(holdout.identity, identity)) is not None:
                raise _private(holdout.root, f"[source] reads {both}")
        for path, other in product(holdout.files(), filter(Path.is_file, config.files())):
            if is_copy(holdout, path, other):
                raise _private(path, f"it holds the same records as {other} of [source]")


def check_holdout(config: Config, store: Store) -> None:
    """Refuse a holdout that [source] reads, or whose records were already taken."""
    check_sources(config)
    files = [(holdout, path) for holdout in holdouts(config) for path in holdout.files()]
    taken = list(places(store)) if files else []
    for holdout, path in files:
        tails = holdout.tails(path, [place.seen for _, place in taken if place.seen.tail])
        for name, place in taken:
            if tails.get(place.seen) == place.seen.tail is not None:
                raise _private(path, f"it starts with records that were taken from {name}")
            if tails[None][:16] in place.taken.tails():
                raise _private(path, f"it is a file that was taken from {name}")


def check_separate(config: Config) -> None:
    """Refuse two streams whose sources share records."""
    if len(config.identities) == 2 and (both := shared(*config.identities)) is not None:
        reads = f"source.target must not read {both}, which source.source reads"
        raise InvalidValueError(f"{reads}: a record would pay in both; give each stream its own")


def check_configured(config: Config, store: Store, sources: Mapping[str, Source]) -> None:
    """Refuse files of [source] that were already taken under another name."""
    check_separate(config)
    taken = set(store.sources())
    named = (path for path in config.files() if file_name(path) in taken)
    for path in chain(named, _taken_elsewhere(store, sources)):
        again = f"{path} was taken by ingest, and run would take it again"
        raise InvalidValueError(f"{again}: remove it from [source]")


def check_given(config: Config, store: Store, sources: Mapping[str, Source]) -> None:
    """Refuse files that are the holdout, or were already taken under another name."""
    public = [path for holdout in holdouts(config) for path in holdout.files()]
    for path in public:
        for source in _files(sources):
            if source.root.is_file() and is_copy(source, path, source.root):
                same = f"{source.path} holds the records of quality.holdout"
                raise InvalidValueError(f"{same}: {PUBLIC}")
    for path in _taken_elsewhere(store, sources):
        taken = f"{path} was taken under another name, and would be taken again"
        raise InvalidValueError(f"{taken}: use the path that you used before")


def _taken_elsewhere(store: Store, sources: Mapping[str, Source]) -> Iterator[Path]:
    """Files of these sources that other sources have already taken, also through links."""
    own = {source.name for source in sources.values()}
    others = [place for name, place in places(store) if name not in own]
    for source in _files(sources) if others else []:
        for path in source.files():
            inode = regular(path).st_ino
            for place in others:
                linked = place.inode == inode and source.holds(path, place.seen)
                before = set(place.taken.tails(inode))
                if linked or (before and source.tails(path, [])[None][:16] in before):
                    yield path


def _files(sources: Mapping[str, Source]) -> list[Files]:
    return [source for source in sources.values() if isinstance(source, Files)]


def places(store: Store) -> Iterator[tuple[str, FileOffset]]:
    """The names and places of the file sources, and standard input, that were read."""
    for name in store.sources():
        try:
            yield name, FileOffset.of(store.offset(name) or "")
        except SourceError:  # the offset of a broker or of Python batches
            continue


def is_copy(reader: Files, one: Path, other: Path) -> bool:
    """Whether one file starts with the whole of the other, and that has a record."""
    shorter, longer = sorted((one, other), key=lambda path: path.stat().st_size)
    with shorter.open("rb") as some, longer.open("rb") as more:
        while data := some.read(BLOCK):
            if data != more.read(len(data)):
                return False
    return shorter.stat().st_size > 0 and reader.records(shorter) > 0


def _private(path: Path, why: str) -> InvalidValueError:
    return InvalidValueError(f"quality.holdout must not be {path}, because {why}: {PUBLIC}")

"""Refuse files that a state has already taken, and holdouts that are not public."""

from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from tidegate.checks import InvalidValueError
from tidegate.gate.config import Config, file_name
from tidegate.gate.config.source_identity import of_path, shared
from tidegate.gate.sources import Source, SourceError
from tidegate.gate.sources.files import Files, Format, holds, regular
from tidegate.gate.sources.place import Place
from tidegate.gate.store import Store

PUBLIC = "holdout accuracies are published without noise, so use public records"
BLOCK = 2**20


def check_sources(config: Config) -> None:
    """Refuse a holdout that [source] reads, under any name, or that copies its files."""
    if (holdout := config.holdout()) is None:
        return
    for identity in config.identities:
        if (both := shared(of_path(holdout.path), identity)) is not None:
            raise _private(holdout.path, f"[source] reads {both}")
    for path in holdout.files():
        for other in filter(Path.is_file, config.source_files()):
            if is_copy(holdout.format, path, other):
                raise _private(path, f"it holds the same records as {other} of [source]")


def check_holdout(config: Config, store: Store) -> None:
    """Refuse a holdout that [source] reads, or whose records were already taken."""
    check_sources(config)
    if (holdout := config.holdout()) is None:
        return
    taken = list(places(store))
    for path in holdout.files():
        tails = holdout.format.tails(path, [place.seen for _, place in taken if place.seen.tail])
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
    named = (path for path in config.files() if store.offset(file_name(path)) is not None)
    for path in chain(named, _taken_elsewhere(store, sources)):
        taken = f"{path} was taken by ingest, and run would take it again"
        raise InvalidValueError(f"{taken}: remove it from [source]")


def check_given(config: Config, store: Store, sources: Mapping[str, Source]) -> None:
    """Refuse files that are the holdout, or were already taken under another name."""
    holdout = config.holdout()
    for path in [] if holdout is None else holdout.files():
        for source in _files(sources):
            if source.path.is_file() and is_copy(source.format, path, source.path):
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
                linked = place.inode == inode and holds(source.format, path, place.seen)
                before = set(place.taken.tails(inode))
                if linked or (before and source.format.tails(path, [])[None][:16] in before):
                    yield path


def _files(sources: Mapping[str, Source]) -> list[Files]:
    return [source for source in sources.values() if isinstance(source, Files)]


def places(store: Store) -> Iterator[tuple[str, Place]]:
    """The names and places of the file sources, and standard input, that were read."""
    for name in store.sources():
        try:
            yield name, Place.of(store.offset(name) or "")
        except SourceError:  # the offset of a broker or of Python batches
            continue


def is_copy(reader: Format, one: Path, other: Path) -> bool:
    """Whether one file starts with the whole of the other, and that has a record."""
    shorter, longer = sorted((one, other), key=lambda path: path.stat().st_size)
    with shorter.open("rb") as some, longer.open("rb") as more:
        while data := some.read(BLOCK):
            if data != more.read(len(data)):
                return False
    return shorter.stat().st_size > 0 and reader.records(shorter) > 0


def _private(path: Path, why: str) -> InvalidValueError:
    return InvalidValueError(f"quality.holdout must not be {path}, because {why}: {PUBLIC}")

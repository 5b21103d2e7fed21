"""The folder that a Gate publishes its releases to, held against the state that they come from."""

from collections.abc import Iterator
from pathlib import Path

from tidegate.checks import StoreError, refuse
from tidegate.gate import export
from tidegate.gate.store import Problem, Store


def check_apart(folder: Path, state: Path) -> None:
    """Refuse a folder that shares files with a state, which holds raw data."""
    inner, outer = folder.resolve(), state.resolve()
    if inner.is_relative_to(outer) or outer.is_relative_to(inner):
        raise refuse("publish.folder", f"apart from the state {state}", str(folder))


def check_known(folder: Path, store: Store) -> None:
    """Refuse a state that does not know what is published: it is an older copy, or another one.

    Going on would make models again that are out already, with new noise: a second charge.
    """
    newest, known = export.last_published(folder), store.newest()
    if newest is not None and newest > (-1 if known is None else known.number):
        raise StoreError(
            f"{folder} holds release {newest}, which the state does not know: the state is an "
            "older copy, or the folder is of another; see docs/store.md"
        )
    if newest is not None:
        export.check_same(folder, store.release(newest))


def catch_up(folder: Path, store: Store) -> None:
    """Publish all that is not in the folder yet, also what a crash or a full disk has left out."""
    newest = export.newest_published(folder)
    for release in store.releases(0 if newest is None else newest + 1):
        try:
            export.publish(folder, release)
        except OSError as error:
            raise StoreError(
                f"{error.filename or folder}: {error.strerror or error}; release {release.number} "
                "is safe in the state: see to the cause, then run again to publish it"
            ) from error


def problems(folder: Path, newest: int | None, store: Store) -> Iterator[Problem]:
    """What is wrong with the files, and where they are not what the state says was released.

    Args:
        folder: Where releases are published.
        newest: What was the newest there when the store was as it is read: the rest is left alone.
        store: What they should be.
    """
    if newest is None:
        return
    for what in export.verify(folder, newest):
        yield Problem(where=str(folder), what=what)
    foreign = [
        number
        for number, found in export.published_hashes(folder, newest)
        if not _holds(store, number, found)
    ]
    if foreign:  # a folder of another state would have a line for each
        which = f"release {foreign[0]} is not the one"
        if len(foreign) > 1:
            which = f"{len(foreign):,} releases from {foreign[0]} to {foreign[-1]} are not those"
        yield Problem(where=str(folder), what=f"{which} in the state")


def _holds(store: Store, number: int, found: str | None) -> bool:
    try:
        return store.release(number).hash == found
    except StoreError:
        return False

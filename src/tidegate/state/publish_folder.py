"""The folder to which a gate publishes its releases.

For each release it has NNNNNN.safetensors, NNNNNN.json, NNNNNN.md, and NNNNNN.sha256 with their
digests (for `sha256sum --check`). The file `latest` has the number of the newest release. The state
stores the digests of all four files, so that `verify` finds changes.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tidegate.checks import InvalidValueError, StoreError, json_of, refuse
from tidegate.release import export_formats
from tidegate.release.card import StoredRelease
from tidegate.state.store import Store
from tidegate.whole_file import make_folder, read_whole

KINDS = ("safetensors", "md", "json")
"""The files of a release in the order of writing: the card (JSON) comes after the model."""

OTHER = "the folder belongs to another state, or this one is an older copy; see docs/store.md"
REPAIR = "see docs/store.md for the repair"

RELEASES_PER_UPDATE = 64
"""The number of releases published between two updates of the state."""


def publish(folder: Path | str, release: StoredRelease) -> dict[str, str]:
    """Write a release to a folder; return the digests of its files by their names.

    Readers never see a partial file, and `latest` never names a missing one. Publishing a release
    again changes nothing. A different release of the same number is refused, and so is one whose
    previous hash is not that of the release before.

    Args:
        folder: The folder; created if missing.
        release: The release.
    """
    folder = Path(folder)
    if not release.intact:
        raise InvalidValueError(
            f"release {release.number} is damaged and was not published: run tidegate verify"
        )
    before = file_of(folder, release.number - 1, "json")
    check_same(folder, release)
    if _hash(before) not in (None, release.previous):
        raise InvalidValueError(f"release {release.number} does not follow {before}: {OTHER}")
    if not folder.is_dir():
        make_folder(folder)
    files = files_of(release)
    for name, data in files.items():
        export_formats.write(folder / name, data)
    newest = max(release.number, newest_published(folder) or 0)
    export_formats.write(folder / "latest", f"{newest:06}\n".encode())
    return digests_of(files)


def files_of(release: StoredRelease) -> dict[str, bytes]:
    """The content of a release's files by their names, in the order of writing."""
    files = {name_of(release.number, kind): export_formats.KINDS[kind](release) for kind in KINDS}
    return {**files, name_of(release.number, "sha256"): manifest(digests_of(files))}


def digests_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """The SHA-256 of files by their names."""
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def manifest(digests: Mapping[str, str]) -> bytes:
    """Digests in the format of `sha256sum --check`."""
    return "".join(f"{digest}  {name}\n" for name, digest in digests.items()).encode()


def check_same(folder: Path | str, release: StoredRelease) -> None:
    """Refuse a folder that has a different release of the same number."""
    if _hash(file_of(Path(folder), release.number, "json")) not in (None, release.hash):
        raise InvalidValueError(f"{folder} has a different release {release.number}: {OTHER}")


def newest_published(folder: Path | str) -> int | None:
    """The number in the file `latest`; None if nothing is published."""
    text = bytes_of(Path(folder) / "latest")
    if text is None:
        return None
    if not re.fullmatch(rb"\d{6,18}\n", text):
        raise InvalidValueError(f"{folder}/latest is damaged: delete it and run again")
    return int(text)


def check_separate(folder: Path, state: Path) -> None:
    """Refuse a publish folder inside a state folder, or around it: a state holds raw records."""
    inner, outer = folder.resolve(), state.resolve()
    if inner.is_relative_to(outer) or outer.is_relative_to(inner):
        raise refuse("publish.folder", f"separate from the state folder {state}", str(folder))


def check_same_state(folder: Path, store: Store) -> None:
    """Refuse a folder with releases that the state has not made.

    The state is then an older copy, or another one. To continue would make models again that are
    already public, with new noise: records would pay twice.
    """
    newest = max(numbers_in(folder), default=-1)
    if newest > newest_made(store):
        raise StoreError(
            f"{folder} holds release {newest}, which the state has not made: the state is an "
            "older copy, or the folder belongs to another; see docs/store.md"
        )
    if newest >= 0:
        check_same(folder, store.release(newest))


def newest_made(store: Store) -> int:
    """The number of the newest release of a state; -1 if it has none."""
    newest = store.newest()
    return newest.number if newest else -1


def catch_up(folder: Path, store: Store) -> None:
    """Publish all releases that are not in the folder yet, also after a crash or a full disk.

    Once the files are written, their digests are stored in the state.
    """
    newest = newest_published(folder)
    start = min(store.unpublished(), 0 if newest is None else newest + 1)
    files: dict[int, dict[str, str]] = {}
    for release in store.releases(start):
        try:
            files[release.number] = publish(folder, release)
        except OSError as error:
            raise StoreError(
                f"{error.filename or folder}: {error.strerror or error}; release {release.number} "
                "is safe in the state: fix the cause, then run again to publish it"
            ) from error
        if len(files) == RELEASES_PER_UPDATE:
            store.note_published(files)
            files = {}
    if files:
        store.note_published(files)


def published_in(folder: Path) -> bool:
    """Whether a folder looks like a publish folder."""
    return os.path.lexists(folder / "latest") or bool(numbers_in(folder))


def read_published(folder: Path, number: int | None = None) -> StoredRelease:
    """Read a release from a folder of any origin; by default the newest.

    Args:
        folder: The published folder.
        number: The number of the release.
    """
    newest = newest_published(folder)
    if newest is None:
        raise InvalidValueError(f"{folder}/latest is missing: {REPAIR}")
    wanted = newest if number is None else number
    path = file_of(folder, wanted, "safetensors")
    data = bytes_of(path)
    if data is None:
        many = f"0 to {newest}" if newest else "0 only"
        raise InvalidValueError(f"{folder} has no release {wanted} that can be read: it has {many}")
    release = export_formats.release_of(path, data)
    if release.number != wanted:
        raise InvalidValueError(f"{path} holds release {release.number}: do not use this folder")
    return release


def published_releases(folder: Path) -> Iterator[StoredRelease]:
    """The releases in a folder, in order."""
    for number in numbers_in(folder):
        yield export_formats.load_release(file_of(folder, number, "safetensors"))


def file_of(folder: Path, number: int, kind: str) -> Path:
    """One of the files of a release."""
    return folder / name_of(number, kind)


def name_of(number: int, kind: str) -> str:
    """The name of one of the files of a release."""
    return f"{number:06}.{kind}"


def numbers_in(folder: Path, *kinds: str) -> Sequence[int]:
    """The numbers of the models in a folder, or of other kinds of its files, in order."""
    names = {path.stem for kind in kinds or ("safetensors",) for path in folder.glob(f"*.{kind}")}
    numbers = {name: int(name) for name in names if name.isascii() and name.isdecimal()}
    return sorted(number for name, number in numbers.items() if name == f"{number:06}")


def bytes_of(path: Path) -> bytes | None:
    """The content of a file; None if it cannot be read."""
    try:
        return read_whole(path)
    except OSError:
        return None


def _hash(path: Path) -> str | None:
    """The hash in a published card; None if there is no card."""
    data = bytes_of(path)
    if data is None:
        return None
    try:
        return str(json_of(data)["hash"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidValueError(
            f"{path} is damaged or not a card: restore it from a copy"
        ) from None

"""The folder that a Gate publishes its releases to.

It holds NNNNNN.safetensors, NNNNNN.json and NNNNNN.md for each release, NNNNNN.sha256 with the
digests of these three (`sha256sum --check` reads it), and `latest`, a file with the number of the
newest. The state keeps the digests of all four: what was changed here is not what it published.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tidegate.checks import InvalidValueError, StoreError, refuse
from tidegate.gate import export
from tidegate.gate.integrity import HISTORY
from tidegate.gate.segment_folder import make_folder
from tidegate.gate.store import Problem, Store
from tidegate.gate.whole_file import read_whole
from tidegate.release import StoredRelease

KINDS = ("safetensors", "md", "json")
"""What is published of each release, in this order: who finds the card finds the model."""

OTHER = "the folder belongs to another state; publish to a folder of its own"

TOGETHER = 64
"""How many releases are published before the state is told."""


def publish(folder: Path | str, release: StoredRelease) -> dict[str, str]:
    """Put a release into a folder for others to read; the digests of its files, by their names.

    A reader never sees a file half written, nor `latest` naming one that is not there. Publishing a
    release again changes nothing; another release of the same number, or one that does not follow
    the one before it, is refused.

    Args:
        folder: Where to; made if it is not there.
        release: What to publish.
    """
    folder = Path(folder)
    if not release.intact:
        raise InvalidValueError(
            f"release {release.number} is damaged: it is not published; see tidegate verify"
        )
    before = _file(folder, release.number - 1, "json")
    check_same(folder, release)
    if _hash(before) not in (None, release.previous):
        raise InvalidValueError(f"release {release.number} does not follow {before}: {OTHER}")
    if not folder.is_dir():
        make_folder(folder)
    files = _files(release)
    for name, data in files.items():
        export.write(folder / name, data)
    newest = max(release.number, newest_published(folder) or 0)
    export.write(folder / "latest", f"{newest:06}\n".encode())
    return _digests(files)


def _files(release: StoredRelease) -> dict[str, bytes]:
    """What is published of a release, by the names of the files, in the order of their writing."""
    files = {_name(release.number, kind): export.KINDS[kind](release) for kind in KINDS}
    return {**files, _name(release.number, "sha256"): manifest(_digests(files))}


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def manifest(digests: Mapping[str, str]) -> bytes:
    """Digests in the form that `sha256sum --check` reads."""
    return "".join(f"{digest}  {name}\n" for name, digest in digests.items()).encode()


def check_same(folder: Path | str, release: StoredRelease) -> None:
    """Refuse a folder that has another release of the same number."""
    if _hash(_file(Path(folder), release.number, "json")) not in (None, release.hash):
        raise InvalidValueError(f"{folder} has another release {release.number}: {OTHER}")


def newest_published(folder: Path | str) -> int | None:
    """The number that `latest` names, None if nothing is published there."""
    text = _read(Path(folder) / "latest")
    if text is None:
        return None
    if not re.fullmatch(rb"\d{6,18}\n", text):
        raise InvalidValueError(f"{folder}/latest is damaged: delete it")
    return int(text)


def check_apart(folder: Path, state: Path) -> None:
    """Refuse a folder that shares files with a state, which holds raw data."""
    inner, outer = folder.resolve(), state.resolve()
    if inner.is_relative_to(outer) or outer.is_relative_to(inner):
        raise refuse("publish.folder", f"apart from the state {state}", str(folder))


def check_known(folder: Path, store: Store) -> None:
    """Refuse a state that does not know what is published: it is an older copy, or another one.

    Going on would make models again that are out already, with new noise: a second charge.
    """
    newest = max(_numbers(folder), default=-1)
    if newest > _newest_made(store):
        raise StoreError(
            f"{folder} holds release {newest}, which the state does not know: the state is an "
            "older copy, or the folder is of another; see docs/store.md"
        )
    if newest >= 0:
        check_same(folder, store.release(newest))


def _newest_made(store: Store) -> int:
    newest = store.newest()
    return -1 if newest is None else newest.number


def catch_up(folder: Path, store: Store) -> None:
    """Publish all that is not in the folder yet, also what a crash or a full disk has left out.

    The state learns the digests of the files once they are there.
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
                "is safe in the state: see to the cause, then run again to publish it"
            ) from error
        if len(files) == TOGETHER:
            store.note_published(files)
            files = {}
    if files:
        store.note_published(files)


def problems(folder: Path, store: Store) -> Iterator[Problem]:
    """What is wrong with the files, and where they are not what the state has published.

    A stop may come between a step and the files of its releases, or before the state knows these:
    of the newest step they may be missing. What is there must be what the state would publish; what
    is newer than the state is left alone.
    """
    known, newest = store.published(), store.newest()
    last = max(known, default=-1)
    unknown = [n for n in range(0 if newest is None else newest.number + 1) if n not in known]
    wanted = dict(known)
    for release in map(store.release, unknown):
        files, old = _digests(_files(release)), HISTORY not in release.card
        if old:  # version 0.1.0 had other words, and no manifest
            kinds = (".safetensors", ".json")
            files = {name: files[name] for name in files if name.endswith(kinds)}
        if newest is not None and _step(release) == _step(newest):
            files = {name: files[name] for name in files if os.path.lexists(folder / name)}
        elif not old:
            last = max(last, release.number)
        wanted[release.number] = files
    if last >= 0:
        for what in verify(folder, last):
            yield Problem(str(folder), what)
    wrong = [
        name
        for _, files in sorted(wanted.items())
        for name, digest in files.items()
        if _digest_of(folder / name) != digest
    ]
    if wrong:  # a folder of another state would have a line for each
        which = wrong[0] if len(wrong) == 1 else f"{wrong[0]} and {len(wrong) - 1:,} more"
        what = f"{which} missing, or not as the state has published: see docs/store.md"
        yield Problem(str(folder), what)


def _step(release: StoredRelease) -> tuple[str, int]:
    """The step that has made a release."""
    return release.card["stream"], release.card["at"]


def strangers(folder: Path, store: Store) -> Iterator[Problem]:
    """Releases in the folder that the state has not made; they would be in the state first."""
    found, made = _numbers(folder), _newest_made(store)
    for number in [each for each in found if each > made][:1]:
        what = f"release {number} is there, which the state has not made: see docs/store.md"
        yield Problem(str(folder), what)


def verify(folder: Path | str, newest: int | None = None) -> Iterator[str]:
    """What is wrong with a published folder, as anybody can find out: nothing, if all is well.

    Somebody who can write to the folder can delete the newest releases or edit a card together with
    its manifest: only the state shows that, or a hash that was noted elsewhere.

    Args:
        folder: What `publish` wrote to.
        newest: The release up to which all must be there; by default the last that is there.
    """
    folder = Path(folder)
    numbers = [each for each in _numbers(folder) if newest is None or each <= newest]
    last = max(numbers, default=-1) if newest is None else newest
    if missing := last + 1 - len(numbers):
        first = next((at for at, number in enumerate(numbers) if at != number), len(numbers))
        yield f"{missing:,} releases are missing, the first is {first}"
    try:
        latest = newest_published(folder)
        if latest is None or latest < last or latest not in _numbers(folder):
            yield f"latest names {'nothing' if latest is None else latest}, the newest is {last}"
    except InvalidValueError as error:
        yield str(error)
    before: StoredRelease | None = None
    for number in numbers:
        path = _file(folder, number, "safetensors")
        try:
            release = export.release_of(path, read_whole(path))
        except (InvalidValueError, OSError) as error:
            told = f"{path}: {error.strerror}" if isinstance(error, OSError) else str(error)
            yield told
            before = None
            continue
        yield from _problems_of(folder, number, release, before)
        before = release


def _problems_of(
    folder: Path, number: int, release: StoredRelease, before: StoredRelease | None
) -> Iterator[str]:
    """What is wrong with the files of one release whose weights and hash are right."""
    if release.number != number:
        yield f"{_file(folder, number, 'safetensors')} holds release {release.number}"
    if before is not None and number == before.number + 1 and release.previous != before.hash:
        yield f"release {number} does not follow release {before.number}"
    card = _file(folder, number, "json")
    if _read(card) != export.to_json(release):
        yield f"{card} is missing, or not the card of release {number}"
    names = [_name(number, kind) for kind in KINDS]
    found = {name: data for name in names if (data := _read(folder / name)) is not None}
    listed = _file(folder, number, "sha256")
    if gone := [name for name in names if name not in found]:
        yield f"{folder / gone[0]} is missing"
    elif _read(listed) != manifest(_digests(found)):
        yield f"{listed} is missing, or the files of release {number} are not those that it lists"


def published_in(folder: Path) -> bool:
    """Whether a folder looks like one that releases are published to."""
    return (folder / "latest").is_file() or bool(_numbers(folder))


def published_releases(folder: Path) -> Iterator[StoredRelease]:
    """The releases in a folder, in order."""
    for number in _numbers(folder):
        yield export.load_release(_file(folder, number, "safetensors"))


def _file(folder: Path, number: int, kind: str) -> Path:
    return folder / _name(number, kind)


def _name(number: int, kind: str) -> str:
    return f"{number:06}.{kind}"


def _numbers(folder: Path) -> Sequence[int]:
    """The numbers of the models in a folder, in order."""
    names = (path.stem for path in folder.glob("*.safetensors"))
    numbers = {name: int(name) for name in names if name.isascii() and name.isdecimal()}
    return sorted(number for name, number in numbers.items() if name == f"{number:06}")


def _read(path: Path) -> bytes | None:
    try:
        return read_whole(path)
    except OSError:
        return None


def _digest_of(path: Path) -> str | None:
    data = _read(path)
    return None if data is None else hashlib.sha256(data).hexdigest()


def _hash(path: Path) -> str | None:
    """The hash that a published card gives, None if there is no card."""
    data = _read(path)
    if data is None:
        return None
    try:
        return str(json.loads(data)["hash"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidValueError(
            f"{path} is damaged, or no release: restore it from a copy"
        ) from None

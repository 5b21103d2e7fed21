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
from tidegate.release import FIRST, StoredRelease, export_formats
from tidegate.state.damage import HISTORY, Problem
from tidegate.state.store import Store
from tidegate.state.verify_noise import problems_of_card
from tidegate.whole_file import make_folder, read_whole

KINDS = ("safetensors", "md", "json")
"""The files of a release in the order of writing: the card (JSON) comes after the model."""

BESIDE = ("json", "md", "sha256")
"""The files beside a model."""

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
    before = _file(folder, release.number - 1, "json")
    check_same(folder, release)
    if _hash(before) not in (None, release.previous):
        raise InvalidValueError(f"release {release.number} does not follow {before}: {OTHER}")
    if not folder.is_dir():
        make_folder(folder)
    files = _files(release)
    for name, data in files.items():
        export_formats.write(folder / name, data)
    newest = max(release.number, newest_published(folder) or 0)
    export_formats.write(folder / "latest", f"{newest:06}\n".encode())
    return _digests(files)


def _files(release: StoredRelease) -> dict[str, bytes]:
    """The content of a release's files by their names, in the order of writing."""
    files = {_name(release.number, kind): export_formats.KINDS[kind](release) for kind in KINDS}
    return {**files, _name(release.number, "sha256"): manifest(_digests(files))}


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}


def manifest(digests: Mapping[str, str]) -> bytes:
    """Digests in the format of `sha256sum --check`."""
    return "".join(f"{digest}  {name}\n" for name, digest in digests.items()).encode()


def check_same(folder: Path | str, release: StoredRelease) -> None:
    """Refuse a folder that has a different release of the same number."""
    if _hash(_file(Path(folder), release.number, "json")) not in (None, release.hash):
        raise InvalidValueError(f"{folder} has a different release {release.number}: {OTHER}")


def newest_published(folder: Path | str) -> int | None:
    """The number in the file `latest`; None if nothing is published."""
    text = _read(Path(folder) / "latest")
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
    newest = max(_numbers(folder), default=-1)
    if newest > _newest_made(store):
        raise StoreError(
            f"{folder} holds release {newest}, which the state has not made: the state is an "
            "older copy, or the folder belongs to another; see docs/store.md"
        )
    if newest >= 0:
        check_same(folder, store.release(newest))


def _newest_made(store: Store) -> int:
    newest = store.newest()
    return -1 if newest is None else newest.number


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


def problems(folder: Path, store: Store) -> Iterator[Problem]:
    """Problems of the published files, compared with the state.

    Files of the newest step may be missing, because a run may be stopped before it writes them.
    Files that exist must be what the state would publish. Releases newer than the state are not
    checked.
    """
    recorded, newest = store.published(), store.newest()
    last = max(recorded, default=-1)
    made = range(0 if newest is None else newest.number + 1)
    wanted = dict(recorded)
    for release in (store.release(number) for number in made if number not in recorded):
        files, old = _digests(_files(release)), HISTORY not in release.card
        if old:  # version 0.1.0 wrote other Markdown, and no manifest
            kinds = (".safetensors", ".json")
            files = {name: files[name] for name in files if name.endswith(kinds)}
        if newest is not None and _step(release) == _step(newest):
            files = {name: files[name] for name in files if os.path.lexists(folder / name)}
        elif not old:
            last = max(last, release.number)
        wanted[release.number] = files
    if last >= 0:
        for what in verify(folder, last, cards=False):  # those of the state are checked
            yield Problem(str(folder), what)
    wrong = [
        name
        for _, files in sorted(wanted.items())
        for name, digest in files.items()
        if _digest_of(folder / name) != digest
    ]
    if wrong:  # one line, even if the folder is of another state
        which = wrong[0] if len(wrong) == 1 else f"{wrong[0]} and {len(wrong) - 1:,} more"
        what = f"{which} missing, or not as the state published: {REPAIR}"
        yield Problem(str(folder), what)


def _step(release: StoredRelease) -> tuple[str, int]:
    """The step that made a release: its stream and its end."""
    return release.card["stream"], release.card["at"]


def unexpected(folder: Path, store: Store) -> Iterator[Problem]:
    """The first release in the folder that the state has not made, as a problem."""
    numbers = list(_numbers(folder))  # first: a running gate makes a release, then publishes it
    newest = _newest_made(store)
    for number in [each for each in numbers if each > newest][:1]:
        what = f"the state has not made release {number}, which is in the folder: {OTHER}"
        yield Problem(str(folder), what)


def verify(folder: Path | str, newest: int | None = None, *, cards: bool = True) -> Iterator[str]:
    """Problems of a published folder that can be found without the state.

    Whoever can write to the folder can delete the newest releases, or edit a Markdown card together
    with its manifest. Only the state, or a hash that was noted elsewhere, reveals that.

    Args:
        folder: The published folder.
        newest: All releases up to this one must exist; by default up to the last one in the folder.
        cards: Also check that each card states the noise which its share of the budget requires.
    """
    folder = Path(folder)
    beside = _numbers(folder, *BESIDE)  # first: a running gate writes the model, then these
    models = _numbers(folder)
    numbers = [each for each in models if newest is None or each <= newest]
    if not numbers and newest is None:
        yield "it holds no release: name the folder that [publish] folder names"
        return
    last = max(numbers, default=-1) if newest is None else newest
    if missing := last + 1 - len(numbers):
        first = next((at for at, number in enumerate(numbers) if at != number), len(numbers))
        yield f"{missing:,} release(s) missing, starting with release {first}: {REPAIR}"
    if strays := sorted({*beside} - {*models}):
        many = f"{len(strays):,} release(s), starting with {strays[0]}"
        yield f"files of {many}, have no model beside them: do not trust them; {REPAIR}"
    try:
        latest = newest_published(folder)
        if latest is None or latest < last or latest not in models:
            named = "nothing" if latest is None else latest
            yield f"latest names {named}, but the newest release is {last}: {REPAIR}"
    except InvalidValueError as error:
        yield str(error)
    before: StoredRelease | None = None
    for number in numbers:
        path = _file(folder, number, "safetensors")
        try:
            release = export_formats.release_of(path, read_whole(path))
        except (InvalidValueError, OSError) as error:
            reason = f"{path}: {error.strerror}" if isinstance(error, OSError) else str(error)
            yield f"{reason}: {REPAIR}"
            before = None
            continue
        yield from _problems_of(folder, number, release, before)
        for what in problems_of_card(release.card) if cards else ():
            yield f"release {number}: {what}: do not use it"
        before = release


def _problems_of(
    folder: Path, number: int, release: StoredRelease, before: StoredRelease | None
) -> Iterator[str]:
    """Problems of the files of one release whose weights and hash are right."""
    if release.number != number:
        yield f"{_file(folder, number, 'safetensors')} holds release {release.number}: {REPAIR}"
    if number == 0 and release.previous != FIRST:
        yield f"release 0 follows another one, {release.previous}: {REPAIR}"
    if before is not None and number == before.number + 1 and release.previous != before.hash:
        yield f"release {number} does not follow release {before.number}: {REPAIR}"
    card = _file(folder, number, "json")
    if _read(card) != export_formats.to_json(release):
        yield f"{card} is missing, or not the card of release {number}: {REPAIR}"
    names = [_name(number, kind) for kind in KINDS]
    files = {name: data for name in names if (data := _read(folder / name)) is not None}
    listed = _file(folder, number, "sha256")
    if gone := [name for name in names if name not in files]:
        yield f"{folder / gone[0]} is missing: {REPAIR}"
    elif _read(listed) != manifest(_digests(files)):
        yield f"{listed} is missing or does not match the files of release {number}: {REPAIR}"


def published_in(folder: Path) -> bool:
    """Whether a folder looks like a publish folder."""
    return os.path.lexists(folder / "latest") or bool(_numbers(folder))


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
    path = _file(folder, wanted, "safetensors")
    data = _read(path)
    if data is None:
        many = f"0 to {newest}" if newest else "0 only"
        raise InvalidValueError(f"{folder} has no release {wanted} that can be read: it has {many}")
    release = export_formats.release_of(path, data)
    if release.number != wanted:
        raise InvalidValueError(f"{path} holds release {release.number}: do not use this folder")
    return release


def published_releases(folder: Path) -> Iterator[StoredRelease]:
    """The releases in a folder, in order."""
    for number in _numbers(folder):
        yield export_formats.load_release(_file(folder, number, "safetensors"))


def _file(folder: Path, number: int, kind: str) -> Path:
    return folder / _name(number, kind)


def _name(number: int, kind: str) -> str:
    return f"{number:06}.{kind}"


def _numbers(folder: Path, *kinds: str) -> Sequence[int]:
    """The numbers of the models in a folder, or of other kinds of its files, in order."""
    names = {path.stem for kind in kinds or ("safetensors",) for path in folder.glob(f"*.{kind}")}
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
    """The hash in a published card; None if there is no card."""
    data = _read(path)
    if data is None:
        return None
    try:
        return str(json_of(data)["hash"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InvalidValueError(
            f"{path} is damaged or not a card: restore it from a copy"
        ) from None

"""Where segments lie: a folder of this machine, or any place with a URI that pyarrow knows."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from pyarrow import fs

from tidegate.gate.failpoints import failpoint
from tidegate.gate.whole_file import write_whole

Where = Path | str
"""Where a segment is: a file of this machine, or the URI of one that any machine can read."""


class SegmentFolder(Protocol):
    """Files that are written once, read and deleted; no two ever have the same name."""

    def make(self) -> None:
        """See that it is there and can be written to, for its owner alone."""

    def where(self, name: str) -> Where:
        """What `fetched` reads a file by, in any process."""

    def write(self, name: str, buffer: Any) -> None:
        """Write a file, which is durable after `sync`; if that fails nothing of it stays."""

    def sync(self) -> None:
        """Make the names of all files durable."""

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""

    def names(self) -> set[str]:
        """The files that are there, also those that are half written."""


class LocalFolder:
    """A folder of this machine, whose files are read by mapping them; see `SegmentFolder`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self) -> None:
        """See that it is there, for its owner alone."""
        make_folder(self._path)
        self._path.chmod(0o700)

    def where(self, name: str) -> Where:
        """The path of a file, from anywhere."""
        return (self._path / name).absolute()

    def write(self, name: str, buffer: Any) -> None:
        """Write a file under another name first, so that it is never half there."""
        write_whole(self._path / name, buffer, point="segment", mode=0o600)

    def sync(self) -> None:
        """Make the names of all files durable."""
        failpoint("segment.folder")
        sync_folder(self._path)

    def delete(self, name: str) -> None:
        """Delete a file, if it is there; who has it mapped keeps it."""
        (self._path / name).unlink(missing_ok=True)

    def names(self) -> set[str]:
        """The files that are there, also those that are half written."""
        return set(os.listdir(self._path))


class RemoteFolder:
    """A place that is not a folder of this machine: S3 or what speaks like it; see `SegmentFolder`.

    A file there is whole once it has been closed, and has its name from the start: until a row of
    the database knows that, it means nothing.

    Args:
        uri: One that pyarrow knows; credentials come from the environment.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def make(self) -> None:
        """See that it is there."""
        with _told(self._uri):
            files, path = _filesystem(self._uri)
            files.create_dir(path)

    def where(self, name: str) -> Where:
        """The URI of a file."""
        return inside(self._uri, name)

    def write(self, name: str, buffer: Any) -> None:
        """Write a file."""
        failpoint("segment.write")
        try:
            with _told(inside(self._uri, name)):
                files, path = _filesystem(self._uri)
                with files.open_output_stream(f"{path}/{name}") as stream:
                    stream.write(buffer)
        except OSError:
            with suppress(OSError):
                self.delete(name)
            raise

    def sync(self) -> None:
        """Nothing: a file that has been closed is durable."""
        failpoint("segment.folder")

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""
        with _told(inside(self._uri, name)), suppress(FileNotFoundError):
            files, path = _filesystem(self._uri)
            files.delete_file(f"{path}/{name}")

    def names(self) -> set[str]:
        """The files that are there."""
        with _told(self._uri):
            files, path = _filesystem(self._uri)
            found = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
            return {each.base_name for each in found if each.type == fs.FileType.File}


def segment_folder(place: str) -> SegmentFolder:
    """The folder at a place: an absolute path, or a URI."""
    url = urlsplit(place)
    if url.scheme == "file":
        return LocalFolder(Path(unquote(url.path)))
    return RemoteFolder(place) if url.scheme else LocalFolder(Path(place))


def inside(uri: str, name: str) -> str:
    """The URI of what has a name at another.

    >>> inside("s3://bucket/records?region=eu-west-1", "a.arrow")
    's3://bucket/records/a.arrow?region=eu-west-1'
    """
    url = urlsplit(uri)
    return url._replace(path=f"{url.path.rstrip('/')}/{name}").geturl()


def fetched(where: Where) -> Any:
    """The bytes of a file: mapped, not read, where it is a file of this machine.

    Mapped bytes stay there even if the file is deleted.
    """
    if isinstance(where, Path):
        with pa.memory_map(str(where)) as file:
            return file.read_buffer()
    folder, _, name = urlsplit(where).path.rpartition("/")
    with _told(where):
        files, path = _filesystem(urlsplit(where)._replace(path=folder).geturl())
        with files.open_input_file(f"{path}/{name}") as file:
            return file.read_buffer()


def make_folder(folder: Path, mode: int = 0o777) -> None:
    """See that a folder is there, and that its name and those of all made for it are durable."""
    if not folder.parent.exists():
        make_folder(folder.parent)
    folder.mkdir(mode, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@cache
def _filesystem(uri: str) -> tuple[Any, str]:
    """What pyarrow reads and writes a place with, and what it is called there."""
    files, path = fs.FileSystem.from_uri(uri)
    return files, path


@contextmanager
def _told(where: str) -> Iterator[None]:
    """Say in one line what a place has refused."""
    try:
        yield
    except (OSError, pa.ArrowInvalid) as error:
        missing = isinstance(error, FileNotFoundError)
        told = "No such file" if missing else " ".join(str(error).split())
        raise OSError(errno.ENOENT if missing else errno.EIO, told, where) from error

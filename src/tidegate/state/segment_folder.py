"""Where segments are stored: a local folder, or any URI that pyarrow supports."""

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

from tidegate.checks import StoreError
from tidegate.failpoints import failpoint
from tidegate.state.damage import RESTORE
from tidegate.whole_file import make_folder, open_ordinary, sync_folder, write_whole

Where = Path | str
"""The location of a segment: a local path, or a URI that any machine can read."""


class SegmentFolder(Protocol):
    """Files that are written once, read and deleted; no name is used twice."""

    def make(self) -> None:
        """Create the folder if missing, accessible only to its owner."""

    def where(self, name: str) -> Where:
        """The location of a file, which `fetched` can read in any process."""

    def write(self, name: str, buffer: Any) -> None:
        """Write a file, durable after `sync`; leave nothing behind on failure."""

    def sync(self) -> None:
        """Make the names of all files durable."""

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""

    def names(self) -> set[str]:
        """The names of the files, including unfinished ones."""


class LocalFolder:
    """A local folder, whose files are memory-mapped; see `SegmentFolder`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def make(self) -> None:
        """Create the folder if missing, accessible only to its owner."""
        make_folder(self._path)
        self._path.chmod(0o700)

    def where(self, name: str) -> Where:
        """The absolute path of a file."""
        if not plain(name):
            raise StoreError(f"{name!r} is not the name of a segment: {RESTORE}")
        return (self._path / name).absolute()

    def write(self, name: str, buffer: Any) -> None:
        """Write a file atomically, under a temporary name first."""
        write_whole(self._path / name, buffer, point="segment", mode=0o600)

    def sync(self) -> None:
        """Make the names of all files durable."""
        failpoint("segment.folder")
        sync_folder(self._path)

    def delete(self, name: str) -> None:
        """Delete a file, if it exists; existing mappings of it stay valid."""
        (self._path / name).unlink(missing_ok=True)

    def names(self) -> set[str]:
        """The names of the files, including unfinished ones."""
        return set(os.listdir(self._path))


class RemoteFolder:
    """A folder at a URI, such as S3; see `SegmentFolder`.

    A file is complete once it is closed. It has its final name from the start, but is ignored until
    a row of the database names it.

    Args:
        uri: A URI that pyarrow supports; credentials come from the environment.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri

    def make(self) -> None:
        """Create the folder if missing."""
        with _one_line(self._uri):
            files, path = _filesystem(self._uri)
            files.create_dir(path)

    def where(self, name: str) -> Where:
        """The URI of a file."""
        return inside(self._uri, name)

    def write(self, name: str, buffer: Any) -> None:
        """Write a file."""
        failpoint("segment.write")
        try:
            with _one_line(inside(self._uri, name)):
                files, path = _filesystem(self._uri)
                with files.open_output_stream(f"{path}/{name}") as stream:
                    stream.write(buffer)
        except OSError:
            with suppress(OSError):
                self.delete(name)
            raise

    def sync(self) -> None:
        """Do nothing: a closed file is durable."""
        failpoint("segment.folder")

    def delete(self, name: str) -> None:
        """Delete a file, if it exists."""
        with _one_line(inside(self._uri, name)), suppress(FileNotFoundError):
            files, path = _filesystem(self._uri)
            files.delete_file(f"{path}/{name}")

    def names(self) -> set[str]:
        """The names of the files."""
        with _one_line(self._uri):
            files, path = _filesystem(self._uri)
            infos = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
            return {info.base_name for info in infos if info.type == fs.FileType.File}


def plain(name: str) -> bool:
    """Whether a name leads to a file of its folder, and nowhere else.

    >>> plain("records-0-5c0e.arrow"), plain("../state.db"), plain("/dev/zero"), plain("")
    (True, False, False, False)
    """
    return bool(name) and Path(name).name == name and "\0" not in name


def segment_folder(place: str) -> SegmentFolder:
    """The folder at an absolute path or a URI."""
    url = urlsplit(place)
    if url.scheme == "file":
        return LocalFolder(Path(unquote(url.path)))
    return RemoteFolder(place) if url.scheme else LocalFolder(Path(place))


def inside(uri: str, name: str) -> str:
    """The URI of a file in the folder at another URI.

    >>> inside("s3://bucket/records?region=eu-west-1", "a.arrow")
    's3://bucket/records/a.arrow?region=eu-west-1'
    """
    url = urlsplit(uri)
    return url._replace(path=f"{url.path.rstrip('/')}/{name}").geturl()


def fetched(where: Where) -> Any:
    """The bytes of a file. A local file is memory-mapped.

    Mapped bytes stay valid even if the file is deleted.
    """
    if isinstance(where, Path):
        open_ordinary(where).close()  # a link or a FIFO is not waited for
        with pa.memory_map(str(where)) as file:
            return file.read_buffer()
    folder, _, name = urlsplit(where).path.rpartition("/")
    with _one_line(where):
        files, path = _filesystem(urlsplit(where)._replace(path=folder).geturl())
        with files.open_input_file(f"{path}/{name}") as file:
            return file.read_buffer()


@cache
def _filesystem(uri: str) -> tuple[Any, str]:
    """The pyarrow file system of a URI, and the path in it."""
    files, path = fs.FileSystem.from_uri(uri)
    return files, path


@contextmanager
def _one_line(where: str) -> Iterator[None]:
    """Raise errors as an OSError with a one-line message that names the location."""
    try:
        yield
    except Exception as error:  # an installed file system can raise anything
        missing = isinstance(error, FileNotFoundError)
        said = " ".join(str(error).split()) or type(error).__name__
        message = "No such file" if missing else said
        raise OSError(errno.ENOENT if missing else errno.EIO, message, where) from error

"""The Store in a folder: a database for all that must change together, files for records."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from tidegate.gate import verify_store
from tidegate.gate.locations import Locations
from tidegate.gate.opening import open_state
from tidegate.gate.record_log import RecordLog
from tidegate.gate.release_log import ReleaseLog
from tidegate.gate.store import Problem


class FolderStore(RecordLog, ReleaseLog):
    """A state folder, held by one process at a time.

    One thread may append while another reads, publishes and forgets: they take turns at the
    database, not at what they do besides.

    Args:
        folder: Where the state is.
        config: Given to make a new state; None to open the one that is there. One of an older
            layout is brought to the newest first.
        settings: Of a new state: what of the configuration shapes privacy, and never changes.
        locations: Where its database and segments are to be, by default in the folder. If given for
            a state that is there, they must be as they were: it would not be found elsewhere.
        segment_records: The most records in a file, see `RecordLog`.
        read_only: Only look, also while another process holds the state.

    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from tidegate.gate.store import Batch
    >>> from tidegate.learn.records import Records
    >>> from tidegate.schedule import Span
    >>> records = Records(np.ones((3, 2), np.float32), np.zeros(3, np.intp), np.ones(3, np.bool_))
    >>> with TemporaryDirectory() as folder:
    ...     store = FolderStore(Path(folder), "{}")
    ...     store.append(Batch(stream="records", records=records, key="monday"))
    ...     store.append(Batch(stream="records", records=records, key="monday"))
    ...     store.read("records", Span(1, 3)).X.tolist()
    ...     store.close()
    3
    3
    [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(  # noqa: PLR0913, a parameter for each thing that may be told
        self,
        folder: Path,
        config: str | None = None,
        *,
        settings: str = "",
        locations: Locations | None = None,
        segment_records: int = 65_536,
        read_only: bool = False,
    ) -> None:
        self.folder = Path(folder)
        state, files = open_state(
            self.folder, config, settings=settings, locations=locations, read_only=read_only
        )
        RecordLog.__init__(self, state, files, segment_records)
        ReleaseLog.__init__(self, state)

    @property
    def database(self) -> str:
        """What `verify` calls its database."""
        return self._db.name

    def config(self) -> str:
        """The configuration that the state was made with, or given since."""
        return str(self._state.one("SELECT config FROM state")[0])

    def settings(self) -> str:
        """What shapes privacy, as it was when the state was made."""
        return str(self._state.one("SELECT settings FROM state")[0])

    def reconfigure(self, config: str) -> None:
        """Keep another configuration; the caller sees to it that privacy does not depend on it."""
        with self._state.transaction("configure"):
            self._db.execute("UPDATE state SET config = ?", (config,))

    def snapshot(self) -> AbstractContextManager[None]:
        """Within it all that is read is of one moment, whatever another process writes."""
        return self._state.snapshot()

    def forget(self, stream: str, before: int) -> None:
        """Delete every segment that lies wholly before a slot, and what its quarantine held."""
        super().forget(stream, before)
        self._settle(stream, before)

    def verify(self) -> Iterator[Problem]:
        """Read everything, and say what is wrong."""
        return verify_store.problems(self._state, self, self)

    def close(self) -> None:
        """Let go of the state, when who has a turn at the database is done with it."""
        self._state.close()

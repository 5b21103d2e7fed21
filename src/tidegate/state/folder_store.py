"""The store in a folder: a database for everything that changes together, files for records."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from tidegate.checks import StoreError
from tidegate.data.records import Owners
from tidegate.learn.slot_weights import UNOWNED, AdmittedStep, Owned, Ownership
from tidegate.privacy.admission import Admission
from tidegate.run.config.tables import Locations
from tidegate.run.step_admission import STEPS_LISTED, StepAdmission
from tidegate.schedule import Span
from tidegate.state import stopped, verify_store
from tidegate.state.damage import RESTORE, Problem, reported
from tidegate.state.erasure_log import ErasureLog
from tidegate.state.inspecting import Consent, inspect_state
from tidegate.state.opening import KeyMaker, create_state, open_state
from tidegate.state.record_log import RecordLog
from tidegate.state.release_log import ReleaseLog
from tidegate.state.store import StoppedStep
from tidegate.state.verify_persons import LedgerOfPersons, leftovers


class FolderStore(ErasureLog):
    """Where the Gate keeps everything: a state folder, held by one process at a time.

    When a method that writes returns, its data is durable. If it raises or the process dies in it,
    all of its data is stored or none. Reading returns what was written, or raises StoreError.

    One thread may append while another reads, publishes and forgets. Only their access to the
    database is serialised.

    Args:
        folder: The state folder.
        config: The configuration of a new state; None to open an existing state. A state of an
            older layout is upgraded first.
        settings: For a new state, the settings that affect privacy; they never change.
        locations: Where the database and the segments are; by default in the folder. For an
            existing state they must be the same as before.
        segment_records: The maximum number of records in a file, see `RecordLog`.
        read_only: Open for reading only, also while another process holds the state.
        upgrade: Upgrade a state of an older layout that is opened for writing; others are refused.
        consent: To check a state of any origin: where that may connect to. Nothing is written.
        make_key: For a new state that protects persons: makes the key in the folder and returns
            its check value.

    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from tidegate.state.store import Batch
    >>> from tidegate.data.records import Records
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

    def __init__(  # noqa: PLR0913, all are options of one state
        self,
        folder: Path,
        config: str | None = None,
        *,
        settings: str = "",
        locations: Locations | None = None,
        segment_records: int = 65_536,
        read_only: bool = False,
        upgrade: bool = True,
        consent: Consent | None = None,
        make_key: KeyMaker | None = None,
    ) -> None:
        self.folder = Path(folder)
        if consent is not None:
            opened = inspect_state(self.folder, consent)
        elif config is None:
            opened = open_state(
                self.folder, locations=locations, read_only=read_only, upgrade=upgrade
            )
        else:
            opened = create_state(
                self.folder, config, settings=settings, locations=locations, make_key=make_key
            )
        state, files = opened
        RecordLog.__init__(self, state, files, segment_records)
        ReleaseLog.__init__(self, state)
        self._one_erasure = threading.Lock()

    @property
    def database(self) -> str:
        """The name of the database in the output of `verify`."""
        return self._db.name

    def config(self) -> str:
        """The current configuration of the state, as JSON."""
        return str(self._state.head.config)

    def settings(self) -> str:
        """The settings that affect privacy, as JSON; only `correct` changes them."""
        return str(self._state.head.settings)

    def reconfigure(self, config: str) -> None:
        """Store a new configuration; the caller checks that no privacy setting differs."""
        with self._state.transaction("configure"):
            self._state.head = self._state.head._replace(config=config)

    def correct(self, config: str, settings: str) -> None:
        """Replace the settings of a stopped state, and delete its records and their counts.

        Its only step becomes one of `stopped`; its sources keep their place. The caller checks that
        the state is stopped.
        """
        self._ledgers.clear()
        self.distrust()
        self._persons.reset()
        stopped.correct(self._state, config, settings)

    def stopped(self) -> list[StoppedStep]:
        """The steps that stopped the state before its settings were corrected, in order."""
        with self._state.explained():
            return [stopped.stopped_of(row) for row in stopped.rows_of(self._db)]

    def owned(self, stream: str, span: Span, /) -> Ownership:
        """Whose the slots of a span are, and which count."""
        owners = self.owners(stream, span)
        return UNOWNED if owners is None else Owned(owners, self._persons.admitted(stream, span))

    def admit(self, stream: str, step: Span, admission: Admission) -> AdmittedStep:
        """Decide which slots of the next step count, from owners alone; `publish` stores it."""
        owners = self.owners(stream, step)
        if owners is None:
            raise StoreError(f"the records of {stream} have no persons: {RESTORE}")
        return AdmittedStep(step, self._persons.admit(stream, step, owners, admission))

    def person_key(self) -> str:
        """The check value of the key of persons; empty if records are protected."""
        return self._persons.key()

    def person(self, owner: Owners) -> list[tuple[int, int]]:
        """The steps in which an owner, of shape (1, 2), is admitted, as ranges.

        Steps are counted over all streams; that of a stopped state counts as the first one too.
        """
        return self._persons.person(owner)

    def admissions(self, newest: int = STEPS_LISTED) -> list[StepAdmission]:
        """How many records of the newest steps count, in order. It is private.

        Empty if records are protected. Steps of earlier versions do not say it.
        """
        return self._persons.admissions(newest)

    def snapshot(self) -> AbstractContextManager[None]:
        """A context in which all reads see one moment, whatever another process writes."""
        return self._state.snapshot()

    def forget(self, stream: str, before: int) -> None:
        """Delete all segments entirely before a slot, with the payloads of their quarantine."""
        if before:
            super().forget(stream, before)
        self._settle(stream, before)

    def verify(self) -> Iterator[Problem]:
        """Read everything and report what is wrong."""
        return verify_store.problems(self._state, self, self, self._persons)

    def verify_no_persons(self) -> Iterator[Problem]:
        """Report what is kept about persons, though records are protected."""
        return leftovers(self._state)

    def verify_persons(self, admission: Admission) -> Iterator[Problem]:
        """Report what is wrong with the ledger of persons, whose admissions this decides."""
        return LedgerOfPersons(self, self._state, self._persons, admission).problems()

    def reported(self, problems: Iterator[Problem]) -> Iterator[Problem]:
        """Yield problems; end with one more if reading fails on the way."""
        return reported(self.database, problems, self._state.explained)

    def close(self) -> None:
        """Close the state once the thread that uses the database has finished."""
        self._state.close()

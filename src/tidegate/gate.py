"""The Gate: takes records in and gives releases out, durably."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from tidegate.checks import InvalidValueError, StoreError, nothing, refuse
from tidegate.data.columns.table import as_table, few
from tidegate.data.intake import Intake
from tidegate.data.records import Records
from tidegate.data.rows import Rows
from tidegate.learn.learner import LEARNERS, Fitted
from tidegate.privacy import Ledger
from tidegate.release import StoredRelease
from tidegate.run.config import Config, differences
from tidegate.run.executor import FitJob
from tidegate.schedule.progress import ONLY
from tidegate.sources import RawBatch, Source, every, once, raw_batch
from tidegate.sources.configured import Follow
from tidegate.sources.source import check_ids
from tidegate.state import publish_folder
from tidegate.state.damage import RESTORE, readable
from tidegate.state.durable_run import CheckedEngine, Clock, DurableRun, StateSteps, now
from tidegate.state.erasing import Erasing, ErasureRequests
from tidegate.state.folder_store import FolderStore
from tidegate.state.inspecting import Consent
from tidegate.state.ledger_view import LedgerView
from tidegate.state.protected import key_maker
from tidegate.state.quality import MeasuredSteps
from tidegate.state.source_loop import (
    PAUSE,
    check_configured,
    check_given,
    check_holdout,
    check_readable,
    check_separate,
    check_sources,
    never,
    releases_of,
)
from tidegate.state.stopped import Stop, corrected, corrected_note
from tidegate.state.store import Batch, NoStateError, Quarantined, Store
from tidegate.whole_file import delete_unfinished

__all__ = ["Config", "Gate"]

UNUSABLE = {
    "classes": "a value is missing or not a finite number, or the label is not a class",
    "target": "a value or the target is missing or not a finite number",
}
"""Why a record of plain numbers cannot be used, by what is predicted."""


class Gate(Erasing):
    """Carries out a plan durably: records that `ingest` took survive a crash.

    Create one with `open`, or with `look` for reading only. A step's charges, models and cards are
    committed together before any of them is shown.

    >>> from tempfile import TemporaryDirectory
    >>> config = Config.parse('''
    ... [schedule]
    ... kind = "sliding"
    ... window = 300
    ... step = 100
    ... [budget]
    ... epsilon = 1.0
    ... [records]
    ... classes = [0, 1]
    ... norm = 1.0
    ... ''')
    >>> from tidegate.sources import Batches
    >>> days = Batches(name="days", pairs=[(np.ones((150, 2)), np.ones(150))] * 3)
    >>> with TemporaryDirectory() as folder, Gate.open(folder, config) as gate:
    ...     [release.card["at"] for release in gate.run(days)]
    ...     list(gate.run(days))
    ...     gate.ingest(np.ones((150, 2)), np.ones(150))
    ...     [release.card["at"] for release in gate.releases()]
    [300, 400]
    []
    600
    [300, 400, 500, 600]
    """

    def __init__(self, store: Store, config: Config, clock: Clock = now) -> None:
        self.store = store
        self.config, self.settings = config, config.settings
        self._steps = StateSteps(store, config, clock)
        self._run = DurableRun(self._steps, self.train)
        self.plan, self.progress = self._run.plan, self._run.progress
        store.planned.plan = self.plan
        self.streams = self.progress.streams
        self.about = self.settings.about
        self.engine = config.compute.build()
        self.persons = self._steps.protected
        self.erasure_requests = ErasureRequests()
        self.corrected: str | None = None  # what correcting a stopped state did

    @classmethod
    def open(
        cls,
        folder: str | Path,
        config: Config | str | Path | None = None,
        *,
        sources: Mapping[str, Source] | None = None,
        clock: Clock = now,
        upgrade: bool = True,
    ) -> Self:
        """Open a state or create one, and lock it until it is closed.

        Args:
            folder: The state folder.
            config: The configuration, or its TOML file. Optional for an existing state; if given,
                the settings that affect privacy must be the same as before, except for a stopped
                state. That state is corrected: its records are deleted and keep their charge.
            sources: The configured sources that `run` will read. If one cannot be read, no state is
                created, so that its settings can still change.
            clock: Returns the time, for the cards.
            upgrade: Upgrade a state of an older layout first; otherwise such a state is refused.
        """
        if isinstance(config, str | Path):
            config = Config.load(config)
        if config is not None and sources is not None:
            check_separate(config)
            if not Path(folder).exists():
                check_readable(sources.values())
        store = _open_store(Path(folder), config, upgrade=upgrade)
        try:
            config, stops = _same_config(store, config)
            if stops and sources is not None:
                check_readable(sources.values())  # before its settings become fixed again
            gate = cls(store, config, clock)
            gate._recover(Path(folder), stops)
        except BaseException:
            store.close()
            raise
        return gate

    @classmethod
    def look(cls, folder: str | Path) -> Self:
        """Open a state for reading only, even while another gate runs on it."""
        return cls._reading(FolderStore(Path(folder), read_only=True))

    @classmethod
    def inspect(cls, folder: str | Path, consent: Consent) -> Self:
        """Open a state that may be a stranger's, to verify it. Nothing is written anywhere.

        Args:
            folder: The state folder.
            consent: Which servers may be connected to.
        """
        return cls._reading(FolderStore(Path(folder), consent=consent))

    @classmethod
    def _reading(cls, store: FolderStore) -> Self:
        try:
            return cls(store, _same_config(store, None)[0])
        except BaseException:
            store.close()
            raise

    def _recover(self, state: Path, stops: Sequence[Stop]) -> None:
        """Check that the gate can continue, and finish work that a crash interrupted.

        Args:
            state: The state folder.
            stops: The stop that the configuration corrects, if it does.
        """
        check_holdout(self.config, self.store)
        _ = self._steps.holdout  # raises now if it cannot be read
        self.persons.check()
        for published in self._steps.published:
            publish_folder.check_separate(published, state)
            delete_unfinished(published)
            publish_folder.check_same_state(published, self.store)
        for stop in stops:
            later = sum(map(self.store.count, self.streams)) - stop.span.size
            self.store.correct(self.config.to_json(), self.config.privacy_json())
            self.corrected = corrected_note(stop, later)
        self.store.sweep()
        if self.store.config() != self.config.to_json():
            self.store.reconfigure(self.config.to_json())
        self.catch_up()

    def catch_up(self) -> None:
        """Publish and delete what a crash or a full disk left undone after a commit."""
        self._steps.after_commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the state and the compute engine."""
        self.engine.close()
        self.store.close()

    # --- records in

    def ingest(
        self,
        X: Any,
        y: Any,
        *,
        persons: Any = None,
        stream: str | None = None,
        key: str | None = None,
    ) -> int:
        """Take records in, carry out the fits that are due, and return the stream's new count.

        When this returns, all records are durable and all models that are due are published.

        Args:
            X: Records, shape (n, d): an array, CSR matrix or table; or what the feature map takes.
            y: Their labels, shape (n,).
            persons: The id of each record's person, shape (n,), if persons are protected.
            stream: "source" or "target" if there are two streams.
            key: A name for the batch. A second batch of the same name is ignored.
        """
        self._run.check_going()
        for _ in self.advance():  # first finish what a stop interrupted
            pass
        count = self.take(raw_batch(X, y, persons), stream=stream, key=key)
        for _ in self.advance():
            pass
        return count

    def take(
        self,
        raw: RawBatch,
        *,
        source: str | None = None,
        stream: str | None = None,
        key: str | None = None,
    ) -> int:
        """Make a batch durable, without carrying out fits, and return the stream's new count.

        Call `advance` to carry out the fits that are due.

        Args:
            raw: The records.
            source: The source's name, if the batch has an offset to store.
            stream: "source" or "target" if there are two streams.
            key: A name for the batch. A second batch of the same name is ignored.
        """
        self._run.check_going()
        name = self.stream(stream)
        check_ids(raw, protected=self.plan.protects.persons)
        if raw.n == 0:
            return self.store.count(name)
        records, reasons, known = self.persons.owned(self._clean(name, raw), raw)
        unusable = np.flatnonzero(~records.usable).tolist()
        why = {**reasons_for(self.config, raw, unusable), **reasons}
        quarantine = tuple(
            Quarantined(
                slot=slot,
                reason=why[slot],
                payload=raw.arrived(slot) if known[slot] else None,
            )
            for slot in unusable
        )
        return self.store.append(
            Batch(
                stream=name,
                records=records,
                quarantine=quarantine,
                source=source,
                offset=None if source is None else raw.offset,
                key=key,
                cut=self.progress.cut(name),
            )
        )

    def form(self, stream: str) -> Rows | None:
        """An empty array of the features of a stream's records; None before the first."""
        form = self.store.form(stream)
        return None if form is None else self.settings.packing.rows(form)

    def stream(self, stream: str | None) -> str:
        """The name of a stream, checked; None means the only stream."""
        if stream is None and len(self.streams) == 1:
            return ONLY
        if stream not in self.streams:
            raise refuse("stream", " or ".join(self.streams), stream)
        return stream

    def _clean(self, stream: str, raw: RawBatch) -> Records:
        """Records converted to the form that the first batch of their stream fixed."""
        found = ((name, self.store.form(name)) for name in self.streams)
        forms = {name: form for name, form in found if form is not None}
        intake: Intake = replace(self.settings.intake, form=forms.get(stream))
        records = intake.records(raw.X, raw.y)
        if intake.packed is not None:
            return records  # all are of the columns' width
        rows = [*forms.values(), *(public.X for public in self._steps.holdout)]
        for width in {each.shape[1] for each in rows} - {records.X.shape[1]}:
            mismatch = f"X has {records.X.shape[1]} features, but {width} were expected"
            raise InvalidValueError(f"{mismatch}: use {width} for all streams and the holdout")
        return records

    def run(
        self,
        source: Source | Mapping[str, Source] | None = None,
        *,
        follow: bool = False,
        again: Follow | None = None,
        counted: Callable[[int], object] = nothing,
        stop: Callable[[], bool] = never,
    ) -> Generator[StoredRelease]:
        """Read the sources from where the last run stopped, as `tidegate run` does.

        Iterating reads the records and yields each release once it is published. You can stop at
        any time, for example by leaving the loop. The next run continues there: no record is lost,
        taken twice or charged twice. For releases of earlier runs use `releases`.

        Args:
            source: The source, or a source for each stream by its name; by default the sources of
                the configuration.
            follow: Wait for more records at the end of the sources; also set by `follow` in the
                configuration.
            again: Called at the end of all sources; returns whether to read on. By default a run
                that follows waits one second, and any other ends.
            counted: Called with the number of records after each batch.
            stop: Called before every batch and every step; returns whether to stop there.
        """
        self._run.check_going()
        if source is None:
            sources = self.config.sources(follow=follow, pause=None)
            if not sources:
                raise InvalidValueError("the configuration names no source: pass one to run")
            check_configured(self.config, self.store, sources)
            follow = follow or self.config.follows
        else:
            given = source if isinstance(source, Mapping) else {None: source}
            sources = {self.stream(stream): each for stream, each in given.items()}
            names = [each.name for each in sources.values()]
            if len(set(names)) < len(names):
                raise refuse("source", "sources with different names", names)
            check_given(self.config, self.store, sources)
        again = again or (every(PAUSE) if follow else once)

        def take(stream: str, raw: RawBatch) -> None:
            self.take(raw, source=sources[stream].name, stream=stream)
            counted(sum(map(self.store.count, self.streams)))

        return releases_of(self._run, take, sources, again=again, stop=stop)

    # --- releases out

    def advance(self) -> Iterator[StoredRelease]:
        """Carry out every fit that is due, and yield each release once it is published.

        Raises:
            StoppedError: Most records of a stream's first step cannot be used. The state is stopped
                then; only `open` with corrected settings goes on.
        """
        self._run.check_going()
        return self._run.advance()

    def train(self, job: FitJob) -> Fitted:
        """Compute the private model of a fit. Override it to compute them elsewhere."""
        return job.train(self.store, CheckedEngine(self.engine, self._run.attempts))

    # --- reading

    def releases(self, start: int = 0) -> Iterator[StoredRelease]:
        """The releases from number `start` on, oldest first."""
        return self.store.releases(start)

    def ledgers(self) -> dict[str, Ledger]:
        """The ledger of each stream: what its records have paid so far."""
        view = self.ledger_view()
        view.read()
        return view.ledgers

    def ledger_view(self) -> LedgerView:
        """A view of all charges that can be updated as they grow."""
        descends = LEARNERS[self.config.learner.kind].descends
        measured = MeasuredSteps(self.store, self.settings)
        return LedgerView(self.store, self.streams, descends=descends, measured=measured)


def _open_store(folder: Path, config: Config | None, *, upgrade: bool) -> FolderStore:
    """Open the state in a folder, or create it."""
    locations = None if config is None else config.locations()
    try:
        return FolderStore(folder, locations=locations, upgrade=upgrade)
    except NoStateError:
        if config is None:
            raise
        check_sources(config)  # before its settings become fixed
        return FolderStore(
            folder,
            config.to_json(),
            settings=config.privacy_json(),
            locations=locations,
            make_key=key_maker(config),
        )


def _same_config(store: Store, config: Config | None) -> tuple[Config, list[Stop]]:
    """The configuration to use, and the stop that it corrects, if it does.

    A change of a setting that affects privacy is refused, unless the state is stopped.
    """
    if config is not None and _kept_as(config, store):
        return config.settled(), []
    with readable("the configuration in the database"):
        frozen = Config.from_json(store.config())
        kept = store.settings()
        first = frozen if frozen.privacy_json() == kept else Config.from_json(kept)
    if forged := differences(first.privacy_json(), frozen.privacy_json()):
        edited = "the configuration in the database is not the one that the state was created with"
        raise StoreError(f"{edited}: {'; '.join(forged)}: {RESTORE}")
    if config is None:
        return frozen, []
    config = config.settled(frozen)
    return config, corrected(store, frozen, config)


def _kept_as(config: Config, store: Store) -> bool:
    """Whether a state was created with exactly this configuration, and has it still."""
    return (store.config(), store.settings()) == (config.to_json(), config.privacy_json())


def reasons_for(config: Config, raw: RawBatch, unusable: Sequence[int]) -> Mapping[int, str]:
    """The reason for each unusable slot of a batch: with columns, those that it contradicts."""
    columns, records = config.column_map(), config.records
    if columns is None or not unusable:
        return dict.fromkeys(unusable, UNUSABLE[records.predicted.kind])
    wrong = columns.bad(as_table(raw.X, columns.names)[list(unusable)])
    found = {
        slot: [each.shown for each in columns.checked if wrong[each.name][place]]
        for place, slot in enumerate(unusable)
    }
    no_label = records.predicted.missing
    return {
        slot: f"not of its column's kind: {few(names)}" if names else no_label
        for slot, names in found.items()
    }

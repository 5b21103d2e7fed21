"""The Gate: the durable runtime. Records in, releases out, and nothing lost in between."""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from tidegate.checks import InvalidValueError, StoreError, refuse
from tidegate.executor import FitJob, advance
from tidegate.features.rows import Rows
from tidegate.gate import publish_folder
from tidegate.gate.config import Config, ConfigError, differences
from tidegate.gate.durable_run import Clock, DurableRun, now
from tidegate.gate.folder_store import FolderStore
from tidegate.gate.ledger_view import LedgerView
from tidegate.gate.source_loop import PAUSE, check_readable, never, releases_of
from tidegate.gate.sources import RawBatch, Source, every, once, raw_batch
from tidegate.gate.sources.files import Follow
from tidegate.gate.store import RESTORE, Batch, NoStateError, Quarantined, Store, readable
from tidegate.gate.taken import (
    check_configured,
    check_given,
    check_holdout,
    check_separate,
    check_sources,
)
from tidegate.gate.whole_file import delete_unfinished
from tidegate.learn.learner import Weights
from tidegate.learn.records import Records
from tidegate.privacy import Ledger
from tidegate.progress import ONLY
from tidegate.release import StoredRelease

UNUSABLE = "a value is missing or no finite number, or the label is not a class"


class Gate:
    """A plan carried out durably: what was acknowledged is kept, what was charged is published.

    Made by `open`, or by `look` to read only. What `ingest` has returned for is on the disk; a
    step's charges, models and cards are committed together, and only then shown.

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
    >>> from tidegate.gate.sources import Batches
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
        self.config = config
        self._run = DurableRun(store, config, self.train, clock)
        self.plan = self._run.plan
        self.progress = self._run.progress
        self.streams = self.progress.streams
        self.about = self._run.about
        self.engine = config.compute.build()
        self._forms: dict[str, Rows] = {}  # of the streams that have records

    @classmethod
    def open(
        cls,
        folder: str | Path,
        config: Config | str | Path | None = None,
        *,
        sources: Mapping[str, Source] | None = None,
        clock: Clock = now,
    ) -> Self:
        """Open a state, or make one; nobody else can until it is closed.

        Args:
            folder: Where the state is kept.
            config: What the gate is to do, or the TOML file that says so. It may be left out for a
                state that exists; else all that privacy depends on must be as it was.
            sources: Sources of the configuration that `run` is to read: a state, which fixes its
                settings, is not made before they can be read.
            clock: What time it is, for the cards.
        """
        if isinstance(config, str | Path):
            config = Config.load(config)
        if config is not None and sources is not None:
            check_separate(config)
            if not Path(folder).exists():
                check_readable(sources.values())
        store = _open_store(Path(folder), config)
        try:
            gate = cls(store, _same_config(store, config), clock)
            gate._recover(Path(folder))
        except BaseException:
            store.close()
            raise
        return gate

    @classmethod
    def look(cls, folder: str | Path) -> Self:
        """Open a state for reading only, also while a gate runs on it."""
        store = FolderStore(Path(folder), read_only=True)
        try:
            return cls(store, _same_config(store, None))
        except BaseException:
            store.close()
            raise

    def _recover(self, state: Path) -> None:
        """Refuse what cannot go on; finish what a stop has kept from following its commit."""
        check_holdout(self.config, self.store)
        _ = self._run.holdout  # refused now if it cannot be read
        if (published := self._run.published) is not None:
            publish_folder.check_apart(published, state)
            delete_unfinished(published)
            publish_folder.check_known(published, self.store)
        self.store.sweep()
        if self.store.config() != self.config.to_json():
            self.store.reconfigure(self.config.to_json())
        self.catch_up()

    def catch_up(self) -> None:
        """Finish what follows a commit, if something has kept it from being done."""
        self._run.after_commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the state, and of what computes."""
        self.engine.close()
        self.store.close()

    # --- records in

    def ingest(self, X: Any, y: Any, *, stream: str | None = None, key: str | None = None) -> int:
        """Take records in and carry out what is due; the stream's new count.

        When this returns all records are durable and all models that they made due are published.

        Args:
            X: Records, shape (n, d): array, CSR matrix or table; or what the feature map takes.
            y: A label for each, shape (n,).
            stream: "source" or "target", where there are two.
            key: A name for the batch: the second batch of that name is not added.
        """
        for _ in self.advance():  # what a stop left undone comes first, as it would have
            pass
        count = self.take(raw_batch(X, y), stream=stream, key=key)
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
        """Make a batch durable and leave what is due to `advance`; the stream's new count.

        Args:
            raw: The records.
            source: The source's name, if the batch has an offset to keep.
            stream: "source" or "target", where there are two.
            key: A name for the batch: the second batch of that name is not added.
        """
        name = self.stream(stream)
        if raw.n == 0:
            return self.store.count(name)
        records = self._clean(name, raw)
        quarantine = tuple(
            Quarantined(
                slot=slot, reason=raw.reasons.get(slot, UNUSABLE), payload=raw.arrived(slot)
            )
            for slot in np.flatnonzero(~records.usable).tolist()
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

    def stream(self, stream: str | None) -> str:
        """The name of a stream; it may be left out where there is but one."""
        if stream is None and len(self.streams) == 1:
            return ONLY
        if stream not in self.streams:
            raise refuse("stream", " or ".join(self.streams), stream)
        return stream

    def _clean(self, stream: str, raw: RawBatch) -> Records:
        """Records in the form that the first batch of their stream has fixed, for good."""
        for name in self.streams:
            if name not in self._forms and (form := self.store.form(name)) is not None:
                self._forms[name] = form
        records = replace(self._run.intake, form=self._forms.get(stream)).records(raw.X, raw.y)
        public = self._run.holdout
        rows = [*self._forms.values(), *([] if public is None else [public.X])]
        for width in {each.shape[1] for each in rows} - {records.X.shape[1]}:
            found = f"X has {records.X.shape[1]} features, but {width} were expected"
            raise InvalidValueError(f"{found}: all streams and the holdout have as many")
        return records

    def run(
        self,
        source: Source | Mapping[str, Source] | None = None,
        *,
        follow: bool = False,
        again: Follow | None = None,
        counted: Callable[[int], object] = int,
        stop: Callable[[], bool] = never,
    ) -> Generator[StoredRelease]:
        """Take in what the sources have, from where the last run stopped, as `tidegate run` does.

        The records come in as the iteration goes on, and each release is handed out once it is
        published. The run can end at any time and in any way, as by leaving the loop: the next one
        goes on, and nothing is lost, taken twice or paid for twice. What an earlier run has
        published is not handed out again; `releases` has it.

        Args:
            source: Where the records come from, or a source for each stream by its name; by default
                those that the configuration names.
            follow: Go on as the sources grow, for ever. So does a configuration that says `follow`.
            again: Called when all sources are at their ends: whether to look again. By default a
                run that follows waits for a second, and any other ends.
            counted: Called with the number of records after each batch.
            stop: Asked before every batch and every step: whether to stop there.
        """
        if source is None:
            sources = self.config.sources(follow=follow, pause=None)
            if not sources:
                raise InvalidValueError("the configuration names no source: give run one")
            check_configured(self.config, self.store, sources)
            follow = follow or self.config.follows
        else:
            given = source if isinstance(source, Mapping) else {None: source}
            sources = {self.stream(stream): each for stream, each in given.items()}
            names = [each.name for each in sources.values()]
            if len(set(names)) < len(names):
                raise refuse("source", "sources of different names", names)
            check_given(self.config, self.store, sources)
        again = again or (every(PAUSE) if follow else once)

        def take(stream: str, raw: RawBatch) -> None:
            self.take(raw, source=sources[stream].name, stream=stream)
            counted(sum(map(self.store.count, self.streams)))

        return releases_of(self._run, take, sources, again=again, stop=stop)

    # --- releases out

    def advance(self) -> Iterator[StoredRelease]:
        """Carry out every fit that is due; each release is handed out once it is published."""
        return advance(self._run)

    def train(self, job: FitJob) -> Weights:
        """The private weights of a fit; a gate may have another process compute them."""
        return job.train(self.store, self.engine)

    # --- what there is

    def releases(self, start: int = 0) -> Iterator[StoredRelease]:
        """The releases from a number on, the oldest first."""
        return self.store.releases(start)

    def ledgers(self) -> dict[str, Ledger]:
        """What the records of each stream have paid, added up from what was charged."""
        view = self.ledger_view()
        view.read()
        return view.ledgers

    def ledger_view(self) -> LedgerView:
        """What the records have paid, line by line, to be read as it grows."""
        return LedgerView(self.store, self.streams)


def _open_store(folder: Path, config: Config | None) -> FolderStore:
    """The state in a folder, made if there is none."""
    locations = None if config is None else config.locations()
    try:
        return FolderStore(folder, locations=locations)
    except NoStateError:
        if config is None:
            raise
        check_sources(config)  # before its settings are fixed
        return FolderStore(
            folder, config.to_json(), settings=config.privacy_json(), locations=locations
        )


def _same_config(store: Store, config: Config | None) -> Config:
    """The configuration of a state, and that nothing that privacy depends on has changed."""
    with readable("the configuration in the database"):
        frozen, first = Config.from_json(store.config()), Config.from_json(store.settings())
    if forged := differences(first.privacy_json(), frozen.privacy_json()):
        told = "the configuration in the database is not the one that the state was made with"
        raise StoreError(f"{told}: {'; '.join(forged)}: {RESTORE}")
    if config is None:
        return frozen
    if changed := differences(frozen.privacy_json(), config.privacy_json()):
        told = "the state was made with other settings, which cannot change"
        anew = "set them back, or name another state, where records pay anew"
        raise ConfigError([f"{told}: {'; '.join(changed)}; {anew}"])
    return config

"""The Gate: the durable runtime. Records in, releases out, and nothing lost in between."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from sklearn.pipeline import make_pipeline

from tidegate.checks import InvalidValueError, StoreError, refuse
from tidegate.compute import Engine
from tidegate.features.rows import Rows
from tidegate.gate import publish_folder, quality
from tidegate.gate.config import Config, ConfigError, differences
from tidegate.gate.folder_store import FolderStore
from tidegate.gate.integrity import SETTINGS, text_digest
from tidegate.gate.progress import ONLY, Progress
from tidegate.gate.sources import RawBatch, raw_batch
from tidegate.gate.store import (
    RESTORE,
    Batch,
    Evaluation,
    Made,
    NoStateError,
    Quarantined,
    Store,
    readable,
)
from tidegate.gate.taken import check_holdout, check_sources
from tidegate.gate.whole_file import delete_unfinished
from tidegate.learn.learner import Task, Weights
from tidegate.learn.parts import Parts
from tidegate.learn.records import Intake, Records, Slots, weighted
from tidegate.learn.trainer import Read, Trainer
from tidegate.privacy import Ledger, Line
from tidegate.privacy.bits import Bits, NotPrivateBits, SystemBits
from tidegate.release import About, Card, Release, StoredRelease, make_card
from tidegate.schedule import SlotWeight, Span

UNUSABLE = "a value is missing or no finite number, or the label is not a class"

Clock = Callable[[], datetime]


def now() -> datetime:
    """The time for cards."""
    return datetime.now(UTC)


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
    >>> with TemporaryDirectory() as folder, Gate.open(folder, config) as gate:
    ...     gate.ingest(np.ones((450, 2)), np.ones(450))
    ...     [release.card["at"] for release in gate.releases()]
    450
    [300, 400]
    """

    def __init__(self, store: Store, config: Config, clock: Clock = now) -> None:
        self.store = store
        self.config = config
        self.plan = config.plan()
        self.progress = Progress(self.plan, store)
        self.streams = self.progress.streams
        self._clock = clock
        self._task = config.task()
        self._forms: dict[str, Rows] = {}  # of the streams that have records
        self._intake = Intake(
            norm=self._task.norm, classes=config.records.classes, features=config.feature_map()
        )
        self._learner = config.learner.build()
        self.engine = config.compute.build()
        maps = [each.build() for each in config.features]
        self.about = About(
            plan=self.plan,
            task=self._task,
            learner=self._learner,
            classes=config.records.classes,
            features=make_pipeline(*maps) if maps else None,
            dtype=config.records.dtype,
            columns=config.records.read,
            label=config.records.label,
        )

    @classmethod
    def open(
        cls, folder: str | Path, config: Config | str | Path | None = None, *, clock: Clock = now
    ) -> Self:
        """Open a state, or make one; nobody else can until it is closed.

        Args:
            folder: Where the state is kept.
            config: What the gate is to do, or the TOML file that says so. It may be left out for a
                state that exists; else all that privacy depends on must be as it was.
            clock: What time it is, for the cards.
        """
        if isinstance(config, str | Path):
            config = Config.load(config)
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
        _ = self._holdout  # refused now if it cannot be read
        if self._published is not None:
            publish_folder.check_apart(self._published, state)
            delete_unfinished(self._published)
            publish_folder.check_known(self._published, self.store)
        self.store.sweep()
        if self.store.config() != self.config.to_json():
            self.store.reconfigure(self.config.to_json())
        self._after_commit()

    @property
    def _published(self) -> Path | None:
        """Where releases are published, if anywhere."""
        return None if self.config.publish is None else Path(self.config.publish.folder)

    def _after_commit(self) -> None:
        """Publish what is released, and let go of what no fit to come can read."""
        if self._published is not None:
            publish_folder.catch_up(self._published, self.store)
        for stream in self.streams:  # a model of the source ends what is needed of the target
            self.store.forget(stream, self.progress.needed(stream))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        records = replace(self._intake, form=self._forms.get(stream)).records(raw.X, raw.y)
        rows = [*self._forms.values(), *([] if self._holdout is None else [self._holdout.X])]
        for width in {each.shape[1] for each in rows} - {records.X.shape[1]}:
            told = f"X has {records.X.shape[1]} features, but {width} were expected"
            raise InvalidValueError(f"{told}: all streams and the holdout have as many")
        return records

    # --- releases out

    def advance(self) -> Iterator[StoredRelease]:
        """Carry out every fit that is due; each release is handed out once it is published."""
        while ready := list(filter(self.progress.complete, self.streams)):
            yield from self.carry_out(min(ready, key=self.progress.turn))

    def carry_out(self, stream: str) -> list[StoredRelease]:
        """Make all models of the next step, then charge, keep and release them in one transaction.

        A step that is cut short has been seen by nobody: it is made again as a whole.

        Args:
            stream: One whose next step is complete.
        """
        span = self.progress.next(stream)
        lines, state = self.progress.due(stream)
        evaluation = self._evaluation(stream, span)
        measured = None if evaluation is None else quality.on_card(evaluation, span)
        weights: dict[int, Weights] = {}
        made = []
        for line in lines:
            prior, start = (self._model(one, weights) for one in (line.fit.prior, line.fit.start))
            trainer = self._trainer(line.fit.number)
            model = self.train(trainer, stream, line, prior, start)
            weights[line.fit.number] = model
            made.append(self._made(line, model, prior, measured))
        released = self.store.publish(stream, span.stop, made, state, evaluation)
        self._after_commit()
        return released

    def train(
        self,
        trainer: Trainer[Task],
        stream: str,
        line: Line,
        prior: Weights | None,
        start: Weights | None,
    ) -> Weights:
        """The private weights of a fit of a stream; a gate may have another process do it."""
        return trainer.train(line, reader(self.store, stream, self.engine), prior, start)

    def _model(self, number: int | None, made: Mapping[int, Weights]) -> Weights | None:
        if number is None:
            return None
        return made[number] if number in made else self.store.fit(number)

    def _trainer(self, *place: int) -> Trainer[Task]:
        return Trainer(
            task=self._task,
            learner=self._learner,
            budget=self.plan.budget,
            bits=self._bits(*place),
        )

    def _bits(self, *place: int) -> Bits:
        """Fresh bits; with a seed, those of this place alone, so that a restart repeats them."""
        seed = self.config.not_private_seed
        return SystemBits() if seed is None else NotPrivateBits(seed, *place)

    def _made(
        self, line: Line, weights: Weights, prior: Weights | None, measured: Card | None
    ) -> Made:
        trainer = self._trainer(line.fit.number)
        release = Release(
            number=0,  # the store gives the number
            fit=line.fit,
            share=line.share,
            budget=self.plan.budget,
            weights=weights,
            settings=trainer.settings(line, weights.shape[0], prior),
            private=trainer.bits.private,
        )
        settings = {SETTINGS: text_digest(self.store.settings())}
        found = {"step_before": measured, "holdout": self._on_holdout(weights)}
        evaluation = {name: known for name, known in found.items() if known is not None}
        card = make_card(release, self.about, time=self._clock(), evaluation=evaluation or None)
        return Made(line=line, weights=weights, card={**card, **settings})

    # --- how good they are

    def _evaluation(self, stream: str, span: Span) -> Evaluation | None:
        """How good the newest release is on the step that has just come in, if that is bought."""
        share, newest = self.config.quality.share, self.store.newest()
        if share is None or newest is None:
            return None
        return quality.evaluate(
            newest,
            self.store.read(stream, span),
            budget=self.plan.budget,
            share=share,
            bits=self._bits(self.streams.index(stream), span.stop, 1),
        )

    @cached_property
    def _holdout(self) -> Records | None:
        """The public records that releases are tried on."""
        source = self.config.holdout()
        if source is None:
            return None
        parts = (self._intake.records(raw.X, raw.y) for raw in source.batches(None))
        return quality.public_records(self.config.quality.holdout, parts)

    def _on_holdout(self, weights: Weights) -> Card | None:
        return None if self._holdout is None else quality.on_public(weights, self._holdout)

    # --- what there is

    def releases(self, start: int = 0) -> Iterator[StoredRelease]:
        """The releases from a number on, the oldest first."""
        return self.store.releases(start)

    def ledgers(self) -> dict[str, Ledger]:
        """What the records of each stream have paid, added up from what was charged."""
        ledgers = {stream: Ledger(limit=None) for stream in self.streams}
        for stream, ledger in ledgers.items():
            for line in self.store.lines(stream):
                ledger.post(line)
        for step in self.store.steps():
            if step.evaluation is not None:
                ledgers[step.stream].charge(step.span, step.evaluation.share)
        return ledgers


def reader(store: Store, stream: str, engine: Engine) -> Read:
    """How the fits of a stream read its records."""

    def read(
        span: Span, slots: Slots | None = None, slot_weights: Sequence[SlotWeight] = (), /
    ) -> Parts[Records]:
        form = store.form(stream)
        if form is None:
            raise LookupError(f"{stream} has no records")
        pieces = weighted(store.pieces(stream, span, slots), slot_weights)
        return engine.parts(pieces, form)

    return read


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

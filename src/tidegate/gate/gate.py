"""The Gate: the durable runtime. Records in, releases out, and nothing lost in between."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from sklearn.pipeline import make_pipeline

from tidegate.checks import InvalidValueError, refuse
from tidegate.gate.config import Config, ConfigError, differences
from tidegate.gate.export import newest_published, publish
from tidegate.gate.sources import RawBatch, raw_batch
from tidegate.gate.sqlite import SqliteStore
from tidegate.gate.store import Batch, Made, NoStateError, Quarantined, Store
from tidegate.learn.learner import Task, Weights
from tidegate.learn.quality import correct, deviation, private_accuracy
from tidegate.learn.records import Records, clean, join
from tidegate.learn.trainer import Trainer
from tidegate.plan import TwoStreamPlan
from tidegate.privacy import Ledger, Line
from tidegate.privacy.bits import Bits, NotPrivateBits, SystemBits
from tidegate.privacy.budget import allowance
from tidegate.privacy.rounding import down
from tidegate.release import About, Card, Release, StoredRelease, described, make_card
from tidegate.schedule import Schedule, Span, Stream
from tidegate.schedule.twostream import Arrived

ONLY = "records"
"""The name of the stream of a schedule that has but one."""

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
        self._clock = clock
        self._features = config.feature_map()
        self._task = config.task()
        self._learner = config.learner.build()
        maps = [each.build() for each in config.features]
        self._about = About(
            plan=self.plan,
            task=self._task,
            learner=self._learner,
            classes=config.records.classes,
            features=make_pipeline(*maps) if maps else None,
            dtype=config.records.dtype,
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
            gate._recover()
        except BaseException:
            store.close()
            raise
        return gate

    @classmethod
    def look(cls, folder: str | Path) -> Self:
        """Open a state for reading only, also while a gate runs on it."""
        store = SqliteStore(Path(folder), read_only=True)
        try:
            return cls(store, _same_config(store, None))
        except BaseException:
            store.close()
            raise

    def _recover(self) -> None:
        """Finish what may follow a commit, in case the last process could not."""
        for stream in self.streams:
            self.store.forget(stream, self.needed(stream))
        if self.config.publish is not None:
            folder = Path(self.config.publish.folder)
            for release in self.releases(newest_published(folder) or 0):
                publish(folder, release)
        _ = self._holdout  # refuse now what cannot be read

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
        """Let go of the state."""
        self.store.close()

    # --- records in

    @property
    def streams(self) -> list[str]:
        """The names of the streams."""
        return ["source", "target"] if isinstance(self.plan, TwoStreamPlan) else [ONLY]

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
        records = self._clean(raw)
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
                cut=self._cut(name),
            )
        )

    def _cut(self, stream: str) -> int | None:
        """Where records of a stream are forgotten: after any step, or never."""
        if not isinstance(self.plan, TwoStreamPlan):
            return _forgets_after(self.plan.schedule)
        if stream == "target":
            return self.plan.schedule.step
        return _forgets_after(self.plan.schedule.source)

    def stream(self, stream: str | None) -> str:
        """The name of a stream, which may be left out where there is but one."""
        if stream is None and len(self.streams) == 1:
            return ONLY
        if stream not in self.streams:
            raise refuse("stream", " or ".join(self.streams), stream)
        return stream

    def _clean(self, raw: RawBatch) -> Records:
        classes, norm = self.config.records.classes, self._task.norm
        return clean(raw.X, raw.y, classes=classes, norm=norm, features=self._features)

    # --- releases out

    def advance(self) -> Iterator[StoredRelease]:
        """Carry out every fit that is due; each release is handed out once it is published."""
        for stream in self.streams:
            while self.complete(stream):
                at = self.next_at(stream)
                lines, state = self._due(stream, at)
                yield from self._carry_out(stream, at, lines, state)

    def next_at(self, stream: str) -> int:
        """Where the next step of a stream ends."""
        return self.store.done(stream) + self.step(stream)

    def complete(self, stream: str) -> bool:
        """Whether the next step of a stream has all its records."""
        return self.next_at(stream) <= self.store.count(stream)

    def step(self, stream: str) -> int:
        """How many records a step of a stream has."""
        schedule = self.plan.schedule
        if isinstance(self.plan, TwoStreamPlan) and stream == "source":
            return self.plan.schedule.source.step
        return schedule.step

    def _due(self, stream: str, at: int) -> tuple[list[Line], str | None]:
        """The lines of a step, and what the future of two streams depends on after it."""
        if not isinstance(self.plan, TwoStreamPlan):
            return self.plan.due(at), None
        name: Stream = "source" if stream == "source" else "target"
        so_far, fits = self.plan.schedule.arrive(self._arrived(), name)
        return [Line(fit, self.plan.share(fit)) for fit in fits], json.dumps(asdict(so_far))

    def _arrived(self) -> Arrived:
        state = self.store.state()
        if state is None:
            return Arrived()
        known = json.loads(state)
        chain = {int(level): number for level, number in known.pop("chain").items()}
        return Arrived(**known, chain=chain)

    def needed(self, stream: str) -> int:
        """The first record of a stream that a fit to come may read."""
        if not isinstance(self.plan, TwoStreamPlan):
            return self.plan.schedule.needed(self.store.done(stream))
        so_far = self._arrived()
        if stream == "source":
            return self.plan.schedule.source.needed(so_far.source)
        return so_far.phase_start

    def _carry_out(
        self, stream: str, at: int, lines: Sequence[Line], state: str | None
    ) -> list[StoredRelease]:
        """Make all models of one step, then charge, keep and release them in one transaction.

        A step that is cut short has been seen by nobody: it is made again as a whole.
        """
        measured = self._measured(stream, at, lines)
        weights: dict[int, Weights] = {}
        made = []
        for line in lines:
            prior = self._prior(line.fit.prior, weights)
            trainer = self._trainer(line.fit.number)
            model = trainer.train(line, lambda span: self.store.read(stream, span), prior)
            weights[line.fit.number] = model
            made.append(self._made(line, model, prior, measured))
        released = self.store.publish(stream, at, made, state)
        if self.config.publish is not None:
            for release in released:
                publish(self.config.publish.folder, release)
        for name in self.streams:  # a model of the source ends what is needed of the target
            self.store.forget(name, self.needed(name))
        return released

    def _prior(self, number: int | None, made: Mapping[int, Weights]) -> Weights | None:
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
        found = {"step_before": measured, "holdout": self._on_holdout(weights)}
        evaluation = {name: known for name, known in found.items() if known is not None}
        card = make_card(release, self._about, time=self._clock(), evaluation=evaluation or None)
        return Made(line=line, weights=weights, card=card)

    # --- how good they are

    @property
    def reserve(self) -> Fraction:
        """What every record pays for private quality."""
        return self.config.quality.share or Fraction(0)

    def _measured(self, stream: str, at: int, lines: Sequence[Line]) -> Card | None:
        """How good the newest release is on the step that has just come in, privately.

        Each record is in one step, so it pays this once: the plan's reserve.
        """
        newest = self.store.newest()
        if not self.reserve or newest is None or not any(line.fit.released for line in lines):
            return None
        span = Span(at - self.step(stream), at)
        records = self.store.read(stream, span)
        spent = allowance(self.plan.budget, self.reserve)
        bits = self._bits(lines[0].fit.number, 1)
        return {
            "of_release": newest.number,
            "start": span.start,
            "stop": span.stop,
            "accuracy": private_accuracy(newest.weights, records, allowance=spent, bits=bits),
            "deviation": deviation(records.n, spent),
            "share": str(self.reserve),
        }

    @cached_property
    def _holdout(self) -> Records | None:
        """The public records that releases are tried on."""
        source = self.config.holdout()
        if source is None:
            return None
        parts = [self._clean(raw) for raw in source.batches(None)]
        records = join(parts) if parts else None
        if records is None or not records.usable.any():
            raise InvalidValueError(f"{self.config.quality.holdout} holds no usable record")
        return records

    def _on_holdout(self, weights: Weights) -> Card | None:
        if self._holdout is None:
            return None
        usable = int(self._holdout.usable.sum())
        return {"records": usable, "accuracy": correct(weights, self._holdout) / usable}

    # --- what there is

    def releases(self, start: int = 0) -> Iterator[StoredRelease]:
        """The releases from a number on, the oldest first."""
        return self.store.releases(start)

    def ledgers(self) -> dict[str, Ledger]:
        """What the records of each stream have paid for fits, added up from what was charged."""
        ledgers = {}
        for stream in self.streams:
            ledgers[stream] = Ledger()
            for line in self.store.lines(stream):
                ledgers[stream].post(line)
        return ledgers

    def status(self) -> dict[str, Any]:
        """What the state holds, and why. It counts unusable records: for the operator only."""
        newest, budget = self.store.newest(), self.plan.budget
        return {
            "schedule": described(self.plan.schedule),
            "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
            "private": self.config.not_private_seed is None,
            "releases": 0 if newest is None else newest.number + 1,
            "newest": None if newest is None else newest.card["time"],
            "streams": [self._status(stream, ledger) for stream, ledger in self.ledgers().items()],
        }

    def _status(self, stream: str, ledger: Ledger) -> dict[str, Any]:
        count, needed = self.store.count(stream), self.needed(stream)
        held = [segment for segment in self.store.held() if segment.stream == stream]
        start = min([count, *(segment.span.start for segment in held)])
        why = f"fits to come may read records from {needed:,} on" if held else "nothing is held"
        return {
            "stream": stream,
            "records": count,
            "unusable": self.store.quarantined(stream),
            "in_open_step": count - self.store.done(stream),
            "fits": ledger.posted,
            "worst_share": down(ledger.worst().share + self.reserve),
            "held_from": start,
            "held_records": count - start,
            "held_bytes": sum(segment.size for segment in held),
            "held_because": why,
        }


def _forgets_after(schedule: Schedule) -> int | None:
    """The step of a schedule that forgets; None for one that never does."""
    return schedule.step if schedule.needed(2**32 * schedule.step) else None


def _open_store(folder: Path, config: Config | None) -> SqliteStore:
    """The state in a folder, made if there is none."""
    try:
        return SqliteStore(folder)
    except NoStateError:
        if config is None:
            raise
        return SqliteStore(folder, config.to_json())


def _same_config(store: Store, config: Config | None) -> Config:
    """The configuration of a state, and that nothing that privacy depends on has changed."""
    frozen = Config.from_json(store.config())
    if config is None:
        return frozen
    if changed := differences(frozen.privacy_json(), config.privacy_json()):
        told = "the state was made with other settings, which cannot change"
        raise ConfigError([f"{told}: {'; '.join(changed)}"])
    return config

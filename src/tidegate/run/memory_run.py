"""A run in memory: records in, releases out, and what it stores."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tidegate.data.records import Records, Slots
from tidegate.data.rows import Rows
from tidegate.learn.preparation import Moments, preparation_of
from tidegate.learn.slot_weights import Counted, Ownership
from tidegate.learn.transform import prepared_by
from tidegate.privacy import Ledger
from tidegate.privacy.noise import Bits
from tidegate.release import About, Release
from tidegate.run.executor import Advice, EarlierFit, Run, StepInProgress
from tidegate.run.held import AdmittedSteps, AllAdmitted, Held
from tidegate.run.settings import OneSource, Settings
from tidegate.run.step_admission import StepAdmission
from tidegate.schedule.fit import Arrived, RecordFit, Span, superseded
from tidegate.schedule.plan import ONLY, TwoLedgers


class MemoryStore:
    """Keeps records while they are needed, and what a run makes of them.

    `publish` can be interrupted at any line and called again: each fit is charged once and
    published once, and none is published before all fits of its step are charged. If the ledger
    itself is interrupted, later charges are refused or too high; no model is published that was not
    charged.

    Attributes:
        releases: The published releases, in order.
        about: The public settings of the run, for cards.
        ledgers: The ledger, or the two ledgers of two streams.
    """

    advice = Advice(
        unusable=(
            "check classes, norm, features and the order of columns; fit starts a new stream, in "
            "which records that are sent again pay again"
        ),
        nobodys="check persons; fit starts a new stream",
    )

    def __init__(self, settings: Settings) -> None:
        plan, self.progress = settings.plan, settings.progress(self)
        self.plan = plan
        self.releases: list[Release] = []
        self.about: About | None = None
        self.ledgers: Ledger | TwoLedgers = plan.ledgers()
        streams = self.progress.streams
        self.admitted = AdmittedSteps(plan.admission, streams) if plan.admission else AllAdmitted()
        self.held = {stream: Held() for stream in streams}
        self._fits: dict[int, EarlierFit] = {}  # that are released or not superseded
        self._unreleased: list[RecordFit] = []  # fits whose weights may be superseded later
        self._done = dict.fromkeys(self.held, 0), Arrived()  # replaced as a whole after each step
        self._moments: dict[str, Moments] = {}  # of the surveys of each stream so far
        self.stopped = ""  # why no step follows the last one, if none does
        self._turns: tuple[str, ...] = ()  # streams with new records, in the order of their batches

    # --- records

    def append(self, stream: str, records: Records) -> None:
        """Add records to a stream."""
        self.admitted.check(records)
        self._turns = (*self._turns, stream)  # first: a turn without records does no harm
        self.held[stream].append(records)

    def form(self, stream: str, /) -> Rows:
        """See `RecordStore`."""
        return self.held[stream].form

    def pieces(self, stream: str, span: Span, slots: Slots | None = None, /) -> Sequence[Records]:
        """See `RecordStore`."""
        return self.held[stream].pieces(span, slots)

    def owned(self, stream: str, span: Span, /) -> Ownership:
        """See `RecordStore`."""
        return self.admitted.owned(stream, span, self.held[stream])

    # --- progress

    def count(self, stream: str, /) -> int:
        """How many records of a stream have arrived."""
        return self.held[stream].count

    def done(self, stream: str, /) -> int:
        """The number of records up to which all fits are done."""
        return self._done[0][stream]

    def arrived(self) -> Arrived:
        """The arrivals of two streams, which decide their next fits."""
        return self._done[1]

    def turn(self) -> str | None:
        """The next stream, in the order in which batches came, also after an interruption."""
        while self._turns and not self.progress.complete(self._turns[0]):
            self._turns = self._turns[1:]
        return self._turns[0] if self._turns else None

    def stop_reason(self) -> str:
        """See `StepStore`."""
        return self.stopped

    # --- steps

    def admit(self, stream: str, step: Span, /) -> Counted:
        """See `StepStore`."""
        number = self.progress.number(stream, step)
        return self.admitted.counted(stream, step, number, self.held[stream])

    def earlier(self, number: int, /) -> EarlierFit:
        """See `StepStore`."""
        return self._fits[number]

    def moments(self, stream: str, /) -> Moments | None:
        """See `StepStore`."""
        return self._moments.get(stream)

    def evaluate(self, read: Callable[[], Records], bits: Bits, rules: int, /) -> Any:
        """See `StepStore`: in memory, releases are not scored."""

    def ledger(self, stream: str) -> Ledger:
        """The ledger of a stream."""
        return self.ledgers.of(stream)

    def publish(self, step: StepInProgress, /) -> list[Release]:
        """Charge what is not yet charged, then publish the releases not yet published."""
        stream, span, trained = step.stream, step.span, step.trained_fits.values()
        ledger, published = self.ledger(stream), len(self.releases)
        self.admitted.add(stream, span, self.progress.number(stream, span))
        if self.plan.survey and ledger.surveyed < span.stop:
            ledger.take_survey(span)
        self.stopped = step.stopped
        for each in trained:
            if each.line.fit.number > ledger.last:
                ledger.post(each.line)
        for each in trained:
            self._fits[each.line.fit.number] = each.earlier
            newest = self.releases[-1].fit.number if self.releases else -1
            if each.line.fit.released and each.line.fit.number > newest:
                release = each.release(len(self.releases))
                stamped = replace(release, about=self.about, time=datetime.now(UTC))
                self.releases.append(stamped)
        for seen in step.surveys or ():
            self._moments[stream] = seen.moments
        self._done = {**self._done[0], stream: span.stop}, step.after
        self.plan.settle(self.ledgers, span.stop, step.after)
        self._forget()
        self._drop_superseded([each.line.fit for each in trained])
        return self.releases[published:]

    def _forget(self) -> None:
        """Drop the records that no later fit or survey reads, and what nobody needs of owners."""
        for name, held in self.held.items():
            held.forget(self.progress.needed(name))
            self.admitted.forget(name, held.first, self.progress.complete_steps(name))

    def _drop_superseded(self, due: Sequence[RecordFit]) -> None:
        """Delete the models that no fit needs after a step; `due` are the fits of the step."""
        for number in superseded(self._unreleased, due):
            self._fits.pop(number, None)
        fits = (fit for fit in (*self._unreleased, *due) if not fit.released)
        self._unreleased = [fit for fit in fits if fit.number in self._fits]


class MemoryRun(Run[Release]):
    """Takes in records, and makes the releases of each step when it is complete.

    A step can be interrupted: the next batch completes it. Each fit is trained once.
    """

    steps: MemoryStore

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, MemoryStore(settings))
        self.trainer(0)  # refuses a learner that does not fit the task
        task = preparation_of(settings.plan.survey).task(settings.task)
        settings.learner.check_size(task, settings.plan.schedule.largest)

    def take(self, records: Records, stream: str = ONLY) -> None:
        """Add records to a stream and execute the steps that they complete."""
        self.check_going()
        self.steps.append(stream, records)
        for _ in self.advance():
            pass

    @property
    def releases(self) -> list[Release]:
        """The published releases, in order."""
        return self.steps.releases

    def ledger(self, stream: str) -> Ledger:
        """The ledger of a stream."""
        return self.steps.ledger(stream)

    @property
    def admissions(self) -> list[StepAdmission]:
        """How many records of each step count, if persons are protected: for the operator alone."""
        return list(self.steps.admitted.counts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a run, also one that version 0.1 has pickled, between two steps."""
        self.__dict__.update(_converted(state) if "_held" in state else state)


def _converted(state: dict[str, Any]) -> dict[str, Any]:
    """The state of a run of version 0.1, which kept what its store keeps now.

    What a step in progress has surveyed or trained is not kept: nobody has seen it.
    """
    trainer = state["_trainer"]
    settings = Settings(
        plan=state["plan"],
        task=trainer.task,
        learner=trainer.learner,
        noise=OneSource(trainer.bits),
        engine=state["_engine"],
    )
    store = MemoryStore(settings)
    store.releases, store.about, store.ledgers = (
        state[name] for name in ("releases", "about", "ledgers")
    )
    store.held, store.admitted = state["_held"], state["_admitted"] or AllAdmitted()
    vars(store).update(
        {name: state[name] for name in ("_unreleased", "_done", "_moments", "_turns")}
    )
    for number, fitted in state["_fitted"].items():
        prepared = prepared_by(state["_transforms"][number])
        store._fits[number] = EarlierFit(fitted.weights, prepared, fitted.fold)
    store.stopped = state["_stopped"] or ""
    return vars(Run(settings, store))

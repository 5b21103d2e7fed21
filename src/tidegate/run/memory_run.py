"""A run in memory: records in, releases out."""

from typing import Any

from tidegate.data.records import Records
from tidegate.learn.preparation import preparation_of
from tidegate.learn.transform import prepared_by
from tidegate.privacy import Ledger
from tidegate.release import Release
from tidegate.run.admitted_steps import AllAdmitted
from tidegate.run.executor import EarlierFit, Run
from tidegate.run.memory_store import MemoryStore
from tidegate.run.settings import OneSource, Settings
from tidegate.run.step_admission import StepAdmission
from tidegate.schedule.plan import ONLY


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

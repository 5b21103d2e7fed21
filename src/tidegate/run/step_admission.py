"""How many records of a step count where persons are protected: for the operator's eyes only.

The numbers have no noise: they are secret. Gates keep them in the state, estimators in memory, and
nothing that is released has them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.privacy.person import Person
from tidegate.schedule.fit import Span
from tidegate.schedule.progress import ONLY

STEPS_LISTED = 32
"""How many of the newest steps `status` lists."""

WARN_BELOW_SHARE = 0.5
"""Below this share of a step's records, the operator is warned."""


@dataclass(frozen=True, kw_only=True)
class StepAdmission:
    """How many records of a step count.

    Attributes:
        stream: The stream of the step.
        span: Its slots.
        records: How many of them have a person.
        counted: How many of these count, because their persons are admitted.
    """

    stream: str
    span: Span
    records: int
    counted: int

    def __post_init__(self) -> None:
        numbers = (self.counted, self.records, self.span.size)
        if not 0 <= numbers[0] <= numbers[1] <= numbers[2]:
            raise ValueError(numbers)

    @property
    def share(self) -> float | None:
        """The share of the records with a person that count; None if none has one."""
        return self.counted / self.records if self.records else None

    @property
    def few(self) -> bool:
        """Whether less than half of the records count."""
        return self.counted < WARN_BELOW_SHARE * self.records

    def in_words(self) -> str:
        """What a line about a release says.

        >>> step = StepAdmission(stream="records", span=Span(0, 8), records=8, counted=1)
        >>> step.in_words()
        '12.5% of the newest 8 records with a person count'
        """
        whose = "records" if self.stream == ONLY else f"{self.stream} records"
        if not self.records:
            return f"none of the newest {self.span.size:,} {whose} has a person"
        return f"{self.share:.1%} of the newest {self.records:,} {whose} with a person count"


def status_rows(steps: Sequence[StepAdmission], stream: str) -> dict[str, Any]:
    """What the operator's status says about a stream: the newest step, and those before it."""
    shares = [
        {"start": each.span.start, "stop": each.span.stop, "share": each.share}
        for each in steps
        if each.stream == stream
    ]
    return {"admitted": shares[-1]["share"] if shares else None, "admitted_steps": shares}


IN_A_NEW_STATE = "All of [person] is fixed, so in a new state"


def few_admitted(steps: Sequence[StepAdmission]) -> dict[str, StepAdmission]:
    """The newest step of each stream in whose newest step few records count."""
    newest = {each.stream: each for each in steps}
    return {stream: step for stream, step in newest.items() if step.few}


def warnings(steps: Sequence[StepAdmission], person: Person) -> Iterator[str]:
    """Say of each stream in whose newest step few records count what can be done."""
    for step in few_admitted(steps).values():
        yield warning(step, person)


def warning(step: StepAdmission, person: Person, where: str = IN_A_NEW_STATE) -> str:
    """Say that few records of a step count, why, and what can be done.

    Args:
        step: The step.
        person: The settings that leave the others out.
        where: Where they can be changed: the beginning of the sentence that gives advice.
    """
    k, period = person.contributions, person.period
    longer = f"a shorter period than {period:,} steps" if period else "a period"
    return (
        f"{step.in_words()} (do not publish this share): the others are of persons who have "
        f"reached their limit of contributions = {k:,}, so models learn from fewer records than "
        f"arrive. {where} consider larger contributions, "
        f"{longer}, longer steps, or a longer memory (a smaller forget or a larger window), "
        "chosen from public knowledge"
    )

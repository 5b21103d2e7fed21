"""How good releases are: tests on public records, and privately on the step that follows them.

What surveys and scores tell about each step, and the drift alarm, is paid for.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tidegate.checks import InvalidValueError
from tidegate.data.records import Records, join
from tidegate.learn.drift import Drift, Errors, drift_of, drift_of_scores
from tidegate.learn.learner import Weights
from tidegate.learn.measures.measure import DIGITS, Measures
from tidegate.learn.preparation import Moments
from tidegate.learn.private_accuracy import deviation, margins_of, private_accuracy
from tidegate.learn.score_kinds import KINDS, headline, headline_name, measures_of, read_scores
from tidegate.learn.slot_weights import without_owners
from tidegate.learn.survey import Survey
from tidegate.learn.survey import settings as survey_settings
from tidegate.learn.transform import Prepared
from tidegate.privacy.budget import allowance_of
from tidegate.privacy.noise import Bits
from tidegate.release.card import Card, StoredRelease
from tidegate.release.verdict import accuracy_alone, verdict
from tidegate.schedule import Span
from tidegate.state.store import Evaluation, Step, Store

if TYPE_CHECKING:
    from tidegate.run.settings import Settings


def evaluate(
    release: StoredRelease, step: Records, settings: "Settings", bits: Bits, rules: int
) -> Evaluation:
    """How good a release is on the step after it. Every record of the step pays for it.

    Args:
        release: The release.
        step: The records of the step.
        settings: Whether to count scores, or only the accuracy, and what each record pays.
        bits: Source of randomness.
        rules: The number of the public rules that scores follow.
    """
    norm, share = settings.task.norm, settings.plan.reserve
    paid = allowance_of(settings.plan.budget, share)
    found: dict[str, Any] = {"release": release.number, "share": share}
    if not settings.scores:
        accuracy = private_accuracy(
            release.weights, step, release.prepared, norm=norm, allowance=paid, bits=bits
        )
        return Evaluation(**found, value=accuracy, deviation=deviation(step.n, paid))
    step = without_owners(step)
    scores = KINDS[release.predicted.kind].score(
        release.predicted,
        margins_of(release.weights, step, release.prepared, norm=norm),
        step,
        allowance=paid,
        bits=bits,
        person_weights=step.person_weights,
        rules=rules,
    )
    _, value, noise = headline(scores)
    return Evaluation(**found, value=value, deviation=noise, scores=scores.as_json())


def on_card(evaluation: Evaluation, span: Span) -> Card:
    """An evaluation in the form that cards have it."""
    return {
        "of_release": evaluation.release,
        "start": span.start,
        "stop": span.stop,
        headline_name(evaluation.scores): evaluation.value,
        "deviation": evaluation.deviation,
        "share": str(evaluation.share),
        **({} if evaluation.scores is None else scores_on_card(evaluation.scores)),
    }


def scores_on_card(noisy: Mapping[str, Any]) -> Card:
    """The noisy counts of an evaluation and what they tell, in the form that cards have them."""
    measures = measures_of(read_scores(noisy))
    return {"scores": measures.as_json(), "noisy_counts": dict(noisy)}


def shares_of(survey: Mapping[str, Any]) -> list[float]:
    """The noisy shares of classes, or of parts of a target's range, in a survey on a card."""
    shares: list[float] = survey["parts" if "parts" in survey else "classes"]
    return shares


def survey_on_card(survey: Survey, share: Fraction, span: Span, *, counted: str) -> Card:
    """The survey of a step in the form that cards have it: shares of classes and of unusable.

    Args:
        survey: The survey.
        share: What each record paid for it.
        span: The step.
        counted: Whether it counts "classes", or the "parts" of a target's range.
    """
    count = survey.deviations.counts / survey.total
    return {
        "start": span.start,
        "stop": span.stop,
        "share": str(share),
        counted: [float(each) / survey.total for each in survey.counts],
        "unusable": survey.unusable_share,
        "deviation": count,
        **({"total": survey.total} if survey.persons else {}),
        "settings": dict(
            survey_settings(
                survey.allowance,
                features=survey.features,
                rules=survey.rules,
                pairs=survey.pairs.size > 0,
            )
        ),
    }


def public_records(name: str, parts: Iterable[Records]) -> Records:
    """Join the public records on which releases are tested; refuse them if none is usable."""
    batches = list(parts)
    if not any(batch.usable.any() for batch in batches):
        advice = "check that [records] columns, label and classes or target match it"
        raise InvalidValueError(f"{name} holds no usable record: {advice}")
    return join(batches)


def on_public(
    weights: Weights, transform: Prepared, records: Records, settings: "Settings"
) -> Card:
    """How good a model is on public records, for its card. It costs nothing."""
    predicted = settings.intake.predicted
    kind = KINDS[predicted.kind]
    margins = margins_of(weights, records, transform, norm=settings.task.norm)
    found = Measures(kind.answers(predicted, margins, records))
    first = found.values[kind.headline]
    return {
        "records": int(records.usable.sum()),
        kind.headline: None if first is None else first.value,
        "scores": found.as_json(),
    }


Row = dict[str, Any]

MAX_STEPS_KEPT = 1000
"""The most steps that are kept, the newest ones."""

MAX_STEPS_MEASURED = 200
"""The most steps whose measures are computed at once; of older ones the accuracy is kept."""

MAX_CLASSES_LISTED = 32
"""With more classes, listings leave out their shares."""


@dataclass(frozen=True, kw_only=True)
class MeasuredStep:
    """What is known about one step.

    Attributes:
        step: The step.
        survey: Its survey as cards have it; None without one.
        measures: What its scores tell, as JSON; None without scores.
        drift: How it differs from the steps before it; None if there is nothing to compare.
        verdict: Whether the release scored on it beats a constant and the release before; None
            without measures.
    """

    step: Step
    survey: Mapping[str, Any] | None
    measures: Mapping[str, Any] | None
    drift: Drift | None
    verdict: Mapping[str, Any] | None = None

    @property
    def alarm(self) -> bool:
        """Whether the step differs from those before it by more than chance allows."""
        return self.drift is not None and self.drift.alarm

    def place(self) -> Row:
        """Where the step is."""
        return {"at": self.step.span.stop, "stream": self.step.stream}


class MeasuredSteps:
    """The newest steps of a store, each read and computed once.

    Args:
        store: The store.
        settings: Its settings. If persons are protected, there is no drift alarm.
    """

    def __init__(self, store: Store, settings: "Settings") -> None:
        self._store, self._plan = store, settings.plan
        self._predicted = settings.about.predicted
        self._classes = len(self._predicted.labels)
        self._noted: deque[Step] = deque(maxlen=MAX_STEPS_KEPT)  # not computed yet
        self._known: deque[MeasuredStep] = deque(maxlen=MAX_STEPS_KEPT)
        self._errors: dict[str, Errors] = {}
        self._before: dict[str, NDArray[np.float64]] = {}  # the newest moments computed with
        self._scored: dict[str, Mapping[str, Any] | None] = {}  # the newest measures

    def note(self, step: Step) -> None:
        """Take note of one more step; it is computed when somebody asks."""
        self._noted.append(step)

    def newest(self, *, full: int = MAX_STEPS_MEASURED) -> list[MeasuredStep]:
        """The newest steps, oldest first. All measures are computed for the last `full` of them."""
        self.fresh(full=full)
        return list(self._known)

    def fresh(self, *, full: int = MAX_STEPS_MEASURED) -> list[MeasuredStep]:
        """The steps noted since the last call of `fresh`, `newest` or `skip`."""
        measured = []
        while self._noted:
            step = self._noted.popleft()
            measured.append(self._measured(step, full=len(self._noted) < full))
        self._known += measured
        return measured

    def skip(self) -> None:
        """Leave out the steps noted so far."""
        self._noted.clear()

    def _measured(self, step: Step, *, full: bool) -> MeasuredStep:
        survey, drift = self._of_survey(step)
        measures = scored = None
        for evaluation in step.evaluated:
            noisy = evaluation.scores
            if noisy is None:
                scored = accuracy_alone(evaluation.value, evaluation.deviation, step.span.size)
                continue
            scores, before = read_scores(noisy), self._errors.get(step.stream, Errors())
            other = drift_of_scores(before, scores)
            self._errors[step.stream] = before.after(scores)
            drift = other if drift is None else drift.beside(other)
            measures = scored = scores_on_card(noisy)["scores"] if full else None
        found = verdict(scored, self._scored.get(step.stream))
        self._scored[step.stream] = scored
        return MeasuredStep(step=step, survey=survey, measures=measures, drift=drift, verdict=found)

    def _of_survey(self, step: Step) -> tuple[Row | None, Drift | None]:
        """The survey of a step as cards have it, and how it differs from those before."""
        if step.survey_share is None:
            return None, None
        stored = self._store.survey(step.stream, step.span.stop)
        if stored is None:
            return None, None
        seen = stored.opened(
            slots=step.span.size,
            classes=self._classes,
            budget=self._plan.budget,
            persons=self._plan.protects.persons,
        )
        before = self._moments_before(step, stored.moments.size)
        self._before[step.stream] = stored.moments
        drift = None
        if before is not None:
            before_it = Moments(classes=self._classes, cells=before)
            drift = drift_of(before_it, seen, counted=self._predicted.changes)
        counted = self._predicted.counted
        return survey_on_card(seen, stored.share, step.span, counted=counted), drift

    def _moments_before(self, step: Step, size: int) -> NDArray[np.float64] | None:
        """The moments before a step; None for the first."""
        found = self._before.get(step.stream)
        if found is None and step.span.start:
            stored = self._store.survey(step.stream, step.span.start)
            found = None if stored is None else stored.moments
        return found if found is not None and found.size == size else None


def drift_row(drift: Drift | None) -> Row | None:
    """A drift statistic as JSON."""
    if drift is None:
        return None
    return {
        "statistic": round(drift.statistic, DIGITS),
        "alarm": drift.alarm,
        "what": drift.what,
        "rate": drift.rate,
    }


def survey_row(each: MeasuredStep) -> Row | None:
    """The survey of a step in a listing; None without one."""
    if each.survey is None:
        return None
    shares = [round(share, DIGITS) for share in shares_of(each.survey)]
    counted = "parts" if "parts" in each.survey else "classes"
    return {
        **each.place(),
        counted: shares if len(shares) <= MAX_CLASSES_LISTED else None,
        "unusable": round(each.survey["unusable"], DIGITS),
        "deviation": round(each.survey["deviation"], DIGITS),
        "drift": drift_row(each.drift),
    }


def drift_status(steps: list[MeasuredStep]) -> Row | None:
    """The drift of the newest step that has one, and the newest alarm; None if nothing has one."""
    measured = [each for each in steps if each.drift is not None]
    if not measured:
        return None
    alarms = [each for each in measured if each.alarm]
    newest = measured[-1]
    return {
        **newest.place(),
        **(drift_row(newest.drift) or {}),
        "newest_alarm": alarm_row(alarms[-1]) if alarms else None,
        "alarms": len(alarms),
        "steps": len(measured),
    }


def alarm_row(each: MeasuredStep) -> Row:
    """An alarm as JSON: which step, what differs, and how far above the threshold."""
    return {**each.place(), **(drift_row(each.drift) or {})}


def alarm_in_words(alarm: Mapping[str, Any], *, streams: int = 1) -> str:
    """A drift alarm in one sentence.

    >>> alarm = {"at": 4096, "statistic": 3.21, "what": "features", "rate": 0.001}
    >>> alarm_in_words(alarm).partition(";")[0]
    'step at 4,096 differs in features (3.2 times the threshold'
    """
    of = f" of {alarm['stream']}" if streams > 1 else ""
    often = f"1 in {round(1 / alarm['rate']):,} steps"
    return (
        f"step at {alarm['at']:,}{of} differs in {alarm['what']} "
        f"({alarm['statistic']:.1f} times the threshold; false alarms at most {often})"
    )

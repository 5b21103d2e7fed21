"""Record and replay: run a stream and its neighbour so that both release the same outputs.

Privacy is a statement about each possible output: given all earlier outputs, one record may move
the center of a mechanism only so far. So the first stream is run with recorded noise, or with
scripted outputs, because the bound must hold at every output and not only at likely ones. Then the
neighbour is run with every mechanism returning the very same outputs. The noise has to hide the
difference that remains, and the ratio of the two densities at this transcript is known exactly:

    l2_laplace, laplace   at most exp(move / scale), move in the L2 and in the L1 norm
    gaussian              a mu-GDP comparison with mu^2 = sum of (move / sigma)^2

A law is broken only by a proof: roots are rounded down, everything else is a Fraction.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import zip_longest
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from tests.laws.brute import charged
from tests.laws.mechanisms import bindings
from tidegate.compute import Engine, Memory
from tidegate.data.intake import clean
from tidegate.data.predicted import RESOLUTION, Target
from tidegate.data.records import Records, join
from tidegate.learn import learner, scores, target_scores
from tidegate.learn.learner import Fitted, Learner, Pull
from tidegate.learn.preparation import Surveyed
from tidegate.learn.private_accuracy import margins_of
from tidegate.learn.transform import prepared_by
from tidegate.privacy import Line, noise
from tidegate.privacy.budget import allowance_of, sqrt_down
from tidegate.privacy.noise import Bits, NotPrivateBits
from tidegate.privacy.sampling import draw
from tidegate.release import Release
from tidegate.run.executor import FitJob
from tidegate.run.memory_run import MemoryRun
from tidegate.run.settings import OneSource, Settings
from tidegate.schedule import RecordFit, Span, Stream
from tidegate.schedule.plan import Plan, TwoStreamPlan
from tidegate.schedule.progress import ONLY

Floats = NDArray[np.float64]
Data = dict[Stream | None, tuple[Any, Any]]
"""X and y of each stream; a single stream has the name None."""

NORMS = {"gaussian": 2, "l2_laplace": 2, "laplace": 1}
"""The mechanisms, and the norm in which each hides a move."""


class Slot(NamedTuple):
    """Where the neighbours differ."""

    stream: Stream | None
    record: int

    def within(self, line: Line) -> bool:
        return line.fit.stream == self.stream and self.record in line.fit.span

    def pays(self, line: Line) -> Fraction:
        """What the record pays for a fit: nothing if the fit does not read it."""
        return charged(line, self.record) if self.within(line) else Fraction(0)


def measured(kind: str, stream: str, step: Span, share: Fraction) -> Line:
    """The line of a step's survey or scores: numbered below 0, as no fit is."""
    number = -2 * step.stop - (kind == "scores")
    place: Any = None if stream == ONLY else stream
    fit = RecordFit(number, step.stop, step, None, "base", 0, released=False, stream=place)
    return Line(fit, share)


class Call(NamedTuple):
    """One mechanism: what it hid and what it released."""

    line: Line
    mechanism: str
    center: Floats
    scale: float
    output: Floats

    def form(self) -> tuple[object, ...]:
        """The parts that must not depend on the records: all but the values."""
        return (self.line, self.mechanism, self.center.shape, self.center.dtype, self.scale)


Script = Callable[[int, Call], Floats]
"""Returns what a mechanism releases, given the number of the call and the call itself."""


def honest(seed: int) -> Script:
    """The noise itself, from a seed."""
    bits = NotPrivateBits(seed)
    noises = {name: getattr(noise, name) for name in NORMS}
    return lambda _, call: noises[call.mechanism](call.center, call.scale, bits)


def always(value: Callable[[tuple[int, ...]], Floats]) -> Script:
    """The same output for every center of a shape: a transcript chosen by an adversary."""
    return lambda _, call: value(call.center.shape)


def again(calls: list[Call]) -> Script:
    """The outputs of another run."""
    return lambda number, _: calls[number].output


IN_MEMORY = Memory()


@dataclass(frozen=True, kw_only=True)
class Setup:
    """The public settings of a run."""

    plan: Plan | TwoStreamPlan
    task: Pull
    learner: Learner[Any]
    classes: tuple[Any, ...] = (0, 1)
    target: Target | None = None
    batch: int = 5

    def settings(self, engine: Engine = IN_MEMORY) -> Settings:
        """What a run is told, whose noise is replaced."""
        return Settings(
            plan=self.plan,
            task=self.task,
            learner=self.learner,
            noise=OneSource(NotPrivateBits(0)),
            engine=engine,
        )

    def records(self, X: Any, y: Any) -> Records:
        if self.target is not None:
            return clean(X, y, target=self.target, norm=self.task.norm)
        return clean(X, y, classes=self.classes, norm=self.task.norm)

    def score(self, release: Release, pieces: Sequence[Records]) -> Any:
        """The scores of a release on a step, as lists."""
        return self.scores(release, join(list(pieces)))

    def scores(self, release: Release, step: Records) -> Any:
        """The same for a step whose records may have person weights."""
        margins = margins_of(
            release.weights, step, prepared_by(release.transform), norm=self.task.norm
        )
        shared: dict[str, Any] = {
            "allowance": allowance_of(self.plan.budget, self.plan.reserve),
            "bits": NotPrivateBits(0),
            "person_weights": step.person_weights,
        }
        if self.target is not None:
            truths = np.multiply(step.y, RESOLUTION, dtype=np.float64)
            shared |= {"low": self.target.low, "high": self.target.high}
            found = target_scores.score_targets(margins, truths, step.usable, **shared)
            return [*found.sums, *found.cells]
        classes = len(self.classes)
        counted = scores.score(margins, step.y, step.usable, classes=classes, **shared)
        return [*counted.counts, *counted.cells]


@dataclass(frozen=True, kw_only=True)
class Transcript:
    """The calls of a run, what it made of their outputs, and what a record has paid.

    What it made are models, transforms and the shares of classes.
    """

    calls: list[Call]
    models: list[Any]
    paid: Fraction


class Recorder:
    """Puts a script in place of the noise, and records every call.

    Attributes:
        calls: The calls so far.
        line: The line that pays for the next calls.
    """

    def __init__(self, script: Script) -> None:
        self._script = script
        self.calls: list[Call] = []
        self.line: Line

    def release(self, name: str, center: Floats, scale: float, bits: Bits) -> Floats:
        """What a mechanism releases."""
        del bits
        assert np.isfinite(center).all()
        call = Call(self.line, name, center.copy(), scale, center)
        self.calls.append(call._replace(output=self._script(len(self.calls), call)))
        return self.calls[-1].output.copy()

    @contextmanager
    def instead_of_noise(self) -> Iterator[None]:
        """While this lasts, all mechanisms release what the script says."""
        with ExitStack() as patches:
            for module, name in bindings():
                planted_or_own = getattr(module, name)
                instead = partial(self.release, planted_or_own.__name__)
                patches.enter_context(patch.object(module, name, instead))
            yield


def transcript(setup: Setup, data: Data, slot: Slot, script: Script) -> Transcript:
    """Run the streams through the real code, with the script in place of the noise."""
    recorder = Recorder(script)
    models: list[Any] = []
    scored: list[Fraction] = []  # what the record has paid for scores

    class WatchedRun(MemoryRun):
        def survey(self, stream: str, step: Span) -> Surveyed:
            recorder.line = measured("survey", stream, step, setup.plan.survey)
            seen = super().survey(stream, step)
            if (stated := seen.transform.stated) is not None:
                models.extend((stated.center, stated.scale, seen.class_shares))
            return seen

        def score(self, stream: str, step: Span) -> None:
            """Score the newest release, as a Gate does if shares are reserved for it."""
            if setup.plan.reserve and self.releases:
                recorder.line = measured("scores", stream, step, setup.plan.reserve)
                models.append(setup.score(self.releases[-1], self.steps.pieces(stream, step)))
                if slot.within(recorder.line):
                    scored.append(setup.plan.reserve)

        def train(self, job: FitJob) -> Fitted:
            recorder.line = job.line
            fitted = super().train(job)
            models.append(fitted.weights)
            return fitted

    def worst_draw(sample: int, size: int, bits: Bits) -> NDArray[np.intp]:
        """A sample that contains the changed record if the span does; `cost` amplifies it."""
        del bits
        fit = recorder.line.fit
        slots = draw(sample, size, NotPrivateBits(fit.number))
        changed = slot.record - fit.span.start
        if slot.within(recorder.line) and changed not in slots:
            slots[0] = changed
        return np.sort(slots)

    run = WatchedRun(setup.settings())
    with recorder.instead_of_noise(), patch.object(learner, "draw", worst_draw):
        for stream, records in _batches(setup, data):
            run.take(records, stream or ONLY)
    paid = run.ledger(slot.stream or ONLY).paid(slot.record)
    return Transcript(calls=recorder.calls, models=models, paid=sum(scored, paid))


def _batches(setup: Setup, data: Data) -> Iterator[tuple[Stream | None, Records]]:
    """Batches of the streams in turn, which are not whole steps."""
    length = max(X.shape[0] for X, _ in data.values())
    for start in range(0, length, setup.batch):
        part = slice(start, start + setup.batch)
        for stream, (X, y) in data.items():
            if start < X.shape[0]:
                yield stream, setup.records(X[part], y[part])


def neighbour(data: Data, slot: Slot, x: Any, y: Any) -> Data:
    """The streams with another record in the slot."""
    X, labels = (array.copy() for array in data[slot.stream])
    X[slot.record], labels[slot.record] = x, y
    return {**data, slot.stream: (X, labels)}


def move(first: Call, second: Call) -> Fraction:
    """How far the center moved, in the norm of its mechanism; a root is rounded down."""
    pairs = zip(first.center.flat, second.center.flat, strict=True)
    steps = [abs(Fraction(float(a)) - Fraction(float(b))) for a, b in pairs]
    if NORMS[first.mechanism] == 1:
        return sum(steps, Fraction(0))
    square = sum((step**2 for step in steps), Fraction(0))
    return _exact_root(square) or Fraction(sqrt_down(square))


def _exact_root(square: Fraction) -> Fraction | None:
    root = Fraction(math.isqrt(square.numerator), math.isqrt(square.denominator))
    return root if root**2 == square else None


def cost(setup: Setup, first: list[Call], second: list[Call]) -> Fraction:
    """What the calls of one line cost the changed record: an epsilon, or the square of a mu."""
    pairs = list(zip(first, second, strict=True))
    ratios = [move(a, b) / Fraction(a.scale) for a, b in pairs]
    if setup.plan.budget.unit == "mu":
        return sum((ratio**2 for ratio in ratios), Fraction(0))
    fit, epsilon = first[0].line.fit, sum(ratios, Fraction(0))
    if fit.sample is None:
        return epsilon
    # ln(1 + (m/n)(e^epsilon - 1)); a handful of float roundings are far below the last factor
    amplified = math.log1p(fit.sample / fit.span.size * math.expm1(float(epsilon)))
    return Fraction(amplified * (1 - 1e-12))


def whole_budget(setup: Setup) -> Fraction:
    """What a record may lose over all time: epsilon, or mu squared."""
    budget = setup.plan.budget
    return Fraction(budget.mu) ** 2 if budget.unit == "mu" else Fraction(budget.epsilon)


def total_cost(setup: Setup, first: Transcript, second: Transcript) -> Fraction:
    """What the whole transcript costs the changed record."""
    return sum((cost(setup, *pair) for pair in _by_fit(first, second)), Fraction(0))


def _by_fit(first: Transcript, second: Transcript) -> list[tuple[list[Call], list[Call]]]:
    fits: dict[Any, tuple[list[Call], list[Call]]] = {}
    for a, b in zip(first.calls, second.calls, strict=True):
        own = fits.setdefault((a.line.fit.stream, a.line.fit.number), ([], []))
        own[0].append(a)
        own[1].append(b)
    return list(fits.values())


def replay(setup: Setup, first: Transcript, other: Data, slot: Slot) -> Transcript | None:
    """The neighbour's transcript, given the same outputs; None if its run fails."""
    try:
        return transcript(setup, other, slot, again(first.calls))
    except Exception:
        return None


def broken(setup: Setup, first: Transcript, second: Transcript | None, slot: Slot) -> set[str]:
    """The laws that this pair of runs breaks.

    control flow: both runs make the same calls, with the same shapes and scales.
    post-processing: given the same outputs, models and transforms are the same.
    span: only what reads the changed record moves.
    fit: no fit costs the record more than it pays for it; nor does a survey or a score.
    ledger: the record has paid what the lines that read it cost, and at most all of its budget.
    budget: the whole transcript costs it no more than its budget.
    """
    if second is None or any(
        a is None or b is None or a.form() != b.form()
        for a, b in zip_longest(first.calls, second.calls)
    ):
        return {"control flow"}
    laws = set()
    if not all(map(np.array_equal, first.models, second.models)):
        laws.add("post-processing")
    fits = _by_fit(first, second)
    lines = [calls[0].line for calls, _ in fits]
    for (a, b), line in zip(fits, lines, strict=True):
        lost = cost(setup, a, b)
        if lost > 0 and not slot.within(line):
            laws.add("span")
        if lost > slot.pays(line) * whole_budget(setup):
            laws.add("fit")
    if not first.paid == second.paid == sum(map(slot.pays, lines)) <= 1:
        laws.add("ledger")
    if total_cost(setup, first, second) > whole_budget(setup):
        laws.add("budget")
    return laws


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A setup, a stream and its neighbour, and what is released."""

    setup: Setup
    data: Data
    slot: Slot
    before: tuple[Any, Any]
    after: tuple[Any, Any]
    script: Script


def laws_broken(scene: Scene) -> set[str]:
    """The laws that are broken when the record of the slot is replaced."""
    setup, slot = scene.setup, scene.slot
    first = transcript(setup, neighbour(scene.data, slot, *scene.before), slot, scene.script)
    second = replay(setup, first, neighbour(scene.data, slot, *scene.after), slot)
    return broken(setup, first, second, slot)

"""Recompute what a state says about its surveys, step by step."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from tidegate.checks import InvalidValueError, StoreError
from tidegate.gate.gate import Gate
from tidegate.gate.quality import counted_by, survey_on_card
from tidegate.gate.stopped import stop_of
from tidegate.gate.store import UNREADABLE, Problem, Step, damage
from tidegate.learn.moments import Moments
from tidegate.learn.survey import Survey
from tidegate.privacy.budget import allowance_of
from tidegate.release import Card
from tidegate.schedule import Span


class Surveys:
    """Recomputes the means that surveys add up to, and the transforms that follow from them."""

    def __init__(self, gate: Gate) -> None:
        self._gate, self._share = gate, gate.plan.survey
        self._norm, self._classes = gate.about.task.norm, gate.about.task.groups
        self._counted = counted_by(gate.about.task)
        self._moments: dict[str, Moments] = {}

    def problems(self, step: Step) -> Iterator[Problem]:
        """What is wrong with the survey of a step; call it for each step, in order."""
        if step.survey_share is None:
            return
        where = f"the survey of {step.stream} at {step.span.stop}"
        try:
            stored = self._gate.store.survey(step.stream, step.span.stop)
            if stored is None:
                raise LookupError(where)
            seen = self._survey(stored.cells, step.span)
            before = self._moments.get(step.stream)
            if before is None:
                before = Moments.before_first(seen.features, self._classes)
            moments = before.after(seen)
            if not np.array_equal(moments.cells, stored.moments):
                yield damage(where, "its means do not follow from the surveys")
            self._moments[step.stream] = Moments(classes=self._classes, cells=stored.moments)
        except (InvalidValueError, StoreError, *UNREADABLE):
            yield damage(where, "it cannot be recomputed")

    def stops(self, step: Step) -> bool:
        """Whether a step is the first of its stream, and its survey stops the stream."""
        try:
            stored = self._gate.store.survey(step.stream, step.span.stop)
            if stored is None:
                return False
            return stop_of(self._gate.config, step.stream, step.span, stored) is not None
        except (InvalidValueError, StoreError, *UNREADABLE):
            return False  # `problems` has reported it

    def of_card(self, stream: str, at: int) -> Card:
        """What a card must say about the survey of its step, and the transform from it."""
        if not self._share:
            return {"transform": None, "survey": None}
        stored, form = self._gate.store.survey(stream, at), self._gate.form(stream)
        if stored is None or form is None:
            raise LookupError(stream)
        span = Span(at - self._gate.progress.step(stream), at)
        moments = Moments(classes=self._classes, cells=stored.moments)
        transform = moments.transform(norm=self._norm, sparse=issparse(form))
        seen = self._survey(stored.cells, span)
        return {
            "transform": transform.on_card(),
            "survey": survey_on_card(seen, stored.share, span, counted=self._counted),
        }

    def _survey(self, cells: NDArray[np.float64], span: Span) -> Survey:
        allowance = allowance_of(self._gate.plan.budget, self._share)
        return Survey(
            slots=span.size,
            classes=self._classes,
            allowance=allowance,
            cells=cells,
            persons=self._gate.plan.person is not None,
        )

"""Recompute what a state says about its surveys, step by step."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from scipy.sparse import issparse

from tidegate.checks import InvalidValueError, StoreError
from tidegate.gate import Gate
from tidegate.learn.preparation import Moments
from tidegate.learn.rules import rules_of
from tidegate.learn.survey import Survey, has_pairs
from tidegate.release import Card
from tidegate.schedule import Span
from tidegate.state.damage import UNREADABLE, Problem, damage
from tidegate.state.quality import survey_on_card
from tidegate.state.stopped import stop_of
from tidegate.state.store import Step, StoredSurvey


class Surveys:
    """Recomputes the means that surveys add up to, and the transforms that follow from them."""

    def __init__(self, gate: Gate) -> None:
        self._gate, self._share = gate, gate.plan.survey
        self._norm, self._classes = gate.about.task.norm, gate.about.task.groups
        self._counted = gate.about.predicted.counted
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
            seen = self._opened(stored, step.span)
            before = self._moments.get(step.stream)
            if before is None:
                before = Moments.before_first(seen.features, self._classes)
            moments = before.after(seen)
            after = stored.means(self._classes)
            if not _same(moments, after) or seen.pairs.size != self._pairs(stored, step.stream):
                yield damage(where, "its means do not follow from the surveys")
            self._moments[step.stream] = after
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

    def of_card(self, stream: str, at: int, card: Card) -> Card:
        """What a card must say about the survey of its step, and the transform from it.

        The card follows the rules that the survey followed: both were made in one transaction.
        """
        if not self._share:
            return {"transform": None, "survey": None}
        stored, form = self._gate.store.survey(stream, at), self._gate.form(stream)
        if stored is None or form is None:
            raise LookupError(stream)
        span = Span(at - self._gate.progress.step(stream), at)
        transform = stored.means(self._classes).transform(norm=self._norm, sparse=issparse(form))
        seen = self._opened(stored, span)
        return {
            **({} if stored.rules == rules_of(card) else {"rules": stored.rules}),
            "transform": transform.on_card(),
            "survey": survey_on_card(seen, stored.share, span, counted=self._counted),
        }

    def _pairs(self, stored: StoredSurvey, stream: str) -> int:
        """How many products of two features the survey of a step must have summed."""
        form, unit = self._gate.form(stream), self._gate.plan.budget.unit
        d = 0 if form is None else form.shape[1]
        paired = has_pairs(unit, features=d, sparse=issparse(form), rules=stored.rules)
        return d * (d - 1) // 2 if paired else 0

    def _opened(self, stored: StoredSurvey, span: Span) -> Survey:
        plan = self._gate.plan
        return replace(stored, share=plan.survey).opened(
            slots=span.size,
            classes=self._classes,
            budget=plan.budget,
            persons=plan.protects.persons,
        )


def _same(one: Moments, other: Moments) -> bool:
    cells = np.array_equal(one.cells, other.cells)
    return cells and np.array_equal(one.pairs, other.pairs)

"""What the cards of a state must say, recomputed from its charges, settings, surveys and scores."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import issparse

from tidegate.checks import InvalidValueError, StoreError, nothing
from tidegate.data.rows import Rows
from tidegate.gate import Gate
from tidegate.learn.learner import Changed, NamedLearner, Trainer, Weights
from tidegate.learn.preparation import Moments, preparation_of
from tidegate.learn.private_accuracy import deviation
from tidegate.learn.refit import refits
from tidegate.learn.rules import UNNUMBERED, rules_of
from tidegate.learn.score_kinds import headline, read_scores, scored
from tidegate.learn.survey import Survey, has_pairs
from tidegate.learn.transform import prepared_on_card
from tidegate.privacy import Line
from tidegate.privacy.budget import allowance_of, down
from tidegate.release.card import NEIGHBOURS, NOT_PRIVATE, About, Card, canonical
from tidegate.schedule import Span
from tidegate.state.card_keys import described_alike, differences, rounding, same, unknown
from tidegate.state.damage import SETTINGS, UNREADABLE, Problem, damage, text_digest
from tidegate.state.quality import on_card, survey_on_card
from tidegate.state.stopped import stop_of
from tidegate.state.store import Evaluation, Step, Store, StoredSurvey
from tidegate.state.verify_published import PRIOR, scored_under, trainer_of

Found = TypeVar("Found")

FIXED = (
    *("norm", "regularization", "classes", "target", "cuts", "dtype", "columns", "label"),
    *("protects", "spelling"),
)
"""The settings on a card that no version writes otherwise."""

DESCRIBED = ("schedule", "allocation", "learner", "loss", "features")
"""The settings on a card with parameters, of which a later version may have more."""


def there(found: Found | None) -> Found:
    """What a check needs; LookupError if the state does not have it."""
    if found is None:
        raise LookupError("missing")
    return found


def problems(gate: Gate) -> Iterator[Problem]:
    """Cards that differ from the settings, charges or evaluations."""
    named, settings = False, text_digest(gate.store.settings())
    about = json.loads(canonical(gate.about.entries()))
    described = {key: about.get(key) for key in DESCRIBED}
    measured = {
        (step.stream, step.span.stop): partial(on_card, step.evaluation, step.span)
        for step in gate.store.steps()
        if step.evaluation
    }
    recomputed, surveys = Recomputed(gate.store, gate.about, gate.form), Surveys(gate)
    rounded = rounding(about)
    state = {
        **{key: about.get(key) for key in FIXED},
        "neighbours": about.get("neighbours", NEIGHBOURS),
        "private": gate.settings.private,
        "warning": None if gate.settings.private else NOT_PRIVATE,
    }
    if not refits(preparation_of(gate.plan.survey).task(gate.about.task)):
        state["refit"] = None

    def agree(key: str, stated: Any, wanted: Any) -> bool:
        """Floats may differ by rounding in settings, measures by theirs; all else is exact."""
        if key.startswith("settings."):
            return same(stated, wanted)
        if key.startswith("evaluation."):
            return same(stated, wanted, rounded)
        return described_alike(stated, wanted) if key in DESCRIBED else bool(stated == wanted)

    for line, (stream, card) in zip(gate.store.lines(), gate.store.cards(), strict=False):
        where = f"fit {line.fit.number}"
        named = named or SETTINGS in card
        wanted = {
            **state,
            **_of_line(gate, line),
            **({SETTINGS: settings} if named else {}),
            "evaluation.step_before": measured.get((stream, line.fit.at), nothing)(),
        }
        try:
            wanted |= recomputed.of_fit(stream, line, card)
            wanted |= surveys.of_card(stream, line.fit.at, card)
            found = list(unknown(card, wanted))
        except (InvalidValueError, StoreError, *UNREADABLE):
            what = "its settings cannot be recomputed: its charge or its prior is damaged"
            yield damage(where, what)
            found = []
        ordered = {key: wanted[key] for key in sorted(wanted)} | described
        for what in [*found, *differences(card, ordered, agree)]:
            yield damage(where, what)


def falling_rules(gate: Gate) -> Iterator[Problem]:
    """Cards under lower rules than a card before them: a state never goes back."""
    highest = UNNUMBERED
    for line, (_, card) in zip(gate.store.lines(), gate.store.cards(), strict=False):
        try:
            rules = rules_of(card)
        except InvalidValueError:
            continue  # reported: its settings cannot be recomputed
        if rules < highest:
            what = f"its card says rules {rules}, after a card that says {highest}"
            yield damage(f"fit {line.fit.number}", what)
        highest = max(highest, rules)


def _of_line(gate: Gate, line: Line) -> Card:
    """The values that a card must have, given the ledger line of its fit."""
    fit, budget = line.fit, gate.plan.budget
    return {
        "stream": fit.stream,
        "fit": fit.number,
        "at": fit.at,
        "start": fit.span.start,
        "stop": fit.span.stop,
        "share": str(line.share),
        "share_rounded_down": down(line.share),
        "sample": fit.sample,
        "prior": fit.prior,
        "level": fit.level,
        "emphasis": [[*span, str(part)] for span, part in fit.slot_weights],
        "budget.epsilon": budget.epsilon,
        "budget.delta": budget.delta,
        budget.unit: budget.of_share(line.share),
    }


class Recomputed:
    """The settings that the cards of a state must have.

    They follow from the charge of a fit, the settings of the state, the number of features and the
    norm of the prior, which the store keeps also when it drops a model.
    """

    def __init__(self, store: Store, about: About, form: Callable[[str], Rows | None]) -> None:
        self._budget, self._surveyed = about.plan.budget, bool(about.plan.survey)
        task = preparation_of(about.plan.survey).task(about.task)
        self._trainer = trainer_of(task, about.learner, self._budget, about.plan.protects)
        self._learner: NamedLearner = about.learner
        self._earlier = about.learner.earlier(task) if isinstance(about.learner, Changed) else ()
        self._predicted = scored(about.predicted)
        self._persons = about.plan.protects.persons
        self._store, self._norm = store, lru_cache(maxsize=1024)(store.norm)
        self._form = lru_cache(form)

    def of_fit(self, stream: str, line: Line, card: Card) -> Card:
        """The settings and the shape on the card of a fit, under the rules that the card states.

        Args:
            stream: The stream that the fit read.
            line: Its charge.
            card: The card. Its settings count where a prior was carried over to another transform
                and its norm is not known.
        """
        form, rules, stated = there(self._form(stream)), rules_of(card), card["settings"]
        d, prior = form.shape[1] + self._surveyed, line.fit.prior
        trainer = replace(self._trainer, rules=rules)
        if prior is None or not self._surveyed or self._learner.descends:
            norm = None if prior is None else np.array([self._norm(prior)])
            settings = self._settings(trainer, line, d, norm, stated)
        elif rules > UNNUMBERED and (carried := self._carried(prior, card)) is not None:
            settings = trainer.settings(line, d, carried)
        else:
            slots = line.fit.sample or line.fit.span.size
            terms = trainer.terms(line, PRIOR)
            settings = self._learner.restated(trainer.task, terms, stated, n=slots, d=d)
        shape = trainer.task.loss.shape(d)
        return {
            "shape": list(shape),
            **{f"settings.{key}": settings[key] for key in settings},
            **scored_under(rules, card),
        }

    def _carried(self, prior: int, card: Card) -> Weights | None:
        """The model of a prior, carried over to the transform of a card; None if it is gone."""
        try:
            weights, before = self._store.fit(prior), self._store.card(prior)
        except StoreError:
            return None
        return prepared_on_card(card).carried(weights, prepared_on_card(before))

    def _settings(
        self,
        trainer: Trainer[Any],
        line: Line,
        d: int,
        prior: Weights | None,
        stated: Mapping[str, float],
    ) -> Mapping[str, float]:
        """The settings under the rules of a trainer.

        Cards without a number may have those of an even earlier version. Either costs the share of
        the fit: the noise is computed for the steps and the clip.
        """
        settings = trainer.settings(line, d, prior)
        for learner in self._earlier if trainer.rules == UNNUMBERED else ():
            before = replace(trainer, learner=learner).settings(line, d, prior)
            if all(same(stated.get(key), before[key]) for key in before):
                return before
        return settings

    def headline(self, evaluation: Evaluation, slots: int) -> tuple[float, float]:
        """The private accuracy, or the error of a target, of an evaluation and its deviation."""
        allowance = allowance_of(self._budget, evaluation.share)
        if evaluation.scores is None:
            return evaluation.value, deviation(slots, allowance)
        scores = read_scores(evaluation.scores)
        stated = scores.slots, scores.predicted, scores.allowance, scores.persons
        if stated != (slots, self._predicted, allowance, self._persons):
            raise InvalidValueError("its scores are not for this step, this share or this plan")
        found = headline(scores)
        return found.value, found.deviation


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
            stored = there(self._gate.store.survey(step.stream, step.span.stop))
            seen = self._opened(stored, step.span)
            first = Moments.before_first(seen.features, self._classes)
            moments = self._moments.get(step.stream, first).after(seen)
            after = stored.means(self._classes)
            means = (moments.cells, after.cells), (moments.pairs, after.pairs)
            sound = all(np.array_equal(*each) for each in means)
            if not sound or seen.pairs.size != self._pairs(stored, step.stream):
                yield damage(where, "its means do not follow from the surveys")
            self._moments[step.stream] = after
        except (InvalidValueError, StoreError, *UNREADABLE):
            yield damage(where, "it cannot be recomputed")

    def stops(self, step: Step) -> bool:
        """Whether a step is the first of its stream, and its survey stops the stream."""
        try:
            stored = there(self._gate.store.survey(step.stream, step.span.stop))
            return stop_of(self._gate.config, step.stream, step.span, stored) is not None
        except (InvalidValueError, StoreError, *UNREADABLE):
            return False  # there is none, or `problems` has reported it

    def of_card(self, stream: str, at: int, card: Card) -> Card:
        """What a card must say about the survey of its step, and the transform from it.

        The card follows the rules that the survey followed: both were made in one transaction.
        """
        if not self._share:
            return {"transform": None, "survey": None}
        stored, form = there(self._gate.store.survey(stream, at)), there(self._gate.form(stream))
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
        form, unit = there(self._gate.form(stream)), self._gate.plan.budget.unit
        d = form.shape[1]
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

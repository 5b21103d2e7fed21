"""Recompute what cards say about noise, from the shares of their fits and the fixed settings.

A checksum shows only that a card is the one that was written. These checks show that it states the
noise which its share of the budget requires.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain
from typing import Any

import numpy as np

from tidegate.checks import InvalidValueError, StoreError, check_numbers, exact
from tidegate.data.predicted import predicted_on_card
from tidegate.data.rows import Rows
from tidegate.learn.learner import LEARNERS, Changed, NamedLearner, Task, Trainer, Weights
from tidegate.learn.loss import Loss, every_loss
from tidegate.learn.preparation import preparation_of
from tidegate.learn.private_accuracy import deviation
from tidegate.learn.rules import UNNUMBERED, rules_of
from tidegate.learn.score_cells import layout_of
from tidegate.learn.score_kinds import headline, read_scores, scored
from tidegate.learn.survey import has_pairs, settings, total_of
from tidegate.learn.transform import prepared_on_card
from tidegate.privacy import Budget, Line
from tidegate.privacy.budget import allowance_of, budget_of, down
from tidegate.privacy.noise import SystemBits
from tidegate.privacy.person import Protects
from tidegate.release import About, Card
from tidegate.release.card import NEIGHBOURS, NOT_PRIVATE, protects_of
from tidegate.schedule import RecordFit, SlotWeight, Span
from tidegate.state.card_keys import unknown_keys
from tidegate.state.damage import UNREADABLE
from tidegate.state.quality import scores_on_card, shares_of
from tidegate.state.store import Evaluation, Store

CLOSE = 1e-9
"""Largest relative difference between a number on a card and the recomputed one.

Another Python or NumPy may round a norm or a root differently. A card that states a billionth too
little noise overstates epsilon or mu by a billionth, so the tolerance hides nothing that matters.
"""

ROUGH = {"evaluation.step_before.scores"}
"""The keys whose values are rounded on cards."""

PRIOR = np.zeros(1)
"""Stands for a prior of which a card tells only that there is one."""


ROUNDED = 2e-5
"""Largest difference between a measure on a card, which is rounded, and the recomputed one."""


def rounding(card: Card) -> float:
    """The largest such difference for the measures of a card, which may be of a small target.

    >>> rounding({"classes": [0, 1]}), rounding({"target": [0.0, 0.5]})
    (2e-05, 1e-05)
    """
    low, high = card.get("target", (0.0, 1.0))
    return ROUNDED * min(float(high - low), 1.0)


def alike(stated: Any, wanted: Any, *, rounded: float = ROUNDED) -> bool:
    """Whether two JSON values are the same; measures may differ by their rounding.

    >>> alike({"auc": 0.71234, "bins": [1.0]}, {"auc": 0.71235, "bins": [1.0]}), alike([1.0], [1])
    (True, False)
    """
    if isinstance(stated, dict) and isinstance(wanted, dict):
        same_keys = stated.keys() == wanted.keys()
        return same_keys and all(alike(stated[k], wanted[k], rounded=rounded) for k in wanted)
    if isinstance(stated, list) and isinstance(wanted, list):
        agree = partial(alike, rounded=rounded)
        return len(stated) == len(wanted) and all(map(agree, stated, wanted))
    if type(stated) is float and type(wanted) is float:
        return math.isclose(stated, wanted, rel_tol=CLOSE, abs_tol=rounded)
    return type(stated) is type(wanted) and bool(stated == wanted)


def same(stated: Any, wanted: Any) -> bool:
    """Whether what a card states is what was recomputed; a float may differ by rounding.

    >>> same(0.1 + 0.2, 0.3), same(0.29, 0.3), same(None, 0.3), same(True, 1.0), same(64, 63)
    (True, False, False, False, False)
    """
    if type(stated) is float and type(wanted) is float:
        return math.isclose(stated, wanted, rel_tol=CLOSE, abs_tol=0.0)
    return type(stated) is type(wanted) and bool(stated == wanted)


class Recomputed:
    """The settings that the cards of a state must have.

    They follow from the charge of a fit, the settings of the state, the number of features and the
    norm of the prior, which the store keeps also when it drops a model.
    """

    def __init__(self, store: Store, about: About, form: Callable[[str], Rows | None]) -> None:
        self._budget, self._surveyed = about.plan.budget, bool(about.plan.survey)
        task = preparation_of(about.plan.survey).task(about.task)
        self._trainer = _trainer(task, about.learner, self._budget, about.plan.protects)
        self._learner: NamedLearner = about.learner
        self._earlier = about.learner.earlier(task) if isinstance(about.learner, Changed) else ()
        self._predicted = about.predicted
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
        form, rules, stated = self._form(stream), rules_of(card), card["settings"]
        if form is None:
            raise LookupError(stream)
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
            **_scored_under(rules, card),
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
        if stated != (slots, scored(self._predicted), allowance, self._persons):
            raise InvalidValueError("its scores are not for this step, this share or this plan")
        found = headline(scores)
        return found.value, found.deviation


def _scored_under(rules: int, card: Card) -> Card:
    """The version that scores of classes on a card must have."""
    noisy = value_of(card, "evaluation.step_before.noisy_counts")
    if noisy is None or predicted_on_card(card).kind == "target":
        return {}
    return {"evaluation.step_before.noisy_counts.layout": layout_of(rules)}


def problems_of_card(card: Card) -> Iterator[str]:
    """What is wrong with the noise that a published card states, as far as the card alone shows.

    The clip, steps and rate of a descent and the tolerance of a solver may depend on fits that are
    not published. They are taken as stated: the noise must be right for them.
    """
    try:
        yield from list(_differences(card))
    except InvalidValueError as error:
        yield f"its settings cannot be recomputed: {error}"
    except UNREADABLE:
        yield "its settings cannot be recomputed: the card is not one that this version can read"


def _differences(card: Card) -> Iterator[str]:
    """Where a card differs from what follows from it."""
    wanted = {**_from_card(card), **_evaluation_from_card(card), **_survey_from_card(card)}
    settings = (unknown_settings(card, wanted, place) for place in ("settings", "survey.settings"))
    for name in chain(unknown_keys(card), *settings):
        yield f"its card has {name}, which no card has"
    for key, value in wanted.items():
        stated = value_of(card, key)
        rough = key in ROUGH and alike(stated, value, rounded=rounding(card))
        if not (rough or same(stated, value)):
            yield f"its card says {key} {stated}, not {value}"


def value_of(card: Card, key: str) -> Any:
    """The value of a key in a card, None if missing; a dot separates nested keys."""
    value: Any = card
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def unknown_settings(card: Card, wanted: Mapping[str, Any], place: str = "settings") -> list[str]:
    """Settings on a card that it should not have. They may have any name, also one with dots.

    Args:
        card: The card.
        wanted: What it must state, by key; a dot separates nested keys.
        place: The key of the settings: of the fit, or of the survey.
    """
    names = (f"{place}.{key}" for key in value_of(card, place) or {})
    known = {key for key in wanted if key.rpartition(".")[0] == place}
    return [name for name in names if name not in known]


def _from_card(card: Card) -> Card:
    """What a card must say about the budget and the noise of its fit."""
    budget, share = _budget(card), exact(card["share"])
    learner: NamedLearner = _built(LEARNERS, card["learner"])
    loss: Loss = _built(every_loss(), card["loss"])
    task = Task(loss=loss, norm=card["norm"], regularization=card["regularization"])
    if not 0 <= card["start"] < card["stop"] <= card["at"]:
        raise InvalidValueError("it has read no records, or some that had not arrived")
    if task.predicts_target != (predicted_on_card(card).kind == "target"):
        raise InvalidValueError("its loss is not one for what it predicts")
    task = prepared_on_card(card).task(task)
    trainer = replace(_trainer(task, learner, budget, protects_of(card)), rules=rules_of(card))
    line, d = Line(_fit(card), share), card["shape"][0]
    prior: Weights | None = None if card["prior"] is None else PRIOR
    restated = learner.restated(
        task,
        trainer.terms(line, prior),
        card["settings"],
        n=line.fit.sample or line.fit.span.size,
        d=d,
    )
    private = card["private"] is True
    return {
        "shape": list(loss.shape(d)),
        budget.unit: budget.of_share(share),
        "share_rounded_down": down(share),
        "neighbours": protects_of(card).entries().get("neighbours", NEIGHBOURS),
        "private": private,
        "warning": None if private else NOT_PRIVATE,
        **{f"settings.{key}": restated[key] for key in restated},
    }


def _trainer(task: Task, learner: NamedLearner, budget: Budget, protects: Protects) -> Trainer[Any]:
    """The trainer of fits, which here only recomputes their settings."""
    bits = SystemBits()
    return Trainer(task=task, learner=learner, budget=budget, bits=bits, protects=protects)


def _fit(card: Card) -> RecordFit:
    check_numbers(card[name] for name in ("fit", "at", "start", "stop", "prior", "level", "sample"))
    weights = (SlotWeight(Span(a, b), exact(part)) for a, b, part in card.get("emphasis", ()))
    return RecordFit(
        number=card["fit"],
        at=card["at"],
        span=Span(card["start"], card["stop"]),
        prior=card["prior"],
        role="base" if card["prior"] is None else "update",
        level=card["level"],
        sample=card["sample"],
        slot_weights=tuple(weights),
    )


def _evaluation_from_card(card: Card) -> Card:
    measured = value_of(card, "evaluation.step_before")
    if measured is None:
        return {}
    allowance = allowance_of(_budget(card), exact(measured["share"]))
    slots = _slots(measured)
    if "noisy_counts" not in measured:
        return {"evaluation.step_before.deviation": deviation(slots, allowance)}
    noisy = measured["noisy_counts"]
    scores = read_scores(noisy)
    found = headline(scores)
    facts = {
        "slots": slots,
        **scored(predicted_on_card(card)),
        "unit": allowance.unit,
        "amount": allowance.amount,
        "persons": True if protects_of(card).persons else None,
    }
    place = "evaluation.step_before"
    return {
        f"{place}.{found.name}": found.value,
        f"{place}.deviation": found.deviation,
        f"{place}.scores": scores_on_card(noisy)["scores"],
        **{f"{place}.noisy_counts.{key}": value for key, value in facts.items()},
        **_scored_under(rules_of(card), card),
    }


def _survey_from_card(card: Card) -> Card:
    survey = card.get("survey")
    if survey is None:
        return {}
    allowance = allowance_of(_budget(card), exact(survey["share"]))
    d, rules = card["shape"][0] - 1, rules_of(card)
    possible = has_pairs(allowance.unit, features=d, sparse=False, rules=rules)
    mixed = possible and value_of(card, "transform.mix") is not None
    numbers = settings(allowance, features=d, rules=rules, pairs=mixed)
    count = allowance.deviation(numbers["noise_scale_counts"])
    total = _total(survey, count) if protects_of(card).persons else None
    return {
        **{f"survey.settings.{key}": value for key, value in numbers.items()},
        "survey.deviation": count / (total or _slots(survey)),
        "survey.total": total,
        **({} if mixed else {"transform.mix": None, "survey.settings.noise_scale_pairs": None}),
    }


def _total(survey: Card, count: float) -> float:
    """What all slots of a survey of persons count together, from its noisy shares.

    Args:
        survey: The survey on a card.
        count: The deviation of the noise in each of its counts.
    """
    shares = [*shares_of(survey), survey["unusable"]]
    noisy, noise = survey["total"] * math.fsum(shares), math.sqrt(len(shares)) * count
    return total_of(noisy, noise, _slots(survey))


def _slots(measured: Card) -> int:
    return int(measured["stop"] - measured["start"])


def _budget(card: Card) -> Budget:
    epsilon, delta = card["budget"]["epsilon"], card["budget"]["delta"]
    budget = budget_of(epsilon, delta, weak_delta=True) if delta else budget_of(epsilon)
    return replace(budget, contributions=protects_of(card).contributions)


def _built(kinds: Mapping[str, Any], described: Mapping[str, Any]) -> Any:
    """The object that `described` wrote on a card."""
    fields = dict(described)
    name = fields.pop("kind")
    for each in kinds.values():
        if each.__name__ == name:
            return each(**fields)
    raise InvalidValueError(f"this version has no {name}")

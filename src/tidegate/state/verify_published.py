"""What a published folder shows by itself: its files, its hash chain, and the noise on its cards.

A checksum shows only that a card is the one that was written. Here it must also state the noise
which its share of the budget requires.
"""

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.checks import InvalidValueError, check_numbers, exact
from tidegate.data.predicted import predicted_on_card
from tidegate.learn.learner import LEARNERS, NamedLearner, Task, Trainer, Weights
from tidegate.learn.loss import Loss, every_loss
from tidegate.learn.private_accuracy import deviation
from tidegate.learn.rules import rules_of
from tidegate.learn.score_cells import layout_of
from tidegate.learn.score_kinds import headline, read_scores, scored
from tidegate.learn.survey import has_pairs, settings, total_of
from tidegate.learn.transform import prepared_on_card
from tidegate.privacy import Budget, Line
from tidegate.privacy.budget import allowance_of, budget_of, down
from tidegate.privacy.noise import SystemBits
from tidegate.privacy.person import Protects
from tidegate.release import export_formats
from tidegate.release.card import FIRST, NEIGHBOURS, NOT_PRIVATE, Card, StoredRelease, protects_of
from tidegate.schedule import RecordFit, SlotWeight, Span
from tidegate.state import publish_folder as published
from tidegate.state.card_keys import differences, rounding, same, unknown, value_of
from tidegate.state.damage import HISTORY, UNREADABLE, Problem
from tidegate.state.publish_folder import OTHER, REPAIR
from tidegate.state.quality import scores_on_card, shares_of
from tidegate.state.store import Store
from tidegate.whole_file import read_whole

BESIDE = ("json", "md", "sha256")
"""The files beside a model."""

ROUGH = {"evaluation.step_before.scores"}
"""The keys whose values are rounded on cards."""

PRIOR = np.zeros(1)
"""Stands for a prior of which a card tells only that there is one."""

OfCard = Callable[[Card], Iterable[str]]


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

    def agree(key: str, stated: Any, value: Any) -> bool:
        return same(stated, value, rounding(card) if key in ROUGH else 0.0)

    yield from unknown(card, wanted, tables=("settings", "survey.settings"))
    yield from differences(card, wanted, agree)


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
    trainer = replace(trainer_of(task, learner, budget, protects_of(card)), rules=rules_of(card))
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


def trainer_of(
    task: Task, learner: NamedLearner, budget: Budget, protects: Protects
) -> Trainer[Any]:
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
        **scored_under(rules_of(card), card),
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


def scored_under(rules: int, card: Card) -> Card:
    """The version that scores of classes on a card must have."""
    noisy = value_of(card, "evaluation.step_before.noisy_counts")
    if noisy is None or predicted_on_card(card).kind == "target":
        return {}
    return {"evaluation.step_before.noisy_counts.layout": layout_of(rules)}


# --- a folder


def verify(
    folder: Path | str, newest: int | None = None, of_card: OfCard = problems_of_card
) -> Iterator[Problem]:
    """Problems of a published folder that can be found without the state.

    Whoever can write to the folder can delete the newest releases, or edit a Markdown card together
    with its manifest. Only the state, or a hash that was noted elsewhere, reveals that.

    Args:
        folder: The published folder.
        newest: All releases up to this one must exist; by default up to the last one in the folder.
        of_card: What is wrong with a card; by default with the noise that it states.
    """
    folder = Path(folder)
    beside = published.numbers_in(folder, *BESIDE)  # first: a model is written before these
    models = published.numbers_in(folder)
    if newest is None and not models:
        nothing = "it holds no release: name the folder that [publish] folder names"
        yield Problem(str(folder), nothing)
        return
    last = max(models) if newest is None else newest
    releases = [each for each in models if each <= last]
    strays = sorted({*beside} - {*models})
    for what in _incomplete(folder, releases, last, strays):
        yield Problem(str(folder), what)
    for what in _damaged(folder, releases, of_card):
        yield Problem(str(folder), what)


def _incomplete(
    folder: Path, releases: Sequence[int], last: int, strays: Sequence[int]
) -> Iterator[str]:
    """What is missing of the releases up to the last, and what is too much."""
    if missing := last + 1 - len(releases):
        first = next((at for at, each in enumerate(releases) if at != each), len(releases))
        yield f"{missing:,} release(s) missing, starting with release {first}: {REPAIR}"
    if strays:
        many = f"{len(strays):,} release(s), starting with {strays[0]}"
        yield f"files of {many}, have no model beside them: do not trust them; {REPAIR}"
    try:
        latest = published.newest_published(folder)
        if latest is None or latest < last or latest not in published.numbers_in(folder):
            named = "nothing" if latest is None else latest
            yield f"latest names {named}, but the newest release is {last}: {REPAIR}"
    except InvalidValueError as error:
        yield str(error)


def _damaged(folder: Path, releases: Sequence[int], of_card: OfCard) -> Iterator[str]:
    """What is wrong with releases: with their files, their cards and their chain."""
    previous = {0: FIRST}  # the hash of the release before, where that is known
    for number in releases:
        path = published.file_of(folder, number, "safetensors")
        try:
            release = export_formats.release_of(path, read_whole(path))
        except (InvalidValueError, OSError) as error:
            reason = f"{path}: {error.strerror}" if isinstance(error, OSError) else str(error)
            yield f"{reason}: {REPAIR}"
            continue
        if release.number != number:
            yield f"{path} holds release {release.number}: {REPAIR}"
        if release.previous != previous.get(number, release.previous):
            wrong = f"follows another one, {release.previous}"
            wrong = f"does not follow release {number - 1}" if number else wrong
            yield f"release {number} {wrong}: {REPAIR}"
        previous[release.number + 1] = release.hash
        yield from _problems_of_files(folder, number, release)
        for what in of_card(release.card):
            yield f"release {number}: {what}: do not use it"


def _problems_of_files(folder: Path, number: int, release: StoredRelease) -> Iterator[str]:
    """Problems of the files beside a model whose weights and hash are right."""
    card = published.file_of(folder, number, "json")
    if published.bytes_of(card) != export_formats.to_json(release):
        yield f"{card} is missing, or not the card of release {number}: {REPAIR}"
    files = [published.file_of(folder, number, kind) for kind in published.KINDS]
    digests = {path.name: _digest_of(path) for path in files}
    listed = published.file_of(folder, number, "sha256")
    if gone := [name for name, digest in digests.items() if not digest]:
        yield f"{folder / gone[0]} is missing: {REPAIR}"
    elif published.bytes_of(listed) != published.manifest(digests):
        yield f"{listed} is missing or does not match the files of release {number}: {REPAIR}"


def problems(folder: Path, store: Store) -> Iterator[Problem]:
    """Problems of the published files, compared with the state.

    Files of the newest step may be missing, because a run may be stopped before it writes them.
    Files that exist must be what the state would publish. Releases newer than the state are not
    checked.
    """
    recorded, newest = store.published(), store.newest()
    last, wanted = max(recorded, default=-1), dict(recorded)
    made = range(newest.number + 1) if newest else ()
    for number in sorted({*made} - {*recorded}):
        release = store.release(number)
        files, old = published.digests_of(published.files_of(release)), HISTORY not in release.card
        if old:  # version 0.1.0 wrote other Markdown, and no manifest
            kinds = (".safetensors", ".json")
            files = {name: files[name] for name in files if name.endswith(kinds)}
        if newest and _step(release) == _step(newest):
            files = {name: files[name] for name in files if os.path.lexists(folder / name)}
        elif not old:
            last = max(last, number)
        wanted[number] = files
    if last >= 0:
        yield from verify(folder, last, lambda _: ())  # the cards of the state are checked
    digests = {name: digest for number in sorted(wanted) for name, digest in wanted[number].items()}
    wrong = [name for name in digests if _digest_of(folder / name) != digests[name]]
    if wrong:  # one line, even if the folder is of another state
        which = wrong[0] if len(wrong) == 1 else f"{wrong[0]} and {len(wrong) - 1:,} more"
        what = f"{which} missing, or not as the state published: {REPAIR}"
        yield Problem(str(folder), what)


def _step(release: StoredRelease) -> tuple[str, int]:
    """The step that made a release: its stream and its end."""
    return release.card["stream"], release.card["at"]


def _digest_of(path: Path) -> str:
    """The digest of a file; empty if it cannot be read."""
    data = published.bytes_of(path)
    return "" if data is None else hashlib.sha256(data).hexdigest()


def unexpected(folder: Path, store: Store) -> Iterator[Problem]:
    """The first release in the folder that the state has not made, as a problem."""
    numbers = published.numbers_in(folder)  # first: a gate makes a release, then publishes it
    newest = published.newest_made(store)
    for number in [each for each in numbers if each > newest][:1]:
        what = f"the state has not made release {number}, which is in the folder: {OTHER}"
        yield Problem(str(folder), what)

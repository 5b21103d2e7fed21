"""Sections of a configuration that do not fit together, each in one sentence."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tidegate.checks import refuse
from tidegate.data.feature_map import configurable
from tidegate.learn.preparation import preparation_of
from tidegate.run.config.keys import ConfigError, mistakes_of
from tidegate.run.config.kind_tables import TwoSources
from tidegate.schedule import TwoStream

if TYPE_CHECKING:
    from tidegate.run.config.config import Config


def build_mistakes(config: "Config") -> Iterator[str]:
    """What makes no plan, no learner or no columns."""

    def trainable() -> None:
        config.learner.check(config.budget.build(), config.task())

    checks: dict[str, Callable[[], object]] = {"allocation": config.plan, "learner": trainable}
    survey, scores = (config.complete[name].share for name in ("survey", "quality"))
    if survey + scores >= 1:
        del checks["allocation"]
        left = "survey.share and quality.share must leave some of the budget for models"
        yield f"{left}, got {survey} and {scores}"
    if config.records.target and config.quality.scores is False:
        yield "quality.scores must not be false with records.target: remove it"
    if config.source or config.quality.holdout:
        checks["records"] = partial(config.records.build, config.column_map())
    yield from mistakes_of(checks)


def size_mistakes(config: "Config") -> Iterator[str]:
    """What makes fits too large; refused before any records arrive, but not of an older state."""
    settings = config.settings
    task = preparation_of(settings.plan.survey).task(settings.task)
    check = partial(settings.learner.check_size, task, settings.plan.schedule.largest)
    yield from mistakes_of({"learner": check})


def column_mistakes(config: "Config") -> Iterator[str]:
    """What does not go with [[columns]], or is missing without them."""
    if not config.columns:
        if not config.records.norm:
            add = "add it, or describe the columns in [[columns]], from which it follows"
            yield f"records.norm is missing: {add}"
        return
    for name in ("columns", "text"):
        if getattr(config.records, name):
            yield f"records.{name} must not be given with [[columns]]: remove one of the two"
    names = Counter(each.parameters["name"] for each in config.columns)
    for name, times in names.items():
        if times > 1:
            yield f"columns: column {name} is named {times} times: name each column once"
    if len(names) == len(config.columns):
        hint = config.records.spelling_hint
        yield from (f"{each}{hint}" for each in mistakes_of({"columns": config.column_map}))
    if config.records.label in names:
        yield str(
            refuse("records.label", "a column that is not in [[columns]]", config.records.label)
        )
    if config.features and not config.records.norm:
        yield "records.norm is missing: with [[features]] it does not follow from [[columns]]"


def text_mistakes(config: "Config") -> Iterator[str]:
    """Feature maps of texts in the wrong place, or without texts."""
    for index, each in enumerate(config.features):
        if index and each.takes_text:
            yield f"features[{index}].map must not be {each.map}: make it the first of them"
    texts = [each.map for each in config.features[:1] if each.takes_text]
    if config.records.text and not texts:
        able = " or ".join(kind for kind, each in configurable().items() if each.takes_text)
        yield f"features[0].map must be {able} if records.text is given"
    if config.records.columns and texts:
        yield f"features[0].map must not be {texts[0]} if records.columns is given"


def source_mistakes(config: "Config") -> Iterator[str]:
    """Sources that do not fit the number of streams."""
    two = config.schedule.kind == "twostream"
    if config.source and two and not isinstance(config.source, TwoSources):
        yield "source must be [source.source] and [source.target] for a twostream schedule"
    if sum(each.piped for each in config.configured().values()) > 1:
        yield 'source.target.path must not be "-" too: use a file or folder for one of the two'
    if isinstance(config.source, TwoSources) and not two:
        yield f"source must be one table, [source], for a {config.schedule.kind} schedule"


def owner_mistakes(config: "Config") -> Iterator[str]:
    """What does not go with [person], or is missing without it."""
    if not config.person:
        for key in sorted({each.person_key for each in config.configured().values()} - {""}):
            yield f"source.{key} needs [person]: add that section, or remove source.{key}"
        return
    person, schedule = config.person, config.schedule.build()
    used = "a feature" if person.id in (config.read or ()) else None
    if used or person.id == config.records.label:
        allowed = f"a column of its own, not that of {used or 'the label'}"
        yield str(refuse("person.id", allowed, person.id))
    two = isinstance(schedule, TwoStream)
    if getattr(schedule.source if two else schedule, "sample", None):
        name = "schedule.source.sample" if two else "schedule.sample"
        yield f"{name} must not be given with [person]: remove one of the two"
    if two and person.period:
        yield "person.period must be left out with two streams, whose steps have no common order"


def described(tables: Mapping[str, Any]) -> Mapping[str, Any]:
    """The tables of a TOML text; refuse one in which all columns are still commented out."""
    if tables.get("columns") == []:
        what = "remove the # before each column to learn from, or describe it"
        raise ConfigError([f"columns must have one column or more: {what}"])
    return tables

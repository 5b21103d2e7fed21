"""[learner]: how fits are made private, and their loss. The keys depend on the kind."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidegate.checks import InvalidValueError, refuse
from tidegate.kinds import build, checks_of, kinds_with, values_of
from tidegate.learn.learner import LEARNERS, Learner, Task, automatic_learner
from tidegate.learn.loss import (
    LOSSES,
    TARGET_LOSSES,
    automatic_loss,
    automatic_target_loss,
    loss_of,
    target_loss_of,
)
from tidegate.privacy import Budget
from tidegate.run.config.keys import KindTable, key, one_of_kinds, read_keys, zero_or_more


@dataclass(frozen=True, kw_only=True)
class LearnerTable(KindTable):
    """A kind of learner, with its loss and regularization."""

    kind: str = key(
        one_of_kinds(lambda: ["auto", *LEARNERS]), '"auto" chooses by the budget', default="auto"
    )
    loss: str = key(
        one_of_kinds(lambda: list(dict.fromkeys(["auto", *LOSSES, *TARGET_LOSSES]))),
        '"auto" chooses by the number of classes; for a target by the budget',
        default="auto",
    )
    regularization: float | None = key(
        zero_or_more,
        "lambda, the pull towards the prior; the default depends on the kind",
        default=None,
    )

    def resolved(self, budget: Budget, classes: int | None) -> "LearnerTable":
        """The table with "auto" and all defaults replaced by values.

        Args:
            budget: The budget.
            classes: The number of classes; None if a target is predicted.
        """
        kind = automatic_learner(budget.unit) if self.kind == "auto" else self.kind
        automatic = (
            automatic_target_loss(budget.unit) if classes is None else automatic_loss(classes)
        )
        loss = automatic if self.loss == "auto" else self.loss
        table = replace(self, kind=kind, loss=loss)
        if self.regularization is None:
            table = replace(table, regularization=LEARNERS[kind].default_regularization)
        return replace(table, parameters=values_of(table.build()))

    def check(self, budget: Budget, task: Task) -> None:
        """Refuse a learner that does not fit the budget or the task; the table is resolved."""
        if budget.unit not in LEARNERS[self.kind].budgets:
            able = [kind for kind, each in LEARNERS.items() if budget.unit in each.budgets]
            without = "without" if budget.unit == "epsilon" else "with"
            allowed = f"{' or '.join(able)} for a budget {without} a delta"
            raise refuse("kind", allowed, self.kind)
        self.build().check(task, budget.unit)

    def build(self) -> Learner[Task]:
        """The learner; the table must be resolved."""
        return build(LEARNERS, self.kind, self.parameters)

    def task(self, *, classes: int | None, norm: float) -> Task:
        """The learning task; the table must be resolved. No classes means a target."""
        loss = target_loss_of(self.loss, "") if classes is None else loss_of(self.loss, classes)
        return Task(loss=loss, norm=norm, regularization=self.regularization)


def learner_table(path: str, given: object) -> LearnerTable:
    """Read the table, and report every mistake with the path of its key."""
    chosen = given.get("kind") if isinstance(given, Mapping) else None
    checks = {**checks_of({"": LearnerTable}, None), **checks_of(LEARNERS, chosen)}
    return read_keys(path, given, checks, (), _table_of_kind)


def _table_of_kind(
    *, kind: str = "auto", loss: str = "auto", regularization: float | None = None, **given: Any
) -> LearnerTable:
    table = LearnerTable(kind=kind, loss=loss, regularization=regularization, parameters=given)
    if kind != "auto":
        table.build()  # refuses keys of other kinds
    elif given:
        raise InvalidValueError(_needs_kind(next(iter(given))))
    return table


def _needs_kind(name: str) -> str:
    """The error for a key of some kinds of learner, if the kind is left to "auto"."""
    kinds = [LEARNERS[each] for each in kinds_with(LEARNERS, name)]
    needed = " or ".join(f'kind = "{each.kind}"' for each in kinds)
    pure = any("epsilon" in each.budgets for each in kinds)
    return f"{name} needs {needed} in [learner]{'' if pure else ', and a budget with a delta'}"

"""What `tidegate plan` prints about persons: a record's budget, and how often a person may come."""

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rich.table import Table

from tidegate.cli import options
from tidegate.privacy import Budget, gaussian_epsilon
from tidegate.privacy.budget import up
from tidegate.privacy.visits import Visits, visits
from tidegate.schedule.plan import Plan, TwoStreamPlan

if TYPE_CHECKING:
    from tidegate.privacy.admission import Admission


def summary(plan: Plan | TwoStreamPlan) -> dict[str, Any]:
    """What persons cost, for programs; nothing if records are protected."""
    person, admission = plan.person, plan.admission
    if not person or not admission:
        return {}
    found = {
        "contributions": person.contributions,
        "period": person.period,
        "typical": str(person.typical),
        "record": _record(plan.budget),
        "kept_steps": _records_kept(admission),
        "visits": [
            {
                "every": each.every,
                "further": None if each.further is None else up(each.further),
                "admitted": each.admitted,
            }
            for each in visits(admission)
        ],
    }
    return {"person": found}


def _record(budget: Budget) -> dict[str, float]:
    """The budget of one record: an epsilon, or a mu and its epsilon at the delta."""
    amount = budget.of_share(Fraction(1))
    if budget.unit == "epsilon":
        return {"epsilon": amount}
    return {"mu": amount, "epsilon": gaussian_epsilon(amount, budget.delta), "delta": budget.delta}


def _records_kept(admission: "Admission") -> int | None:
    """For how many steps owners are kept; None for ever."""
    now = 2**53
    needed = admission.needed(now)
    return now - needed if needed else None


def shown(plan: Plan | TwoStreamPlan) -> Iterator[str | Table]:
    """What persons cost, for people; nothing if records are protected."""
    person, admission = plan.person, plan.admission
    if not person or not admission:
        return
    when = f"within any {person.period:,} consecutive steps" if person.period else "for life"
    yield f"\nAll records of a person together cost at most {person.cost}, {when}."
    yield _budgets(plan.budget)
    yield ""
    yield _table(visits(admission), person.period or 0)
    yield ""
    kept = _records_kept(admission)
    how_long = "ever" if kept is None else f"{kept:,} steps"
    yield f"Whose the records are is kept for {how_long}."
    if person.period and kept is None:
        yield "A period does not shorten that here: fits read all of the history."
    if person.typical != 1:
        records = f"{float(person.typical):g} records in each fit"
        yield (
            f"Training takes the steps that suit persons with {records}. If they have more or "
            "fewer, that costs accuracy, not privacy."
        )
    yield from not_included(plan.budget, plan.survey, plan.reserve)


def not_included(budget: Budget, survey: Fraction, scores: Fraction) -> Iterator[str]:
    """What a plan leaves out that a configuration pays for by default; nothing if all is there.

    >>> from tidegate import ApproxDP
    >>> print(*not_included(ApproxDP(1.0, 1e-6), Fraction(1, 20), Fraction(0)))
    Not included: scores (a configuration's default is 0.05 for each). To include them, give
    --scores 0.05.
    """
    missing = {"--survey": "the survey"} if budget.delta and not survey else {}
    missing |= {"--scores": "scores"} if not scores else {}
    if missing:
        given = " ".join(f"{option} 0.05" for option in missing)
        yield (
            f"Not included: {' and '.join(missing.values())} (a configuration's default is 0.05 "
            f"for each). To include them, give {given}."
        )


def _budgets(budget: Budget) -> str:
    """The budget of a record beside that of a person."""
    own = _record(budget)
    if budget.unit == "epsilon":
        return (
            f"A person has epsilon = {budget.epsilon:g}, a record epsilon = {own['epsilon']:.4g}."
        )
    return (
        f"A person has mu = {budget.mu:.4g} (epsilon = {budget.epsilon:g}), a record "
        f"mu = {own['mu']:.4g} (epsilon = {own['epsilon']:.4g}), at delta = {budget.delta:g}."
    )


def _table(rows: list[Visits], period: int) -> Table:
    """How often a person may come; a period of 0 is for life."""
    table = options.lean_table()
    table.add_column("a person who comes")
    table.add_column("pays for a further step", justify="right")
    table.add_column("in a period" if period else "admitted steps", justify="right")
    for each in rows:
        table.add_row(_comes(each, period), _further(each), _admitted(each, period))
    return table


def _comes(visit: Visits, period: int) -> str:
    every, most = visit.every, visit.admitted or 1
    if every:
        return "at every step" if every == 1 else f"every {every:,} steps"
    if period:
        return f"in any {f'{most:,} steps' if most > 1 else 'one step'} of a period"
    return "in any steps"


def _further(visit: Visits) -> str:
    if visit.further is None:
        return "less and less"
    bound = "" if visit.every else "at most "
    return f"{bound}{up(visit.further):.3g}"


def _admitted(visit: Visits, period: int) -> str:
    if visit.admitted is None:
        return "no limit found"
    more = "" if visit.every or period else " or more"
    return f"{visit.admitted:,}{more}"

"""What `tidegate plan` prints about persons: a record's budget, and how often a person may come."""

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from rich.table import Table

from tidegate.cli import options
from tidegate.cli.screen import Screen
from tidegate.privacy import Budget, gaussian_epsilon
from tidegate.privacy.budget import up
from tidegate.privacy.person import Person
from tidegate.privacy.visits import Visits, visits

if TYPE_CHECKING:
    from tidegate.privacy.admission import Admission


def summary(budget: Budget, person: Person, admission: "Admission") -> dict[str, Any]:
    """What persons cost, for programs."""
    return {
        "contributions": person.contributions,
        "period": person.period,
        "typical": str(person.typical),
        "record": _record(budget),
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


def show(console: Screen, budget: Budget, person: Person, admission: "Admission") -> None:
    """Print what persons cost."""
    period, times = person.period, f"{person.contributions:,} times "
    when = "for life" if period is None else f"within any {period:,} consecutive steps"
    console.print(
        f"\nAll records of a person together cost at most "
        f"{times * (person.contributions > 1)}what one record may cost, {when}."
    )
    console.print(_budgets(budget))
    console.print()
    console.print(_table(visits(admission), period))
    console.print()
    kept = _records_kept(admission)
    console.print(
        "Whose the records are is kept for ever."
        if kept is None
        else f"Whose the records are is kept for {kept:,} steps."
    )
    if period is not None and kept is None:
        console.print("A period does not shorten that here: fits read all of the history.")
    if person.typical != 1:
        records = f"{float(person.typical):g} records in each fit"
        console.print(
            f"Training takes the steps that suit persons with {records}. If they have more or "
            "fewer, that costs accuracy, not privacy."
        )


def not_included(budget: Budget, survey: Fraction, scores: Fraction) -> str | None:
    """What a plan leaves out that a configuration pays for by default; None if nothing.

    >>> from tidegate import ApproxDP
    >>> print(not_included(ApproxDP(1.0, 1e-6), Fraction(1, 20), Fraction(0)))
    Not included: scores (a configuration's default is 0.05 for each). To include them, give
    --scores 0.05.
    """
    missing = {"--survey": "the survey"} if budget.delta and not survey else {}
    missing |= {"--scores": "scores"} if not scores else {}
    if not missing:
        return None
    given = " ".join(f"{option} 0.05" for option in missing)
    return (
        f"Not included: {' and '.join(missing.values())} (a configuration's default is 0.05 for "
        f"each). To include them, give {given}."
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


def _table(rows: list[Visits], period: int | None) -> Table:
    """How often a person may come."""
    table = options.lean_table()
    table.add_column("a person who comes")
    table.add_column("pays for a further step", justify="right")
    table.add_column("admitted steps" if period is None else "in a period", justify="right")
    for each in rows:
        table.add_row(_comes(each, period), _further(each), _admitted(each, period))
    return table


def _comes(visit: Visits, period: int | None) -> str:
    every, most = visit.every, visit.admitted or 1
    if every is None and period is not None:
        return f"in any {f'{most:,} steps' if most > 1 else 'one step'} of a period"
    if every is None:
        return "in any steps"
    return "at every step" if every == 1 else f"every {every:,} steps"


def _further(visit: Visits) -> str:
    if visit.further is None:
        return "less and less"
    bound = "at most " if visit.every is None else ""
    return f"{bound}{up(visit.further):.3g}"


def _admitted(visit: Visits, period: int | None) -> str:
    if visit.admitted is None:
        return "no limit found"
    more = " or more" if visit.every is None and period is None else ""
    return f"{visit.admitted:,}{more}"

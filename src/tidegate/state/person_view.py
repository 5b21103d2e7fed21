"""What one person has paid, for operators who may see it. None of it is public."""

from fractions import Fraction
from typing import Any

from tidegate.checks import InvalidValueError
from tidegate.gate import Gate
from tidegate.privacy.budget import down, up

Row = dict[str, Any]


def paid_by(gate: Gate, person: str) -> Row:
    """What a person has paid, in which steps the person is admitted, and what is left.

    The answer has the same form for a person whom the state does not know. Amounts are in units of
    what one record may cost; steps are counted from 1, over all streams. With a period, only the
    steps that the next one shares a period with count.

    Args:
        gate: The gate, possibly read-only.
        person: The id, as the records have it.
    """
    admission = gate.plan.admission
    if admission is None:
        raise InvalidValueError("the state has no [person]: records are protected, not persons")
    owner = gate.persons.owner(person)
    with gate.store.snapshot():
        ranges = gate.store.person(owner)
        done = sum(1 for _ in gate.store.steps())
    if admission.period is not None:
        first = done - admission.period + 1
        ranges = [(max(start, first), stop) for start, stop in ranges if stop > first]
    cost = admission.cost(ranges)
    return {
        "paid": up(cost) if cost else 0.0,
        "left": down(max(admission.contributions - cost, Fraction(0))),
        "contributions": admission.contributions,
        "period": admission.period,
        "steps": [{"first": start + 1, "last": stop} for start, stop in ranges],
    }


def in_words(row: Row) -> str:
    """The answer as a sentence."""
    ranges = [
        f"{each['first']:,}-{each['last']:,}"
        if each["first"] < each["last"]
        else f"{each['last']:,}"
        for each in row["steps"]
    ]
    steps = f"admitted in steps {', '.join(ranges)}" if ranges else "admitted in no step"
    within = ""
    if row["period"] is not None:
        within = f" within the newest period of {row['period']:,} steps"
    return (
        f"This person is {steps}{within}, and has paid {row['paid']:.4g} of "
        f"{row['contributions']:,} contributions; {row['left']:.4g} are left."
    )

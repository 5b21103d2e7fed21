"""What commands take from a state: a release, and advice about what is missing."""

from collections.abc import Iterator

from tidegate.checks import InvalidValueError
from tidegate.data.owners import WHY_NOBODY
from tidegate.gate import Gate
from tidegate.release import StoredRelease
from tidegate.run.step_admission import warnings
from tidegate.schedule.progress import ONLY


def waiting(gate: Gate) -> str:
    """Say how many more records the first release needs."""
    source, *others = gate.streams
    arrived, first = gate.store.count(source), gate.plan.first
    whose = f"{source} records" if others else "records"
    return (
        f"the first release needs {first:,} {whose}: "
        f"{arrived:,} have arrived, {first - arrived:,} are missing"
    )


def few_admitted(gate: Gate) -> Iterator[str]:
    """Say that few records of the newest step count, and what to do; it has no noise either."""
    if gate.plan.person:
        for line in warnings(gate.store.admissions(), gate.plan.person):
            yield f"{line}."


def unusable(gate: Gate) -> Iterator[str]:
    """Say how many records cannot be used, and why the first cannot.

    The count has no noise, so only people who may see the records may see it.
    """
    for stream in gate.streams:
        first = next(gate.store.quarantine(stream), None)
        if first:
            count, of = gate.store.quarantined(stream), gate.store.count(stream)
            many = 2 * count > of
            last = "target" if gate.config.records.target else "classes"
            names = f"[records] columns, label and {last}"
            names += " and [person] id" if gate.config.person else ""
            advice = f"; check that {names} match the records"
            if first.reason in WHY_NOBODY:
                advice = "; check person.id"
            whose = stream if stream == ONLY else f"{stream} records"
            yield (
                f"{count:,} of {of:,} {whose} cannot be used; the first is {first.slot:,}: "
                f"{first.reason} (do not publish this count){advice * many}"
            )


def chosen_release(gate: Gate, number: int | None) -> StoredRelease:
    """The release with a number, or the newest; refuse a state that has none."""
    chosen = gate.store.newest() if number is None else gate.store.release(number)
    if not chosen:
        more = "add records with tidegate run or tidegate ingest"
        raise InvalidValueError(f"{waiting(gate)}; {more}")
    return chosen

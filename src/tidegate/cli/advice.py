"""What the operator of a state should be told without having to ask."""

from collections.abc import Iterator

from tidegate.gate.gate import Gate


def waiting(gate: Gate) -> str:
    """What is missing for the first release."""
    source, *others = gate.streams
    arrived, first = gate.store.count(source), gate.plan.first
    whose = f"{source} records" if others else "records"
    return (
        f"nothing is released before {first:,} {whose} have arrived: "
        f"{arrived:,} have, {first - arrived:,} are missing"
    )


def unusable(gate: Gate) -> Iterator[str]:
    """How many records could not be used, and why the first of them could not.

    This is computed from records without noise: for those who may see the records.
    """
    for stream in gate.streams:
        first = next(gate.store.quarantine(stream), None)
        if first is not None:
            count, of = gate.store.quarantined(stream), gate.store.count(stream)
            many = 2 * count > of
            advice = "; are [records] columns, label and classes as the records have them?" * many
            yield (
                f"{count:,} of {of:,} {stream} cannot be used; the first is {first.slot:,}: "
                f"{first.reason} (do not publish this count){advice}"
            )

"""What a state holds, and why: for the operator, who may see the records."""

from typing import Any

from tidegate.gate.gate import Gate
from tidegate.privacy import Ledger
from tidegate.privacy.rounding import down
from tidegate.release import described


def status(gate: Gate) -> dict[str, Any]:
    """What the state holds. It counts unusable records: for the operator only."""
    with gate.store.snapshot():
        newest, budget = gate.store.newest(), gate.plan.budget
        return {
            "schedule": described(gate.plan.schedule),
            "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
            "private": gate.config.not_private_seed is None,
            "releases": 0 if newest is None else newest.number + 1,
            "newest": None if newest is None else newest.card["time"],
            "streams": [_of_stream(gate, *each) for each in gate.ledgers().items()],
        }


def _of_stream(gate: Gate, stream: str, ledger: Ledger) -> dict[str, Any]:
    count, needed = gate.store.count(stream), gate.progress.needed(stream)
    held = [segment for segment in gate.store.held() if segment.stream == stream]
    start = min([count, *(segment.span.start for segment in held)])
    why = f"fits to come may read records from {needed:,} on" if held else "nothing is held"
    return {
        "stream": stream,
        "records": count,
        "unusable": gate.store.quarantined(stream),
        "in_open_step": count - gate.store.done(stream),
        "fits": ledger.posted,
        "worst_share": down(ledger.worst().share),
        "held_from": start,
        "held_records": count - start,
        "held_bytes": sum(segment.size for segment in held),
        "held_because": why,
    }

"""The status of a state: for the public, and for the operator."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate.learn.score_kinds import headline_name
from tidegate.privacy import Ledger
from tidegate.privacy.budget import down
from tidegate.privacy.meaning import meaning, whom
from tidegate.privacy.person import Protects
from tidegate.release.card import described
from tidegate.release.verdict import compact, guarded_value, verdict_words
from tidegate.run.step_admission import status_rows
from tidegate.schedule.progress import BEHIND
from tidegate.state.ledger_view import LedgerView
from tidegate.state.quality import MeasuredStep, drift_row, drift_status, survey_row
from tidegate.state.stopped import stop_in
from tidegate.state.store import Evaluation, Store

if TYPE_CHECKING:
    from tidegate.gate import Gate

Row = dict[str, Any]


def promise(gate: "Gate") -> Row:
    """The schedule, the budget and what the budget promises each record or person."""
    budget, protects = gate.plan.budget, gate.plan.protects
    return {
        "schedule": described(gate.plan.schedule),
        "budget": {"epsilon": budget.epsilon, "delta": budget.delta},
        "protects": protection(protects),
        "meaning": meaning(budget.epsilon, budget.delta, protects),
        "private": gate.config.not_private_seed is None,
    }


def protection(protects: Protects) -> Row:
    """Whom the budget protects; `whom` says it in words."""
    stated = protects.entries().get("protects", {"unit": "record"})
    return {**stated, "whom": whom(protects)}


def public_status(gate: "Gate", view: LedgerView) -> Row:
    """The public status: nothing in it depends on records except through releases."""
    steps = view.measured.newest()
    return {
        **promise(gate),
        **_stopped(gate),
        **_released(gate, view),
        "streams": [_of_stream(gate, stream) for stream in gate.streams],
        "quality": [_quality(each, found) for each in steps for found in each.step.evaluated],
        **measured(steps),
        "surveys": [row for row in map(survey_row, steps) if row is not None],
    }


def measured(steps: list[MeasuredStep]) -> Row:
    """The newest scores, whole, and the drift so far; None for what is not measured."""
    scored = [each for each in steps if each.measures is not None]
    return {"scores": _scores(scored[-1]) if scored else None, "drift": drift_status(steps)}


def _newest_measured(steps: list[MeasuredStep]) -> Row:
    """The same, with the verdict of the newest accuracy if there are no scores."""
    tested = [each for each in steps if each.step.evaluated]
    found = measured(steps)
    if tested and found["scores"] is None:
        found["verdict"] = verdict_row(tested[-1].verdict)
    return found


def _scores(each: MeasuredStep) -> Row:
    """All that the scores of a step tell."""
    (release,) = (evaluation.release for evaluation in each.step.evaluated)
    found = {**each.place(), "of_release": release, **(each.measures or {})}
    return {**found, "verdict": verdict_row(each.verdict)}


def verdict_row(found: Mapping[str, Any] | None) -> Row | None:
    """A verdict as JSON, with its words."""
    return None if found is None else {**found, "words": verdict_words(found)}


def _quality(each: MeasuredStep, evaluation: Evaluation) -> Row:
    """How good a release was on a step."""
    name = headline_name(evaluation.scores)
    return {
        **each.place(),
        "of_release": evaluation.release,
        name: guarded_value(name, evaluation.value, evaluation.deviation),
        "deviation": evaluation.deviation,
        "scores": compact(each.measures),
        "verdict": verdict_row(each.verdict),
        "drift": drift_row(each.drift),
    }


def status(gate: "Gate", *, with_measures: bool = True) -> Row:
    """The full status. It counts records that are unusable or admitted: for the operator only.

    Args:
        gate: The gate.
        with_measures: Whether to add the newest scores and the drift.
    """
    view = gate.ledger_view()
    with gate.store.snapshot():
        view.read()
        promised = promise(gate)
        del promised["meaning"]
        streams = [_for_operator(gate, stream, view.ledgers[stream]) for stream in gate.streams]
        found = _newest_measured(view.measured.newest(full=2)) if with_measures else {}
        made = {**promised, **_stopped(gate), **_released(gate, view)}
        return {**made, "streams": streams, **found}


def _stopped(gate: "Gate") -> Row:
    """Why the state is stopped, and the steps that stopped it before it was corrected."""
    stop = stop_in(gate.store, gate.config)
    return {
        "stopped": None if stop is None else stop.row(),
        "stopped_steps": stopped_rows(gate.store),
    }


def stopped_rows(store: Store) -> list[Row]:
    """What the records of each stopped step have paid; they are in no other count."""
    return [
        {"stream": each.stream, "records": each.span.size, "paid": down(each.survey.share)}
        for each in store.stopped()
    ]


def _released(gate: "Gate", view: LedgerView) -> Row:
    newest = gate.store.newest()
    if newest is None:
        return {"releases": 0, "newest": None, "trained_on": None}
    return {
        "releases": newest.number + 1,
        "newest": newest.card["time"],
        "trained_on": view.trained_on(newest.card["fit"]),
    }


def _of_stream(gate: "Gate", stream: str) -> Row:
    """The public numbers of a stream."""
    count = gate.store.count(stream)
    return {
        "stream": stream,
        "records": count,
        "done": gate.store.done(stream),
        "step": gate.progress.step(stream),
        "next_model": gate.progress.next_model(stream),
        **_behind(gate, stream),
        **_raw_data_held(gate, stream, count),
    }


def _for_operator(gate: "Gate", stream: str, ledger: Ledger) -> Row:
    """The numbers of a stream, including those for the operator only."""
    count = gate.store.count(stream)
    held = _raw_data_held(gate, stream, count)
    because = held.pop("held_because")
    sizes = (segment.size for segment in gate.store.held() if segment.stream == stream)
    return {
        "stream": stream,
        "records": count,
        "unusable": gate.store.quarantined(stream),
        **(status_rows(gate.store.admissions(), stream) if gate.plan.protects.persons else {}),
        "in_open_step": count - gate.store.done(stream),
        **_behind(gate, stream),
        "fits": ledger.posted,
        "worst_share": down(ledger.worst().share),
        **held,
        "held_bytes": sum(sizes),
        "held_because": because,
    }


def _behind(gate: "Gate", stream: str) -> Row:
    """How many complete steps wait, and whether that is more than training should leave."""
    waiting = gate.progress.steps_waiting(stream)
    return {"steps_waiting": waiting, "behind": waiting >= BEHIND}


def behind_in_words(row: Row) -> str:
    """What a stream's row says about steps that wait."""
    return (
        f"{row['steps_waiting']:,} complete steps of {row['stream']} wait to be trained: "
        "the newest model is older than its records"
    )


def _raw_data_held(gate: "Gate", stream: str, count: int) -> Row:
    starts = [segment.span.start for segment in gate.store.held() if segment.stream == stream]
    start, needed = min([count, *starts]), gate.progress.needed(stream)
    why = f"future fits may read records from {needed:,} on" if starts else "nothing is held"
    return {"held_from": start, "held_records": count - start, "held_because": why}

"""Comparisons that protect persons: their ids in, the gate's own admission, fair baselines."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from tests.compare.test_comparison import plain
from tidegate.checks import InvalidValueError
from tidegate.compare.comparison import Comparison, read
from tidegate.compare.labelled import UNUSABLE
from tidegate.compare.method import Scheduled
from tidegate.compare.recommend import results
from tidegate.data.records import Records
from tidegate.gate import Gate
from tidegate.learn import GradientPerturbation
from tidegate.learn.learner import Fitted, Task, Terms
from tidegate.run.config import Config
from tidegate.run.held import AdmittedSteps
from tidegate.sources import Batches
from tidegate_lab.methods.baselines import BASELINES
from tidegate_lab.methods.refit import NaiveSplitting

N, STEP, CROWD = 1200, 100, 90

TABLES: dict[str, Any] = {
    "schedule": {"kind": "fading", "step": STEP, "forget": "1/2", "memory": 3},
    "budget": {"epsilon": 2.0, "delta": 1e-6},
    "records": {"classes": [0, 1], "norm": 1.0},
    "person": {"id": "who", "contributions": 2, "typical": 2},
}


def public(n: int = N) -> tuple[Any, Any, list[Any]]:
    """Records that are easily told apart, of persons who come again; a few are nobody's."""
    rng = np.random.default_rng(5)
    y = rng.integers(2, size=n)
    X = np.where(y == 1, 0.5, -0.5)[:, None] + rng.uniform(-0.2, 0.2, (n, 2))
    X[7] = np.nan
    who = rng.integers(CROWD, size=n)
    return X, y, [None if slot % 61 == 3 else f"p{who[slot]}" for slot in range(n)]


def found(tables: Any = TABLES, every: int = 0) -> tuple[Comparison, Any]:
    comparison = Comparison(tables=tables)
    records = read(comparison.config, Batches(name="public", pairs=[public()]))
    return comparison, comparison.stream(records, every=every)


def test_owners_stay_with_their_records() -> None:
    _, y, ids = public()
    _, stream = found()
    owners = stream.records.owners
    assert owners is not None
    assert len(owners) == stream.n == N - STEP
    same = {tuple(owner): who for owner, who in zip(owners.tolist(), ids, strict=False)}
    assert [same[tuple(each)] for each in owners.tolist()] == ids[: stream.n]
    assert same[0, 0] is None
    part = stream.between(0, 64)
    assert part.owners is not None
    nobodys = [slot for slot in range(64) if ids[slot] is None]
    assert not part.usable[nobodys].any()
    assert not part.X[nobodys].any()
    assert stream.records.y[nobodys].tolist() == y[nobodys].tolist(), "models are tested on them"
    assert stream.records.y[7] == UNUSABLE
    _, held_out = found(every=4)
    kept = [who for slot, who in enumerate(ids) if slot % 4]
    assert [same[tuple(each)] for each in held_out.records.owners.tolist()] == kept


@pytest.mark.parametrize(
    "schedule",
    [
        TABLES["schedule"],
        {"kind": "sliding", "window": 300, "step": STEP},
        {"kind": "continual", "block": 400, "step": STEP},
    ],
    ids=lambda table: str(table["kind"]),
)
@pytest.mark.parametrize("period", [None, 5])
def test_the_same_records_count_as_in_a_gate(
    tmp_path: Path, schedule: Any, period: int | None
) -> None:
    person = TABLES["person"] | ({} if period is None else {"period": period})
    tables = TABLES | {"schedule": schedule, "person": person}
    comparison, stream = found(tables)
    own = comparison.contenders(["not-private"], stream.n)[0][0]
    method = own.methods[0]
    assert isinstance(method, Scheduled)
    seen: list[AdmittedSteps] = []
    decide = AdmittedSteps.decide

    def noted(self: AdmittedSteps, *given: Any) -> Any:
        seen.append(self)
        return decide(self, *given)

    with patch.object(AdmittedSteps, "decide", noted):
        list(method.models(stream, 0))
    X, y, ids = public()
    with closing(Gate.open(tmp_path / "state", Config.of(tables))) as gate:
        gate.ingest(X[: stream.n], y[: stream.n], persons=ids[: stream.n])
        wanted = gate.store.admissions()
    assert seen[-1].counts == wanted
    share = sum(each.counted for each in wanted) / sum(each.records for each in wanted)
    assert method.admitted(stream) == share
    assert 0 < share < 1
    assert own.admitted(stream) == share


def test_baselines_protect_persons_or_are_left_out() -> None:
    comparison, stream = found()
    contenders, left_out = comparison.contenders([], stream.n)
    reasons = {each.name: each.protects_records_only for each in BASELINES}
    assert set(left_out) == {"window-refit", "dp-ftrl"}
    for name, why in left_out.items():
        assert why == f"{name} is not compared if persons are protected: {reasons[name]}"
    for name in ("window-refit", "dp-ftrl", "diffprivlib"):
        with pytest.raises(InvalidValueError, match=f"{name} is not compared if persons"):
            comparison.contenders([name], stream.n)
    assert {each.budget for each in contenders} == {comparison.config.total()}
    naive = next(plain(each) for each in contenders if each.name == "naive")
    assert isinstance(naive, NaiveSplitting)
    plan = naive.plan(records=100, releases=9)
    assert plan.person is not None
    assert plan.person.contributions == 1
    assert plan.person.typical == Fraction(2)
    assert plan.budget == comparison.config.budget.build(), "of what a person may lose"
    assert plan.forever == Fraction(1, 9)


def test_naive_counts_a_person_like_one_record_in_every_release() -> None:
    comparison, stream = found()
    contenders, _ = comparison.contenders(["naive"], stream.n)
    naive = next(each.methods[0] for each in contenders if each.name == "naive")
    read_records: list[Records] = []
    fitted = GradientPerturbation.fitted

    def noted(
        self: GradientPerturbation, task: Task, terms: Terms, records: Any, bits: Any
    ) -> Fitted:
        assert terms.persons
        read_records.append(records)
        return fitted(self, task, terms, records, bits)

    with patch.object(GradientPerturbation, "fitted", noted):
        times = [at for at, _ in naive.models(stream, 0)]
    _, _, ids = public()
    assert len(times) == len(read_records) > 2
    for at, records in zip(times, read_records, strict=True):
        weights = records.person_weights
        assert weights is not None
        assert records.owners is None
        total: Counter[Any] = Counter()
        for who, weight in zip(ids[at - records.n : at], weights.tolist(), strict=True):
            total[who] += weight
        assert total.pop(None) == 0
        assert all(1 - 1e-9 < each <= 1 for each in total.values())


def test_methods_without_privacy_learn_from_all_records() -> None:
    _, stream = found()
    names = ["not-private", "constant", "naive"]

    def compared(tables: Any, given: Any) -> Iterator[Any]:
        made, _ = Comparison(tables=tables).contenders(names, given.n)
        for each in results(made, given, 1):
            if each.contender.name in names[:2]:
                yield each.curve.runs.tolist()

    plainly = {name: table for name, table in TABLES.items() if name != "person"}
    assert list(compared(TABLES, stream)) == list(compared(plainly, stream.ownerless))


def test_ids_are_looked_for() -> None:
    X, y, _ = public()
    config = Config.of(TABLES)
    for ids in ([None] * N, [None, None, "p"] * (N // 3)):
        with pytest.raises(InvalidValueError, match=r"public have a person: check .*'who'"):
            read(config, Batches(name="public", pairs=[(X, y, ids)]))

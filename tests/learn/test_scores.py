from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.checks import InvalidValueError
from tidegate.learn import score_cells
from tidegate.learn.score_cells import Cells
from tidegate.learn.scores import Scores, score
from tidegate.privacy.budget import Allowance, ApproxDP, PureDP, allowance_of
from tidegate.privacy.noise import NotPrivateBits

MARGINS = st.sampled_from([-np.inf, -40.0, -2.0, -0.3, 0.0, 0.2, 1.0, 9.0, np.inf, np.nan])
ALLOWANCES = [Allowance("mu", 0.05), Allowance("epsilon", 0.05)]


def of_record(cells: Cells, margins: Any, label: int, usable: bool) -> np.ndarray[Any, Any]:
    counts, found = cells.count(np.array([margins]), np.array([label]), np.array([usable]))
    return np.concatenate([counts, found])


def scales(cells: Cells, allowance: Allowance) -> np.ndarray[Any, Any]:
    """The scale of the noise of the three counts and of each cell."""
    return np.concatenate([[cells.count_scale(allowance)] * 3, cells.scales(allowance)])


def loss(change: np.ndarray[Any, Any], scale: np.ndarray[Any, Any], allowance: Allowance) -> Any:
    """The privacy loss of a change: mu of Gaussian noise, epsilon of Laplace noise."""
    if allowance.unit == "epsilon":
        return np.abs(change / scale).sum()
    return np.sqrt(((change / scale) ** 2).sum())


@pytest.mark.parametrize("allowance", ALLOWANCES)
@given(st.sampled_from([2, 3, 7, 61]), st.data())
def test_replacing_a_record_costs_at_most_the_allowance(
    allowance: Allowance, classes: int, data: st.DataObject
) -> None:
    cells = Cells.of(classes, 4096, allowance)
    columns = 1 if classes == 2 else classes

    def drawn() -> np.ndarray[Any, Any]:
        margins = np.array(data.draw(st.lists(MARGINS, min_size=columns, max_size=columns)))
        label = data.draw(st.integers(0, classes - 1))
        return of_record(
            cells, margins[0] if classes == 2 else margins, label, data.draw(st.booleans())
        )

    change = drawn() - drawn()
    assert loss(change, scales(cells, allowance), allowance) <= allowance.amount * (1 + 1e-12)
    assert np.abs(change[:3]).sum() in (0, 2)


def extreme_records(cells: Cells) -> list[np.ndarray[Any, Any]]:
    """Records in every kind of cell and at both ends of their bins, and an unusable one."""
    classes = cells.classes
    found = [of_record(cells, 0.0 if classes == 2 else np.zeros(classes), 0, False)]
    for label in range(min(classes, 4)):
        if classes == 2:
            margins: list[Any] = [-40.0, -1e-9, 0.0, 1e-9, 40.0]
        else:
            sizes, chosen = [1e-9, 0.6, 2.0, 40.0], range(min(classes, 4))
            margins = [size * np.eye(classes)[k] for size in sizes for k in chosen]
        found += [of_record(cells, each, label, True) for each in margins]
    return found


def most_used(cells: Cells, allowance: Allowance) -> float:
    """The largest privacy loss of replacing one of these records by another."""
    records, scale = extreme_records(cells), scales(cells, allowance)
    return max(float(loss(a - b, scale, allowance)) for a in records for b in records)


@pytest.mark.parametrize("slots", [300, 4096, 10**6])
@pytest.mark.parametrize("classes", [2, 3, 7, 61])
@pytest.mark.parametrize("allowance", ALLOWANCES)
def test_the_whole_allowance_is_used(allowance: Allowance, classes: int, slots: int) -> None:
    used = most_used(Cells.of(classes, slots, allowance), allowance)
    assert used == pytest.approx(allowance.amount, rel=1e-12)


@pytest.mark.parametrize("outcomes", [("right",), ("wrong",), ("right", "unusable")])
@pytest.mark.parametrize("allowance", ALLOWANCES)
def test_pairs_left_out_of_the_maximum_are_found(
    allowance: Allowance, outcomes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_cells, "OUTCOMES", outcomes)
    assert most_used(Cells.of(3, 4096, allowance), allowance) > 1.02 * allowance.amount


def test_how_far_a_record_moves_scores() -> None:
    """The supremum as the proof states it, beside the bound that scores of layout 1 had."""
    found = {k: Cells.of(k, 4096, ALLOWANCES[0]).moved("mu") for k in (2, 3, 60, 61)}
    assert found == {2: 6, 3: Fraction(93, 17), 60: Fraction(93, 17), 61: 5}
    pure = {k: Cells.of(k, 4096, ALLOWANCES[1]).moved("epsilon") for k in (2, 3, 61)}
    assert pure == {2: Fraction(22, 9), 3: Fraction(193, 81), 61: Fraction(7, 3)}


def test_scores_of_layout_1_keep_their_deviations() -> None:
    layout = Cells.of(3, 4096, ALLOWANCES[0])
    stored = {"slots": 4096, "classes": 3, "unit": "mu", "amount": 0.05, "counts": [0.0] * 3}
    old, new = (
        Scores.of_json({**stored, "layout": each, "cells": [0.0] * layout.size}) for each in (1, 2)
    )
    assert old.count_deviation == pytest.approx(6**0.5 / 0.05, rel=1e-12)
    assert new.count_deviation == pytest.approx((93 / 17) ** 0.5 / 0.05, rel=1e-12)
    assert np.all(new.cell_deviations < old.cell_deviations)
    assert [each.as_json()["layout"] for each in (old, new)] == [1, 2]


@given(st.integers(0, 2**32), st.integers(0, 50), st.sampled_from([2, 3, 7, 61]))
def test_every_record_counts_where_it_should(seed: int, n: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    margins = 3 * rng.normal(size=n if classes == 2 else (n, classes))
    y, usable = rng.integers(classes, size=n), rng.random(n) < 0.8
    layout = Cells.of(classes, 4096, ALLOWANCES[0])
    (right, wrong, unusable), cells = layout.count(margins, y, usable)
    assert right + wrong + unusable == n
    assert cells[-1] == unusable
    for table in layout.tables:
        place = layout.table(table.name, positions=table.positions)
        assert place is not None
        if not table.positions:
            expected = wrong if table.name == "truth" else right + wrong
            assert cells[place].sum() == expected
            continue
        counts = cells[layout.table(table.name)]
        assert np.all(np.abs(cells[place]) <= counts / 2)
        assert np.all(cells[place] * 1024 % 1 == 0)  # sums are exact
    if (place := layout.table("confusion")) != slice(0):
        assert np.trace(cells[place].reshape(classes, classes)) == right


@given(
    st.integers(2, 5000),
    st.integers(1, 10**7),
    st.sampled_from(["mu", "epsilon"]),
    st.floats(1e-4, 9),
)
def test_the_layout_stays_small(
    classes: int, slots: int, unit: Literal["mu", "epsilon"], amount: float
) -> None:
    layout = Cells.of(classes, slots, Allowance(unit, amount))
    assert layout.size <= 4096
    assert (layout.table("confusion") == slice(0)) == (classes == 2 or classes > 60)


@pytest.mark.parametrize("budget", [ApproxDP(1.0, 1e-6), PureDP(1.0)])
@pytest.mark.parametrize("classes", [2, 10])
def test_the_noise_has_the_stated_deviation(budget: Any, classes: int) -> None:
    """Pooled over 400 scores of at least 32 numbers, each divided by its stated deviation.

    The relative deviation of a pooled deviation is at most sqrt(5/(4 * 12800)) = 1 % (Laplace):
    6 % is six times that.
    """
    allowance = allowance_of(budget, Fraction(1, 2))
    usable = np.ones(10, bool)
    margins = np.zeros(10) if classes == 2 else np.zeros((10, classes))
    bits, drawn = NotPrivateBits(3), []
    for _ in range(400):
        found = score(
            margins, np.zeros(10, np.intp), usable, classes=classes, allowance=allowance, bits=bits
        )
        counts, cells = found.layout.count(margins, np.zeros(10, np.intp), usable)
        drawn.append((found.counts - counts) / found.count_deviation)
        drawn.append((found.cells - cells) / found.cell_deviations)
    assert np.concatenate(drawn).std() == pytest.approx(1, rel=0.06)


def test_scores_survive_json() -> None:
    usable = np.arange(100) < 90
    scores = score(
        np.linspace(-3, 3, 100),
        np.arange(100) % 2,
        usable,
        classes=2,
        allowance=ALLOWANCES[0],
        bits=NotPrivateBits(3),
    )
    again = Scores.of_json(scores.as_json())
    assert again.as_json() == scores.as_json()
    assert np.array_equal(again.cells, scores.cells)


def test_scores_of_another_layout_are_refused() -> None:
    stored = {"slots": 100, "classes": 2, "unit": "mu", "amount": 0.05, "counts": [1.0, 2.0, 3.0]}
    with pytest.raises(InvalidValueError, match=r"the layout of scores must be a .* to 2, got 3"):
        Scores.of_json({**stored, "layout": 3, "cells": []})
    with pytest.raises(InvalidValueError, match="3 counts and"):
        Scores.of_json({**stored, "layout": 1, "cells": [1.0]})

"""± means one thing wherever it is printed: two standard deviations of the noise, 95 %."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.glossary import TERMS
from tidegate.learn.measures.measure import REGISTRY, InUnits, Score, listed
from tidegate.release.verdict import PLUS_MINUS, TOO_NOISY, margin, shown

SRC = Path(__file__).parents[1] / "src" / "tidegate"
MEASURES = [score for kind in REGISTRY for score in listed(kind)]


@pytest.mark.parametrize("score", MEASURES, ids=lambda score: f"{score.kind} {score.name}")
@given(value=st.floats(0.1, 1), deviation=st.floats(0.001, 0.09))
def test_every_measure_is_printed_with_two_deviations(
    score: Score, value: float, deviation: float
) -> None:
    text = shown(score.name, {"value": value, "deviation": deviation})
    assert text != TOO_NOISY
    percent = 100 if "%" in text else 1
    printed = re.fullmatch(r"[+-]?[\d.]+(?: %)? ± ([\d.]+)", text)
    assert printed is not None
    unit = 10.0 ** -len(printed[1].partition(".")[2])
    assert float(printed[1]) == pytest.approx(percent * 2 * deviation, abs=0.5001 * unit)
    if isinstance(score.form, InUnits):
        assert unit <= 2 * deviation / 10  # two digits at least


def printing(path: Path) -> list[str]:
    """The lines of a file that print a number after ±."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if re.search(r"± ?\$?\{", line)]


def test_nothing_prints_another_margin() -> None:
    ours = [path for ending in ("py", "js") for path in SRC.rglob(f"*.{ending}")]
    found = [line.strip() for path in ours for line in printing(path)]
    assert len(found) >= 8
    allowed = re.compile(
        r"margin\(|\b2 \* |\b200 \* |\{around:|\{noise\} \(\{PLUS_MINUS\}\)|margin\.noise"
    )
    assert [line for line in found if not allowed.search(line)] == []


def test_it_is_said_where_it_is_defined() -> None:
    assert margin(1.0) == 2.0
    assert "95 %" in PLUS_MINUS
    assert "95 %" in TERMS["±"]

"""The default run takes a sample; without `--sample` every case runs."""

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

MODULE = """
import pytest
from hypothesis import settings

@pytest.mark.parametrize("height", range(7))
def test_tides(height):
    pass

@pytest.mark.parametrize("height", [0, pytest.param(1, marks=pytest.mark.thorough), 2, 3])
def test_some_thorough(height):
    pass

@pytest.mark.thorough
def test_thorough():
    pass

@pytest.mark.slow
def test_slow():
    pass

def test_examples(pytestconfig):
    assert settings().max_examples == (25 if pytestconfig.option.sample else 100)
    assert settings().deadline is None
"""
SETTINGS = """
[pytest]
addopts = -p xdist -p tests.left_out -p tests.sample -m "not slow"
markers =
    slow
    thorough
"""
WORKERS = pytest.mark.parametrize("workers", [(), ("--numprocesses", "2")], ids=["one", "two"])


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("TIDEGATE_STRICT", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeini(SETTINGS)
    pytester.makepyfile(test_a=MODULE)
    return pytester


@WORKERS
def test_a_sample_has_the_first_middle_and_last_case(
    run: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    done = run.runpytest_subprocess("--sample", "-v", *workers)
    done.assert_outcomes(passed=7)
    text = done.stdout.str()
    for height in range(7):
        assert (f"test_tides[{height}]" in text) == (height in {0, 3, 6})
    assert "test_some_thorough[1]" not in text
    assert "test_thorough" not in text
    assert "6 more cases (make test-thorough); 1 slow (make test-slow)." in text


def test_every_case_runs_otherwise(run: pytest.Pytester) -> None:
    done = run.runpytest_subprocess()
    done.assert_outcomes(passed=13)
    assert "Tests left out: 1 slow (make test-slow)." in done.stdout.str()

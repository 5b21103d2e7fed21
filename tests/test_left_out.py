"""What a run left out is said in one line; a strict run fails on a skip that is not allowed."""

from pathlib import Path

import pytest

from tests.left_out import ALLOWED, NO_DATA
from tests.state.postgres_server import newest

pytest_plugins = ["pytester"]

MODULE = f"""
import pytest

def test_that_runs():
    pass

@pytest.mark.skipif(True, reason="needs Tides (apt-get install tides)")
@pytest.mark.parametrize("height", range(3))
def test_tides(height):
    pass

def test_data():
    pytest.skip({NO_DATA!r})

@pytest.mark.xfail(strict=True)
def test_that_is_known_to_fail():
    assert False

@pytest.mark.slow
def test_slow():
    pass
"""
NO_MODULE = 'import pytest\npytest.importorskip("no_module", reason="needs the extra tides")'
SETTINGS = '[pytest]\naddopts = -p xdist -p tests.left_out -m "not slow"\nmarkers = slow'
TIDES = "3 need Tides (apt-get install tides)"
DATA = f"1 {NO_DATA}"
WORKERS = pytest.mark.parametrize("workers", [(), ("--numprocesses", "2")], ids=["one", "two"])


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project whose run is not strict, and loads only the plugins that it needs."""
    monkeypatch.delenv("TIDEGATE_STRICT", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini(SETTINGS)
    return pytester


def refused(done: pytest.RunResult) -> list[str]:
    """What a strict run names."""
    return [line for line in done.outlines if line.startswith("SKIPPED, which TIDEGATE_STRICT=1")]


@WORKERS
def test_one_line_at_the_end(run: pytest.Pytester, workers: tuple[str, ...]) -> None:
    run.makepyfile(test_a=MODULE, test_b=NO_MODULE)
    done = run.runpytest(*workers)
    assert done.ret == 0
    said = {TIDES, DATA, "1 needs the extra tides", "1 slow (make test-slow)"}
    start, _, rest = done.outlines[-1].partition(": ")
    assert start == "Tests left out"
    assert set(rest.rstrip(".").split("; ")) == said
    assert refused(done) == []


@WORKERS
def test_a_strict_run_fails_and_names_each_skip(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TIDEGATE_STRICT", "1")
    run.makepyfile(test_a=MODULE, test_b=NO_MODULE)
    done = run.runpytest(*workers)
    assert done.ret == pytest.ExitCode.TESTS_FAILED
    skipped = [f"test_a.py::test_tides[{height}]" for height in range(3)] + ["test_b.py"]
    assert len(refused(done)) == len(skipped)
    for name in skipped:
        assert any(f": {name}: needs " in line for line in refused(done))


@WORKERS
def test_a_strict_run_may_skip_what_is_allowed(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TIDEGATE_STRICT", "1")
    tests = "".join(f"\ndef test_{i}(): pytest.skip({each!r})" for i, each in enumerate(ALLOWED))
    run.makepyfile(f"import pytest{tests}")
    done = run.runpytest(*workers)
    assert done.ret == 0
    assert refused(done) == []
    start, _, rest = done.outlines[-1].partition(": ")
    assert start == "Tests left out"
    assert DATA in rest
    assert "1 skipped (SCIPY_ARRAY_API is " in rest


def test_a_strict_run_that_fails_anyway_stays_failed(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_STRICT", "1")
    run.makepyfile("def test_broken(): assert False")
    assert run.runpytest().ret == pytest.ExitCode.TESTS_FAILED


def test_nothing_is_said_of_a_run_that_left_nothing_out(run: pytest.Pytester) -> None:
    run.makepyfile(MODULE)
    assert "left out" not in run.runpytest("-k", "runs").outlines[-1]


def test_a_server_that_is_not_installed_is_not_found(tmp_path: Path) -> None:
    """Else the tests that need it do not skip, but fail."""
    assert not newest(tmp_path).exists()
    for version in ("14", "15"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "initdb").touch()
    assert newest(tmp_path) == tmp_path / "15" / "bin"

"""The default run takes a sample that its commit chooses; without `--sample` every case runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.sample import FAILPOINTS, commit
from tidegate import failpoints

pytest_plugins = ["pytester"]

MODULE = """
import pytest
from hypothesis import settings

@pytest.mark.parametrize("height", range(7))
def test_tides(height):
    pass

@pytest.mark.parametrize("height", [0, pytest.param(1, marks=pytest.mark.thorough), 2])
def test_some_thorough(height):
    pass

@pytest.mark.thorough
def test_thorough():
    pass

@pytest.mark.slow
def test_slow():
    pass

@pytest.mark.parametrize("again", range(4))
@pytest.mark.parametrize("name", ["append.commit", "append.done", "publish.done"])
def test_kills(name, again):
    pass

@pytest.mark.thorough
@pytest.mark.parametrize("name", ["append.done", "correct.done"])
def test_thorough_kills(name):
    pass

@pytest.mark.parametrize("mistake", [f"mistake {number}" for number in range(5)])
def test_planted(mistake):
    pass

@pytest.mark.thorough
@pytest.mark.parametrize("mistake", ["a", "b", "c"])
def test_planted_thoroughly(mistake):
    pass

@pytest.mark.parametrize("frozen", [*"abc", pytest.param("d", marks=pytest.mark.thorough)])
def test_frozen(frozen):
    pass

def test_examples(pytestconfig):
    assert settings().max_examples == (25 if pytestconfig.option.sample else 100)
    assert settings().deadline is None
"""
LAWS = """
import pytest

@pytest.mark.thorough
@pytest.mark.parametrize("height", range(4))
def test_law(height):
    pass

@pytest.mark.parametrize("height", range(4))
def test_cheap_law(height):
    pass
"""
SETTINGS = """
[pytest]
addopts = -p xdist -p tests.left_out -p tests.sample -m "not slow"
markers =
    slow
    thorough
"""
WORKERS = pytest.mark.parametrize("workers", [(), ("--numprocesses", "2")], ids=["one", "two"])
ALL = 7 + 3 + 1 + 12 + 2 + 5 + 3 + 4 + 1 + 4 + 4
"""All cases but the slow one."""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("TIDEGATE_STRICT", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeini(SETTINGS)
    pytester.makepyfile(**{"test_a": MODULE, "tests/laws/test_b": LAWS})
    return pytester


def ran(done: pytest.RunResult) -> set[str]:
    """The cases that passed, without the name of their file."""
    words = [line.split("::")[1] for line in done.stdout.lines if "::" in line]
    return {word.split(" PASSED")[0].split(" <-")[0].strip() for word in words}


@WORKERS
def test_a_sample_has_one_case_of_each_test(run: pytest.Pytester, workers: tuple[str, ...]) -> None:
    done = run.runpytest_subprocess("--sample", "--sample-of", "abc", "-v", *workers)
    assert done.ret == 0
    text, names = done.stdout.str(), ran(done)
    assert "sample: --sample-of abc" in text
    assert len([name for name in names if name.startswith("test_tides[")]) == 1
    some = {name for name in names if "some_thorough" in name}
    assert len(some) == 1
    assert some <= {"test_some_thorough[0]", "test_some_thorough[2]"}
    assert len([name for name in names if name.startswith("test_cheap_law[")]) == 1
    assert not names & {"test_thorough", "test_slow"}
    left = ALL - len(names)
    assert f"{left} more cases (make test-thorough); 1 slow (make test-slow)." in text


def test_another_commit_has_another_sample(run: pytest.Pytester) -> None:
    seen: list[set[str]] = []
    for number in range(8):
        done = run.runpytest_inprocess("--sample", "--sample-of", f"{number}", "-v")
        names = ran(done)
        seen.append({name for name in names if name.startswith("test_tides[")})
        points = {name.split("[")[1].split("-")[0] for name in names if "test_kills[" in name}
        assert points == {"append.commit", "append.done", "publish.done"}
        assert "test_thorough_kills[correct.done]" in names, "no other case has this failpoint"
        assert "test_thorough_kills[append.done]" not in names
        assert len([name for name in names if name.startswith("test_planted[")]) == 5
        assert len([name for name in names if name.startswith("test_planted_thoroughly[")]) == 3
        assert {name for name in names if name.startswith("test_frozen[")} == {
            f"test_frozen[{each}]" for each in "abc"
        }
        assert len([name for name in names if name.startswith("test_law[")]) == 1
    assert len({frozenset(each) for each in seen}) > 1
    assert len(set.union(*seen)) > 1


def test_every_case_runs_otherwise(run: pytest.Pytester) -> None:
    done = run.runpytest_subprocess()
    done.assert_outcomes(passed=ALL)
    assert "Tests left out: 1 slow (make test-slow)." in done.stdout.str()


def test_the_sample_is_chosen_by_the_commit_and_else_by_the_version(tmp_path: Path) -> None:
    assert commit(tmp_path) == "unknown"
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "1.2.3.dev0"\n')
    assert commit(tmp_path) == "1.2.3.dev0"

    def git(*words: str) -> str:
        settings = ["-c", "user.name=x", "-c", "user.email=x", "-C", str(tmp_path)]
        done = subprocess.run(["git", *settings, *words], capture_output=True, check=True)
        return done.stdout.decode().strip()

    git("init")
    assert commit(tmp_path) == "1.2.3.dev0", "nothing is committed"
    git("commit", "--allow-empty", "-m", "x")
    assert commit(tmp_path) == git("rev-parse", "HEAD")


def test_every_failpoint_is_known() -> None:
    assert {*failpoints.NAMES, *failpoints.EXPORTS, *failpoints.ERASURES} <= FAILPOINTS
    assert all("." in name for name in FAILPOINTS)


PROBE = """
import json
import pytest

class Probe:
    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items):
        from tests.sample import FAILPOINTS, sampled
        items = [item for item in items if item.get_closest_marker("slow") is None]
        laws = {item.nodeid.split("[")[0] for item in items if "tests/laws/" in item.nodeid}
        for number in range(30):
            kept = sampled(items, str(number))
            mine = [item for item in items if item.nodeid in kept]
            values = [getattr(item, "callspec", None) for item in mine]
            found = [v for c in values if c for v in c.params.values() if isinstance(v, str)]
            points = FAILPOINTS.intersection(found)
            tests = {item.nodeid.split("[")[0] for item in mine}
            missing = [*FAILPOINTS - points, *laws - tests]
            print("sampled", number, len(mine), json.dumps(missing))

pytest.main(["--collect-only", "-q", "tests/state", "tests/laws"], plugins=[Probe()])
"""


@pytest.mark.thorough
def test_every_sample_has_every_failpoint_and_every_law() -> None:
    """For any commit: of the tests that there are, not of made-up ones."""
    root = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", PROBE], cwd=root, capture_output=True, text=True, check=False
    )
    lines = [line.split(" ", 3) for line in done.stdout.splitlines() if line[:7] == "sampled"]
    assert len(lines) == 30, done.stdout + done.stderr
    assert {line[3] for line in lines} == {"[]"}

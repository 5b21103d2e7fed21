"""Shares of the slow tests: which run, what is written down, and when CI fails."""

import json
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.slow_record import OLDEST, UNKNOWN, Green, Record, read, within
from tests.slow_share import commits_since, version

pytest_plugins = ["pytester"]

MODULE = """
import pytest

def test_quick():
    pass

@pytest.mark.slow
@pytest.mark.parametrize("height", range(4))
def test_tides(height):
    pass

@pytest.mark.slow
def test_that_fails():
    assert False

@pytest.mark.slow
def test_data():
    pytest.skip("needs data sets (TIDEGATE_DATA=folder)")

@pytest.mark.slow
def test_tool():
    pytest.skip("needs Tides (apt-get install tides)")
"""
SETTINGS = """
[pytest]
addopts = -p xdist -p tests.left_out -p tests.sample -p tests.slow_share
testpaths = .
markers =
    slow
    thorough
"""
TIDES = [f"test_a.py::test_tides[{number}]" for number in range(4)]
OTHERS = [f"test_a.py::{name}" for name in ("test_that_fails", "test_data", "test_tool")]
WORKERS = pytest.mark.parametrize("workers", [(), ("--numprocesses", "2")], ids=["one", "two"])


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.delenv("TIDEGATE_STRICT", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    pytester.makeini(SETTINGS)
    pytester.makepyfile(test_a=MODULE)
    (pytester.path / "tests").mkdir()
    return pytester


def green(share: int, seconds: float = 1.0) -> Green:
    return Green(share=share, at="2026-01-31", commit="abc", seconds=seconds)


def keep(run: pytest.Pytester, shares: int, **entries: Green) -> None:
    record = Record(shares=shares, green={f"test_a.py::{name}": e for name, e in entries.items()})
    (run.path / "tests" / "slow.json").write_text(record.text())


def kept(run: pytest.Pytester) -> Record:
    return read(run.path / "tests" / "slow.json")


@WORKERS
def test_a_share_writes_down_what_is_green(run: pytest.Pytester, workers: tuple[str, ...]) -> None:
    keep(run, 7, test_that_fails=green(7), test_gone=green(7))
    done = run.runpytest_subprocess("-m", "slow", "--slow-share", "10", *workers)
    done.assert_outcomes(passed=4, failed=1, skipped=2, deselected=0 if workers else 1)
    record = kept(run)
    assert record.shares == 8
    assert record.green.keys() == {*TIDES, "test_a.py::test_data"}
    assert {each.share for each in record.green.values()} == {8}
    assert record.green["test_a.py::test_data"].skipped == "needs data sets (TIDEGATE_DATA=folder)"
    said = "Share 8 of the slow tests: 5 green, 1 failed; 2 of 7 have no green run."
    assert said in done.stdout.str()


def test_a_share_runs_the_stalest_first(run: pytest.Pytester) -> None:
    entries = {f"test_tides[{number}]": green(9 - number, 50.0) for number in range(3)}
    others = {name.split("::")[1]: green(9, 50.0) for name in OTHERS}
    keep(run, 9, **entries, **others)
    done = run.runpytest_subprocess("-m", "slow", "--slow-share", "2.5", "-v", "-k", "tides")
    lines = [line.split("::")[1].split(" ")[0] for line in done.stdout.lines if "PASSED" in line]
    # A few seconds are assumed for the one without an entry; two more of 50 seconds fit.
    assert lines == ["test_tides[3]", "test_tides[2]", "test_tides[1]"]
    shares = {name: kept(run).green[name].share for name in TIDES}
    assert shares == dict(zip(TIDES, (9, 10, 10, 10), strict=True))


def test_what_would_begin_too_late_is_left_out(run: pytest.Pytester) -> None:
    keep(run, 3, **{"test_tides[0]": green(1)})
    done = run.runpytest_subprocess("-m", "slow", "--slow-share", "1e-9")
    assert done.ret == 0
    assert "1 skipped (the time of this share is over)" in done.stdout.str()
    assert kept(run).shares == 3, "nothing ran"


@WORKERS
def test_ci_fails_on_what_has_never_been_green(
    run: pytest.Pytester, workers: tuple[str, ...]
) -> None:
    keep(run, OLDEST + 1, **{name.split("::")[1]: green(1) for name in (*TIDES, *OTHERS[1:])})
    words = ("-k", "not fails", "--slow-some", "1")
    done = run.runpytest_subprocess(*words, *workers)
    assert done.ret == 1
    done.stdout.fnmatch_lines(
        ["NO GREEN RUN of the slow test test_a.py::test_that_fails: run `make test-slow-share`*"]
    )
    assert done.stdout.str().count("make test-slow-share") == 1
    keep(run, OLDEST + 1, **{name.split("::")[1]: green(1) for name in (*TIDES, *OTHERS)})
    assert run.runpytest_subprocess(*words, *workers).ret == 0
    keep(run, OLDEST + 2, **{name.split("::")[1]: green(1) for name in (*TIDES, *OTHERS)})
    done = run.runpytest_subprocess(*words, *workers)
    assert done.ret == 1
    assert f"NOT RUN in the last {OLDEST + 1} shares: {TIDES[0]}: run" in done.stdout.str()


def test_ci_runs_every_quick_test_and_slow_ones_by_the_commit(run: pytest.Pytester) -> None:
    keep(run, 1, **{name.split("::")[1]: green(1, 40.0) for name in (*TIDES, *OTHERS)})
    (run.path / "pyproject.toml").write_text('version = "1"\n')
    seen = set()
    for number in range(6):
        (run.path / "pyproject.toml").write_text(f'version = "{number}"\n')
        done = run.runpytest_inprocess("--slow-some", "1", "-v", "-k", "quick or tides")
        names = {line.split("::")[1].split(" ")[0] for line in done.stdout.lines if "PASS" in line}
        assert "test_quick" in names
        assert len(names) <= 2
        seen |= names
    assert len(seen) > 2


def test_many_gaps_are_told_in_few_lines(run: pytest.Pytester) -> None:
    run.makepyfile(
        test_a="import pytest\n@pytest.mark.slow\n"
        "@pytest.mark.parametrize('x', range(50))\ndef test_x(x): pass"
    )
    done = run.runpytest_subprocess("--slow-some", "1")
    assert done.ret == 1
    assert "and 40 more slow tests: run `make test-slow-share`" in done.stdout.str()


NAMES = st.text(min_size=1).filter(lambda name: name not in {"shares", "end"})
GREENS = st.builds(
    Green,
    share=st.integers(0, 50),
    at=st.text(),
    commit=st.text(),
    seconds=st.floats(0, 1000),
    skipped=st.none() | st.text(),
)
RECORDS = st.builds(
    Record, shares=st.integers(0, 50), green=st.dictionaries(NAMES, GREENS, max_size=5)
)


@given(record=RECORDS)
def test_a_file_is_read_as_it_was_written(
    record: Record, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("record") / "slow.json"
    path.write_text(record.text(), encoding="utf-8")
    assert read(path) == record


@given(one=RECORDS, other=RECORDS)
def test_lines_of_two_branches_make_a_file(
    one: Record, other: Record, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever lines git keeps of both, each test has its newer entry."""
    path = tmp_path_factory.mktemp("record") / "slow.json"
    lines = [record.text().splitlines()[1:-2] for record in (one, other)]
    path.write_text("\n".join(["{", *lines[0], *lines[1], '"end": 0', "}"]), encoding="utf-8")
    merged = read(path)
    assert merged.shares == max(one.shares, other.shares)
    for name in {*one.green, *other.green}:
        both = [each.green[name] for each in (one, other) if name in each.green]
        assert merged.green[name].share == max(each.share for each in both)


@given(
    seconds=st.lists(st.none() | st.floats(0, 100), min_size=1, max_size=20),
    limit=st.floats(0, 500),
)
def test_a_share_fits_its_time(seconds: list[float | None], limit: float) -> None:
    """Or is one test."""
    known = {str(n): green(1, each) for n, each in enumerate(seconds) if each is not None}
    record, names = Record(shares=1, green=known), [str(n) for n in range(len(seconds))]
    chosen = within(names, record, limit)
    assert chosen[0] == names[0]
    assert chosen == [name for name in names if name in chosen]
    spent = sum(record.seconds(name) for name in chosen)
    assert spent <= limit + 1e-9 or len(chosen) == 1
    for name in names:
        assert name in chosen or spent + record.seconds(name) > limit - 1e-9
    assert all(record.seconds(name) == UNKNOWN for name in names if name not in known)


def test_the_file_is_one_of_json() -> None:
    record = Record(shares=3, green={"a": green(2), "b": green(3)})
    parsed = json.loads(record.text())
    assert parsed["shares"] == 3
    assert parsed["b"] == {"share": 3, "at": "2026-01-31", "commit": "abc", "seconds": 1.0}
    assert len(record.text().splitlines()) == 6


def test_commits_without_a_share_are_counted(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        settings = ["-c", "user.name=x", "-c", "user.email=x", "-C", str(tmp_path)]
        subprocess.run(["git", *settings, *words], capture_output=True, check=True)

    path = tmp_path / "slow.json"
    assert commits_since(path) == 0, "no git"
    git("init")
    path.write_text("{}")
    git("add", ".")
    git("commit", "-m", "x")
    assert commits_since(path) == 0
    one = version(tmp_path)
    path.write_text("{ }")
    assert version(tmp_path) == f"{one}+"
    git("checkout", ".")
    for _ in range(3):
        git("commit", "--allow-empty", "-m", "x")
    assert commits_since(path) == 3


def test_the_file_names_only_tests_that_are_there() -> None:
    """A renamed test has no entry until a share has run it; its old one goes with that share."""
    root = Path(__file__).parents[1]
    names = read(root / "tests" / "slow.json").green
    assert all((root / name.split("::")[0]).exists() for name in names)

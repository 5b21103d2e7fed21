"""The default run takes a sample of all tests, so that it ends within five minutes.

With `--sample`, one case of each test runs. A hash of test and commit chooses it:
a case that today's sample leaves out is in that of another commit. Tests marked `thorough` do not
run, and hypothesis tries fewer examples. Some cases are in every sample, thorough or not:

- of every test that is parametrized by failpoints, a case for each failpoint;
- of every test with a parameter `mistake`, a case for each mistake that it plants;
- of every test in `tests/laws`, one case.

CI runs everything but the slow tests, and some of those (`tests/slow_share.py`).
"""

import hashlib
import re
import runpy
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

LAWS = "tests/laws/"

# A loaded machine is no failure: no test is judged by its time.
settings.register_profile("thorough", deadline=None)
settings.register_profile("sample", deadline=None, max_examples=25)

SOURCE = Path(__file__).parents[1] / "src" / "tidegate"
# Run by its path: importing the package would take longer than most tests of this file.
FAILPOINTS = {
    name
    for names in runpy.run_path(str(SOURCE / "failpoints.py")).values()
    if isinstance(names, tuple)
    for name in names
}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--sample` and `--sample-of`."""
    parser.addoption("--sample", action="store_true", help="run a few cases of each test only")
    parser.addoption(
        "--sample-of",
        metavar="TEXT",
        help="choose the cases of --sample by this; by default by the commit, or by the version",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples hypothesis tries; workers get the commit from here."""
    settings.load_profile("sample" if config.option.sample else "thorough")
    if config.option.sample and config.option.sample_of is None:
        config.option.sample_of = commit(config.rootpath)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say which sample it is, so that it can be run again."""
    return [f"sample: --sample-of {config.option.sample_of}"] * config.option.sample


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what a sample leaves out."""
    if not config.option.sample:
        return
    kept = sampled(items, config.option.sample_of)
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
    items[:] = [item for item in items if item.nodeid in kept]


def commit(root: Path) -> str:
    """The commit that is checked out; without git, the version of the package."""
    if (root / ".git").exists():
        asked = ["git", "-C", str(root), "rev-parse", "HEAD"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    described = root / "pyproject.toml"
    text = described.read_text() if described.exists() else ""
    found = re.search(r'^version = "(.+)"$', text, re.MULTILINE)
    return found[1] if found else "unknown"


def rank(name: str, of: str) -> str:
    """Where a test comes in the order of a commit."""
    return hashlib.sha256(f"{of} {name}".encode()).hexdigest()


def sampled(items: Iterable[pytest.Item], of: str) -> set[str]:
    """The names of the cases in the sample of a commit."""
    ordered = sorted(items, key=lambda item: rank(item.nodeid, of))
    ordered = [item for item in ordered if not _marked(item, "slow")]
    # Thorough ones last, so that they are chosen only for want of others.
    ordered.sort(key=lambda item: _marked(item, "thorough"))
    taken, seen = {*_one_of_each(ordered)}, set[tuple[str, ...]]()
    for item in ordered:
        for subject in _subjects(item):
            if subject not in seen:
                taken.add(item.nodeid)
                seen.add(subject)
    return taken


def _one_of_each(ordered: Iterable[pytest.Item]) -> Iterator[str]:
    seen: set[str] = set()
    for item in ordered:
        if _test(item) not in seen and not _marked(item, "thorough"):
            yield item.nodeid
        seen.add(_test(item))


def _subjects(item: pytest.Item) -> Iterator[tuple[str, ...]]:
    """What a case stands for, of which every sample has one."""
    parameters: dict[str, object] = getattr(getattr(item, "callspec", None), "params", {})
    thorough = _marked(item, "thorough")
    for value in parameters.values():
        if isinstance(value, str) and value in FAILPOINTS:
            yield ("failpoint", value)
            if not thorough:
                yield ("failpoint", _test(item), value)
    if "frozen" in parameters and not thorough:
        yield ("frozen", _test(item), str(parameters["frozen"]))
    if "mistake" in parameters:
        yield ("mistake", _test(item), str(parameters["mistake"]))
    if item.nodeid.startswith(LAWS):
        yield ("law", _test(item))


def _test(item: pytest.Item) -> str:
    return item.nodeid.split("[")[0]


def _marked(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None

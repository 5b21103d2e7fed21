"""The default run takes a sample of all tests, so that it ends within five minutes.

With `--sample`, at most three cases of each test run: the first, the one in the middle and the
last. Tests marked `thorough` do not run, and hypothesis tries fewer examples. CI runs everything
but the slow tests (`make test-thorough`).
"""

from collections.abc import Iterable

import pytest
from hypothesis import settings

# A loaded machine is no failure: no test is judged by its time.
settings.register_profile("thorough", deadline=None)
settings.register_profile("sample", deadline=None, max_examples=25)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--sample`."""
    parser.addoption("--sample", action="store_true", help="run three cases of each test only")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples hypothesis tries."""
    settings.load_profile("sample" if config.option.sample else "thorough")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what a sample leaves out."""
    if not config.option.sample:
        return
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_test.setdefault(item.nodeid.split("[")[0], []).append(item)
    kept = {id(item) for cases in by_test.values() for item in sampled(cases)}
    config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
    items[:] = [item for item in items if id(item) in kept]


def sampled(cases: Iterable[pytest.Item]) -> list[pytest.Item]:
    """The first, middle and last of a test's cases that are neither slow nor thorough."""
    quick = [each for each in cases if not _marked(each, "slow") and not _marked(each, "thorough")]
    return quick if len(quick) <= 3 else [quick[0], quick[len(quick) // 2], quick[-1]]


def _marked(item: pytest.Item, mark: str) -> bool:
    return item.get_closest_marker(mark) is not None

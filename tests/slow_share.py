"""Runs some of the slow tests: all of them take over half an hour.

`--slow-share MINUTES` runs those that were green the longest time ago, and writes down in
`tests/slow.json` which are green now (`make test-slow-share`). `--slow-some MINUTES` runs those
that a hash of commit and test chooses, and fails if the file lacks a test or has an old entry (CI).
"""

import subprocess
import time
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.left_out import ALLOWED
from tests.sample import commit, rank
from tests.slow_record import MEND, NEVER, Green, read, within

TIME_IS_OVER = "the time of this share is over"
COMMITS = 200
"""CI fails if so many commits, about two busy days, have not brought a share with them."""
SHOWN = 10


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--slow-share` and `--slow-some`."""
    share = "run the slow tests that were green the longest time ago, and write tests/slow.json"
    some = "run slow tests that the commit chooses; fail on gaps in tests/slow.json"
    parser.addoption("--slow-share", type=float, metavar="MINUTES", help=share)
    parser.addoption("--slow-some", type=float, metavar="MINUTES", help=some)


def pytest_configure(config: pytest.Config) -> None:
    """Choose tests, if asked to."""
    if config.option.slow_share or config.option.slow_some:
        config.pluginmanager.register(SlowShare(config))


class SlowShare:
    """Chooses slow tests, and keeps the file.

    With pytest-xdist every worker has one, which chooses; the controller's has the reports.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._path = config.rootpath / "tests" / "slow.json"
        self._record = read(self._path)
        self._worker: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._names: list[str] = []
        self._deadline = float("inf")
        self._reports: dict[str, list[pytest.TestReport]] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Deselect the slow tests whose turn it is not."""
        slow = {item.nodeid: item for item in items if item.get_closest_marker("slow")}
        self._names, seconds = [*slow], 60 * self._minutes * self._workers
        if self._config.option.slow_share:
            order = self._record.stalest(slow)
        else:
            of, known = commit(self._config.rootpath), self._record.green
            begun = [name for name in slow if name not in known or known[name].commit != NEVER]
            order = sorted(begun, key=lambda name: rank(name, of))
        chosen = {name: place for place, name in enumerate(within(order, self._record, seconds))}
        self._config.hook.pytest_deselected(items=[slow[name] for name in slow.keys() - chosen])
        items[:] = [each for each in items if each.nodeid in chosen or each.nodeid not in slow]
        if self._config.option.slow_share:
            items.sort(key=lambda item: chosen.get(item.nodeid, -1))

    def pytest_collection_finish(self) -> None:
        """The time begins."""
        if self._config.option.slow_share:
            self._deadline = time.monotonic() + 60 * self._minutes

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Leave out what would begin too late."""
        if time.monotonic() > self._deadline:
            pytest.skip(TIME_IS_OVER)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take note of a part of a test."""
        self._reports.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the names of all slow tests from a worker."""
        self._names = getattr(node, "workeroutput", {}).get("slow_names", self._names)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Write the file, or say what it lacks."""
        if self._worker is not None:
            self._worker["slow_names"] = self._names
            yield
            return
        lines = self._written() if self._config.option.slow_share else self._problems()
        if lines and not self._config.option.slow_share and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        yield
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and not self._config.option.collectonly:
            for line in lines:
                terminal.write_line(line)

    def _problems(self) -> list[str]:
        lines = self._record.problems(self._names)
        more = len(lines) - SHOWN
        lines = [*lines[:SHOWN], *[f"and {more} more slow tests: {MEND}"] * (more > 0)]
        since = commits_since(self._path)
        if since > COMMITS:
            lines.append(f"NO SHARE of the slow tests in {since} commits: {MEND}")
        return lines

    def _written(self) -> list[str]:
        """Write the file, and say so."""
        at, of = f"{datetime.now(UTC):%Y-%m-%d}", version(self._config.rootpath)
        passed, failed = dict[str, Green](), []
        for name in self._reports.keys() & {*self._names}:
            reports = self._reports[name]
            green = Green(
                share=self._record.shares,
                at=at,
                commit=of,
                seconds=round(sum(each.duration for each in reports), 1),
                skipped=_cannot_run(reports),
            )
            if any(each.failed for each in reports):
                failed.append(name)
            elif green.skipped or any(each.passed and each.when == "call" for each in reports):
                passed[name] = green
        if not passed and not failed:
            return ["No slow test has run: tests/slow.json is as it was."]
        record = self._record.after(passed, failed)
        if self._config.args_source is pytest.Config.ArgsSource.TESTPATHS:  # all were collected
            record = record.only(self._names)
        self._path.write_text(record.text())
        missing = len({*self._names} - record.green.keys())
        return [
            f"Share {record.shares} of the slow tests: {len(passed)} green, {len(failed)} failed; "
            f"{missing} of {len(self._names)} have no green run. Commit tests/slow.json."
        ]

    @property
    def _minutes(self) -> float:
        return float(self._config.option.slow_share or self._config.option.slow_some)

    @property
    def _workers(self) -> int:
        return int(getattr(self._config, "workerinput", {}).get("workercount", 1))


def _cannot_run(reports: list[pytest.TestReport]) -> str | None:
    """Why a test is skipped wherever what it needs cannot be had; else None."""
    for report in reports:
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = str(report.longrepr[2]).removeprefix("Skipped: ")
            if reason in ALLOWED:
                return reason
    return None


def version(root: Path) -> str:
    """The commit that is checked out, with + if files differ; without git, the version."""
    changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    return f"{commit(root)[:12]}{'+' if changed else ''}"


def commits_since(path: Path) -> int:
    """How many commits came after the last one that changed a file; 0 if git does not know."""
    root = path.parent
    if _git(root, "rev-parse", "--is-shallow-repository") != "false":
        return 0
    last = _git(root, "log", "-1", "--format=%H", "--", path.name)
    return int(_git(root, "rev-list", "--count", f"{last}..HEAD") or 0) if last else 0


def _git(root: Path, *words: str) -> str:
    """What git prints; nothing if it fails or is not there."""
    try:
        asked = ["git", "-C", str(root), *words]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

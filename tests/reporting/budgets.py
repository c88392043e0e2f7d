"""Prints what each suite took next to its budget; in CI a suite over its budget fails the run."""

from __future__ import annotations

import os
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

BUDGETS = Path(__file__).parent.parent / "budgets.toml"


def suite_of(nodeid: str) -> str:
    """The folder or file below tests/ that a test belongs to."""
    steps = nodeid.partition("::")[0].split("/")
    return steps[1] if len(steps) > 1 else steps[0]


class Budgets:
    def __init__(self, text: str, *, strict: bool) -> None:
        settings = tomllib.loads(text)
        self._total: float = settings["total"]
        self._default: float = settings["default"]
        self._suites: dict[str, float] = settings.get("suites", {})
        self._strict = strict
        self._used: defaultdict[str, float] = defaultdict(float)

    def of(self, suite: str) -> float:
        return self._suites.get(suite, self._default)

    def over(self) -> list[str]:
        found = [suite for suite, used in self._used.items() if used > self.of(suite)]
        return [*found, "total"] if sum(self._used.values()) > self._total else found

    def lines(self) -> list[str]:
        rows = [(suite, used, self.of(suite)) for suite, used in sorted(self._used.items())]
        rows.append(("total", sum(self._used.values()), self._total))
        width = max(len(row[0]) for row in rows)
        over = set(self.over())
        return [
            f"{suite:<{width}}  {used:7.1f} s of {budget:5.0f} s{'  OVER BUDGET' if suite in over else ''}"
            for suite, used, budget in rows
        ]

    # -- hooks

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._used[suite_of(report.nodeid)] += report.duration

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._strict and self.over() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._used:
            terminalreporter.write_sep("-", "time of each suite and its budget")
            for line in self.lines():
                terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    strict = os.environ.get("CI") == "true"
    config.pluginmanager.register(Budgets(BUDGETS.read_text(), strict=strict), "txmanager-budgets")

"""Prints the processor time of each suite next to its budget; in CI a suite over its budget fails the run.

Processor time, children included, says the same on a busy machine as on an idle one.
"""

from __future__ import annotations

import os
import resource
import tomllib
from collections import defaultdict
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

BUDGETS = Path(__file__).parent.parent / "budgets.toml"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def suite_of(nodeid: str) -> str:
    """The folder or file below tests/ that a test belongs to."""
    steps = nodeid.partition("::")[0].split("/")
    return steps[1] if len(steps) > 1 else steps[0]


def processor_seconds() -> float:
    """What this process has used, with the children that ended and those that run."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime + _running_children("self")


def _running_children(pid: str) -> float:
    ticks = 0.0
    try:
        children = [child for task in Path(f"/proc/{pid}/task").iterdir() for child in _words(task / "children")]
    except OSError:
        return 0.0  # it ended meanwhile, or there is no /proc
    for child in children:
        # The fields after the name, which may hold spaces: utime, stime, cutime and cstime are the 12th to the 15th.
        fields = _words(Path(f"/proc/{child}/stat"), after=")")
        ticks += sum(int(word) for word in fields[11:15]) / TICKS_PER_SECOND + _running_children(child)
    return ticks


def _words(path: Path, after: str = "") -> list[str]:
    try:
        text = path.read_text()
    except OSError:
        return []
    return (text.rpartition(after)[2] if after else text).split()


class Budgets:
    def __init__(self, text: str, *, strict: bool) -> None:
        settings = tomllib.loads(text)
        self._total: float = settings["total"]
        self._default: float = settings["default"]
        self._suites: dict[str, float] = settings.get("suites", {})
        self._strict = strict
        self._used: defaultdict[str, float] = defaultdict(float)
        # Where a test's time is counted: here, or in the process that started this one.
        self.tell: Callable[[str, float], None] = self.spend

    def spend(self, nodeid: str, seconds: float) -> None:
        self._used[suite_of(nodeid)] += seconds

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

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        before = processor_seconds()
        result = yield
        self.tell(item.nodeid, max(processor_seconds() - before, 0.0))
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._strict and self.over() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._used:
            terminalreporter.write_sep("-", "processor time of each suite and its budget")
            for line in self.lines():
                terminalreporter.write_line(line)


def pytest_configure(config: pytest.Config) -> None:
    strict = os.environ.get("CI") == "true"
    config.pluginmanager.register(Budgets(BUDGETS.read_text(), strict=strict), "txmanager-budgets")

"""Runs whole test files side by side: `pytest --processes 4`.

The run collects once and forks. Each process asks for the next file, longest first by tests/times.json, and has its own
session fixtures. Tests marked `alone` run after all others, one at a time. Reports go to the first process, so that
its summary, `--last-failed`, `-x` and the exit code mean the whole run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

import pytest
from _pytest.runner import pytest_sessionfinish as tear_down_session

from tests.reporting.budgets import Budgets

TIMES = Path(__file__).parent.parent / "times.json"
UNKNOWN_S = 5.0  # a file without a recorded time
TOGETHER = ("tests/typescript/",)  # folders that are one unit: their files share what they build
PROGRESS_S = 15.0
GRACE_S = 30.0  # for fixtures to be torn down after an interrupt


@dataclass
class Unit:
    """What one process runs without asking again: a file's tests, or one test that must be alone."""

    name: str
    items: list[pytest.Item]
    expected_s: float


@dataclass
class Child:
    pid: int
    pipe: Connection
    unit: Unit | None = None
    began: float = 0.0
    running: str | None = None  # the test that a crash would have killed
    left: list[pytest.Item] = field(default_factory=list)


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def unit_of(nodeid: str) -> str:
    return next((folder for folder in TOGETHER if nodeid.startswith(folder)), file_of(nodeid))


def plan(items: list[pytest.Item], times: dict[str, float]) -> tuple[list[Unit], list[Unit]]:
    """The files, longest first, and the tests that run alone afterwards."""
    files: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    alone: list[Unit] = []
    for item in items:
        if item.get_closest_marker("alone"):
            alone.append(Unit(item.nodeid, [item], times.get(item.nodeid, UNKNOWN_S)))
        else:
            files[unit_of(item.nodeid)].append(item)
    units = [Unit(name, own, times.get(name, UNKNOWN_S)) for name, own in files.items()]
    return sorted(units, key=lambda unit: -unit.expected_s), alone


class Parallel:
    """The first process: hands out units, collects reports, says what runs."""

    def __init__(self, config: pytest.Config, processes: int) -> None:
        self._config = config
        self._processes = processes
        self._recorded: dict[str, float] = {}
        self._began = self._said = time.monotonic()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed or session.config.option.collectonly or not session.items:
            return None
        times: dict[str, float] = json.loads(TIMES.read_text()) if TIMES.exists() else {}
        side_by_side, alone = plan(session.items, times)
        self._began = self._said = time.monotonic()
        try:
            self._run(session, side_by_side, self._processes, after_s=sum(unit.expected_s for unit in alone))
            self._run(session, alone, 1, after_s=0.0)
        finally:
            if self._config.getoption("--record-times"):
                kept = {name: seconds for name, seconds in times.items() if Path(file_of(name)).exists()}
                TIMES.write_text(json.dumps(dict(sorted((kept | self._recorded).items())), indent=0) + "\n")
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
        return True

    def _run(self, session: pytest.Session, units: list[Unit], processes: int, *, after_s: float) -> None:
        waiting = list(units)
        children: list[Child] = []
        try:
            while waiting or children:
                while waiting and len(children) < processes and not self._stops(session):
                    children.append(self._fork(session, children))
                    self._hand_out(children[-1], waiting, session)
                if not children:
                    return
                self._progress(children, waiting, after_s)
                for pipe in wait([child.pipe for child in children], timeout=1.0):
                    child = next(child for child in children if child.pipe is pipe)
                    if not self._listen(child, waiting, session):
                        children.remove(child)
        finally:
            self._end(children)

    def _stops(self, session: pytest.Session) -> bool:
        return bool(session.shouldfail or session.shouldstop)

    def _fork(self, session: pytest.Session, others: list[Child]) -> Child:
        ours, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            ours.close()
            for other in others:
                other.pipe.close()
            _be_a_child(session, theirs)
        theirs.close()
        return Child(pid, ours)

    def _hand_out(self, child: Child, waiting: list[Unit], session: pytest.Session) -> None:
        child.unit = None if self._stops(session) or not waiting else waiting.pop(0)
        child.began = time.monotonic()
        if child.unit is None:
            child.pipe.send(None)
            return
        child.left = list(child.unit.items)
        index = {item: at for at, item in enumerate(session.items)}
        child.pipe.send([index[item] for item in child.unit.items])

    def _listen(self, child: Child, waiting: list[Unit], session: pytest.Session) -> bool:
        """Take one message. False when the process has ended."""
        try:
            what, value = child.pipe.recv()
        except (EOFError, ConnectionError):
            _, status = os.waitpid(child.pid, 0)
            if child.unit is not None:
                self._crashed(child, waiting, os.waitstatus_to_exitcode(status))
            return False
        match what:
            case "start":
                child.running = value
                child.left = [item for item in child.left if item.nodeid != value]
            case "report":
                report = self._config.hook.pytest_report_from_serializable(config=self._config, data=value)
                self._config.hook.pytest_runtest_logreport(report=report)
            case "spent":
                nodeid, seconds = value
                budgets = self._config.pluginmanager.get_plugin("txmanager-budgets")
                assert isinstance(budgets, Budgets)
                budgets.spend(nodeid, seconds)
            case "broken":
                self._fail(child.running or "a test process", value, "teardown")
            case "ready":
                assert child.unit is not None
                self._recorded[child.unit.name] = round(time.monotonic() - child.began, 1)
                self._hand_out(child, waiting, session)
        return True

    def _crashed(self, child: Child, waiting: list[Unit], exit_code: int) -> None:
        """The test that ran is the one that failed. Another process goes on with the rest of its file."""
        assert child.unit is not None
        at = child.running or child.unit.name
        self._fail(at, f"the test process ended with {exit_code} in {at}", "call")
        if child.left and child.running:
            waiting.insert(0, Unit(child.unit.name, child.left, child.unit.expected_s))

    def _fail(self, nodeid: str, why: str, when: Literal["call", "teardown"]) -> None:
        report = pytest.TestReport(nodeid, (file_of(nodeid), None, nodeid), {}, "failed", why, when)
        self._config.hook.pytest_runtest_logreport(report=report)

    def _progress(self, children: list[Child], waiting: list[Unit], after_s: float) -> None:
        now = time.monotonic()
        if now - self._said < PROGRESS_S:
            return
        self._said = now
        busy = [(child.unit, now - child.began) for child in children if child.unit]
        rest = [max(unit.expected_s - took, 0.0) for unit, took in busy]
        left_s = max([(sum(rest) + sum(unit.expected_s for unit in waiting)) / self._processes, *rest]) + after_s
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if terminal is not None:
            if terminal._tw.width_of_current_line:
                terminal.line("")
            runs = ", ".join(f"{unit.name.removeprefix('tests/')} {took:.0f} s" for unit, took in busy)
            terminal.write_line(
                f"{now - self._began:4.0f} s: {runs}; {len(waiting)} more to start, about {left_s:.0f} s left"
            )

    def _end(self, children: list[Child]) -> None:
        """After an interrupt: let each process tear its fixtures down, then make sure that it is gone."""
        for child in children:
            os.kill(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE_S
        for child in children:
            while os.waitpid(child.pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    os.kill(child.pid, signal.SIGKILL)
                while child.pipe.poll(0.05):
                    try:
                        child.pipe.recv()  # or it would wait for room in its pipe
                    except (EOFError, ConnectionError):
                        time.sleep(0.05)
                        break


class Sender:
    """A child's only listener: passes what happens on to the first process."""

    def __init__(self, config: pytest.Config, pipe: Connection) -> None:
        self._config = config
        self._pipe = pipe

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._pipe.send(("start", nodeid))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._pipe.send(("report", data))


class Nothing(pytest.Item):
    """Needs no fixture of a file or folder, only the session's."""

    def runtest(self) -> None:
        raise NotImplementedError


def _be_a_child(session: pytest.Session, pipe: Connection) -> None:
    """Run what the first process sends. Never returns: what it would return to is the first process's to end."""
    code = 0
    try:
        config = session.config
        plugins = config.pluginmanager
        # Its capture file and its folder are shared with the first process: take new ones.
        capture = plugins.get_plugin("capturemanager")
        if capture is not None:
            capture.suspend_global_capture()
            capture._global_capturing = None
            capture.start_global_capturing()
        factory: Any = getattr(config, "_tmp_path_factory", None)
        if factory is not None:
            factory._basetemp = factory.getbasetemp() / f"process-{os.getpid()}"
            factory._basetemp.mkdir()
        plugins.unregister(plugins.get_plugin("terminalreporter"))
        plugins.register(Sender(config, pipe))
        budgets = plugins.get_plugin("txmanager-budgets")
        assert isinstance(budgets, Budgets)
        budgets.tell = lambda nodeid, seconds: pipe.send(("spent", (nodeid, seconds)))
        # The item after the last one: None would end the session's servers although another file may follow.
        nothing: pytest.Item = Nothing.from_parent(session, name="nothing")
        for items in _units(session, pipe):
            for item, following in zip(items, [*items[1:], nothing], strict=True):
                config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            pipe.send(("ready", None))
    except KeyboardInterrupt:
        code = 2
    except BaseException:
        code = 3
        pipe.send(("broken", traceback.format_exc()))
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            tear_down_session(session)
        except BaseException:
            code = 3
            pipe.send(("broken", traceback.format_exc()))
        finally:
            pipe.close()
            os._exit(code)


def _units(session: pytest.Session, pipe: Connection) -> Iterator[list[pytest.Item]]:
    while (indices := pipe.recv()) is not None:
        yield [session.items[at] for at in indices]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("txmanager")
    group.addoption("--processes", type=int, default=1, help="run whole files in this many processes")
    group.addoption("--record-times", action="store_true", help="write what each file took to tests/times.json")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "alone: asserts wall time or uses all cores; runs after the others, by itself")
    if (processes := config.getoption("--processes")) > 1:
        config.pluginmanager.register(Parallel(config, processes), "txmanager-parallel")

"""Runs tests against mistakes: collected once, a fork for each mistake, only the tests that enter its function."""

from __future__ import annotations

import gc
import inspect
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from tests.mutation.mistakes import Mistake

TIMEOUT_S, TIMES = 2.0, 20.0
"""Of processor time, more than a test takes without the mistake: what never ends is noticed, too, at its first test."""


@dataclass(slots=True)
class Verdict:
    caught: list[Mistake] = field(default_factory=list)
    survived: list[Mistake] = field(default_factory=list)
    untested: list[Mistake] = field(default_factory=list)
    """No test enters the function at all."""
    left_out: int = 0
    """The budget was spent."""


def live_function(module: ModuleType, qualname: str) -> FunctionType | None:
    """The function that the program calls, below properties, caches and class methods."""
    owner: Any = module
    *path, name = qualname.split(".")
    for step in path:
        owner = getattr(owner, step)
    found = inspect.getattr_static(owner, name)
    if isinstance(found, property):
        found = found.fget
    found = getattr(found, "__func__", found)
    found = inspect.unwrap(found)
    return found if isinstance(found, FunctionType) else None


class Judge:
    """A pytest plugin in place of the loop that runs tests."""

    def __init__(
        self,
        module: ModuleType,
        mistakes: Sequence[Mistake],
        *,
        processes: int,
        budget_s: float,
    ) -> None:
        self._module, self._mistakes, self._processes = module, mistakes, processes
        self._until = time.monotonic() + budget_s
        self.verdict = Verdict()
        self.broken: list[str] = []
        """Tests that fail without any mistake: they prove nothing."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        enters, took = self._baseline(session.items)
        if len(took) < len(session.items):
            self.verdict.left_out = len(self._mistakes)
            return True
        running: dict[int, Mistake] = {}
        gc.freeze()  # what the children never touch need not be copied for them
        for mistake in self._mistakes:
            items = sorted(enters[mistake.function], key=lambda item: took[item.nodeid])
            if not items:
                self.verdict.untested.append(mistake)
                continue
            if time.monotonic() > self._until:
                self.verdict.left_out += 1
                continue
            while len(running) >= self._processes:
                self._reap(running)
            if (pid := os.fork()) == 0:
                self._try(mistake, items, took)
            running[pid] = mistake
        while running:
            self._reap(running)
        return True

    def _baseline(self, items: Sequence[pytest.Item]) -> tuple[dict[str, list[pytest.Item]], dict[str, float]]:
        """Which tests enter which function, and how long each takes; of some only when the budget ends before."""
        enters: defaultdict[str, list[pytest.Item]] = defaultdict(list)
        took: dict[str, float] = {}
        filename = self._module.__file__
        for item in items:
            if time.monotonic() > self._until:
                break
            seen: set[str] = set()

            def profile(frame: FrameType, event: str, arg: object, seen: set[str] = seen) -> None:
                if event == "call" and frame.f_code.co_filename == filename:
                    seen.add(_outermost(frame.f_code))

            began = time.process_time()
            sys.setprofile(profile)
            try:
                reports = runtestprotocol(item, nextitem=None, log=False)
            finally:
                sys.setprofile(None)
            took[item.nodeid] = time.process_time() - began
            if any(report.failed for report in reports):
                self.broken.append(item.nodeid)
                continue
            for function in seen:
                enters[function].append(item)
        return enters, took

    def _try(self, mistake: Mistake, items: Sequence[pytest.Item], took: Mapping[str, float]) -> None:
        """In a process of its own. It never returns: 0 says that a test noticed."""
        code = 1
        try:
            os.setpgid(0, 0)
            signal.signal(signal.SIGVTALRM, signal.SIG_DFL)
            gc.disable()
            function = live_function(self._module, mistake.function)
            if function is not None:
                function.__code__ = mistake.code
                code = 0 if any(_fails(item, TIMEOUT_S + TIMES * took[item.nodeid]) for item in items) else 1
        except BaseException:
            code = 0
        finally:
            os._exit(code)

    def _reap(self, running: dict[int, Mistake]) -> None:
        pid, status = os.wait()
        if (mistake := running.pop(pid, None)) is None:
            return
        survived = os.waitstatus_to_exitcode(status) == 1
        (self.verdict.survived if survived else self.verdict.caught).append(mistake)
        if survived:
            print(f"  survived: line {mistake.line} {mistake.name}", flush=True)


def _fails(item: pytest.Item, timeout_s: float) -> bool:
    signal.setitimer(signal.ITIMER_VIRTUAL, timeout_s)
    return any(report.failed for report in runtestprotocol(item, nextitem=None, log=False))


def _outermost(code: CodeType) -> str:
    return code.co_qualname.partition(".<locals>")[0]


def judge(
    module: ModuleType,
    mistakes: Sequence[Mistake],
    tests: Sequence[str],
    *,
    processes: int,
    budget_s: float,
) -> Judge:
    from hypothesis import Phase, settings

    # Shrinking explains a failure to people; here it only costs time.
    settings.register_profile("mutation", phases=[Phase.explicit, Phase.generate], derandomize=True, database=None)
    settings.load_profile("mutation")
    judging = Judge(module, mistakes, processes=processes, budget_s=budget_s)
    options = ["-o", "addopts=--import-mode=importlib", "-p", "no:cacheprovider", "-p", "no:terminal"]
    code = pytest.main([*options, *tests], plugins=[judging])
    if code != pytest.ExitCode.OK:
        raise RuntimeError(f"the tests of {module.__name__} could not be collected: {code!r}")
    return judging

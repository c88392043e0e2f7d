"""The mutation driver finds places for mistakes, plants them in the live function, and tells caught from survived."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.mutation import __main__ as driver
from tests.mutation.__main__ import touched
from tests.mutation.judge import Judge, Verdict
from tests.mutation.mistakes import Mistake, mistakes

ROOT = Path(__file__).parent.parent.parent
SOURCE = """
class Box:
    @property
    def full(self):
        return self.used >= 3 and not self.open

def total(numbers):
    count = 0
    for number in numbers:
        if number:
            count += number
    return count
"""


def test_each_place_gets_its_mistakes_and_each_has_a_name_of_its_own():
    found = list(mistakes(SOURCE, "box.py"))
    names = [mistake.name for mistake in found]
    assert len(set(names)) == len(names)
    assert "Box.full:self.used >= 3 -> Gt" in names
    assert "Box.full:not self.open -> no not" in names
    assert "total:if number: -> condition negated" in names
    assert "total:count += number -> left out" in names
    assert {mistake.line for mistake in touched(found, {11})} == {11}


def test_a_mistake_is_code_that_can_be_put_into_the_live_function():
    space: dict[str, object] = {}
    exec(compile(SOURCE, "box.py", "exec"), space)
    total = space["total"]
    [mistake] = [m for m in mistakes(SOURCE, "box.py") if m.name == "total:count += number -> left out"]
    assert total([1, 2]) == 3  # type: ignore[operator]
    total.__code__ = mistake.code  # type: ignore[attr-defined]
    assert total([1, 2]) == 0  # type: ignore[operator]


SMALL = ("core/states.py", "core/keyless_plan.py", "core/write_head.py")
"""Small enough to be tried whole in every run; CI's mutation step tries all that are called clean."""


def mutation(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.mutation", *arguments, "--processes", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_modules_that_are_called_clean_have_no_unexplained_survivor():
    ran = mutation(*SMALL)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "core/states.py: 8 of 8 caught (100%)" in ran.stdout


def test_a_survivor_in_a_clean_module_fails_and_so_does_an_explanation_of_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    verdict = Verdict(caught=[mistake("a")], survived=[mistake("b"), mistake("c")], untested=[mistake("d")])
    judged = SimpleNamespace(verdict=verdict, broken=[])
    monkeypatch.setattr(driver, "run", lambda *_: (judged, 4, 0))
    monkeypatch.setattr(driver, "MODULES", {"core/x.py": {"clean": True, "tests": []}})
    monkeypatch.setattr(sys, "argv", ["mutation"])
    for explained, wrong in (("b c d", 0), ("b c", 1), ("b", 2), ("b c d e", 1), ("a b c d", 1)):
        monkeypatch.setattr(driver, "EXPLAINED", {"core/x.py": {f"f:{name}": "why" for name in explained.split()}})
        assert driver.main() == (1 if wrong else 0)
        assert f"\n{wrong} not caught and not explained" in capsys.readouterr().out
    monkeypatch.setattr(driver, "MODULES", {"core/x.py": {"tests": []}})
    monkeypatch.setattr(driver, "EXPLAINED", {})
    assert driver.main() == 0, "of the other modules they are named only"
    assert "not caught: line 1 f:c" in capsys.readouterr().out


def test_a_budget_is_shared_by_all_modules_and_what_it_left_out_is_said_without_failing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    now, shares = [0.0], []

    def run(name: str, options: object, budget_s: float) -> object:
        shares.append(budget_s)
        now[0] += 10 if name == "a" else budget_s
        left = 0 if name == "a" else 7
        return SimpleNamespace(verdict=Verdict(caught=[mistake("b")], left_out=left), broken=[]), 1, left

    monkeypatch.setattr(driver, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(driver, "run", run)
    monkeypatch.setattr(driver, "MODULES", {name: {"clean": True, "tests": []} for name in "abc"})
    monkeypatch.setattr(driver, "EXPLAINED", {"b": {"f:z": "perhaps it was not tried"}})
    monkeypatch.setattr(sys, "argv", ["mutation", "--clean", "--budget", "90"])
    assert driver.main() == 0
    assert shares == [30, 40, 40], "a module that is quick leaves its time to the others"
    assert "\n14 mistakes were not tried: the budget of 90 s is spent\n" in capsys.readouterr().out


@pytest.mark.parametrize("measured", [True, False])
def test_a_judge_stops_at_its_budget(measured: bool, monkeypatch: pytest.MonkeyPatch):
    """Whoever has no time left tries nothing. Before all tests have run once, nobody knows what is untested."""
    judging = Judge(SimpleNamespace(__file__="x.py"), [mistake("a"), mistake("b")], processes=1, budget_s=0.0)  # type: ignore[arg-type]
    item = SimpleNamespace(nodeid="t")
    if measured:
        monkeypatch.setattr(judging, "_baseline", lambda items: ({"f": items}, {"t": 0.0}))
    assert judging.pytest_runtestloop(SimpleNamespace(items=[item]))  # type: ignore[arg-type]
    verdict = judging.verdict
    assert (verdict.left_out, verdict.caught, verdict.survived, verdict.untested) == (2, [], [], [])


def mistake(what: str) -> Mistake:
    return Mistake("f", 1, what, mistake.__code__)


def test_every_explanation_is_of_a_module_that_is_judged():
    assert set(driver.EXPLAINED) <= set(driver.MODULES)
    assert all(reason for reasons in driver.EXPLAINED.values() for reason in reasons.values())

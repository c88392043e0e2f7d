"""The mutation driver finds places for mistakes, plants them in the live function, and tells caught from survived."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.mutation.__main__ import touched
from tests.mutation.mistakes import mistakes

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


CLEAN = ("core/states.py", "core/keyless_plan.py", "core/write_head.py", "core/gaps.py")
"""Small enough to be tried whole in every run; `make mutation` tries the others."""


def test_modules_that_are_called_clean_have_no_unexplained_survivor():
    ran = subprocess.run(
        [sys.executable, "-m", "tests.mutation", *CLEAN, "--processes", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "core/states.py: 8 of 8 caught (100%)" in ran.stdout

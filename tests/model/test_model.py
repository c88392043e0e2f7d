"""The protocol on paper: every scene holds in all its states, and breaks without any one of its rules.

`make model` also visits the big scenes (roll-backs and lost replies with two keys).
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.model import spin
from tests.model.__main__ import BY_NAME, run_rule, run_scene
from tests.model.rules import RULES, SCENES, SPARE, Rule, Scene

needs_spin = pytest.mark.skipif(
    bool(spin.missing()), reason=f"cannot run here: needs {' and '.join(spin.missing())} (apt install)"
)
QUICK = [scene for scene in SCENES if scene.quick]


@needs_spin
@pytest.mark.parametrize("scene", QUICK, ids=[scene.name for scene in QUICK])
def test_every_promise_holds_in_every_state_of(scene: Scene) -> None:
    run = run_scene(scene)
    assert run.holds, f"{run.broken}; make model VARIANT={scene.name} TRAIL=1 tells how"
    assert run.states > 10_000  # a scene in which nothing can happen would hold too


@needs_spin
@pytest.mark.parametrize("rule", RULES, ids=[rule.variant for rule in RULES])
def test_a_promise_breaks_without_the_rule(rule: Rule) -> None:
    assert not run_rule(rule).holds, f"nothing needs the rule that {rule.rule}"


def test_every_variant_is_a_switch_of_its_scene_and_every_switch_a_rule() -> None:
    rules = (*RULES, *SPARE)
    sources = {source: (spin.HERE / source).read_text() for source in ("lane.pml", "home.pml")}
    for rule in rules:
        assert rule.variant in sources[BY_NAME[rule.scene].source]
    assert len({rule.variant for rule in rules}) == len(rules)


@needs_spin
def test_the_trail_tells_the_steps_to_a_double_payment() -> None:
    told = spin.trail("lane.pml", ("SLOW", "ONE_KEY", "UNKNOWN_IS_DEAD"))
    assert "proc" in told
    assert "effects" in told.split("text of failed assertion")[1]


def test_without_spin_the_command_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.model", "--variant", "closing"],
        env={"PATH": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "apt install spin gcc" in done.stderr

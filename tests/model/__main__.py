"""`python -m tests.model`: check every scene and every variant, and print what came of each.

Exit codes: 0 every scene holds and every variant breaks, 1 one does not, 2 the model cannot be run here.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from tests.model.rules import RULES, SCENES, SPARE, Rule, Scene
from tests.model.spin import ModelError, Run, check, trail

BY_NAME = {scene.name: scene for scene in SCENES}
BY_VARIANT = {rule.variant: rule for rule in (*RULES, *SPARE)}


def switches_of(rule: Rule) -> tuple[str, ...]:
    return (*BY_NAME[rule.scene].switches, rule.variant)


def run_scene(scene: Scene) -> Run:
    return check(scene.source, scene.switches, small=scene.quick)


def run_rule(rule: Rule) -> Run:
    return check(BY_NAME[rule.scene].source, switches_of(rule), small=True)


def scene_row(scene: Scene, run: Run) -> str:
    verdict = "holds" if run.holds else f"BROKEN after {run.steps}: {run.broken}"
    return f"| `{scene.name}` | {scene.about} | {run.states:,} | {run.seconds:.1f} s | {verdict} |"


def rule_row(rule: Rule, run: Run) -> str:
    verdict = "**HOLDS**" if run.holds else "breaks"
    length = f"{run.steps}" if run.steps else ""
    return (
        f"| `{rule.variant}` | {rule.section} | {rule.rule} | `{rule.scene}` | {run.states:,} | {run.seconds:.1f} s "
        f"| {verdict} | {length} |"
    )


SCENE_HEAD = "| scene | what may happen | states | time | verdict |\n|---|---|---|---|---|"
RULE_HEAD = (
    "| variant | DESIGN | the rule it leaves out | scene | states | time | verdict | steps |\n"
    "|---|---|---|---|---|---|---|---|"
)


def show(head: str, rows: Iterable[tuple[str, bool]]) -> bool:
    print(head, flush=True)
    good = True
    for row, as_wanted in rows:
        print(row, flush=True)
        good &= as_wanted
    print()
    return good


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--variant", help="only this scene or this variant", choices=[*BY_NAME, *BY_VARIANT])
    parser.add_argument(
        "--trail", action="store_true", help="with --variant: print the shortest counterexample, step by step"
    )
    parser.add_argument("--spare", action="store_true", help="also the variants that another rule still saves")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="how many run at once (default: all cores)"
    )
    told = parser.parse_args()
    if told.trail and not told.variant:
        parser.error("--trail needs --variant: which counterexample?")
    try:
        return replay(told.variant) if told.trail else run_all(told.variant, told.jobs, spare=told.spare)
    except ModelError as error:
        print(f"cannot check the model: {error}", file=sys.stderr)
        return 2


def replay(name: str) -> int:
    scene = BY_NAME.get(name)
    if scene is not None:
        print(trail(scene.source, scene.switches))
        return 0
    rule = BY_VARIANT[name]
    print(f"without the rule: {rule.rule} (DESIGN {rule.section}); scene {rule.scene}")
    print(trail(BY_NAME[rule.scene].source, switches_of(rule)))
    return 0


def run_all(only: str | None, jobs: int, *, spare: bool) -> int:
    scenes = [scene for scene in SCENES if only in (None, scene.name)]
    rules = [rule for rule in RULES if only in (None, rule.variant)]
    spares = [rule for rule in SPARE if only == rule.variant or (spare and only is None)]
    good = True
    with ThreadPoolExecutor(jobs) as pool:

        def rows(which: Iterable[Rule], run: Callable[[Rule], Run], *, hold: bool) -> Iterable[tuple[str, bool]]:
            done = [(rule, pool.submit(run, rule)) for rule in which]
            return ((rule_row(rule, f.result()), f.result().holds is hold) for rule, f in done)

        if scenes:
            played = [(scene, pool.submit(run_scene, scene)) for scene in scenes]
            good &= show(SCENE_HEAD, ((scene_row(s, f.result()), f.result().holds) for s, f in played))
        if rules:
            good &= show(RULE_HEAD, rows(rules, run_rule, hold=False))
        if spares:
            good &= show(RULE_HEAD, rows(spares, run_rule, hold=True))
    if only is None:
        print("every scene holds, every variant breaks" if good else "NOT AS IT SHOULD BE: see the rows above")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

"""Makes a failing plan smaller as long as it still fails, so that what is left is the story of the failure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.sim.plan import GROUPS, Plan
from tests.sim.world import Result, run

_GROUP_OF = {kind: group for group, kinds in GROUPS.items() for kind in kinds}


def shrink(plan: Plan, budget: int = 400, attempt: Callable[[Plan], Result] = run) -> Result:
    """The smallest failing variant found within `budget` runs. The failure may change; that there is one may not."""
    best = attempt(plan)
    assert best.violations
    spent = 0
    improved = True
    while improved and spent < budget:
        improved = False
        for smaller in _smaller(best):
            spent += 1
            result = attempt(smaller)
            if result.violations:
                best, improved = result, True
                break
            if spent >= budget:
                break
    return best


def _smaller(result: Result) -> Iterator[Plan]:
    """Variants with less in them, the boldest cuts first."""
    plan = result.plan
    for kind in sorted(plan.rates):
        yield plan.without(kind)
    for kind in sorted({event.kind for event in plan.events}):
        yield plan.without(kind)
    for event in plan.events:
        yield replace(plan, events=tuple(e for e in plan.events if e is not event))
    if plan.intents > 1:
        yield replace(plan, intents=plan.intents - 1)
    if plan.workers > 1:
        yield replace(plan, workers=plan.workers - 1)
    if plan.shuffle:
        yield replace(plan, shuffle=0.0)
    if plan.loss:
        yield replace(plan, loss=0.0)
    for _, kind, _, ordinal in reversed(result.struck):
        if ordinal >= 0:
            yield replace(plan, skipped=plan.skipped | {(_GROUP_OF[kind], ordinal)})


def story(result: Result) -> str:
    """The shrunk schedule for people: the parts, the faults that struck, the promise that broke."""
    plan = result.plan
    parts = (
        f"{plan.intents} intents, {plan.lanes} lanes, {plan.workers} workers, {plan.producers} producers, "
        f"window {plan.window}, nodes {'+'.join(plan.nodes)}, lease {plan.lease_ms} ms, validity {plan.validity} blocks"
    )
    faults = [f"  {at:8.3f} s  {kind:18} {where}" for at, kind, where, _ in result.struck]
    return "\n".join([parts, *faults, *(f"  BROKEN: {v}" for v in result.violations[:8])])

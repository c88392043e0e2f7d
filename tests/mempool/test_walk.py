"""Random walks: the invariants hold after every step, and two backends never differ."""

from __future__ import annotations

import asyncio
import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mempool import invariants, walk
from txmanager.core.admission import Limits
from txmanager.ledger.memory.mempool import MemoryMempool

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
PATH = st.lists(walk.steps, min_size=100, max_size=120)


def memory(walker: walk.Walker) -> MemoryMempool:
    names = itertools.count(1)
    return MemoryMempool(walker.limits, clock=walker.clock, token=lambda: f"t{next(names)}")


@settings(max_examples=100, deadline=None, suppress_health_check=QUIET, derandomize=True)
@given(limits=walk.limits, path=PATH)
def test_invariants_hold_after_each_of_10_000_steps(limits: Limits, path: list[walk.Step]):
    async def go() -> None:
        walker = walk.Walker(limits)
        mempool = memory(walker)
        for step in path:
            await walker.step(mempool, step)
            invariants.check(mempool.machine)
            await walk.views(mempool, walker)

    asyncio.run(go())

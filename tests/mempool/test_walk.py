"""Random walks: the invariants hold after every step, and two backends never differ."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.mempool import dump, invariants, walk
from tests.mempool.stage import counter, redis_stage
from txmanager.core.admission import Limits
from txmanager.ledger.memory.mempool import MemoryMempool
from txmanager.ledger.redis.mempool import RedisMempool

QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
PATH = st.lists(walk.steps, min_size=100, max_size=120)
WALK = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=QUIET,
    derandomize=True,
    database=None,
    phases=[Phase.generate],  # a failing walk names its step: shrinking it on a server takes minutes
)


def memory(walker: walk.Walker) -> MemoryMempool:
    return MemoryMempool(walker.limits, clock=walker.clock, token=counter())


def test_both_backends_answer_the_same_for_10_000_steps_and_the_invariants_hold(redis7: Any, prefix: str):
    examples = 0
    steps = 0

    @WALK
    @given(limits=walk.limits, path=PATH)
    def both(limits: Limits, path: list[walk.Step]) -> None:
        nonlocal examples, steps
        examples += 1
        asyncio.run(asyncio.wait_for(twins(limits, path, f"{prefix}{examples}"), 60))
        steps += len(path)

    async def twins(limits: Limits, path: list[walk.Step], own_prefix: str) -> None:
        left, right = walk.Walker(limits), walk.Walker(limits)
        here = memory(left)
        async with redis_stage(redis7.url, own_prefix) as stage:
            there = stage.make(limits)
            assert isinstance(there, RedisMempool)
            assert await here.heartbeat("zero") == await there.heartbeat("zero")
            for number, step in enumerate(path):
                assert await left.step(here, step) == await right.step(there, step), (number, step)
                if step[0] == "pass":
                    await stage.set_clock(right.now)
                invariants.check(here.machine)
                assert await dump.of_redis(there) == dump.of_machine(here.machine), (number, step)
            assert await walk.views(here, left) == await walk.views(there, right)

    both()
    assert steps >= 10_000

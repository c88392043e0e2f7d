"""A reply that never comes from the Worker: the step ran, nobody knows, it is sent again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.ledger.conftest import durable_stage
from tests.ledger.story import LANE, Story
from tests.ledger.test_lost_replies import STEPS, tell
from tests.servers.proxy import FaultProxy
from tests.servers.workerd import OWNER, Workerd
from txmanager.core.errors import Unavailable
from txmanager.core.ledger import Claim
from txmanager.core.models import IntentId
from txmanager.testing.ledger.stage import POOL, Stage


@pytest.fixture
async def proxy(durable: Workerd) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(durable.host, durable.port, resp=False) as running:
        yield running


@pytest.fixture
async def stage(proxy: FaultProxy, prefix: str) -> AsyncIterator[Stage]:
    async with durable_stage(f"do+http://:{OWNER}@127.0.0.1:{proxy.port}", prefix, timeout_s=10.0) as made:
        yield made


@pytest.mark.parametrize("fault", ["cut_reply", "half_reply", "drop_request"])
@pytest.mark.parametrize("step", [step for step in STEPS if step != "accept"])  # a home and a lane are two objects
async def test_step_whose_replies_are_lost_one_by_one_ends_as_if_run_once(
    step: str, fault: str, proxy: FaultProxy, stage: Stage
):
    story = Story(stage)
    faults = await tell(story, lossy={step}, proxy=proxy, fault=fault)
    assert faults, "no request of this step was hit"
    await story.ends_well(stage.again())


async def test_caller_cancelled_at_any_await_leaves_a_ledger_that_answers_the_next_one_rightly(stage: Stage):
    """Each step is cancelled after 1, 2, 3 ... turns of the loop until it gets through."""
    story = Story(stage)
    cancelled = 0
    for _, step in story.steps():
        for turns in range(0, 60, 3):
            task = asyncio.create_task(step())
            for _ in range(turns):
                await asyncio.sleep(0)
            if task.done():
                break
            task.cancel()
            await asyncio.wait([task])
            cancelled += 1
            assert await stage.ledger.read(IntentId(POOL, "nobody")) is None
        await step()
    assert cancelled > len(STEPS)
    await story.ends_well(stage.again())


async def test_callers_of_one_request_get_their_own_answers_while_others_give_up(stage: Stage, proxy: FaultProxy):
    await stage.lane(LANE)

    async def claim(n: int) -> str:
        [answer] = await stage.ledger.claim([Claim(IntentId(POOL, f"k{n}"), "v1:x", LANE, f"life{n}")])
        return answer.life

    proxy.delay(0.01, to_server=False, to_client=True)
    tasks = [asyncio.create_task(claim(n)) for n in range(200)]
    for n, task in enumerate(tasks):
        if n % 3 == 0:
            await asyncio.sleep(0.0005)
            task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    proxy.heal()
    assert all(a == f"life{n}" for n, a in enumerate(answers) if not isinstance(a, asyncio.CancelledError))
    assert [await claim(n) for n in range(200)] == [f"life{n}" for n in range(200)]


async def test_silent_worker_is_unavailable_within_patience_and_answers_again_after(proxy: FaultProxy, prefix: str):
    url = f"do+http://:{OWNER}@127.0.0.1:{proxy.port}"
    async with durable_stage(url, prefix, timeout_s=1.0) as stage:
        await stage.lane(LANE)
        proxy.blackhole()
        loop = asyncio.get_running_loop()
        start = loop.time()
        with pytest.raises(Unavailable, match="outcome is unknown"):
            await stage.ledger.lane(LANE)
        assert loop.time() - start < 10.0
        proxy.heal(drop=True)
        assert await stage.ledger.lane(LANE) is not None


async def test_hints_come_back_after_the_socket_was_lost(stage: Stage, proxy: FaultProxy):
    await stage.lane(LANE)
    while await stage.ledger.wait_wake([LANE], 0.5):
        pass
    proxy.disconnect()
    # the loss itself rings: whoever waits reads instead of trusting hints it may have missed
    assert await stage.ledger.wait_wake([LANE], 10) == {LANE}
    while await stage.ledger.wait_wake([LANE], 1.0):
        pass
    waiting = asyncio.create_task(stage.ledger.wait_wake([LANE], 10))
    await stage.queued(LANE)
    assert await waiting == {LANE}

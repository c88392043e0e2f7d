"""A reply that never comes: the command ran, nobody knows, it is sent again; the state is that of one execution."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.ledger.conftest import redis_stage
from tests.ledger.redis_only import redis_of
from tests.ledger.story import LANE, Story
from tests.servers.proxy import Fault, FaultProxy
from tests.waiting import until
from txmanager.core.errors import Unavailable
from txmanager.core.ledger import Claim
from txmanager.core.models import IntentId
from txmanager.ledger.redis import RedisLedger
from txmanager.testing.ledger.stage import POOL, Stage

STEPS = [name for name, _ in Story(Stage(None, None, None)).steps()]  # type: ignore[arg-type]


@pytest.fixture
async def proxy(make_server) -> AsyncIterator[FaultProxy]:
    server = make_server()
    async with FaultProxy("127.0.0.1", server.port) as running:
        yield running


async def tell(story: Story, *, lossy: set[str], proxy: FaultProxy, fault: str) -> list[Fault]:
    """Tell the story; in the lossy steps each command in turn has its accident, until a step got through unharmed."""
    faults = []
    for name, step in story.steps():
        skip = 0
        while name in lossy:
            armed = getattr(proxy, fault)(skip=skip)
            await step()
            if not armed.fired.is_set():
                proxy.disarm()
                break
            faults.append(armed)
            skip += 1
        else:
            await step()
    return faults


@pytest.mark.parametrize("fault", ["cut_reply", "half_reply", "drop_request"])
@pytest.mark.parametrize("step", STEPS)
async def test_step_whose_replies_are_lost_one_by_one_ends_as_if_run_once(
    step: str, fault: str, proxy: FaultProxy, prefix: str
):
    async with redis_stage(proxy.url, prefix, timeout_s=3.0) as stage:
        story = Story(stage)
        faults = await tell(story, lossy={step}, proxy=proxy, fault=fault)
        assert faults, "no command of this step was hit"
        await story.ends_well(stage.again())


async def test_story_in_which_every_reply_is_lost_once_ends_as_if_none_was(proxy: FaultProxy, prefix: str):
    async with redis_stage(proxy.url, prefix, timeout_s=3.0) as stage:
        story = Story(stage)
        faults = await tell(story, lossy=set(STEPS), proxy=proxy, fault="cut_reply")
        assert len(faults) > len(STEPS)
        await story.ends_well(stage.again())


async def test_steps_repeated_by_their_caller_end_as_if_run_once(backend: str, stage: Stage):
    story = Story(stage)
    for _, step in story.steps():
        await step()
        await step()
    await story.ends_well(stage.ledger)


async def test_caller_cancelled_at_any_await_leaves_a_ledger_that_answers_the_next_one_rightly(
    proxy: FaultProxy, prefix: str
):
    """Each step is cancelled after 1, 2, 3 ... turns of the loop, on a slow line, until it gets through."""
    async with redis_stage(proxy.url, prefix, timeout_s=3.0) as stage:
        story = Story(stage)
        cancelled = 0
        for _, step in story.steps():
            for turns in range(60):
                task = asyncio.create_task(step())
                for _ in range(turns):
                    await asyncio.sleep(0)
                if task.done():
                    break
                task.cancel()
                await asyncio.wait([task])
                cancelled += 1
                # whoever comes next gets its own answer, not the one the cancelled caller left behind
                assert await stage.ledger.read(IntentId(POOL, "nobody")) is None
            await step()
        assert cancelled > len(STEPS)
        await story.ends_well(stage.again())


async def test_callers_of_one_connection_get_their_own_answers_while_others_give_up(proxy: FaultProxy, prefix: str):
    async with redis_stage(proxy.url, prefix, timeout_s=3.0) as stage:
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


@pytest.mark.alone
async def test_silent_server_is_unavailable_within_patience_and_answers_again_after(proxy: FaultProxy, prefix: str):
    async with redis_stage(proxy.url, prefix, timeout_s=0.2) as stage:
        await stage.lane(LANE)
        proxy.blackhole()
        loop = asyncio.get_running_loop()
        start = loop.time()
        with pytest.raises(Unavailable, match=r"outcome is unknown|cannot reach"):
            await stage.ledger.lane(LANE)
        assert loop.time() - start < 3.0
        proxy.heal(drop=True)
        assert await stage.ledger.lane(LANE) is not None


async def test_connection_given_up_while_it_opens_is_no_cancellation_of_its_callers(proxy: FaultProxy, prefix: str):
    """`close` during a connect must not make a waiting caller believe that it was cancelled."""
    url = proxy.url.replace("redis://", "redis://:secret@")  # a greeting to wait for: the connection stays half open
    ledger = RedisLedger(url, prefix=prefix, durability="none", timeout_s=5.0)
    proxy.blackhole()
    waiting = asyncio.create_task(ledger.lane(LANE))
    await until(lambda: b"AUTH" in proxy.commands)
    await ledger.close()
    with pytest.raises(Unavailable):
        await waiting
    assert not waiting.cancelled()


async def test_hints_come_back_after_the_connection_was_lost(proxy: FaultProxy, prefix: str):
    async with redis_stage(proxy.url, prefix, timeout_s=1.0) as stage:
        await stage.lane(LANE)
        while await stage.ledger.wait_wake([LANE], 0.1):
            pass
        proxy.disconnect()
        # the loss itself rings: whoever waits reads instead of trusting hints it may have missed
        assert await stage.ledger.wait_wake([LANE], 10) == {LANE}
        while await stage.ledger.wait_wake([LANE], 0.3):
            pass
        waiting = asyncio.create_task(stage.ledger.wait_wake([LANE], 10))
        await stage.queued(LANE)
        assert await waiting == {LANE}


async def test_waiting_for_an_end_does_not_spin_while_the_server_is_away(proxy: FaultProxy, prefix: str):
    async with redis_stage(proxy.url, prefix, timeout_s=1.0) as stage:
        await stage.lane(LANE)
        [entry] = await stage.queued(LANE)
        proxy.refuse()
        loop = asyncio.get_running_loop()
        start = loop.time()
        for _ in range(3):
            await redis_of(stage).wait_final(LANE, entry.intent.id, 0.1)
        assert loop.time() - start > 0.2

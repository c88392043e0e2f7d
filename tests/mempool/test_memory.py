"""What only the mempool in memory has: it forgets idle senders beyond a number, the longest idle first, no others."""

from __future__ import annotations

from tests.mempool.stage import Stage, address, memory_stage
from txmanager.core.admission import Count


async def idle(stage: Stage, name: str) -> None:
    """A sender that is known and has no transaction."""
    offer = await stage.waiting(name, 0)
    await stage.mempool.drop(hash=offer.hash)


async def known(stage: Stage, name: str) -> bool:
    return await stage.mempool.base(address(name)) is not None


async def test_a_thousand_and_one_senders_with_transactions_are_all_kept():
    stage = memory_stage()
    await stage.open(memory_senders=1_000)
    for n in range(1_001):
        await stage.waiting(f"s{n}", 0)
    assert (await stage.mempool.totals()).senders == 1_001
    assert [grant.sender for grant in await stage.take()] == [address("s0")], "a sender whose turn it is, too"
    await stage.waiting("last", 0)
    assert all([await known(stage, f"s{n}") for n in range(1_001)])


async def test_the_longest_idle_sender_is_forgotten_first():
    stage = memory_stage()
    await stage.open(memory_senders=2)
    await stage.waiting("busy", 0)
    for name in ("a", "b"):
        await idle(stage, name)
    await idle(stage, "a")  # it was there again
    await idle(stage, "c")
    await stage.mempool.admit([], {address("busy"): Count(0, "0xb", 1)})
    assert [await known(stage, name) for name in ("a", "b", "c", "busy")] == [True, False, True, True]


async def test_memory_is_not_shared_and_ends_with_the_process():
    one, other = memory_stage(), memory_stage()
    for stage in (one, other):
        await stage.open()
    offer = await one.waiting("a", 0)
    assert await one.mempool.find(offer.hash) is not None
    assert await other.mempool.find(offer.hash) is None

"""One mailbox conformance suite over both backends."""

from __future__ import annotations

import pytest

from tests.waiting import until
from txmanager.core.mailbox import DeadLetter, Mailbox
from txmanager.ledger.memory.mailbox import MemoryMailbox
from txmanager.ledger.redis import RedisLedger
from txmanager.ledger.redis.mailbox import RedisMailbox


@pytest.fixture(params=["memory", "redis"])
async def mailbox(request, redis7, prefix):
    if request.param == "memory":
        yield MemoryMailbox()
        return
    ledger = RedisLedger(redis7.url, prefix=prefix, durability="none")
    yield RedisMailbox(ledger.runner, prefix)
    await ledger.close()


def letter(n: int, target: str = "p/t") -> DeadLetter:
    return DeadLetter(f"e{n}", "p", target, {"id": f"e{n}", "status": "done"}, 3, "answered 500", 1000 + n)


async def test_one_holder_at_a_time_and_another_after_the_expiry(mailbox: Mailbox):
    assert await mailbox.hold("p/t", "a", 60_000)
    assert await mailbox.hold("p/t", "a", 60_000)
    assert not await mailbox.hold("p/t", "b", 60_000)
    assert await mailbox.hold("p/u", "b", 60_000)
    await mailbox.hold("p/t", "a", 1)

    async def taken_over() -> bool:
        return await mailbox.hold("p/t", "b", 60_000)

    await until(taken_over)


async def test_places_are_remembered_per_target_and_lane(mailbox: Mailbox):
    await mailbox.advance("p/t", "lane1", "5-0")
    await mailbox.advance("p/t", "lane1", "6-0")
    await mailbox.advance("p/t", "lane2", "1-0")
    assert await mailbox.places("p/t") == {"lane1": "6-0", "lane2": "1-0"}
    assert await mailbox.places("p/u") == {}


async def test_a_letter_is_dead_then_revived_then_delivered_or_dead_again(mailbox: Mailbox):
    for n in (1, 2):
        await mailbox.bury(letter(n))
    assert [found.id for found in await mailbox.dead()] == ["e2", "e1"]
    assert await mailbox.revive("e1") == letter(1)
    assert await mailbox.revive("e1") == letter(1), "a repeated revival answers the same"
    assert await mailbox.revive("nothing") is None
    assert await mailbox.dead() == [letter(2)]
    assert list(await mailbox.revived("p/t")) == [letter(1)]
    assert list(await mailbox.revived("p/u")) == []
    await mailbox.bury(letter(1))
    assert list(await mailbox.revived("p/t")) == []
    await mailbox.revive("e1")
    await mailbox.delivered("e1")
    assert list(await mailbox.revived("p/t")) == []
    assert await mailbox.dead() == [letter(2)]


async def test_the_oldest_letters_go_when_there_are_too_many(mailbox: Mailbox, monkeypatch):
    for module in ("txmanager.ledger.memory.mailbox", "txmanager.ledger.redis.mailbox"):
        monkeypatch.setattr(f"{module}.DEAD_LIMIT", 3)
    for n in range(6):
        await mailbox.bury(letter(n))
    assert [found.id for found in await mailbox.dead()] == ["e5", "e4", "e3"]

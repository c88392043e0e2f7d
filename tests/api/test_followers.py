"""Followers of events: nothing missed, nothing out of order, whoever is slow reads from the ledger."""

from __future__ import annotations

from tests.waiting import until
from txmanager.core.ledger import Claim, Entry
from txmanager.core.models import LaneSpec, new_intent
from txmanager.core.positions import place
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.deliver import events
from txmanager.runtime.deliver.events import EventHub

LANES = [f"near:localnet:dev{n}.near:ed25519:x" for n in range(2)]


async def fill(ledger: MemoryLedger, lane: str, keys: list[str]) -> None:
    made = [new_intent(key=key, pool="p", kind="near.transfer", payload={}) for key in keys]
    claims = await ledger.claim([Claim(i.id, i.fingerprint, lane, "life") for i in made])
    await ledger.append(lane, [Entry(i, "life", c.born) for i, c in zip(made, claims, strict=True)])


async def stage() -> MemoryLedger:
    ledger = MemoryLedger()
    for lane in LANES:
        await ledger.register(LaneSpec(lane, "p"))
    return ledger


async def test_a_follower_that_fell_behind_goes_on_from_the_ledger(monkeypatch):
    monkeypatch.setattr(events, "_RECENT", 50)
    ledger = await stage()
    hub = EventHub(ledger, poll_s=0.001)
    async with hub.pool("p") as slow, hub.pool("p") as fast:
        await slow.join()
        heard: list[str] = []
        for n in range(30):
            await fill(ledger, LANES[n % 2], [f"{n}-{m}" for m in range(20)])
            heard += [e.intent.key for e in await fast.next(0.05)]
        behind: list[str] = []
        while len(behind) < 600:
            found = await slow.next(1.0)
            assert found
            behind += [e.intent.key for e in found]
    assert len(behind) == len(set(behind)) == 600
    for lane in range(2):
        order = [key for key in behind if int(key.split("-")[0]) % 2 == lane]
        assert order == sorted(order, key=lambda key: tuple(map(int, key.split("-"))))
    assert len(heard) == len(set(heard))


async def test_a_resumed_follower_starts_behind_its_places():
    ledger = await stage()
    hub = EventHub(ledger, poll_s=0.001)
    await fill(ledger, LANES[0], ["a", "b", "c"])
    seen = await ledger.events(LANES[0])
    async with hub.pool("p", {LANES[0]: place(seen[0].id)}) as follower:
        assert [e.intent.key for e in await follower.next(1.0)] == ["b", "c"]


async def test_lanes_are_read_only_while_somebody_follows():
    ledger = await stage()
    hub = EventHub(ledger, poll_s=0.001)
    reads: list[str] = []
    real = ledger.events

    async def counted(lane, after="0-0", count=100):
        reads.append(lane)
        return await real(lane, after, count)

    ledger.events = counted  # type: ignore[method-assign]
    made = new_intent(key="k", pool="p", kind="near.transfer", payload={})
    async with hub.intent(LANES[0], made.id) as follower:
        await fill(ledger, LANES[0], ["k", "other"])
        assert [e.intent.key for e in await follower.next(2.0)] == ["k"]
        await until(lambda: len(reads) > 2)
        assert hub.lanes == [LANES[0]]
    assert hub.lanes == []
    assert set(reads) == {LANES[0]}

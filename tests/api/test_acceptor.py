"""Submits travel together, and each still gets its own answer: accepted, refused, or plainly unknown."""

from __future__ import annotations

import asyncio

import pytest

from txmanager.core.errors import InvalidInput, KeyReused, Unavailable, Unconfirmed
from txmanager.core.models import Intent, LaneSpec, new_intent
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.accept.acceptor import Acceptor
from txmanager.runtime.accept.producer import Producer

LANE = "near:localnet:dev0.near:ed25519:x"


def intent(key: str, amount: int = 1) -> Intent:
    return new_intent(key=key, pool="p", kind="near.transfer", payload={"receiver_id": "a.near", "amount": amount})


class Weather:
    """Stops the ledger's answers, and counts what went in."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()
        self.calls: list[str] = []

    async def hop(self, operation: str, side: str) -> None:
        if side == "request":
            self.calls.append(operation)
        await asyncio.sleep(0)
        if side == "reply":
            await self.open.wait()


async def stage(patience_s: float = 5.0, *, one_step: bool = True) -> tuple[Acceptor, MemoryLedger, Weather]:
    weather = Weather()
    ledger = MemoryLedger(hop=weather.hop, one_step=one_step)
    await ledger.register(LaneSpec(LANE, "p"))
    return Acceptor(Producer(ledger), patience_s), ledger, weather


async def test_a_hundred_concurrent_submits_take_a_handful_of_round_trips():
    acceptor, _, weather = await stage()
    results = await asyncio.gather(*(acceptor.submit(intent(f"k{n}")) for n in range(100)))
    assert [r.record.id.key for r in results] == [f"k{n}" for n in range(100)]
    assert [weather.calls.count(step) for step in ("accept", "claim", "append")] == [1, 0, 0]


async def test_a_hundred_submits_to_a_ledger_that_needs_two_steps_take_a_handful_of_round_trips():
    acceptor, _, weather = await stage(one_step=False)
    results = await asyncio.gather(*(acceptor.submit(intent(f"k{n}")) for n in range(100)))
    assert [r.record.id.key for r in results] == [f"k{n}" for n in range(100)]
    assert [weather.calls.count(step) for step in ("accept", "claim", "append")] == [0, 1, 1]


async def test_the_same_key_twice_in_one_batch_is_one_intent():
    acceptor, ledger, _ = await stage()
    one, two = await asyncio.gather(acceptor.submit(intent("k")), acceptor.submit(intent("k")))
    assert one.record.life == two.record.life
    assert sorted([one.replayed, two.replayed]) == [False, True]
    with pytest.raises(KeyReused):
        await acceptor.submit(intent("k", 2))
    assert (await ledger.lane(LANE)).depth == 1  # type: ignore[union-attr]


async def test_one_bad_intent_does_not_refuse_its_neighbours():
    acceptor, ledger, _ = await stage()
    real = ledger.accept

    async def accept(lane, entries):
        if any(entry.intent.id.key == "bad" for entry in entries):
            raise InvalidInput("payload", "cannot be stored")
        return await real(lane, entries)

    ledger.accept = accept  # type: ignore[method-assign]
    results = await asyncio.gather(*(acceptor.submit(intent(key)) for key in ("a", "bad", "b")), return_exceptions=True)
    assert [isinstance(r, InvalidInput) for r in results] == [False, True, False]


async def test_what_left_and_got_no_answer_is_unknown_and_what_never_left_is_refused():
    acceptor, ledger, weather = await stage(patience_s=2.0)
    await acceptor.submit(intent("first"))  # the routes are known now
    weather.open.clear()
    results = await asyncio.gather(*(acceptor.submit(intent(f"k{n}")) for n in range(1000)), return_exceptions=True)
    unknown = [n for n, r in enumerate(results) if isinstance(r, Unconfirmed)]
    refused = [n for n, r in enumerate(results) if type(r) is Unavailable]
    assert len(unknown) + len(refused) == 1000
    assert refused, "the ledger gets a few batches at a time"
    weather.open.set()
    for n in refused:
        assert await ledger.read(intent(f"k{n}").id) is None, "refused means that nothing was accepted"
    again = await asyncio.gather(*(acceptor.submit(intent(f"k{n}")) for n in range(1000)))
    assert len({r.record.life for r in again}) == 1000


async def test_a_caller_that_is_gone_before_its_batch_leaves_asks_for_nothing():
    acceptor, ledger, weather = await stage()
    await acceptor.submit(intent("first"))
    weather.open.clear()
    under_way = [asyncio.create_task(acceptor.submit(intent(f"w{n}"))) for n in range(3 * 256)]
    await asyncio.sleep(0)
    gone = asyncio.create_task(acceptor.submit(intent("gone")))
    await asyncio.sleep(0.01)
    gone.cancel()
    weather.open.set()
    await asyncio.gather(*under_way)
    await acceptor.drain()
    assert await ledger.read(intent("gone").id) is None

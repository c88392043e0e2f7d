"""One fault at its very moment: a store that comes and goes, answers that are lost, a node that is asked and says
nothing. One gateway in this process; the log of the strict node is the judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from tests.gateway.senders import Sender
from tests.gateway.stage import Gateway, drained, gateway
from tests.gateway.strict import check
from tests.waiting import until
from txmanager.core.admission import Admitted, Count, Limits, Offer
from txmanager.core.chain import SendReply, Verdict
from txmanager.core.errors import Unavailable
from txmanager.core.upstream import Found, Seen
from txmanager.ledger.memory.mempool import MemoryMempool

FORWARD = {"on_store_failure": "forward", "store_timeout_ms": 500}


class Store:
    """A store in memory that can be away: for all operations, or for some."""

    def __init__(self) -> None:
        self.away = False
        self.broken: set[str] = set()
        self.loses = ""
        """The operation whose reply is lost once something is stored; from then on the store is away."""
        self.mempool: MemoryMempool | None = None

    def __call__(self, limits: Limits) -> MemoryMempool:
        self.mempool = MemoryMempool(limits, hop=self._hop)
        return self.mempool

    async def _hop(self, operation: str, side: str) -> None:
        await asyncio.sleep(0)
        if side == "reply" and operation == self.loses and self.mempool is not None and self.mempool.machine.book.txs:
            self.loses, self.away = "", True
        if self.away or operation in self.broken:
            raise Unavailable("the store is away")


async def becomes(gate: Gateway, degraded: bool) -> None:
    await until(lambda: gate.node.degraded is degraded, 30, every=0.05, what=f"degraded {degraded}")


async def test_a_store_that_fails_again_while_it_comes_back_is_found_later(anvil):
    store, sender = Store(), Sender(anvil)
    async with gateway(anvil, store, store_timeout_ms=500) as gate:
        store.away = True
        await becomes(gate, True)
        store.away, store.broken = False, {"heartbeat"}
        failures = gate.value("store_failures_total")
        await until(lambda: gate.value("store_failures_total") > failures + 1, 30, what="two more looks at the store")
        assert gate.node.degraded
        store.broken = set()
        await becomes(gate, False)
        await gate.send(sender.sign(0))
        await until(lambda: anvil.count(sender.address) == 1, 30)


async def test_what_waits_in_memory_reaches_the_store_also_when_the_node_is_silent_at_first(anvil):
    store, sender = Store(), Sender(anvil)
    async with gateway(anvil, store, **FORWARD) as gate:
        store.away = True
        await becomes(gate, True)
        hash = await gate.send(sender.sign(1))
        look, failed = gate.node.upstream.look_many, []

        async def silent(senders: Sequence[str]) -> dict[str, Seen]:
            if len(failed) < 2 and sender.address in senders:
                failed.append(senders)
                raise Unavailable("no answer")
            return await look(senders)

        gate.node.upstream.look_many = silent  # type: ignore[method-assign]
        store.away = False
        await becomes(gate, False)

        async def moved() -> bool:
            return (await gate.status(hash))["state"] == "gapped"

        await until(moved, 30, what="the gapped transaction in the store")
        assert failed
        await gate.send(sender.sign(0))
        await until(lambda: anvil.count(sender.address) == 2, 30)


async def test_more_than_a_page_moves_from_memory_into_the_store(anvil):
    store = Store()
    async with gateway(anvil, store, **FORWARD) as gate:
        store.away = True
        await becomes(gate, True)
        await until(lambda: gate.node._spare is not None, 30)
        for n in range(11):
            address = f"0x{n + 1:040x}"
            offers = [Offer(f"0x{n:032x}{nonce:032x}", address, nonce, 1, b"x") for nonce in range(1, 101)]
            await gate.node.mempool.admit(offers, {address: Count(0, "0xb", 1)})
        store.away = False

        async def all_there() -> bool:
            assert store.mempool is not None
            return (await store.mempool.totals()).gapped == 1_100

        await becomes(gate, False)
        await until(all_there, 30, what="all of them in the store")


async def test_what_the_store_has_no_room_for_at_first_moves_later(anvil):
    store, senders = Store(), [Sender(anvil) for _ in range(2)]
    async with gateway(anvil, store, **FORWARD) as gate:
        store.away = True
        await becomes(gate, True)
        hashes = [await gate.send(sender.sign(1)) for sender in senders]
        assert store.mempool is not None
        admit, full = store.mempool.admit, [True, True]

        async def no_room(offers: Sequence[Offer], *args: Any, **more: Any) -> list[Admitted]:
            if full and any(one.hash == hashes[0] for one in offers):
                full.pop()
                return [Admitted("full") for _ in offers]
            return await admit(offers, *args, **more)

        store.mempool.admit = no_room  # type: ignore[method-assign]
        store.away = False
        await becomes(gate, False)
        for hash in hashes:

            async def moved(hash: str = hash) -> bool:
                return (await gate.status(hash) or {}).get("state") == "gapped"

            await until(moved, 15, what="what waited in memory, in the store")
        assert not full
        await until(lambda: not gate.node._moves, 15)


async def test_bytes_that_were_stored_and_forwarded_are_sent_once(make_strict):
    """The store has them, its answer was lost, and they went without it: back again, it grants them as never sent."""
    strict, store = make_strict(lag=(3.0, 3.0), delay=0.0), Store()
    sender = Sender(strict.anvil)
    async with gateway(strict, store, lag_ms=4_000, **FORWARD) as gate:
        store.loses = "admit"
        hashes = [await gate.send(sender.sign(nonce)) for nonce in (1, 0)]
        await until(lambda: len(strict.log()) == 2, 30, what="both at the node")
        assert store.mempool is not None
        assert list(store.mempool.machine.book.txs) == hashes[:1]
        store.away = False
        await becomes(gate, False)
        hashes.append(await gate.send(sender.sign(2)))
        assert check(strict.log(), hashes).taken == {sender.address: [0, 1, 2]}
        await drained(gate)


async def test_bytes_that_may_have_been_sent_are_looked_up_before_they_move_into_the_store(make_strict):
    strict, store = make_strict(lag=(2.0, 2.0), delay=0.0), Store()
    sender = Sender(strict.anvil)
    async with gateway(strict, store, lag_ms=3_000, **FORWARD) as gate:
        store.away = True
        await becomes(gate, True)
        await until(lambda: gate.node._spare is not None, 30)
        spare, given = gate.node._spare, gate.node.upstream.read(sender.sign(0))
        assert spare is not None
        owner, offer = spare.heart.owner, Offer(given.hash, given.sender, 0, given.max_fee, given.raw)
        [told] = await spare.mempool.admit([offer], {given.sender: Count(0, "0xb", 1)}, owner=owner)
        strict.rpc("eth_sendRawTransaction", "0x" + given.raw.hex())
        assert told.grant is not None
        await spare.mempool.done(told.grant, "maybe", owner=owner, wait_ms=60_000)
        store.away = False
        await becomes(gate, False)
        await until(lambda: not gate.node._moves, 30, what="memory moved into the store")
        hash = await gate.send(sender.sign(1))
        assert check(strict.log(), [given.hash, hash]).taken == {sender.address: [0, 1]}
        await drained(gate)


async def test_what_a_strict_node_calls_a_gap_goes_again_only_when_its_count_says_so(make_strict):
    """Each send above its nonce is charged."""
    strict = make_strict(lag=(2.0, 2.0), delay=0.0)
    sender = Sender(strict.anvil)
    async with gateway(strict, lag_ms=1_000) as gate:
        await gate.send(sender.sign(0))
        strict.refuse_next(1, "Nonce too high. Provided nonce: 1, current nonce: 0")
        await gate.send(sender.sign(1))
        first, charged, second = strict.log()
        assert [one["what"] for one in (first, charged, second)] == ["taken", "told", "taken"]
        assert second["at"] >= first["at"] + 2.0, "the node counts the first one from here on"
        await drained(gate)


async def test_a_nonce_that_is_too_low_is_no_refusal_while_nobody_could_look_it_up(anvil):
    """The node has the bytes and says `nonce too low`, as one that mined them does; then it is silent for a moment."""
    sender = Sender(anvil)
    async with gateway(anvil) as gate:
        upstream, silent = gate.node.upstream, [True, True]
        send, find = upstream.send, upstream.find

        async def too_low(who: str, raw: bytes, hash: str, may: Callable[[], bool]) -> SendReply:
            await send(who, raw, hash, may)
            return SendReply(Verdict.NONCE_TOO_LOW, "nonce too low")

        async def nothing(hashes: Sequence[str]) -> list[Found | None]:
            return [None] * len(hashes) if silent and silent.pop() else await find(hashes)

        upstream.send, upstream.find = too_low, nothing  # type: ignore[method-assign]
        hash = await gate.send(sender.sign(0))
        await until(lambda: not silent, 30, what="the node asked again")
        await drained(gate)
        assert (await gate.status(hash))["reason"] == "final"
        assert gate.value("ended_total", reason="refused") == 0


async def test_a_part_that_breaks_starts_again(anvil):
    sender = Sender(anvil)
    async with gateway(anvil) as gate:
        follower, broke = gate.node._main.follower, list[Any]()
        step = follower.step

        async def once() -> None:
            if not broke:
                broke.append(None)
                raise ValueError("nobody thought of this")
            await step()

        follower.step = once  # type: ignore[method-assign]
        await until(lambda: broke, 30)
        await gate.send(sender.sign(0))
        await drained(gate)

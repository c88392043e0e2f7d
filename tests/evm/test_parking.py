"""Callers' addresses that nobody uses: given up by workers, known to operators, and back with their next number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast
from unittest.mock import AsyncMock, patch

import pytest
from prometheus_client import generate_latest

from tests.evm.nonce_stage import Wallet
from tests.evm.stage import CHAIN_ID, NETWORK, TIMING, new_signer
from tests.ledger.conftest import redis_stage
from tests.waiting import until
from txmanager.chains.evm import EvmChain
from txmanager.chains.evm.given import RAW_KIND, EvmCounter
from txmanager.chains.evm.reader import EvmReader
from txmanager.core.decide import Policy
from txmanager.core.errors import NonceConflict, Unavailable
from txmanager.core.health import Limits, Reader, Reading
from txmanager.core.ledger import Route
from txmanager.core.reservations import FORGET_AFTER_MS
from txmanager.core.states import Status
from txmanager.ledger.memory import MemoryLedger
from txmanager.rpc.endpoint import Endpoint
from txmanager.runtime.accept.addresses import Addresses
from txmanager.runtime.accept.nonces import KeylessPool, NonceDesk, Nonces, Place
from txmanager.runtime.accept.producer import Producer
from txmanager.runtime.care.monitor import Monitor, Watched
from txmanager.runtime.care.sweeper import Sweeper
from txmanager.runtime.gateway.lanes import OwnLanes
from txmanager.runtime.lane.worker import Service, Worker
from txmanager.testing.ledger.parking import idle

POOL = KeylessPool("p", frozenset(), True, 60_000)
PARK_AFTER_MS = 3_600_000


@dataclass
class Stage:
    ledger: MemoryLedger
    nonces: Nonces
    worker: Worker
    chain: EvmChain
    sleep: Callable[[int], None]
    """Let so many milliseconds pass, by the ledger's clock."""

    def place(self, wallet: Wallet) -> Place:
        return self.nonces.place("local", wallet.address)

    async def send(self, wallet: Wallet, token: str) -> int:
        """Reserve, sign, send, and wait for the end; answers the number."""
        place = self.place(wallet)
        _, answer = await self.nonces.reserve(place, token)
        assert answer.nonce is not None
        given = place.desk.chain.read(wallet.sign(answer.nonce, new_signer().address))
        submitted = await self.nonces.send(place, given, token, "default")

        async def done() -> bool:
            record = await self.ledger.read(submitted.record.id)
            return record is not None and record.status is Status.DONE

        await until(done, 20, what="it is done")
        return answer.nonce

    async def parked(self, wallet: Wallet) -> None:
        """Once it is forgotten what the lane was used for, an hour later."""
        lane = self.place(wallet).lane

        async def gone() -> bool:
            view = await self.ledger.lane(lane)
            return view is not None and view.parked and lane not in self.worker._services

        await until(lambda: retired(self.ledger, lane), 20, what="its records are retired")
        self.sleep(FORGET_AFTER_MS + 1)
        await self.ledger.expire(lane)
        self.sleep(FORGET_AFTER_MS + PARK_AFTER_MS)
        self.worker._held[lane].park_at = 0.0  # its hour is not ours
        await until(gone, 20, what="it is parked")


async def retired(ledger: MemoryLedger, lane: str) -> bool:
    return not ledger.stores[lane].records


@asynccontextmanager
async def running(machine) -> AsyncIterator[Stage]:
    passed = [0]
    loop = asyncio.get_running_loop()
    ledger = MemoryLedger(clock=lambda: 1_700_000_000_000 + int(loop.time() * 1000) + passed[0])
    chain = EvmChain(CHAIN_ID, [Endpoint(machine.url, direct=True)], settings=NETWORK)
    desk = NonceDesk("local", EvmCounter(EvmChain(CHAIN_ID, [Endpoint(machine.url)], settings=NETWORK)), (POOL,))

    def discover(route: Route) -> Service | None:
        chain.add_keyless(route.lane)
        return Service(POOL.spec(route.lane), chain, Policy(include_within_ms=500), PARK_AFTER_MS, chain.drop_keyless)

    worker = Worker(ledger, {}, timing=TIMING, discover=discover)

    def sleep(ms: int) -> None:
        passed[0] += ms
        for store in ledger.stores.values():  # the worker did not sleep: it went on renewing
            store.lease_until += ms if store.token else 0

    task = asyncio.create_task(worker.run())
    try:
        yield Stage(ledger, Nonces(ledger, Producer(ledger), {"local": desk}, 5.0), worker, chain, sleep)
    finally:
        worker.stop()
        await task
        await chain.close()
        await desk.chain.close()


def funded(machine) -> Wallet:
    wallet = Wallet()
    machine.fund(wallet.address)
    return wallet


async def test_an_idle_address_is_parked_and_goes_on_at_its_next_number(anvil):
    async with running(anvil) as stage:
        wallet, busy = funded(anvil), funded(anvil)
        assert [await stage.send(wallet, f"t{n}") for n in range(2)] == [0, 1]
        await stage.nonces.reserve(stage.place(busy), "kept", 7 * 24 * 3_600_000)
        await until(lambda: len(stage.worker.owned) == 2, 20)
        lane = stage.place(wallet).lane
        await stage.parked(wallet)
        assert stage.worker.owned == [stage.place(busy).lane]
        assert lane not in stage.chain._lanes
        assert lane.encode() not in render(stage.worker)
        assert await Sweeper(stage.ledger).sweep_once()
        told = await Addresses(stage.ledger, stage.nonces).health("local", wallet.address)
        assert (told.tracked_nonce, told.chain_nonce, told.pending, told.gaps) == (2, 2, (), ())
        assert await stage.send(wallet, "t2") == 2
        assert set(stage.worker.owned) == {lane, stage.place(busy).lane}


def render(worker: Worker) -> bytes:
    return generate_latest(worker.metrics.registry)


async def test_bytes_for_a_parked_address_are_a_conflict_and_not_a_closed_lane(anvil):
    async with running(anvil) as stage:
        wallet = funded(anvil)
        await stage.send(wallet, "t0")
        await stage.parked(wallet)
        place = stage.place(wallet)
        given = place.desk.chain.read(wallet.sign(1, new_signer().address))
        with pytest.raises(NonceConflict, match="nothing is reserved"):
            await stage.nonces.send(place, given, "t0", "default")
        view = await stage.ledger.lane(place.lane)
        assert view is not None
        assert view.parked, "bytes without a number bring nothing back"
        assert await stage.send(wallet, "t1") == 1


async def test_an_address_whose_maker_died_before_the_registry_knew_is_listed_with_its_bytes(anvil, redis7, prefix):
    """Back with a number, and no worker would have known."""
    async with redis_stage(redis7.url, prefix) as made:
        ledger = made.ledger
        desk = NonceDesk("local", EvmCounter(EvmChain(CHAIN_ID, [Endpoint(anvil.url)], settings=NETWORK)), (POOL,))
        nonces, wallet = Nonces(ledger, Producer(ledger), {"local": desk}, 5.0), funded(anvil)
        place = nonces.place("local", wallet.address)
        await ledger.park(await idle(made, place.lane), 0)
        with patch.object(ledger, "_publish"):
            await ledger.register(POOL.spec(place.lane))
        _, answer = await nonces.reserve(place, "t1")
        assert answer.nonce is not None
        assert await ledger.routes() == []
        given = place.desk.chain.read(wallet.sign(answer.nonce, new_signer().address))
        submitted = await nonces.send(place, given, "t1", "default")
        assert submitted.record.intent.kind == RAW_KIND
        assert [route.lane for route in await ledger.routes()] == [place.lane]
        assert await ledger.parked() == []
        await desk.chain.close()


async def test_an_address_that_is_back_before_the_registry_was_read_again_is_served(anvil):
    """A registry that was read as a whole meanwhile is the same as before: nothing in it says that it was away."""
    async with running(anvil) as stage:
        wallet = funded(anvil)
        await stage.send(wallet, "t0")
        place, ledger = stage.place(wallet), stage.ledger
        same = await ledger.routes()
        ledger.routes = AsyncMock(return_value=same)  # type: ignore[method-assign]
        await until(lambda: stage.worker._routes is same, 20)
        await stage.parked(wallet)
        await ledger.register(place.pool.spec(place.lane))
        await until(lambda: stage.worker.owned == [place.lane], 20, what="it is served again")


class Away:
    """A reader whose nodes are away."""

    async def read(self, lane: str, hashes: object) -> Reading:
        raise Unavailable("away")


async def test_a_monitor_remembers_nothing_of_a_lane_that_left_the_registry(anvil):
    ledger, reader = MemoryLedger(), EvmReader(CHAIN_ID, [Endpoint(anvil.url)])
    networks = {
        f"evm:{CHAIN_ID}": Watched("local", reader, Limits()),
        "evm:99": Watched("away", cast(Reader, Away()), Limits()),
    }
    monitor = Monitor(ledger, networks)
    lanes = [f"{chain}:{Wallet().address}" for chain in networks]
    for lane in lanes:
        await ledger.register(POOL.spec(lane))
    await monitor.check_all()
    told = generate_latest(monitor.metrics.registry)
    assert all(lane.encode() in told for lane in lanes)
    for lane in lanes:
        ledger.stores[lane].parked = True
    await monitor.check_all()
    told = generate_latest(monitor.metrics.registry)
    assert not any(lane.encode() in told for lane in lanes)
    await reader.close()


@pytest.mark.parametrize("parked_before", [False, True])
async def test_a_gateway_knows_an_address_that_is_parked_or_comes_back_while_it_reads(parked_before: bool):
    ledger, lane = MemoryLedger(), f"evm:{CHAIN_ID}:{Wallet().address}"
    await ledger.register(POOL.spec(lane))
    for turn in range(3):  # before the second, the third or no read
        ledger.stores[lane].parked = parked_before
        own, reads, real = OwnLanes(ledger), [0], ledger._listed

        def listed(*, parked: bool, turn: int = turn, reads: list[int] = reads, real: Any = real) -> list[Route]:
            if reads[0] == turn + 1:
                ledger.stores[lane].parked = not parked_before
            reads[0] += 1
            return cast(list[Route], real(parked=parked))

        with patch.object(ledger, "_listed", listed):
            await own._read()
        assert own.addresses(f"evm:{CHAIN_ID}") == {lane.rpartition(":")[2]}

"""Keyless lanes beside signing ones: never both, taken care of by the sweeper, told by the configuration."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from tests.evm.stage import CHAIN_ID, NETWORK, TIMING, lane_of, new_signer
from tests.waiting import until
from txmanager.chains.evm import EvmChain
from txmanager.core.decide import Policy
from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.core.models import LaneSpec
from txmanager.core.states import LaneState
from txmanager.ledger.memory import MemoryLedger
from txmanager.rpc.endpoint import Endpoint
from txmanager.runtime.care.sweeper import Sweeper
from txmanager.runtime.lane.worker import Service, Worker
from txmanager.runtime.manager import TxManager
from txmanager.settings import Settings
from txmanager.wiring import build_kinds, build_services

POOL = "p"


async def test_a_worker_leaves_alone_an_address_whose_key_is_the_callers(anvil):
    """Its other lanes are served all the same, and the log says which is not, and why."""
    theirs, ours = new_signer(), new_signer()
    ledger = MemoryLedger()
    await ledger.register(LaneSpec(lane_of(theirs), POOL, weight=0, keyless=True))
    signers = {lane_of(s): s for s in (theirs, ours)}
    chain = EvmChain(CHAIN_ID, [Endpoint(anvil.url, direct=True)], signers, settings=NETWORK)
    with capture_logs() as logs:
        services = {lane: Service(LaneSpec(lane, POOL), chain, Policy()) for lane in signers}
        worker = Worker(ledger, services, timing=TIMING)
        task = asyncio.create_task(worker.run())
        try:
            await until(lambda: worker.owned == [lane_of(ours)], 20.0)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await chain.close()
    [told] = [line for line in logs if line["event"] == "lane is not served"]
    assert told["lane"] == lane_of(theirs)
    assert "cannot be both" in told["why"]
    view = await ledger.lane(lane_of(theirs))
    assert view is not None
    assert (view.keyless, view.owner) == (True, "")


async def test_the_sweeper_takes_back_numbers_that_nobody_used():
    now = [1_700_000_000_000]
    ledger = MemoryLedger(clock=lambda: now[0])
    lane = lane_of(new_signer())
    await ledger.register(LaneSpec(lane, POOL, weight=0, keyless=True))
    await ledger.reserve(lane, "t1", 1_000, 7, 7)
    await Sweeper(ledger).sweep_once()
    assert (await ledger.book(lane)).reuse == ()
    now[0] += 1_001
    await Sweeper(ledger).sweep_once()
    assert (await ledger.book(lane)).reuse == (7,)


async def test_numbers_that_a_reorg_took_back_go_to_the_next_caller_on_an_operators_word(anvil):
    """Somebody else's transactions raised the counter, and then never were."""
    wallet, ledger = new_signer(), MemoryLedger()
    lane = lane_of(wallet)
    spec = LaneSpec(lane, POOL, weight=0, keyless=True)
    chain = EvmChain(CHAIN_ID, [Endpoint(anvil.url, direct=True)], settings=NETWORK, keyless=[lane])
    worker = Worker(ledger, {lane: Service(spec, chain, Policy())}, timing=TIMING)
    task = asyncio.create_task(worker.run())
    try:
        await until(lambda: worker.owned == [lane], 20.0)
        assert (await ledger.reserve(lane, "t1", 60_000, 0, 0)).nonce == 0
        answer = await ledger.reserve(lane, "t2", 60_000, 4, 0)
        assert (answer.nonce, answer.skipped) == (4, 3)
        await TxManager(ledger).rebaseline(lane)

        async def reclaimed() -> bool:
            return (await ledger.book(lane)).reuse == (1, 2, 3)

        await until(reclaimed, 20.0)

        async def active() -> bool:
            view = await ledger.lane(lane)
            return view is not None and view.state is LaneState.ACTIVE and view.cursor == 5

        await until(active, 20.0)
        assert (await ledger.reserve(lane, "t3", 60_000, 0, 0)).nonce == 1
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await chain.close()


def settings(*addresses: str) -> Settings:
    return Settings.model_validate(
        {
            "networks": {"e": {"chain": "evm", "chain_id": CHAIN_ID, "rpc": [{"url": "http://127.0.0.1:1"}]}},
            "pools": {
                "hot": {"network": "e", "keys": ["env:HOT_KEY"]},
                "wallets": {"network": "e", "keyless": list(addresses)},
            },
        }
    )


async def test_an_address_that_is_configured_as_both_is_refused(monkeypatch):
    signer, other = new_signer(), new_signer()
    monkeypatch.setenv("HOT_KEY", signer._key.to_hex())
    with pytest.raises(InvalidSettings, match=r"pools\.wallets\.keyless: pool hot has the key"):
        build_services(settings(signer.address))
    services, [chain] = build_services(settings(other.address))
    specs = {lane: service.spec for lane, service in services.items()}
    assert {lane: spec.keyless for lane, spec in specs.items()} == {lane_of(signer): False, lane_of(other): True}
    assert specs[lane_of(other)].weight == 0
    await chain.close()


def test_a_keyless_pool_signs_nothing():
    kinds = build_kinds(settings(new_signer().address))
    payload = {"to": new_signer().address, "value": "1"}
    assert kinds["evm.transfer"].read("hot", payload).deposit == 1
    with pytest.raises(InvalidInput, match="its callers do"):
        kinds["evm.transfer"].read("wallets", payload)
    assert "evm.raw" not in kinds

"""Addresses whose key the caller holds: the monitor sees their troubles and says so, and touches nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from structlog.testing import capture_logs

from tests.evm.nonce_stage import nonce_service
from tests.evm.stage import CHAIN_ID
from tests.evm.watch import LIMITS
from tests.waiting import until
from txmanager.chains.evm import LaneId
from txmanager.chains.evm.reader import EvmReader
from txmanager.core.alerts import Alert, Check
from txmanager.core.health import Health
from txmanager.ledger.redis import RedisLedger
from txmanager.rpc.endpoint import Endpoint
from txmanager.runtime.care.monitor import Monitor, Watched
from txmanager.settings import load


async def test_a_gap_stuck_bytes_and_foreign_use_are_alerted_about_and_nothing_is_touched(make_anvil, redis7):
    anvil = make_anvil("--no-mining")
    with nonce_service(anvil, redis7.url, reserve_for_s=2.0) as service, capture_logs() as logs:
        prefix = load(service.folder / "txmanager.toml", {}).ledger.prefix
        ledger = RedisLedger(redis7.url, prefix=prefix, durability="none")
        reader = EvmReader(CHAIN_ID, [Endpoint(anvil.url)])
        limits = replace(LIMITS, stuck_after_ms=1, overdue_after_ms=3_600_000)
        watched = Watched("local", reader, limits)
        monitor = Monitor(ledger, {f"evm:{CHAIN_ID}": watched})
        wallet = service.wallet()
        lane = str(LaneId(CHAIN_ID, wallet.address))

        async def seen() -> Health:
            return {health.lane: health for health in await monitor.check_all()}[lane]

        def said(event: str, alert: Alert) -> bool:
            return any(x["event"] == event and x["lane"] == lane and x.get("alert") == alert.value for x in logs)

        try:
            # The first number is reserved and never sent; the two above it are.
            held = [await asyncio.to_thread(service.reserve, wallet) for _ in range(3)]
            assert [one["nonce"] for one in held] == [0, 1, 2]
            for one in held[1:]:
                raw = wallet.sign(one["nonce"], service.receiver)
                assert (await asyncio.to_thread(service.send, raw, one["reservation"])).is_success
            await until(lambda: anvil.rpc("txpool_status")["queued"] == "0x2", 20.0)

            async def gap() -> bool:
                return (await seen()).gaps == (0,)

            await until(gap, 20.0, every=0.2, what="the number that expired is a gap")
            found = await seen()
            assert {Alert.GAP, Alert.STUCK} <= set(found.alerts)
            assert (found.tracked_nonce, found.chain_nonce, len(found.pending)) == (3, 0, 2)
            for alert in (Alert.GAP, Alert.STUCK):
                assert said("nonce alert", alert)
            # Many rounds later: no request to anybody, no money, no byte that the caller did not sign.
            for _ in range(10):
                await seen()
            view = await ledger.lane(lane)
            assert view is not None
            assert (view.check, view.cursor) == (Check(), 3)
            assert anvil.rpc("txpool_status") == {"pending": "0x0", "queued": "0x2"}
            assert [x for x in await ledger.lanes("hot") if x.depth] == []
            sample = monitor.metrics.registry.get_sample_value
            assert sample("txmanager_monitor_asks_total", {"lane": lane}) is None
            assert sample("txmanager_nonce_gaps", {"lane": lane}) == 1
            assert service.health(wallet)["gapCount"] == 1
            # The number is handed out again; what the caller sends with it lets the others land.
            again = await asyncio.to_thread(service.reserve, wallet)
            assert again["nonce"] == 0
            raw = wallet.sign(0, service.receiver)
            assert (await asyncio.to_thread(service.send, raw, again["reservation"])).is_success
            await until(lambda: anvil.rpc("txpool_status")["pending"] == "0x3", 20.0)
            anvil.rpc("evm_mine")
            found = await seen()
            assert found.healthy
            assert said("nonce alert over", Alert.GAP)
            # Past the service, with the same key.
            anvil.rpc("eth_sendRawTransaction", wallet.sign(3, service.receiver))
            assert Alert.FOREIGN in (await seen()).alerts
            assert (await ledger.lane(lane)).state.value == "active"
            assert not any("fixed" in str(line) or "healed" in str(line) for line in logs)
        finally:
            await reader.close()
            await ledger.close()

"""Readiness: one pool that stands still takes nothing else out, and nobody reads other people's words there."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import httpx
import pytest

from tests.api.stage import Stage
from tests.waiting import until_sync
from txmanager.core.states import LaneState
from txmanager.settings import load
from txmanager.wiring import open_ledger

SECRET_WORDS = "customer 4711 owes us"


def ready(stage: Stage, query: str = "") -> tuple[int, dict[str, Any]]:
    answer = httpx.get(f"{stage.url}/readyz{query}")
    return answer.status_code, answer.json()


@pytest.fixture
def two_pools(make_stage, redis7, devnet, prefix) -> Stage:
    """Pool `main` with a worker, and pool `spare` that nobody serves."""
    stage: Stage = make_stage(redis7.url, prefix, devnet, lanes=2)
    return stage.start()


def lanes(stage: Stage) -> list[str]:
    return [str(lane["lane"]) for lane in stage.client.get("/v1/lanes").json()["lanes"]]


def test_a_paused_pool_takes_neither_the_api_nor_the_other_pools_out(two_pools: Stage):
    status, told = ready(two_pools)
    assert (status, told["status"]) == (200, "degraded"), "pool spare has no lane; pool main works"
    assert ready(two_pools, "?pool=main")[0] == 200
    assert ready(two_pools, "?pool=spare")[0] == 503
    for lane in lanes(two_pools):
        assert two_pools.post(f"/v1/lanes/{lane}/pause", {"reason": SECRET_WORDS}, by="ops").status_code == 200
    until_sync(lambda: ready(two_pools, "?pool=main")[0] == 503, what="the pool's lanes are paused")
    status, told = ready(two_pools)
    assert (status, told["status"]) == (503, "unready"), "no pool works at all"
    assert told["checks"]["pool:main"]["reason"] == "no_active_lane"
    assert ready(two_pools, "?for=submit")[0] == 200, "the ledger answers: whatever can be accepted is"
    for query in ("", "?for=submit", "?pool=main"):
        assert SECRET_WORDS not in str(ready(two_pools, query)), "a lane's reason is not for everybody"


def test_a_quarantined_lane_beside_working_ones_is_said(two_pools: Stage):
    async def quarantine(lane: str) -> None:
        ledger = await open_ledger(load(two_pools.config, {}))
        try:
            await ledger.set_lane(lane, LaneState.QUARANTINED, SECRET_WORDS)
        finally:
            await ledger.close()

    assert ready(two_pools, "?pool=main")[1]["status"] == "ready"
    asyncio.run(quarantine(lanes(two_pools)[0]))
    until_sync(lambda: ready(two_pools, "?pool=main")[1]["status"] == "degraded", what="the quarantine is said")
    status, told = ready(two_pools, "?pool=main")
    assert status == 200, "the other lane works"
    assert told["checks"]["pool:main"]["reason"] == "quarantined"
    assert told["checks"]["pool:main"]["lanes"] == {"active": 1, "quarantined": 1}
    assert SECRET_WORDS not in str(told)


def test_submit_readiness_needs_the_ledger_and_nothing_else(make_stage, make_server, devnet):
    server = make_server(config={"appendonly": "yes", "appendfsync": "always"})
    stage: Stage = make_stage(server.url, f"t{secrets.token_hex(4)}", devnet)
    stage.start_api()
    assert ready(stage, "?for=submit")[0] == 200, "no worker was ever there"
    assert ready(stage)[0] == 503
    server.kill9()
    until_sync(lambda: ready(stage, "?for=submit")[0] == 503, what="the ledger's death is noticed")
    told = ready(stage)[1]["checks"]["ledger"]
    assert (told["ok"], told["reason"]) in [(False, "unavailable"), (False, "no_answer")]
    assert server.address not in str(told), "what an error says stays in the log"
    assert '"part": "ledger"' in stage.api.log_file.read_text()
    server.start()
    until_sync(lambda: ready(stage, "?for=submit")[0] == 200, what="the ledger is back")


def test_an_unknown_pool_is_named_as_such(stage: Stage):
    status, told = ready(stage, "?pool=nowhere")
    assert (status, told["field"]) == (422, "pool")

"""The ledger goes away and comes back: refused within a second, nothing half accepted, recovered without help."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from tests.api.stage import Stage, bearer
from tests.servers.proxy import FaultProxy
from tests.waiting import until


@pytest.fixture
async def proxy(redis7):
    host, _, port = redis7.url.removeprefix("redis://").partition("/")[0].rpartition(":")
    async with FaultProxy(host, int(port)) as running:
        yield running


@pytest.mark.alone
@pytest.mark.parametrize("weather", ["refuse", "blackhole"])
async def test_without_its_ledger_the_api_answers_503_within_a_second_and_recovers(
    make_stage, proxy, devnet, prefix, weather, redis7
):
    stage: Stage = make_stage(f"redis://127.0.0.1:{proxy.port}/0", prefix, devnet, lanes=2)
    await asyncio.to_thread(stage.start)
    body = {"pool": "main", "kind": "near.transfer", "payload": {"receiver_id": "dev1.near", "amount": "1"}}
    async with httpx.AsyncClient(base_url=stage.url, headers=bearer(), timeout=20) as client:

        async def submit(n: int, wait: float = 0) -> tuple[httpx.Response, float]:
            began = time.monotonic()
            headers = {"Idempotency-Key": f"{weather}-{n}"}
            answer = await client.post(f"/v1/intents?wait={wait}", json=body, headers=headers)
            return answer, time.monotonic() - began

        assert (await submit(0))[0].status_code == 202
        getattr(proxy, weather)()
        answers = await asyncio.gather(*(submit(n) for n in range(1, 21)))
        for answer, _ in answers:
            assert answer.status_code == 503, answer.text
            assert answer.json()["code"] in ("unavailable", "unconfirmed")
            assert int(answer.headers["retry-after"]) >= 1
        for _ in range(3):
            answer, took = await submit(1)
            assert answer.status_code == 503
            assert took < 1.0
        began = time.monotonic()
        assert (await client.get(f"/v1/intents/{weather}-0?pool=main")).status_code == 503
        assert time.monotonic() - began < 1.0
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert not ready.json()["checks"]["ledger"]["ok"]
        assert (await client.get("/healthz")).status_code == 200
        proxy.heal(drop=True)

        async def accepted() -> bool:
            return (await submit(0))[0].status_code == 200

        await until(accepted, 10, what="the API recovers by itself")
        again = await asyncio.gather(*(submit(n, wait=20) for n in range(1, 21)))
        assert {answer.json()["status"] for answer, _ in again} == {"done"}
        hashes = {answer.json()["tx_hash"] for answer, _ in again}
        assert len(hashes) == 20, "each key had one life, whatever its 503 meant"

"""One token, through as many API processes as it likes: its rate is its rate, and it never fills the memory of all."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.attacks.several import ALL, LANE, Several
from tests.waiting import until_sync
from txmanager.api.auth import Caller
from txmanager.api.problems import QuotaUsed
from txmanager.api.quotas import TokenQuotas
from txmanager.core.models import LaneSpec, intent_id
from txmanager.core.quotas import Room
from txmanager.ledger.memory import MemoryLedger
from txmanager.settings import TokenLimits

OTHER_LANE = "near:localnet:relayer.near:ed25519:B"
TOKENS: dict[str, dict[str, Any]] = {
    "fast": {"scopes": ALL, "limits": {"per_second": 20, "burst": 40}},
    "few": {"scopes": ALL, "limits": {"max_queued": 5}},
    "big": {"scopes": ALL, "limits": {"max_queued_bytes": 300_000}},
    "free": {"scopes": ALL},
}


@pytest.fixture(scope="module")
def several(redis7) -> Iterator[Several]:
    with Several(redis7.url, TOKENS) as running:
        running.ledger(lambda ledger: ledger.register(LaneSpec(OTHER_LANE, "main")))
        yield running


def big(several: Several, key: str, size: int, *, by: str = "big", at: int = 0) -> httpx.Response:
    call = {"contract_id": "app.near", "method_name": "m", "args": {"x": "y" * size}}
    body = {"pool": "main", "kind": "near.function_call", "payload": call}
    return several.ask(by, "POST", "/v1/intents", at=at, json=body, headers={"Idempotency-Key": key})


def test_a_rate_holds_across_processes(several: Several):
    async def hammer() -> tuple[Counter[int], float]:
        headers = {"Authorization": f"Bearer {several.secrets['fast']}"}
        began, found = time.monotonic(), Counter[int]()
        async with httpx.AsyncClient(headers=headers, timeout=20) as client:

            async def one(port: int) -> None:
                while time.monotonic() - began < 2.0:
                    answer = await client.post(f"http://127.0.0.1:{port}/v1/intents", json={})
                    found[answer.status_code] += 1

            await asyncio.gather(*(one(port) for port in several.ports for _ in range(8)))
        return found, time.monotonic() - began

    found, took_s = asyncio.run(hammer())
    assert set(found) == {422, 429}, found
    admitted = sum(count for status, count in found.items() if status != 429)
    assert admitted <= 40 + 20 * took_s + 1, "two buckets would have let twice as many in"
    assert admitted >= 40, "and the burst is there for whoever comes"


def test_a_burst_is_not_granted_again_by_another_process_or_a_restart(redis7):
    tokens = {"slow": {"scopes": ALL, "limits": {"per_second": 0.01, "burst": 3}}}
    with Several(redis7.url, tokens) as several:
        asked = [several.ask("slow", "POST", "/v1/intents", at=n % 2, json={}).status_code for n in range(6)]
        assert (asked.count(422), asked.count(429)) == (3, 3)
        refused = several.ask("slow", "POST", "/v1/intents", json={})
        assert (refused.json()["code"], int(refused.headers["Retry-After"]) > 60) == ("quota_used", True)
        several.programs[0].kill()
        several.programs[0].start()
        until_sync(lambda: several.programs[0].said('"url"'), 30, what="the API listens again")
        assert several.ask("slow", "POST", "/v1/intents", json={}).status_code == 429


def test_a_busy_token_costs_the_ledger_ten_calls_a_second_and_not_one_each():
    ledger, calls = MemoryLedger(), 0
    draw = ledger.draw

    async def counted(name: str, per_second: float, burst: int, want: int) -> Any:
        nonlocal calls
        calls += 1
        return await draw(name, per_second, burst, want)

    ledger.draw = counted  # type: ignore[method-assign]

    async def storm() -> int:
        quotas = TokenQuotas(ledger, 1.0)
        caller, admitted = Caller("busy", limits=TokenLimits(per_second=1000, burst=1000)), 0
        for _ in range(2_000):
            try:
                await quotas.charge(caller)
                admitted += 1
            except QuotaUsed:
                pass
        return admitted

    assert 1_000 <= asyncio.run(storm()) <= 1_400
    assert calls <= 50


def test_a_token_has_only_so_many_waiting_and_others_go_on(several: Several):
    keys = [f"few-{n}" for n in range(8)]
    answers = [several.transfer("few", key, partition_key=key) for key in keys]
    assert [a.status_code for a in answers] == [202] * 5 + [429] * 3
    assert answers[-1].json()["code"] == "token_queue_full"
    assert several.transfer("few", keys[0], partition_key=keys[0]).status_code == 200, (
        "a retry is answered, room or not"
    )
    dry = {key: several.transfer("few", key, partition_key=key, dry_run=True).json()["accepted"] for key in keys}
    assert (dry[keys[0]]["status"], dry[keys[0]]["replayed"]) == (200, True)
    assert dry[keys[7]]["problem"]["code"] == "token_queue_full", "a dry run knows what acceptance knows"
    assert several.transfer("free", "free-1").status_code == 202
    # the other process learns of it within a second
    until_sync(lambda: several.transfer("few", secrets.token_hex(8), at=1).status_code == 429, 5)
    for key in keys[:2]:
        assert several.ask("few", "POST", f"/v1/intents/{key}/cancel").json()["status"] == "cancelled"
    until_sync(lambda: several.transfer("few", keys[6]).status_code in (200, 202), 5, every=0.2)
    assert several.ledger(lambda ledger: ledger.room("few")).count <= 5


def test_bodies_of_a_megabyte_stop_at_the_tokens_share(several: Several):
    answers = [big(several, f"big-{n}", 100_000) for n in range(6)]
    assert [a.status_code for a in answers] == [202, 202] + [429] * 4
    used = several.ledger(lambda ledger: ledger.room("big"))
    assert used.count == 2
    assert 200_000 < used.size <= 300_000
    assert big(several, "by-another", 100_000, by="free").status_code == 202
    refused = several.ledger(lambda ledger: ledger.read(intent_id("big-5", "main")))
    assert refused is None, "and nothing of it is kept"
    for n in range(2):
        several.ask("big", "POST", f"/v1/intents/big-{n}/cancel")
    assert several.ledger(lambda ledger: ledger.room("big")) == Room()


def test_every_token_has_a_share_by_default():
    most = TokenLimits().max_queued_bytes
    assert most is not None
    assert math.ceil((2 << 30) / most) >= 8, "no single token fills a small server"


def test_processes_that_ask_at_once_never_exceed_a_lanes_own_count(several: Several):
    """The sums of two processes are a second old; the lane's own count is exact."""

    async def storm() -> Counter[int]:
        headers = {"Authorization": f"Bearer {several.secrets['few']}"}
        body = {"kind": "near.transfer", "payload": {"receiver_id": "bob.near", "amount": "1"}, "pool": "main"}
        async with httpx.AsyncClient(headers=headers, timeout=20) as client:

            async def one(port: int, n: int) -> int:
                sent = {**body, "partition_key": "same"}
                key = {"Idempotency-Key": f"storm-{port}-{n}"}
                return (await client.post(f"http://127.0.0.1:{port}/v1/intents", json=sent, headers=key)).status_code

            return Counter(await asyncio.gather(*(one(port, n) for port in several.ports for n in range(30))))

    found = asyncio.run(storm())
    assert set(found) <= {202, 429}
    for lane in (LANE, OTHER_LANE):
        key = f"{several.prefix}:{{{lane}}}:lane"
        [count] = several.ledger(lambda ledger, key=key: ledger.runner.plain(key, ("HGET", key, "n:few")))  # type: ignore[misc]
        assert int(count or 0) <= 5

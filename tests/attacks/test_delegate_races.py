"""Delegates that compete for one nonce: the relayer pays for one of them, whoever sends them and through which pool."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.api.stage import ACCOUNTS, USER, Program, bearer
from tests.attacks.near_stage import Attacked
from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.runtime.stage import POOL, Running, Stage, metric
from tests.servers import free_port
from tests.waiting import until_sync
from txmanager.chains.near import actions as act
from txmanager.chains.near.names import PublicKey
from txmanager.chains.near.transaction import sign_delegate
from txmanager.core.models import Attempt, Intent, Record, new_intent
from txmanager.core.states import Status
from txmanager.signing import Ed25519Signer, Secret


def delegate(devnet: Devnet, user: dict[str, Any], amount: int, nonce: int, blocks: int = 1_000) -> str:
    inner = act.DelegateAction(
        sender_id=user["account_id"],
        receiver_id="dev1.near",
        actions=(act.Transfer(amount),),
        nonce=nonce,
        max_block_height=devnet.head()["height"] + blocks,
        public_key=PublicKey.parse(user["public_key"]),
    )
    signed = sign_delegate(inner, Ed25519Signer.parse(Secret(user["private_key"])))
    return base64.b64encode(signed.encode_bare()).decode()


def relay(
    lanes: Stage, user: dict[str, Any], key: str, amount: int, nonce: int, pool: str = POOL, **more: Any
) -> Intent:
    payload = {"signed_delegate": delegate(lanes.devnet, user, amount, nonce, blocks=100_000)}
    return new_intent(key=key, pool=pool, kind="near.delegate", payload=payload, **more)


def assert_unpaid(record: Record, *codes: str) -> None:
    assert record.status is Status.FAILED, record
    assert record.outcome is not None
    assert record.outcome.error is not None
    assert record.outcome.error["code"] in (codes or ("nonce_in_use",)), record
    assert not record.attempts, "it was signed"


@pytest.fixture(scope="module")
def devnet() -> Iterator[Devnet]:
    with Devnet(block_ms=50, accounts=ACCOUNTS, keys=4) as running:
        yield running


@pytest.fixture
def twins(redis7: HasUrl, devnet: Devnet) -> Iterator[tuple[Attacked, list[str]]]:
    """A worker with four lanes behind two API processes, and their addresses."""
    with Attacked(redis7.url, devnet, lanes=4) as stage:
        stage.start()
        port = free_port()
        (stage.folder / "second").mkdir()  # a program's log is beside its configuration
        config = stage.folder / "second" / "txmanager.toml"
        config.write_text(stage.config.read_text().replace(f"port = {stage.port}", f"port = {port}"))
        second = Program("api", config).start()
        try:
            until_sync(lambda: second.said('"url"'), 30, what="the second API listens")
            yield stage, [stage.url, f"http://127.0.0.1:{port}"]
        finally:
            second.kill()


def test_of_four_delegates_of_one_nonce_one_is_paid_for(twins: tuple[Attacked, list[str]], devnet: Devnet):
    stage, urls = twins
    user = devnet.account(USER)
    nonce = devnet.nonce(user, "final") + 1
    lanes = [{**stage.account, **key} for key in stage.account["keys"][:4]]
    used = sum(devnet.nonce(lane, "optimistic") for lane in lanes)

    def send(number: int) -> dict[str, Any]:
        body = {
            "pool": "main",
            "signed_delegate": delegate(devnet, user, number + 1, nonce),
            "partition_key": secrets.token_hex(8),  # a caller's wish does not spread them over lanes
        }
        path = f"{urls[number % 2]}/v1/near/delegate-actions?wait=30"
        answer = httpx.post(path, json=body, headers=bearer(), timeout=60)
        assert answer.status_code in (200, 202), answer.text
        return dict(answer.json())

    with ThreadPoolExecutor(4) as senders:
        records = list(senders.map(send, range(4)))
    assert len({record["lane"] for record in records}) == 1
    done = [record for record in records if record["status"] == "done"]
    failed = [record for record in records if record["status"] == "failed"]
    assert (len(done), len(failed)) == (1, 3), records
    for record in failed:
        assert record["error"]["code"] in ("nonce_in_use", "invalid_intent"), record
        assert not record.get("tx_hash"), "it was signed"
    assert sum(devnet.nonce(lane, "optimistic") for lane in lanes) == used + 1, "we paid for more than one"


async def test_what_is_in_flight_keeps_its_nonce_also_for_the_next_owner(lanes: Stage):
    """The first delegate never lands; whoever owns the lane refuses a second one of its nonce, and counts it."""
    user = next(lanes.fresh)
    nonce = lanes.devnet.nonce(user, "final") + 5
    lanes.devnet.fault("drop", signer_id=lanes.account["account_id"])
    first = await lanes.start()

    [stuck] = await lanes.submit(relay(lanes, user, "first", 1, nonce))
    await lanes.until_status(stuck, Status.INFLIGHT)
    await first.crash()
    second = await lanes.start()
    rivals = await lanes.submit(relay(lanes, user, "same", 2, nonce), relay(lanes, user, "lower", 3, nonce - 1))
    for record in await lanes.finals(rivals):
        assert_unpaid(record)
    assert metric(second.worker, "saved_total", lane=lanes.lane, why="nonce_in_use") == 2
    lanes.devnet.clear_faults()
    await lanes.done([stuck])
    await lanes.done(await lanes.submit(relay(lanes, user, "higher", 4, nonce + 1)))


# -- lanes that do not see each other: two pools, two tenants, two workers


async def two_pools(lanes: Stage) -> tuple[Running, Running, str]:
    other = next(lanes.fresh)
    return await lanes.start(), await lanes.start(other), lanes.pool_of(other)


def never_signs(running: Running) -> asyncio.Event:
    """Its signer was asked, and does not answer."""
    asked = asyncio.Event()

    async def sign(*_: object, **__: object) -> list[Attempt]:
        asked.set()
        await asyncio.Event().wait()
        return []

    running.chain.sign = sign  # type: ignore[method-assign]
    return asked


async def test_a_nonce_in_flight_of_one_pool_is_not_paid_for_by_another(lanes: Stage):
    """Also not once it ran, and not after the worker that found it out was killed."""
    user = next(lanes.fresh)
    nonce = lanes.devnet.nonce(user, "final") + 5
    _, second, pool = await two_pools(lanes)
    lanes.devnet.fault("drop", signer_id=lanes.account["account_id"])
    [stuck] = await lanes.submit(relay(lanes, user, "first", 1, nonce))
    await lanes.until_status(stuck, Status.INFLIGHT)
    rivals = await lanes.submit(
        relay(lanes, user, "same", 2, nonce, pool=pool),
        relay(lanes, user, "again", 3, nonce, pool=pool, tenant="other"),
        relay(lanes, user, "free", 4, nonce + 1, pool=pool),
    )
    *refused, free = await lanes.finals(rivals)
    for record in refused:
        assert_unpaid(record)
        assert "first" not in str(record.outcome), "another tenant's intent is not named"
    assert free.status is Status.DONE
    assert metric(second.worker, "saved_total", why="nonce_in_use") == 2
    # The higher nonce ran first, so the chain refuses the other. Its number is free again, and of no use.
    lanes.devnet.clear_faults()
    [over] = await lanes.finals([stuck])
    assert over.status is Status.FAILED
    [late] = await lanes.finals(await lanes.submit(relay(lanes, user, "late", 5, nonce, pool=pool)))
    assert_unpaid(late, "invalid_intent")


async def test_a_nonce_that_ran_is_not_paid_for_again_by_a_pool_whose_node_lags(lanes: Stage, monkeypatch):
    user = next(lanes.fresh)
    nonce = lanes.devnet.nonce(user, "final") + 1
    _, second, pool = await two_pools(lanes)
    await lanes.done(await lanes.submit(relay(lanes, user, "first", 1, nonce)))
    monkeypatch.setattr("txmanager.chains.near.chain.check_delegate_nonce", lambda *_: None)  # it saw the key before
    [rival] = await lanes.finals(await lanes.submit(relay(lanes, user, "same", 2, nonce, pool=pool)))
    assert_unpaid(rival)
    assert metric(second.worker, "saved_total", why="nonce_in_use") == 1


async def test_a_nonce_is_free_again_once_its_intent_ended_without_it(lanes: Stage):
    """Neither an intent that was never signed nor a crash keeps a user from using the nonce."""
    user = next(lanes.fresh)
    nonce = lanes.devnet.nonce(user, "final") + 1
    first, _, pool = await two_pools(lanes)
    asked = never_signs(first)
    [taken] = await lanes.submit(relay(lanes, user, "first", 1, nonce))
    await asyncio.wait_for(asked.wait(), 20)
    [rival] = await lanes.finals(await lanes.submit(relay(lanes, user, "same", 2, nonce, pool=pool)))
    assert_unpaid(rival)
    await first.crash()
    await lanes.ledger.cancel(taken)
    [ended] = await lanes.finals([taken])
    assert ended.status is Status.CANCELLED
    await lanes.done(await lanes.submit(relay(lanes, user, "now", 3, nonce, pool=pool)))


async def test_an_intent_finds_its_nonce_its_own_after_a_crash(lanes: Stage):
    user = next(lanes.fresh)
    nonce = lanes.devnet.nonce(user, "final") + 1
    first, _, pool = await two_pools(lanes)
    asked = never_signs(first)
    [taken] = await lanes.submit(relay(lanes, user, "first", 1, nonce))
    await asyncio.wait_for(asked.wait(), 20)
    await first.crash()
    await lanes.start()
    await lanes.done([taken])
    [rival] = await lanes.finals(await lanes.submit(relay(lanes, user, "same", 2, nonce, pool=pool)))
    assert_unpaid(rival, "invalid_intent", "nonce_in_use")


async def test_of_many_pools_that_get_one_nonce_at_once_one_pays(lanes: Stage):
    user = next(lanes.fresh)
    nonce = lanes.devnet.nonce(user, "final") + 1
    accounts = [next(lanes.fresh) for _ in range(6)]
    await asyncio.gather(*(lanes.start(account) for account in accounts))
    before = [lanes.devnet.nonce(account, "optimistic") for account in accounts]
    rivals = [
        relay(lanes, user, f"k{n}", n + 1, nonce, pool=lanes.pool_of(account)) for n, account in enumerate(accounts)
    ]
    records = await lanes.finals(await lanes.submit(*rivals))
    assert [r.status for r in records].count(Status.DONE) == 1, records
    for record in records:
        if record.status is not Status.DONE:
            assert_unpaid(record, "invalid_intent", "nonce_in_use")
    assert sum(lanes.devnet.nonce(account, "optimistic") for account in accounts) == sum(before) + 1

"""Delegates that compete for one nonce: the relayer pays for one of them, whoever sends them and wherever."""

from __future__ import annotations

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
from tests.runtime.stage import POOL, Stage
from tests.servers import free_port
from tests.waiting import until_sync
from txmanager.chains.near import actions as act
from txmanager.chains.near.names import PublicKey
from txmanager.chains.near.transaction import sign_delegate
from txmanager.core.models import new_intent
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

    def relay(key: str, amount: int, nonce: int):
        payload = {"signed_delegate": delegate(lanes.devnet, user, amount, nonce, blocks=100_000)}
        return new_intent(key=key, pool=POOL, kind="near.delegate", payload=payload)

    [stuck] = await lanes.submit(relay("first", 1, nonce))
    await lanes.until_status(stuck, Status.INFLIGHT)
    await first.crash()
    second = await lanes.start()
    rivals = await lanes.submit(relay("same", 2, nonce), relay("lower", 3, nonce - 1))
    for record in await lanes.finals(rivals):
        assert record.status is Status.FAILED
        assert record.outcome is not None
        assert record.outcome.error is not None
        assert record.outcome.error["code"] == "nonce_in_use"
        assert not record.attempts
    saved = second.worker.metrics.saved.labels(lanes.lane, "nonce_in_use")
    assert saved._value.get() == 2
    lanes.devnet.clear_faults()
    await lanes.done([stuck])
    await lanes.done(await lanes.submit(relay("higher", 4, nonce + 1)))

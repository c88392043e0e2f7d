"""Lanes whose key may only call one contract: no-ops need a harmless call, or patience."""

from __future__ import annotations

import os
from typing import Any

import base58
import nacl.signing
import pytest
from near import wire

from tests.runtime.stage import POLICY, Stage
from tests.runtime.test_rules import PATIENT
from tests.waiting import until
from txmanager.chains.near import HarmlessCall, NearPolicy
from txmanager.core.models import Intent, Purpose, new_intent
from txmanager.core.states import Status

COUNTER = "counter.near"


def limited_key(stage: Stage) -> dict[str, Any]:
    """A key of the stage's account that may only call the counter."""
    key = nacl.signing.SigningKey(os.urandom(32))
    public = bytes(key.verify_key)
    permission = wire.AccessKeyPermission.FunctionCall(allowance=None, receiver_id=COUNTER, method_names=[])
    access = wire.AccessKey(nonce=0, permission=permission)
    action = wire.Action.AddKey(public_key=wire.PublicKeyWire.Ed25519(data=public), access_key=access)
    second = {**stage.account, **stage.account["keys"][1]}
    _, sent = stage.devnet.sign(second, stage.account["account_id"], action)
    stage.devnet.rpc("send_tx", {"signed_tx_base64": sent, "wait_until": "FINAL"})
    return {
        "account_id": stage.account["account_id"],
        "public_key": "ed25519:" + base58.b58encode(public).decode(),
        "private_key": "ed25519:" + base58.b58encode(bytes(key) + public).decode(),
    }


def count(stage: Stage, account: dict[str, Any], key: str) -> Intent:
    payload = {"contract_id": COUNTER, "method_name": "increment", "args": {"by": 1}}
    return new_intent(key=key, pool=stage.pool_of(account), kind="near.function_call", payload=payload)


@pytest.mark.parametrize("harmless", [None, HarmlessCall(COUNTER, "get_num")], ids=["none", "harmless call"])
async def test_a_cancelled_call_of_a_limited_key_ends_by_a_harmless_call_or_by_the_next_intent(
    stage: Stage, harmless: HarmlessCall | None
) -> None:
    account = limited_key(stage)
    stage.devnet.fault("drop", signer_id=account["account_id"])
    patience = PATIENT if harmless is None else POLICY
    running = await stage.start(account, policy=patience, near=NearPolicy(harmless_call=harmless))
    [id] = await stage.submit(count(stage, account, "lost"))
    await stage.until_status(id, Status.INFLIGHT)
    await stage.manager.cancel(id)
    if harmless is None:
        lane = running.worker._held[running.owned[0]].lane
        await until(lambda: any(not flight.killable for flight in lane.plan.flights), what="no no-op can be signed")
        stage.devnet.clear_faults()
        await stage.done(await stage.submit(count(stage, account, "next")))
    else:
        await until(lambda: attempts(stage, id, 2), what="the harmless call is recorded")
        stage.devnet.clear_faults()
    [record] = await stage.finals([id])
    assert record.status is Status.CANCELLED
    assert [a.purpose for a in record.attempts] == [Purpose.FIRST, Purpose.NOOP][: 1 if harmless is None else 2]
    assert record.attempts[0].dead


async def attempts(stage: Stage, id: Any, count: int) -> bool:
    return len((await stage.read(id)).attempts) == count


async def test_a_limited_key_works_and_refuses_what_it_may_not_call_before_signing(stage: Stage) -> None:
    account = limited_key(stage)
    await stage.start(account, policy=POLICY)
    wrong = stage.transfer("wrong", 1, pool=stage.pool_of(account))
    records = await stage.finals(await stage.submit(count(stage, account, "a"), wrong, count(stage, account, "b")))
    assert [r.status for r in records] == [Status.DONE, Status.FAILED, Status.DONE]
    assert records[1].attempts == ()

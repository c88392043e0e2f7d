"""Whoever may submit must not be able to take the relayer's account, nor to give it away."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.stage import ACCOUNTS, KEY, USER
from tests.attacks.near_stage import Attacked, token_lines
from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.waiting import until_sync
from txmanager.chains.near import actions as act
from txmanager.chains.near.names import PublicKey
from txmanager.chains.near.transaction import sign_delegate
from txmanager.core.models import new_intent
from txmanager.core.states import Status
from txmanager.devnet.contracts import CODE
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.manager import TxManager
from txmanager.settings import load
from txmanager.signing import Ed25519Signer, Secret
from txmanager.wiring import open_ledger

POOR = token_lines("poor", ["submit", "read"], {"max_deposit": 0})
NEAR = 10**24
OWN = "{own}"
"""Stands for the relayer's account."""


@pytest.fixture(scope="module")
def devnet() -> Iterator[Devnet]:
    with Devnet(block_ms=50, accounts=ACCOUNTS, keys=4) as running:
        yield running


@pytest.fixture(scope="module")
def closed(redis7: HasUrl, devnet: Devnet) -> Iterator[Attacked]:
    """A pool with the default policy."""
    with Attacked(redis7.url, devnet, tokens=POOR) as stage:
        yield stage.start()


@pytest.fixture(scope="module")
def opened(redis7: HasUrl, devnet: Devnet) -> Iterator[Attacked]:
    """A pool whose policy names two effects on its own account."""
    with Attacked(redis7.url, devnet, 'own_account = ["add_key", "function_call"]', POOR) as stage:
        yield stage.start()


@pytest.fixture
def key() -> str:
    return f"k-{secrets.token_hex(8)}"


def on(receiver: str, *actions: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "near.transaction", {"receiver_id": receiver, "actions": list(actions)}


CALL: dict[str, Any] = {"type": "function_call", "method_name": "reset"}
CODE_TEXT = base64.b64encode(CODE["counter"]).decode()
ATTACKS: dict[str, tuple[str, dict[str, Any]]] = {
    "delete_account": on(OWN, {"type": "delete_account", "beneficiary_id": "dev1.near"}),
    "delete_account behind a transfer": on(
        OWN, {"type": "transfer", "amount": "0"}, {"type": "delete_account", "beneficiary_id": "dev1.near"}
    ),
    "add_key": ("near.add_key", {"public_key": KEY}),
    "add_key in a transaction": on(OWN, {"type": "add_key", "public_key": KEY}),
    "add_key on another's account": on("dev1.near", {"type": "add_key", "public_key": KEY}),
    "a limited key": (
        "near.add_key",
        {"public_key": KEY, "permission": {"receiver_id": "counter.near", "method_names": []}},
    ),
    "delete_key": on(OWN, {"type": "delete_key", "public_key": "{key}"}),
    "deploy_contract": on(OWN, {"type": "deploy_contract", "code_base64": CODE_TEXT}),
    "stake": on(OWN, {"type": "stake", "stake": str(NEAR), "public_key": KEY}),
    "transfer_to_gas_key": on(OWN, {"type": "transfer_to_gas_key", "public_key": KEY, "amount": "0"}),
    "withdraw_from_gas_key": on(OWN, {"type": "withdraw_from_gas_key", "public_key": KEY, "amount": "1"}),
    "a private method": ("near.function_call", {"contract_id": OWN, "method_name": "reset"}),
    "a private method in a transaction": on(OWN, CALL),
    "a private method as a recovery": (
        "near.recovery",
        {"account_id": "alice.near", "message_id": "m", "contract_id": OWN, "method_name": "reset"},
    ),
    "a private method as a root contract": (
        "near.create_account",
        {"new_account_id": f"x.{OWN}", "public_key": KEY, "root_contract": OWN},
    ),
}


def aimed(value: Any, stage: Attacked) -> Any:
    """The attack with this stage's own account and key in it."""
    if isinstance(value, dict):
        return {name: aimed(item, stage) for name, item in value.items()}
    if isinstance(value, list):
        return [aimed(item, stage) for item in value]
    return value.format(own=stage.account_id, key=stage.account["public_key"]) if isinstance(value, str) else value


@pytest.mark.parametrize("by", ["poor", "all"])
@pytest.mark.parametrize("attack", ATTACKS)
def test_nobody_takes_the_relayers_account_by_default(closed: Attacked, key: str, attack: str, by: str):
    kind, payload = ATTACKS[attack]
    before = closed.standing()
    refused = closed.post_intent(kind, aimed(payload, closed), key=key, by=by)
    assert refused.status_code == 403, refused.text
    assert refused.json()["kept"] == "Nothing was accepted or changed."
    assert closed.get(f"/v1/intents/{key}", by=by).status_code == 404
    assert closed.queued() == 0
    assert closed.standing() == before


def test_the_typed_routes_are_held_to_it_too(closed: Attacked, key: str):
    body = {"pool": "main", "receiver_id": closed.account_id, "actions": [CALL]}
    assert closed.post("/v1/near/transactions", body, key=key).json()["code"] == "own_account_refused"
    body = {"pool": "main", "account_id": "alice.near", "message_id": "m", "method_name": "reset"}
    refused = closed.post("/v1/near/recoveries", {**body, "contract_id": closed.account_id})
    assert (refused.status_code, refused.json()["code"]) == (403, "own_account_refused")


def test_the_policy_alone_is_not_enough_and_neither_is_the_scope(opened: Attacked, key: str):
    fresh = Ed25519Signer.generate().public_key
    refused = opened.post_intent("near.add_key", {"public_key": fresh}, key=key, by="poor")
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert "operate" in refused.json()["detail"]
    kind, payload = ATTACKS["delete_account"]
    refused = opened.post_intent(kind, aimed(payload, opened), key=key, by="all")
    assert (refused.status_code, refused.json()["code"]) == (403, "own_account_refused")
    done = opened.post_intent("near.add_key", {"public_key": fresh}, key=key, by="all", wait=20)
    assert done.json()["status"] == "done", done.text
    assert fresh in opened.standing()[2]
    noted = [entry for entry in opened.get("/v1/audit").json()["audit"] if fresh in entry["told"]]
    assert [(entry["who"], entry["refused"]) for entry in noted] == [("all", ""), ("poor", "forbidden")]


def test_what_does_not_touch_the_own_account_works_as_before(closed: Attacked, key: str):
    """Sub-accounts with keys and code, calls of others' contracts, transfers to oneself."""
    name = f"s{secrets.token_hex(4)}.{closed.account_id}"
    recovery = {
        "account_id": "alice.near",
        "message_id": key,
        "contract_id": "counter.near",
        "method_name": "increment",
    }
    contract = on(
        name,
        {"type": "create_account"},
        {"type": "transfer", "amount": str(5 * NEAR)},
        {"type": "deploy_contract", "code_base64": CODE_TEXT},
        {"type": "add_key", "public_key": KEY},
        CALL,
    )
    for n, (kind, payload, by) in enumerate(
        [
            ("near.function_call", {"contract_id": "counter.near", "method_name": "increment"}, "poor"),
            ("near.recovery", recovery, "poor"),
            ("near.transfer", {"receiver_id": closed.account_id, "amount": "0"}, "poor"),
            ("near.create_account", {"new_account_id": f"c{name}", "public_key": KEY, "initial_balance": "7"}, "all"),
            (*contract, "all"),
        ]
    ):
        answer = closed.post_intent(kind, payload, key=f"{key}-{n}", by=by, wait=20)
        assert answer.json()["status"] == "done", answer.text


def test_deleting_an_account_is_an_unlimited_deposit(closed: Attacked, key: str):
    """A new account that is deleted at once pays its balance, whatever else there is, to its beneficiary."""
    name = f"d{secrets.token_hex(4)}.{closed.account_id}"
    payload = {"receiver_id": name, "actions": [{"type": "create_account"}, {"type": "transfer", "amount": "0"}]}
    payload["actions"].append({"type": "delete_account", "beneficiary_id": "dev1.near"})  # type: ignore[attr-defined]
    refused = closed.post_intent("near.transaction", payload, key=key, by="poor")
    assert (refused.status_code, refused.json()["field"]) == (403, "deposit"), refused.text
    assert "the whole balance" in refused.json()["detail"]


# -- the ledger is not authority


async def test_a_worker_signs_nothing_that_takes_its_account_whoever_queued_it(closed: Attacked, key: str):
    """Queued beside the API, as an embedding program, an older release or whoever writes to Redis would."""
    before = closed.standing()
    ledger = await open_ledger(load(closed.config, {}))
    assert isinstance(ledger, RedisLedger)
    try:
        manager = TxManager(ledger)
        for n, (kind, payload) in enumerate(ATTACKS.values()):
            wanted = new_intent(key=f"{key}-{n}", pool="main", kind=kind, payload=aimed(payload, closed))
            await manager.submit(wanted)
        for n in range(len(ATTACKS)):
            record = await manager.wait("main", f"{key}-{n}", 20)
            assert record.status is Status.FAILED
            assert record.attempts == ()
            assert record.outcome is not None
            assert (record.outcome.error or {})["code"] == "own_account_refused"
    finally:
        await ledger.close()
    assert closed.standing() == before


# -- delegates


def delegated(stage: Attacked, *actions: act.PlainAction, **more: Any) -> str:
    user = stage.devnet.account(USER)
    told: dict[str, Any] = {
        "sender_id": user["account_id"],
        "receiver_id": "dev1.near",
        "actions": actions,
        "nonce": secrets.randbelow(10**6) + stage.devnet.nonce(user, "final") + 1,
        "max_block_height": stage.devnet.head()["height"] + 1000,
        "public_key": PublicKey.parse(user["public_key"]),
        **more,
    }
    signed = sign_delegate(act.DelegateAction(**told), Ed25519Signer.parse(Secret(user["private_key"])))
    return base64.b64encode(signed.encode_bare()).decode()


INNER: dict[str, act.PlainAction] = {
    "add_key": act.AddKey(PublicKey.parse(KEY)),
    "delete_key": act.DeleteKey(PublicKey.parse(KEY)),
    "delete_account": act.DeleteAccount("dev1.near"),
    "deploy_contract": act.DeployContract(b"x" * 1000),
    "stake": act.Stake(1, PublicKey.parse(KEY)),
    "create_account": act.CreateAccount(),
}


@pytest.mark.parametrize("name", INNER)
def test_a_delegate_holds_calls_and_transfers_and_nothing_else(closed: Attacked, name: str):
    user = closed.devnet.account(USER)["account_id"]
    body = {"pool": "main", "signed_delegate": delegated(closed, INNER[name], receiver_id=user)}
    refused = closed.post("/v1/near/delegate-actions", body)
    assert (refused.status_code, refused.json()["code"]) == (422, "policy_refused"), refused.text
    assert name in refused.json()["detail"]
    assert closed.queued() == 0


def test_a_list_of_methods_lets_no_other_action_pass(redis7: HasUrl, devnet: Devnet):
    call = act.FunctionCall("increment", b"{}", 10**13)
    with Attacked(redis7.url, devnet, 'delegate_methods = ["increment"]') as stage:
        stage.start()
        for actions in ((act.Transfer(1),), (call, act.Transfer(1)), (act.FunctionCall("reset", b"{}", 10**13),)):
            body = {"pool": "main", "signed_delegate": delegated(stage, *actions, receiver_id="counter.near")}
            refused = stage.post("/v1/near/delegate-actions", body)
            assert (refused.status_code, refused.json()["code"]) == (422, "policy_refused"), refused.text
        body = {"pool": "main", "signed_delegate": delegated(stage, call, receiver_id="counter.near")}
        done = stage.post("/v1/near/delegate-actions?wait=20", body)
        assert done.json()["status"] == "done", done.text
        until_sync(lambda: stage.queued() == 0, what="nothing is left")

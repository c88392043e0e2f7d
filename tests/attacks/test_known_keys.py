"""A retry is never refused because the rules changed meanwhile; and nobody takes a key that we derive ourselves."""

from __future__ import annotations

import base64
import secrets
from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.stage import ACCOUNTS, KEY
from tests.attacks.near_stage import Attacked, token_lines
from tests.attacks.test_token_policy import delegated
from tests.conftest import HasUrl
from tests.devnet.process import Devnet
from tests.runtime.stage import Counting
from txmanager.api.app import build_app
from txmanager.chains.near import KINDS, PublicKey
from txmanager.chains.near import actions as act
from txmanager.chains.near.intents import derived_key
from txmanager.chains.near.reading import ELSEWHERE, read
from txmanager.core.given import RAW_KEY
from txmanager.core.kinds import FILL_KEY, KEYS_KEY, RESERVED_KEYS
from txmanager.core.models import LaneSpec, new_intent
from txmanager.core.purses import top_up_key
from txmanager.ledger.memory import MemoryLedger
from txmanager.runtime.manager import TxManager
from txmanager.settings import Settings

SHOP = ["submit", "read"]
BEFORE = token_lines("shop", SHOP, {"pools": ["main"]})
NOTHING = {"pools": ["main"], "kinds": [], "receivers": [], "max_deposit": 0}
"""A token that may ask for nothing at all any more."""
POLICY = 'max_deposit = 0\ndelegate_receivers = []\ndelegate_actions = ["add_key"]'


@pytest.fixture(scope="module")
def devnet() -> Iterator[Devnet]:
    with Devnet(block_ms=50, accounts=ACCOUNTS, keys=4) as running:
        yield running


def same(first: httpx.Response, again: httpx.Response) -> None:
    assert again.status_code == 200, again.text
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()


def test_a_retry_is_answered_whatever_the_rules_are_now(redis7: HasUrl, devnet: Devnet):
    with Attacked(redis7.url, devnet, 'own_account = ["add_key"]', BEFORE) as stage:
        stage.start()
        name = f"c{secrets.token_hex(4)}.{stage.account_id}"
        account = {"new_account_id": name, "new_public_key": KEY, "initial_balance": "5"}
        first = stage.transfer("t", "5", by="shop", wait=20)
        key_added = stage.post_intent("near.add_key", {"public_key": KEY}, key="own", by="all", wait=20)
        created = stage.post("/v1/near/accounts?wait=20", {"pool": "main", **account}, by="shop")
        relayed = {"pool": "main", "signed_delegate": delegated(stage, act.Transfer(1))}
        aliased = stage.post("/v1/near/delegate-actions?wait=20", relayed, key="mine", by="shop")
        for answer in (first, key_added, created, aliased):
            assert answer.json()["status"] == "done", answer.text

        elsewhere = token_lines("elsewhere", SHOP, {"pools": ["spare"]})
        foreign = token_lines("foreign", SHOP, NOTHING, tenant="foreign")
        stage.change_rules(POLICY, token_lines("shop", SHOP, NOTHING) + elsewhere + foreign)
        same(first, stage.transfer("t", "5", by="shop"))
        same(key_added, stage.post_intent("near.add_key", {"public_key": KEY}, key="own", by="shop"))
        same(created, stage.post("/v1/near/accounts", {"pool": "main", **account}, by="shop"))
        same(aliased, stage.post("/v1/near/delegate-actions", relayed, key="mine", by="shop"))
        same(aliased, stage.post("/v1/near/delegate-actions", relayed, by="shop"))
        # everything else is refused as ever: another payload, a new key, no scope, no such pool, another tenant
        assert stage.transfer("t", "6", by="shop").status_code == 403
        assert stage.transfer("new", "5", by="shop").status_code == 403
        assert stage.post("/v1/near/delegate-actions", relayed, key="new", by="shop").status_code == 403
        assert stage.transfer("t", "5", by="reader").status_code == 403
        assert stage.transfer("t", "5", by="elsewhere").status_code == 403
        assert stage.transfer("t", "5", by="foreign").status_code == 403
        assert stage.get("/v1/intents/new").status_code == 404
        assert stage.queued() == 0


# -- what it costs


NEAR = {
    "networks": {"n": {"chain": "near", "rpc": [{"url": "http://127.0.0.1:1"}]}},
    "pools": {"main": {"network": "n", "account": "relayer.near", "policy": {"max_deposit": 5}}},
}


class Counted:
    """The API in this process, over a ledger that counts what it is asked."""

    def __init__(self) -> None:
        self.ledger = Counting(MemoryLedger())

    async def __aenter__(self) -> Counted:
        await self.ledger.register(LaneSpec(f"near:n:relayer.near:{KEY}", "main"))
        self.manager = TxManager(self.ledger)  # type: ignore[arg-type]
        app = build_app(self.manager, Settings.model_validate(NEAR))
        self.http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost")
        await self.post("warm")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def post(self, key: str, amount: int = 1) -> tuple[int, Counter[str]]:
        self.ledger.counts.clear()
        payload = {"receiver_id": "bob.near", "amount": str(amount)}
        body = {"pool": "main", "kind": "near.transfer", "payload": payload}
        answer = await self.http.post("/v1/intents", json=body, headers={"Idempotency-Key": key})
        return answer.status_code, self.ledger.counts


async def test_only_what_is_refused_asks_whether_it_is_known():
    async with Counted() as api:
        assert await api.post("k") == (202, Counter(accept=1))
        assert await api.post("new", 6) == (422, Counter(read=1))


# -- keys that we derive


@pytest.mark.parametrize(
    "squatted",
    ["top-up:evm:1:0x1:99", "raw:0x00", "create:a.near:k", "recovery:a.near:m", "delegate:x", "top-up:", "raw:"],
)
async def test_nobody_takes_a_key_that_we_derive(squatted: str):
    async with Counted() as api:
        status, asked = await api.post(squatted)
        assert (status, asked["accept"], asked["claim"], asked["append"]) == (400, 0, 0, 0)


def test_every_key_that_we_derive_is_reserved():
    """A new kind of derived key must not be forgotten in the list."""
    inner = act.DelegateAction("a.near", "b.near", (act.Transfer(1),), 1, 9, PublicKey.parse(KEY))
    signed = base64.b64encode(act.SignedDelegate(inner, 0, bytes(64)).encode_bare()).decode()
    derived = [
        top_up_key("evm:1:0x1", 5, 0, 60_000),
        f"{RAW_KEY}0x1",
        f"{FILL_KEY}0x1",
        f"{KEYS_KEY}0x1",
        derived_key("near.delegate", {"signed_delegate": signed}),
    ]
    for kind in KINDS.keys() - {"near.delegate"}:
        examples: Any = KINDS[kind].model_config["json_schema_extra"]
        derived += [read(kind, example, ELSEWHERE).derived_key for example in examples["examples"]]
    assert {key.partition(":")[0] + ":" for key in derived if key} == set(RESERVED_KEYS)


async def test_such_a_key_that_an_older_release_accepted_is_still_answered():
    async with Counted() as api:
        payload = {"receiver_id": "bob.near", "amount": "1"}
        await api.manager.submit(new_intent(key="raw:mine", pool="main", kind="near.transfer", payload=payload))
        assert (await api.post("raw:mine"))[0] == 200
        assert (await api.post("raw:mine", 2))[0] == 400


async def test_a_caller_may_send_the_very_key_that_its_payload_derives():
    async with Counted() as api:
        payload = {"account_id": "a.near", "message_id": "m", "contract_id": "r.near", "method_name": "recover"}
        body = {"pool": "main", "kind": "near.recovery", "payload": payload}
        for key, status in (("recovery:a.near:m", 202), ("recovery:a.near:other", 400)):
            answer = await api.http.post("/v1/intents", json=body, headers={"Idempotency-Key": key})
            assert answer.status_code == status, answer.text

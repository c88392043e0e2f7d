"""What a token with an allow-list of receivers can do on an EVM chain: no more than the list says, on every route."""

from __future__ import annotations

import os
import secrets
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.stage import bearer
from tests.attacks.near_stage import token_lines
from tests.conftest import HasUrl
from tests.evm.machines import ROOT, Anvil
from tests.evm.nonce_stage import Service, nonce_service
from tests.evm.stage import new_signer
from tests.servers.processes import end, free_port, spawn
from tests.waiting import until_sync
from txmanager.chains.evm.names import checksummed
from txmanager.core.models import LaneSpec, intent_id
from txmanager.core.purses import top_up_key
from txmanager.ledger.redis import RedisLedger
from txmanager.runtime.accept.billing import build_billing
from txmanager.runtime.care.purses import PurseKeeper
from txmanager.settings import Settings
from txmanager.wiring import build_purses, open_ledger

HOT = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
LANE = f"evm:31337:{HOT}"
BOB = new_signer().address
WASTES = "0x5b600056"
"""Init code that runs for ever: it takes all the gas there is, and creates nothing."""
EMPTY = "0x00"
"""Init code of a contract without code."""
PAYER = {"receivers": [checksummed(BOB)], "max_deposit": 5}
TOKENS = (
    token_lines("all", ["submit", "read", "operate"])
    + token_lines("payer", ["submit", "read"], PAYER)
    + token_lines("deployer", ["submit", "read"], {"receivers": ["create"]})
)


@pytest.fixture(scope="module")
def service(redis7: HasUrl) -> Iterator[Service]:
    with Anvil() as node, nonce_service(node, redis7.url, tokens=TOKENS) as running:
        running.http[0].headers.update(bearer("all"))
        until_sync(lambda: running.http[0].get(f"/v1/lanes/{LANE}").status_code == 200, 60.0, what="a lane is there")
        yield running


@pytest.fixture
def key() -> str:
    return f"k-{secrets.token_hex(8)}"


def post(service: Service, path: str, body: dict[str, Any], key: str, by: str) -> httpx.Response:
    return service.http[0].post(path, json=body, headers={**bearer(by), "Idempotency-Key": key})


def creations(payload: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The same creation by every route."""
    sent = {"gasLimit" if name == "gas" else name: value for name, value in payload.items() if name != "simulate"}
    return {
        "/v1/intents?wait=20": {"pool": "hot", "kind": "evm.transaction", "payload": payload},
        "/v1/evm/transactions?wait=20": {"pool": "hot", **payload},
        "/evm/transaction/send?wait=20": {"networkId": "local", "from": HOT, **sent},
    }


def test_an_allow_list_without_create_refuses_creations(service: Service, key: str):
    balance, count = service.machine.balance(HOT), service.machine.count(HOT)
    payload = {"data": WASTES, "gas": "29000000", "simulate": False}
    for path, body in creations(payload).items():
        refused = post(service, path, body, key, "payer")
        assert (refused.status_code, refused.json()["field"]) == (403, "receiver_id"), refused.text
        assert "create" in refused.json()["detail"]
    assert service.http[0].get(f"/v1/intents/{key}").status_code == 404
    assert (service.machine.balance(HOT), service.machine.count(HOT)) == (balance, count)


def test_bytes_that_create_a_contract_are_held_to_it_too(service: Service):
    wallet = service.wallet()
    raw = wallet.create(0, EMPTY)
    told = {"signedTransaction": raw, "networkId": "local", "reservation": service.reserve(wallet)["reservation"]}
    refused = service.post("transaction/sendRaw", told, headers=bearer("payer"))
    assert (refused.status_code, refused.json()["field"]) == (403, "receiver_id"), refused.text
    sent = service.post("transaction/sendRaw", told, headers=bearer("deployer"))
    assert sent.status_code == 202, sent.text
    assert service.until_status(sent.json()["txHash"], "done", "failed")["status"] == "done"


def test_the_word_create_allows_creations_and_nothing_else(service: Service, key: str):
    for n, (path, body) in enumerate(creations({"data": EMPTY}).items()):
        done = post(service, path, body, f"{key}-{n}", "deployer")
        assert (done.status_code, done.json()["status"]) == (200, "done"), done.text
    body = {"pool": "hot", "to": BOB, "value": "1"}
    assert post(service, "/v1/evm/transactions", body, key, "deployer").status_code == 403


def test_an_erc20_transfer_is_stopped_by_receivers_and_not_by_the_deposit(service: Service, key: str):
    """`transfer(address,uint256)` attaches no coin: no limit on deposits sees what it moves."""
    call = "0xa9059cbb" + BOB[2:].rjust(64, "0") + "f" * 64
    body = {"pool": "hot", "to": new_signer().address, "data": call}
    assert post(service, "/v1/evm/transactions", body, key, "payer").json()["field"] == "receiver_id"
    listed = post(service, "/v1/evm/transactions?wait=20", {**body, "to": BOB}, key, "payer")
    assert listed.json()["status"] == "done", "the list is compared without regard to the checksum's case"


async def test_nobody_keeps_a_purse_from_its_top_up(service: Service, redis7: HasUrl):
    """Who takes the key of a payment that the monitor will make takes the payment: its lane runs dry."""
    poor = new_signer().address
    service.machine.fund(poor, 0)
    lane = f"evm:31337:{poor}"
    told = tomllib.loads((service.folder / "txmanager.toml").read_text())
    budget = [{"network": "local", "amount": "1 ETH", "per": "1d"}]
    told["pools"]["hot"].setdefault("policy", {}).update(max_cost=10**17, budget=budget)
    told.setdefault("monitor", {})["networks"] = {"local": {"low": "5", "high": "7", "treasury": "hot"}}
    settings = Settings.model_validate(told)
    ledger = await open_ledger(settings)
    assert isinstance(ledger, RedisLedger)
    purses, close = build_purses(settings, ledger)
    cared = purses["evm:31337"]
    assert cared.top_ups is not None
    taken = top_up_key(lane, 7, await ledger.now_ms(), cared.top_ups.every_ms)
    body = {"pool": "hot", "kind": "evm.transfer", "payload": {"to": BOB, "value": "1"}}
    refused = post(service, "/v1/intents", body, taken, "payer")
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_idempotency_key")
    try:
        await ledger.register(LaneSpec(lane, "poor", weight=0))
        await PurseKeeper(ledger, purses, build_billing(settings)).check_all()
        record = await ledger.read(intent_id(taken, "hot"))
        assert record is not None, "paid under its own key"
    finally:
        await close()
        await ledger.close()
    until_sync(lambda: service.machine.balance(poor) == 7, 30.0, what="the purse is paid")


def test_bytes_that_were_accepted_are_answered_whatever_the_rules_are_now(service: Service):
    wallet, port = service.wallet(), free_port()
    told = {"signedTransaction": wallet.sign(0, BOB, 5), "networkId": "local"}
    told["reservation"] = service.reserve(wallet)["reservation"]
    first = service.post("transaction/sendRaw", told, headers=bearer("payer"))
    assert first.status_code == 202, first.text
    narrowed = service.folder / "narrowed.toml"
    limits = 'receivers = ["0x' + "1" * 40 + '"]\nmax_deposit = 0\nkinds = ["evm.transfer"]'
    text = (service.folder / "txmanager.toml").read_text()
    listed = f'receivers = ["{checksummed(BOB)}"]\nmax_deposit = 5'
    assert listed in text
    narrowed.write_text(
        text.replace(listed, limits).replace('keyless = "any"', 'keyless = "any"\npolicy.max_deposit = 0')
    )
    environment = {**os.environ, "TXMANAGER_CONFIG": str(narrowed), "TXMANAGER__API__PORT": str(port)}
    program = spawn([sys.executable, "-m", "consumers.api"], service.folder / "second.log", cwd=ROOT, env=environment)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=bearer("payer"), timeout=20.0) as http:

            def answers() -> bool:
                try:
                    return http.get("/healthz").status_code == 200
                except httpx.TransportError:
                    return False

            until_sync(answers, 60.0, what="an API with narrower rules answers")
            again = http.post("/evm/transaction/sendRaw", json=told)
            assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true"), again.text
            assert again.json()["txHash"] == first.json()["txHash"]
            other = http.post("/evm/transaction/sendRaw", json={**told, "signedTransaction": wallet.sign(0, BOB, 4)})
            assert other.status_code == 403, other.text
    finally:
        end(program)

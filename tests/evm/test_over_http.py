"""The programs as operators run them, on anvil: the API's route, cancelling in flight, and web3.py as a drop-in."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from web3 import AsyncHTTPProvider, AsyncWeb3, HTTPProvider, Web3
from web3.exceptions import ContractLogicError, Web3RPCError

from tests.evm.machines import PHRASE, ROOT, Anvil
from tests.evm.stage import REVERTS, new_signer
from tests.servers.processes import end, free_port, spawn
from tests.waiting import until_sync
from txmanager.client.blocking import Client
from txmanager.client.web3 import idempotency_key, through_txmanager
from txmanager.signing.evm_sources import derive
from txmanager.signing.secret import Secret

CONFIG = """
[ledger]
url = "{redis}"
prefix = "{prefix}"
durability = "none"

[worker]
lease_s = 1.0

[api]
port = {port}

[networks.local]
chain = "evm"
chain_id = 31337
rpc = [{{ url = "{rpc}", direct = true }}]

[networks.local.fees]
resend_after_s = 0.5
replace_after_s = 1.5

[networks.near]
chain = "near"
rpc = [{{ url = "http://127.0.0.1:1" }}]

[pools.p]
network = "local"
keys = ["mnemonic:PHRASE:2"]
policy = {{ max_deposit = "1000000000000000000" }}

[pools.n]
network = "near"
account = "relayer.near"
"""
# The runtime stores its argument's first word: `set(uint256)` without a selector.
STORES = "0x600580600b6000396000f3600035600055"
ABI = [{"type": "function", "name": "anything", "inputs": [], "outputs": [], "stateMutability": "payable"}]


@dataclass
class Stack:
    url: str
    anvil: Anvil
    http: httpx.Client

    def post(self, payload: dict, key: str | None, **params) -> httpx.Response:
        headers = {"Idempotency-Key": key} if key else {}
        return self.http.post("/v1/evm/transactions", json=payload, headers=headers, params=params)

    def web3(self) -> Web3:
        w3 = Web3(HTTPProvider(self.anvil.url))
        w3.middleware_onion.inject(through_txmanager(Client(self.url, pool="p")), layer=0)
        return w3


@pytest.fixture(scope="module")
def stack(redis7, tmp_path_factory) -> Iterator[Stack]:
    folder: Path = tmp_path_factory.mktemp("evm")
    with Anvil() as anvil:
        port = free_port()
        config = folder / "txmanager.toml"
        config.write_text(CONFIG.format(redis=redis7.url, prefix=f"evm{os.getpid()}", port=port, rpc=anvil.url))
        environment = {**os.environ, "TXMANAGER_CONFIG": str(config), "PHRASE": PHRASE}
        environment["TXMANAGER__WORKER__POOLS"] = '["p"]'
        programs = [
            spawn([sys.executable, "-m", f"consumers.{name}"], folder / f"{name}.log", cwd=ROOT, env=environment)
            for name in ("lanes", "api")
        ]
        url = f"http://127.0.0.1:{port}"
        with httpx.Client(base_url=url, timeout=40.0) as http:

            def ready() -> bool:
                try:
                    return len(http.get("/v1/lanes").json().get("lanes", [])) == 2
                except httpx.TransportError:
                    return False

            try:
                until_sync(ready, 30.0, what="the API and two lanes are there")
                yield Stack(url, anvil, http)
            finally:
                for program in programs:
                    program.terminate()
                for program in programs:
                    end(program)


def test_a_transaction_is_accepted_once_and_answered_from_the_record(stack):
    receiver = new_signer().address
    body = {"pool": "p", "to": receiver, "value": "5"}
    first = stack.post(body, "http-1", wait=30)
    assert (first.status_code, first.json()["status"]) == (200, "done")
    again = stack.post(body, "http-1", wait=30)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()
    assert stack.anvil.balance(receiver) == 5
    receipt = stack.anvil.rpc("eth_getTransactionReceipt", first.json()["tx_hash"])
    assert receipt["blockHash"] == first.json()["outcome"]["result"]["block_hash"]


@pytest.mark.parametrize(
    ("body", "key", "status", "says"),
    [
        ({"pool": "p", "to": "0x12"}, "bad-1", 422, "40 hex digits"),
        ({"pool": "p", "to": "0x" + "11" * 20}, None, 400, "Idempotency-Key"),
        ({"pool": "p", "to": "0x" + "11" * 20, "nonce": 3}, "bad-2", 422, "nonce"),
        ({"pool": "p", "to": "0x" + "11" * 20, "value": "1000000000000000001"}, "bad-3", 422, "max_deposit"),
        ({"pool": "n", "to": "0x" + "11" * 20}, "bad-4", 422, "is of another chain"),
    ],
)
def test_what_is_wrong_is_refused_with_its_field(stack, body, key, status, says):
    answer = stack.post(body, key)
    assert answer.status_code == status, answer.text
    assert says in answer.text


def test_a_near_intent_is_refused_in_an_evm_pool(stack):
    body = {"pool": "p", "kind": "near.transfer", "payload": {"receiver_id": "a.near", "amount": "1"}}
    answer = stack.http.post("/v1/intents", json=body, headers={"Idempotency-Key": "near-1"})
    assert answer.status_code == 422
    assert "needs a pool on NEAR" in answer.text


def test_a_revert_fails_with_its_reason_and_costs_nothing(stack):
    answer = stack.post({"pool": "p", "data": REVERTS}, "revert-1", wait=30).json()
    assert answer["status"] == "failed"
    assert answer["error"]["code"] == "reverted"
    assert answer["error"]["spent"] == "0"


def test_an_intent_in_flight_is_cancelled_over_http(stack):
    receiver = new_signer().address
    stack.anvil.rpc("evm_setAutomine", False)
    try:
        stack.post({"pool": "p", "to": receiver, "value": "5"}, "cancel-1")
        until_sync(lambda: stack.http.get("/v1/intents/cancel-1?pool=p").json()["tx_hash"], 20.0)
        stack.http.post("/v1/intents/cancel-1/cancel?pool=p")

        def killed() -> bool:
            record = stack.http.get("/v1/intents/cancel-1?pool=p").json()
            noops = [a["tx_hash"] for a in record["attempts"] if a["purpose"] == "noop"]
            return bool(noops) and stack.anvil.rpc("eth_getTransactionByHash", noops[-1]) is not None

        until_sync(killed, 20.0)
    finally:
        stack.anvil.rpc("evm_setAutomine", True)
        stack.anvil.rpc("evm_mine")
    record = stack.http.get("/v1/intents/cancel-1?pool=p&wait=30").json()
    assert record["status"] == "cancelled"
    assert stack.anvil.balance(receiver) == 0


def test_web3_sends_through_the_manager_and_a_key_makes_it_happen_once(stack):
    w3, receiver = stack.web3(), Web3.to_checksum_address(new_signer().address)
    assert {a.lower() for a in w3.eth.accounts} == {s.address for s in derive(Secret(PHRASE), 0, 1)}
    hashes = []
    for _ in range(2):
        with idempotency_key("order-42"):
            hashes.append(w3.eth.send_transaction({"to": receiver, "value": 7}))
    assert hashes[0] == hashes[1]
    receipt = w3.eth.wait_for_transaction_receipt(hashes[0])
    assert receipt["status"] == 1
    assert w3.eth.get_balance(receiver) == 7
    w3.eth.wait_for_transaction_receipt(w3.eth.send_transaction({"to": receiver, "value": 7}))
    w3.eth.wait_for_transaction_receipt(w3.eth.send_transaction({"to": receiver, "value": 7}))
    assert w3.eth.get_balance(receiver) == 21


def test_web3_deploys_and_calls_a_contract(stack):
    w3 = stack.web3()
    made = w3.eth.wait_for_transaction_receipt(w3.eth.send_transaction({"data": STORES}))
    contract = w3.eth.contract(address=made["contractAddress"], abi=ABI)
    receipt = w3.eth.wait_for_transaction_receipt(contract.functions.anything().transact({"value": 3}))
    assert receipt["status"] == 1
    assert w3.eth.get_balance(made["contractAddress"]) == 3


def test_web3_finds_the_receipt_of_a_hash_that_was_replaced(stack):
    w3, receiver = stack.web3(), Web3.to_checksum_address(new_signer().address)
    stack.anvil.rpc("evm_setAutomine", False)
    try:
        with idempotency_key("replaced-1"):
            hash = w3.eth.send_transaction({"to": receiver, "value": 7, "gas": 21_000})
        until_sync(lambda: len(stack.http.get("/v1/intents/replaced-1?pool=p").json()["attempts"]) > 1, 20.0)
        newest = stack.http.get("/v1/intents/replaced-1?pool=p").json()["tx_hash"]
        until_sync(lambda: stack.anvil.rpc("eth_getTransactionByHash", newest), 10.0)
    finally:
        stack.anvil.rpc("evm_setAutomine", True)
        stack.anvil.rpc("evm_mine")
    receipt = w3.eth.wait_for_transaction_receipt(hash)
    assert receipt["transactionHash"] != hash
    assert w3.eth.get_balance(receiver) == 7


def test_web3_hears_why_nothing_was_sent(stack):
    w3, receiver = stack.web3(), Web3.to_checksum_address(new_signer().address)
    with pytest.raises(Web3RPCError, match="txmanager decides on nonce"):
        w3.eth.send_transaction({"to": receiver, "value": 7, "nonce": 3, "gas": 21_000})
    with pytest.raises(Web3RPCError, match="is not an address of the pool"):
        w3.eth.send_transaction({"to": receiver, "value": 7, "from": receiver, "gas": 21_000})
    with pytest.raises((Web3RPCError, ContractLogicError), match="revert"):
        w3.eth.send_transaction({"data": REVERTS, "gas": 100_000})


async def test_async_web3_sends_through_the_manager_too(stack):
    w3 = AsyncWeb3(AsyncHTTPProvider(stack.anvil.url))
    w3.middleware_onion.inject(through_txmanager(Client(stack.url, pool="p")), layer=0)
    receiver = Web3.to_checksum_address(new_signer().address)
    with idempotency_key("async-1"):
        hash = await w3.eth.send_transaction({"to": receiver, "value": 9})
        assert await w3.eth.send_transaction({"to": receiver, "value": 9}) == hash
    await w3.eth.wait_for_transaction_receipt(hash)
    assert await w3.eth.get_balance(receiver) == 9
    await w3.provider.disconnect()

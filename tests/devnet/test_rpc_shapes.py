"""The wire, shape by shape: NEAR.md's envelopes, the odd ones included, positional and named params."""

from __future__ import annotations

import base64
import threading

import httpx
import pytest

from tests.devnet.process import function_call, transfer
from tests.waiting import until_sync

MISSING_KEY = "ed25519:" + "1" * 31 + "2"
UNKNOWN_HASH = "1" * 31 + "3"


@pytest.fixture
def alice(devnet):
    return devnet.account(11)


@pytest.fixture
def bob(devnet):
    return devnet.account(1)


def query(request_type, **params):
    return {"request_type": request_type, "finality": params.pop("finality", "final"), **params}


def test_status_over_rpc_and_plain_get_say_the_same(devnet):
    told = devnet.rpc("status", [])
    plain = httpx.get(devnet.url + "/status").json()
    assert told["chain_id"] == plain["chain_id"] == "localnet"
    assert set(told) == set(plain)
    assert told["sync_info"]["latest_block_height"] >= 100_000_000
    assert set(told["sync_info"]) >= {"latest_block_hash", "latest_block_height", "latest_block_time", "syncing"}


def test_blocks_by_finality_height_hash_and_position(devnet):
    final = devnet.rpc("block", {"finality": "final"})
    head = devnet.rpc("block", {"finality": "optimistic"})
    assert head["header"]["height"] > final["header"]["height"]
    for params in ({"block_id": final["header"]["height"]}, [final["header"]["hash"]], [final["header"]["height"]]):
        assert devnet.rpc("block", params) == final
    assert isinstance(final["header"]["gas_price"], str)
    assert isinstance(final["header"]["timestamp"], int)


def test_an_unknown_block(devnet):
    for block_id in (5, UNKNOWN_HASH):
        error = devnet.error("block", {"block_id": block_id})
        assert error["name"] == "HANDLER_ERROR"
        assert error["cause"]["name"] == "UNKNOWN_BLOCK"


def test_a_chunk_holds_the_transactions_of_its_block(devnet, alice, bob):
    tx_hash, raw = devnet.sign(alice, bob["account_id"], transfer())
    done = devnet.rpc("send_tx", {"signed_tx_base64": raw})
    block = devnet.rpc("block", {"block_id": done["transaction_outcome"]["block_hash"]})
    chunk = devnet.rpc("chunk", [block["chunks"][0]["chunk_hash"]])
    assert tx_hash in [tx["hash"] for tx in chunk["transactions"]]
    assert chunk["header"]["height_included"] == 0  # by itself it does not know which block took it in
    chunk["header"]["height_included"] = block["header"]["height"]
    assert devnet.rpc("chunk", [[block["header"]["height"], 0]]) == chunk
    assert devnet.rpc("chunk", {"block_id": block["header"]["hash"], "shard_id": 0}) == chunk
    assert devnet.error("chunk", [UNKNOWN_HASH])["cause"]["name"] == "UNKNOWN_CHUNK"
    assert devnet.error("chunk", {"block_id": 1, "shard_id": 9})["cause"]["name"] == "INVALID_SHARD_ID"


def test_gas_price(devnet):
    for params in ([None], {"block_id": None}, [], None):
        assert devnet.rpc("gas_price", params) == {"gas_price": "100000000"}


def test_view_account_and_its_absence(devnet, alice):
    told = devnet.rpc("query", query("view_account", account_id=alice["account_id"]))
    assert set(told) == {
        "amount", "locked", "code_hash", "storage_usage", "storage_paid_at", "block_height", "block_hash",
    }  # fmt: skip
    assert isinstance(told["amount"], str)
    assert told["code_hash"] == "1" * 32
    error = devnet.error("query", query("view_account", account_id="nobody.near"))
    assert error["cause"]["name"] == "UNKNOWN_ACCOUNT"
    assert set(error["cause"]["info"]) == {"requested_account_id", "block_height", "block_hash"}
    assert error["code"] == -32000
    assert error["message"] == "Server error"


def test_a_missing_access_key_is_a_result_with_an_error_in_it(devnet, alice):
    response = devnet.post("query", query("view_access_key", account_id=alice["account_id"], public_key=MISSING_KEY))
    assert response.status_code == 200
    result = response.json()["result"]
    assert result["error"] == f"access key {MISSING_KEY} does not exist while viewing"
    assert result["logs"] == []
    assert set(result) == {"error", "logs", "block_height", "block_hash"}


def test_access_keys_with_and_without_the_prefix(devnet, alice):
    params = query("view_access_key", account_id=alice["account_id"], public_key=alice["public_key"])
    told = devnet.rpc("query", params)
    assert set(told) == {"nonce", "permission", "block_height", "block_hash"}
    assert told["permission"] == "FullAccess"
    assert isinstance(told["nonce"], int)
    bare = {**params, "public_key": alice["public_key"].removeprefix("ed25519:")}
    del bare["finality"]
    assert devnet.rpc("query", {**bare, "block_id": told["block_hash"]}) == told
    listed = devnet.rpc("query", query("view_access_key_list", account_id=alice["account_id"]))
    assert [entry["public_key"] for entry in listed["keys"]] == [alice["public_key"]]
    assert set(listed["keys"][0]["access_key"]) == {"nonce", "permission"}


def test_views_call_contracts_and_say_why_they_cannot(devnet):
    def view(account_id, method, args=b"{}"):
        params = {"account_id": account_id, "method_name": method, "args_base64": base64.b64encode(args).decode()}
        return query("call_function", **params)

    told = devnet.rpc("query", view("ft.near", "ft_metadata"))
    assert bytes(told["result"]).startswith(b'{"spec":"ft-1.0.0"')
    assert told["logs"] == []
    assert "MethodNotFound" in devnet.rpc("query", view("ft.near", "nothing"))["error"]
    assert "CodeDoesNotExist" in devnet.rpc("query", view("dev0.near", "x"))["error"]
    assert "ProhibitedInView" in devnet.rpc("query", view("counter.near", "increment"))["error"]
    assert "deserialize" in devnet.rpc("query", view("ft.near", "ft_balance_of", b"["))["error"]
    assert devnet.error("query", view("nobody.near", "x"))["cause"]["name"] == "UNKNOWN_ACCOUNT"


def test_a_query_at_an_unknown_block(devnet, alice):
    params = {"request_type": "view_account", "account_id": alice["account_id"], "block_id": 5}
    error = devnet.error("query", params)
    assert error["cause"] == {"name": "UNKNOWN_BLOCK", "info": {"block_reference": {"block_id": 5}}}


def test_broadcast_async_answers_the_hash_and_validates_nothing(devnet, alice, bob):
    tx_hash, raw = devnet.sign(alice, bob["account_id"], transfer())
    assert devnet.rpc("broadcast_tx_async", [raw]) == tx_hash
    devnet.until_landed(tx_hash, alice["account_id"])
    stale_hash, stale = devnet.sign(alice, bob["account_id"], transfer(), nonce=1)
    assert devnet.rpc("broadcast_tx_async", {"signed_tx_base64": stale}) == stale_hash
    told = devnet.rpc("send_tx", {"signed_tx_base64": stale, "wait_until": "NONE"})
    assert told == {"final_execution_status": "NONE"}


def test_send_tx_at_every_level_and_commit(devnet, alice, bob):
    for level in ("INCLUDED", "EXECUTED_OPTIMISTIC", "INCLUDED_FINAL", "EXECUTED", "FINAL"):
        _, raw = devnet.sign(alice, bob["account_id"], transfer())
        told = devnet.rpc("send_tx", {"signed_tx_base64": raw, "wait_until": level})
        keys = {"final_execution_status", "status", "transaction", "transaction_outcome", "receipts_outcome"}
        assert set(told) == keys if level != "INCLUDED" else {"final_execution_status"}
        if level == "FINAL":
            assert told["final_execution_status"] == "FINAL"
    _, raw = devnet.sign(alice, bob["account_id"], transfer())
    assert devnet.rpc("broadcast_tx_commit", [raw])["status"] == {"SuccessValue": ""}
    _, raw = devnet.sign(alice, bob["account_id"], transfer())
    assert devnet.rpc("send_tx", [raw])["status"] == {"SuccessValue": ""}


def test_an_outcome_has_every_field(devnet, alice):
    tx_hash, raw = devnet.sign(alice, "counter.near", function_call("increment"))
    told = devnet.rpc("send_tx", {"signed_tx_base64": raw, "wait_until": "FINAL"})
    outcome = told["receipts_outcome"][0]
    assert set(outcome) == {"proof", "block_hash", "id", "outcome"}
    assert set(outcome["outcome"]) == {
        "logs", "receipt_ids", "gas_burnt", "tokens_burnt", "executor_id", "status", "metadata",
    }  # fmt: skip
    assert isinstance(outcome["outcome"]["gas_burnt"], int)
    assert isinstance(outcome["outcome"]["tokens_burnt"], str)
    assert "SuccessReceiptId" in told["transaction_outcome"]["outcome"]["status"]
    again = devnet.rpc("EXPERIMENTAL_tx_status", [tx_hash, alice["account_id"]])
    assert set(again) == set(told) | {"receipts"}
    assert {receipt["receipt_id"] for receipt in again["receipts"]} == {o["id"] for o in told["receipts_outcome"]}


def test_an_invalid_nonce_is_the_envelope_of_the_book(devnet, alice, bob):
    current = devnet.nonce(alice)
    _, raw = devnet.sign(alice, bob["account_id"], transfer(), nonce=1)
    response = devnet.post("send_tx", {"signed_tx_base64": raw})
    assert response.status_code == 200
    assert response.json() == {
        "jsonrpc": "2.0",
        "id": "7",
        "error": {
            "name": "HANDLER_ERROR",
            "cause": {"name": "INVALID_TRANSACTION", "info": {}},
            "code": -32000,
            "message": "Server error",
            "data": {"TxExecutionError": {"InvalidTxError": {"InvalidNonce": {"tx_nonce": 1, "ak_nonce": current}}}},
        },
    }


def test_unit_variants_are_bare_strings(devnet, alice, bob):
    _, raw = devnet.sign(alice, bob["account_id"], transfer(), block_hash=UNKNOWN_HASH)
    error = devnet.error("send_tx", [raw])
    assert error["data"] == {"TxExecutionError": {"InvalidTxError": "Expired"}}
    _, raw = devnet.sign(alice, bob["account_id"], transfer())
    forged = bytearray(base64.b64decode(raw))
    forged[-1] ^= 1
    error = devnet.error("send_tx", [base64.b64encode(forged).decode()])
    assert error["data"] == {"TxExecutionError": {"InvalidTxError": "InvalidSignature"}}


def test_an_unknown_hash_is_known_to_be_unknown_only_when_nobody_waits(devnet, alice):
    params = {"tx_hash": UNKNOWN_HASH, "sender_account_id": alice["account_id"], "wait_until": "NONE"}
    response = devnet.post("tx", params)
    error = response.json()["error"]
    assert response.status_code == 200
    assert error["cause"] == {
        "name": "UNKNOWN_TRANSACTION",
        "info": {"requested_transaction_hash": UNKNOWN_HASH},
    }
    assert error["data"] == f"Transaction {UNKNOWN_HASH} doesn't exist"
    waiting = devnet.post("tx", [UNKNOWN_HASH, alice["account_id"]])
    assert waiting.status_code == 408
    assert waiting.json()["error"]["cause"]["name"] == "TIMEOUT_ERROR"
    assert waiting.json()["error"]["data"] == "Timeout"


def test_a_waiting_send_that_is_overtaken_is_told_so(devnet, alice, bob):
    """The wait ends with InvalidNonce as soon as the transaction can no longer land."""
    devnet.fault("drop", count=1)
    _, first = devnet.sign(alice, bob["account_id"], transfer(), nonce=devnet.nonce(alice) + 1)
    params = {"signed_tx_base64": first, "wait_until": "FINAL"}
    answers = []
    waiter = threading.Thread(target=lambda: answers.append(devnet.error("send_tx", params)))
    waiter.start()
    until_sync(lambda: not devnet.admin("/faults", method="GET")["active"], what="the first was dropped")
    _, second = devnet.sign(alice, bob["account_id"], transfer(), nonce=devnet.nonce(alice) + 2)
    devnet.rpc("broadcast_tx_async", [second])
    waiter.join(10)
    assert "InvalidNonce" in answers[0]["data"]["TxExecutionError"]["InvalidTxError"]


def test_an_unknown_method_and_bad_params(devnet):
    response = devnet.post("no_such_method", [])
    error = response.json()["error"]
    assert response.status_code == 400
    assert error["name"] == "REQUEST_VALIDATION_ERROR"
    assert error["code"] == -32601
    assert error["cause"] == {"name": "METHOD_NOT_FOUND", "info": {"method_name": "no_such_method"}}
    for method, params in [
        ("query", {"request_type": "view_account", "account_id": "NOT VALID", "finality": "final"}),
        ("query", {"request_type": "nothing"}),
        ("query", 7),
        ("block", {"finality": "eventually"}),
        ("block", [[1]]),
        ("block", [True]),
        ("block", [-1]),
        ("tx", ["0", "alice.near"]),
        ("tx", [UNKNOWN_HASH]),
        ("tx", [UNKNOWN_HASH, "alice.near", 3]),
        ("send_tx", {"signed_tx_base64": "!!"}),
        ("send_tx", {"signed_tx_base64": "AAAA"}),
        ("send_tx", {"signed_tx_base64": "", "wait_until": "NONE"}),
        ("send_tx", []),
        ("broadcast_tx_async", [None]),
    ]:
        response = devnet.post(method, params)
        assert response.status_code == 400, (method, params)
        error = response.json()["error"]
        assert error["code"] == -32700
        assert error["cause"]["name"] == "PARSE_ERROR"
        assert error["cause"]["info"]["error_message"]

"""near-jsonrpc-client validates every answer with generated models: the strictest shape test there is."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator

import near_jsonrpc_models as m
import pytest
from near import actions, wire
from near.delegate import sign_delegate_action
from near.keys import KeyPairSigner, parse_key
from near_jsonrpc_client import NearClientAsync
from near_jsonrpc_client.errors import RpcClientError, RpcError

from tests.devnet.process import Devnet, function_call, transfer
from txmanager.devnet import key_pair


@pytest.fixture
async def client(devnet: Devnet) -> AsyncIterator[NearClientAsync]:
    client = NearClientAsync(rpc_urls=devnet.url)
    yield client
    await client.close()


def view(request_type: str, **params: object) -> m.RpcQueryRequest:
    return m.RpcQueryRequest.model_validate({"request_type": request_type, "finality": "optimistic", **params})


def send(raw: str, wait_until: str = "FINAL") -> m.RpcSendTransactionRequest:
    return m.RpcSendTransactionRequest(signed_tx_base64=raw, wait_until=m.TxExecutionStatus(wait_until))


def cause(error: RpcError) -> str:
    return error.error.error.root.cause.root.name


async def test_status_blocks_chunks_and_gas_price(client):
    status = await client.status()
    assert status.sync_info.latest_block_height >= 100_000_000
    for reference in ({"finality": "final"}, {"block_id": status.sync_info.latest_block_height}):
        block = await client.block(params=m.RpcBlockRequest.model_validate(reference))
        assert block.header.height
    chunk_id = block.chunks[0].chunk_hash.root
    chunk = await client.chunk(params=m.RpcChunkRequest.model_validate({"chunk_id": chunk_id}))
    assert chunk.header.chunk_hash.root == chunk_id
    price = await client.gas_price(params=m.RpcGasPriceRequest())
    assert price.gas_price.root == "100000000"


async def test_every_query(devnet, client):
    account = devnet.account(5)
    names = {"account_id": account["account_id"], "public_key": account["public_key"]}
    told = await client.query(params=view("view_account", account_id=account["account_id"]))
    assert int(told.root.amount.root) > 0
    told = await client.query(params=view("view_access_key", **names))
    assert told.root.nonce > 0
    told = await client.query(params=view("view_access_key_list", account_id=account["account_id"]))
    assert len(told.root.keys) == 1
    args = base64.b64encode(b"{}").decode()
    call = {"account_id": "counter.near", "method_name": "get_num", "args_base64": args}
    told = await client.query(params=view("call_function", **call))
    assert bytes(told.root.result).isdigit()
    told = await client.query(params=view("view_code", account_id="counter.near"))
    assert base64.b64decode(told.root.code_base64)


GAS_KEY = key_pair(1, "gas").public_key
LIMITED_KEY = key_pair(1, "limited").public_key


async def test_every_action_has_a_valid_view(devnet, client):
    """One transaction of each kind, its result validated: the views of actions, receipts and outcomes."""
    account, other = devnet.account(5), devnet.account(6)
    me = account["account_id"]
    kinds = [
        ("dev6.near", [transfer()]),
        ("counter.near", [function_call("increment")]),
        ("counter.near", [function_call("fail")]),
        (f"json.{me}", [actions.create_account(), transfer(10**24)]),
        (f"json.{me}", [actions.create_account()]),
        (me, [actions.add_gas_key(GAS_KEY, num_nonces=3), actions.transfer_to_gas_key(GAS_KEY, "1 NEAR")]),
        (me, [actions.withdraw_from_gas_key(GAS_KEY, "0.5 NEAR")]),
        (me, [actions.add_function_call_key(LIMITED_KEY, "counter.near", method_names=["increment"])]),
        (me, [actions.delete_key(LIMITED_KEY)]),
        (me, [actions.deploy_contract(b"nothing that runs")]),
        (me, [function_call("anything")]),
    ]
    for receiver, chosen in kinds:
        tx_hash, raw = devnet.sign(account, receiver, *chosen)
        done = await client.send_tx(params=send(raw))
        assert done.root.final_execution_status.root == "FINAL"
        told = {"tx_hash": tx_hash, "sender_account_id": me, "wait_until": "FINAL"}
        request = m.RpcTransactionStatusRequest.model_validate(told)
        assert (await client.tx(params=request)).root.transaction.hash.root == tx_hash
        full = await client.experimental_tx_status(params=request)
        own = receiver == me  # such a receipt runs where it was made; nodes keep no copy of it
        assert len(full.root.receipts) == len(full.root.receipts_outcome) - own
        block_hash = done.root.transaction_outcome.block_hash.root
        chunk = m.RpcChunkRequest.model_validate({"block_id": block_hash, "shard_id": 0})
        assert (await client.chunk(params=chunk)).transactions

    nonces = await client.query(params=view("view_gas_key_nonces", account_id=me, public_key=GAS_KEY))
    assert len(nonces.root.nonces) == 3
    key = await client.query(params=view("view_access_key", account_id=me, public_key=GAS_KEY))
    assert key.root.permission.root.GasKeyFullAccess.num_nonces == 3
    await _relay(devnet, client, account, other)


async def _relay(devnet, client, relayer, user):
    signer = KeyPairSigner(user["account_id"], parse_key(user["private_key"]))
    inner = wire.DelegateAction(
        sender_id=user["account_id"],
        receiver_id=f"relayed.{user['account_id']}",
        actions=[actions.create_account(), transfer(10**24), actions.add_full_access_key(LIMITED_KEY)],
        nonce=devnet.nonce(user) + 1,
        max_block_height=devnet.head()["height"] + 100,
        public_key=wire.to_wire_public_key(signer.public_key),
    )
    _, raw = devnet.sign(relayer, user["account_id"], sign_delegate_action(inner, signer))
    done = await client.send_tx(params=send(raw))
    assert done.root.status.root.SuccessValue == ""
    assert done.root.transaction.actions[0].root.Delegate.delegate_action.sender_id.root == user["account_id"]


async def test_the_root_contract_and_its_nested_failure_validate(devnet, client):
    account = devnet.account(6)
    args = {"new_account_id": "jsonrpc.near", "new_public_key": LIMITED_KEY}
    call = wire.Action.FunctionCall(
        method_name="create_account",
        args=json.dumps(args).encode(),
        gas=60 * 10**12,
        deposit=10**24,
    )
    answers = []
    for _ in range(2):
        _, raw = devnet.sign(account, "near", call)
        done = await client.send_tx(params=send(raw))
        answers.append(base64.b64decode(done.root.status.root.SuccessValue))
    assert answers == [b"true", b"false"]
    failures = [o for o in done.root.receipts_outcome if hasattr(o.outcome.status.root, "Failure")]
    assert len(failures) == 1


async def test_broadcasts(devnet, client):
    account = devnet.account(7)
    tx_hash, raw = devnet.sign(account, "dev8.near", transfer())
    assert (await client.broadcast_tx_async(params=send(raw))).root == tx_hash
    devnet.until_landed(tx_hash, account["account_id"])
    _, raw = devnet.sign(account, "dev8.near", transfer())
    assert (await client.broadcast_tx_commit(params=send(raw))).root.status.root.SuccessValue == ""


async def test_errors_validate_too(devnet, client):
    account = devnet.account(7)
    me = account["account_id"]
    cases = [
        (client.query, view("view_account", account_id="nobody.near"), "UNKNOWN_ACCOUNT"),
        (client.query, view("view_gas_key_nonces", account_id=me, public_key=LIMITED_KEY), "UNKNOWN_GAS_KEY"),
        (client.query, view("view_code", account_id=me), "NO_CONTRACT_CODE"),
        (client.block, m.RpcBlockRequest.model_validate({"block_id": 5}), "UNKNOWN_BLOCK"),
        (client.chunk, m.RpcChunkRequest.model_validate({"chunk_id": "1" * 32}), "UNKNOWN_CHUNK"),
    ]
    unknown = {"tx_hash": "1" * 32, "sender_account_id": me, "wait_until": "NONE"}
    cases.append((client.tx, m.RpcTransactionStatusRequest.model_validate(unknown), "UNKNOWN_TRANSACTION"))
    late = m.RpcTransactionStatusRequest.model_validate({**unknown, "wait_until": "FINAL"})
    cases.append((client.tx, late, "TIMEOUT_ERROR"))
    for more in ({"nonce": 1}, {"block_hash": "1" * 31 + "7"}):
        cases.append(
            (client.send_tx, send(devnet.sign(account, "dev8.near", transfer(), **more)[1]), "INVALID_TRANSACTION")
        )
    poor = devnet.sign(account, "dev8.near", transfer(10**38))[1]
    cases.append((client.send_tx, send(poor), "INVALID_TRANSACTION"))
    for method, params, name in cases:
        with pytest.raises(RpcError) as refused:
            await method(params=params)
        assert cause(refused.value) == name
    missing = view("view_access_key", account_id=me, public_key=LIMITED_KEY)
    with pytest.raises(RpcClientError, match="does not exist while viewing"):
        await client.query(params=missing)
    devnet.fault("untracked", count=1)
    with pytest.raises(RpcError) as untracked:
        await client.tx(params=late)
    assert cause(untracked.value) == "DOES_NOT_TRACK_SHARD"

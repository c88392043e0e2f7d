"""py-near, unchanged, against the devnet: positional params, bare public keys, `broadcast_tx_commit`."""

from __future__ import annotations

from collections.abc import AsyncIterator

import base58
import pytest
from py_near import transactions
from py_near.account import Account
from py_near.exceptions.provider import (
    Expired,
    InternalError,
    InvalidNonce,
    NotEnoughBalance,
    RPCTimeoutError,
    UnknownAccount,
)

from tests.devnet.process import Devnet, transfer
from tests.waiting import until
from txmanager.devnet import key_pair


async def account_of(devnet: Devnet, index: int, private_key: str | None = None) -> Account:
    told = devnet.account(index)
    account = Account(told["account_id"], private_key or told["private_key"], devnet.url)
    await account.startup()
    return account


@pytest.fixture
async def account(devnet) -> AsyncIterator[Account]:
    account = await account_of(devnet, 3)
    yield account
    await account.shutdown()


async def test_transfer_and_status_by_hash(account):
    before = await account.get_balance("dev4.near")
    result = await account.send_money("dev4.near", 7)
    assert result.status == {"SuccessValue": ""}
    assert await account.get_balance("dev4.near") == before + 7
    again = await account.provider.get_tx(result.transaction.hash, account.account_id)
    assert again.transaction.hash == result.transaction.hash
    with_receipts = await account.provider.get_tx_status(result.transaction.hash, account.account_id)
    assert with_receipts.receipts


async def test_sending_without_waiting(account):
    tx_hash = await account.send_money("dev4.near", 1, nowait=True)
    result = await until(lambda: account.provider.get_tx(tx_hash, account.account_id))
    assert result.transaction.signer_id == account.account_id


async def test_function_call_view_and_panic(account):
    result = await account.function_call("counter.near", "increment", {"by": 2})
    assert result.logs[0].startswith("counter is")
    assert (await account.view_function("counter.near", "get_num", {})).result >= 2
    failed = await account.function_call("counter.near", "fail", {})
    assert "Failure" in failed.status
    assert failed.receipt_outcome[0].error is not None


async def test_sub_account_creation(account):
    key = key_pair(1, "py-near")
    raw = base58.b58decode(key.public_key.removeprefix("ed25519:"))
    result = await account.create_account(f"py.{account.account_id}", raw, 10**24)
    assert result.status == {"SuccessValue": ""}
    keys = await account.get_access_key_list(f"py.{account.account_id}")
    assert [entry.public_key for entry in keys] == [key.public_key]


async def test_keys_added_used_and_deleted(devnet, account):
    key = key_pair(0, "py-near")
    await account.add_full_access_public_key(key.public_key)
    other = await account_of(devnet, 3, key.private_key)
    try:
        assert (await other.send_money("dev4.near", 1)).transaction.public_key == key.public_key
        await account.delete_public_key(key.public_key)
        assert key.public_key not in [k.public_key for k in await account.get_access_key_list()]
        with pytest.raises(ValueError, match="does not exist while viewing"):
            await other.send_money("dev4.near", 1)
    finally:
        await other.shutdown()


async def test_a_delegate_is_relayed(devnet, account):
    user = await account_of(devnet, 4)
    try:
        action = transactions.create_function_call_action("increment", b"{}", 20 * 10**12, 0)
        delegate = await user.create_delegate_action([action], "counter.near")
        signature = user.sign_delegate_transaction(delegate)
        result = await account.call_delegate_transaction(delegate, signature)
        assert "SuccessValue" in result.status
        assert result.transaction.receiver_id == user.account_id
    finally:
        await user.shutdown()


async def test_errors_are_told_apart(devnet, account):
    with pytest.raises(UnknownAccount):
        await account.provider.get_account("nobody.near")
    with pytest.raises(NotEnoughBalance):
        await account.send_money("dev4.near", 10**37)
    devnet.fault("expired", count=1)
    with pytest.raises(Expired):
        await account.send_money("dev4.near", 1)


async def test_a_stale_nonce_and_a_time_out(devnet, account):
    told = devnet.account(3)
    _, stale = devnet.sign(told, "dev4.near", transfer(), nonce=1)
    with pytest.raises(InvalidNonce):
        await account.provider.send_tx_and_wait(stale)
    devnet.fault("drop", count=1)
    _, lost = devnet.sign(told, "dev4.near", transfer())
    # This client reads any HTTP status but 200 as its own error; the 408 arrives all the same.
    with pytest.raises((RPCTimeoutError, InternalError)):
        await account.provider.send_tx_and_wait(lost)

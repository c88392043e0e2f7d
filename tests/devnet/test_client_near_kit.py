"""near-kit, unchanged, against the devnet: what a user of it does, and the errors it tells apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from near import Near, actions
from near.errors import (
    AccessKeyNotFoundError,
    AccountNotFoundError,
    ContractPanicError,
    InsufficientBalanceError,
    RpcError,
)
from near.keys import KeyPairSigner, generate_key
from near.wire import DelegateAction, to_wire_public_key

from tests.devnet.process import Devnet
from txmanager.devnet.contracts import CODE


def client_of(devnet: Devnet, index: int) -> Near:
    account = devnet.account(index)
    return Near(
        "localnet",
        rpc_url=devnet.url,
        account_id=account["account_id"],
        private_key=account["private_key"],
        retries=0,
    )


@pytest.fixture
def client(devnet) -> Iterator[Near]:
    with client_of(devnet, 0) as client:
        yield client


def test_transfer_and_balance(client):
    before = client.balance("dev1.near")
    result = client.send("dev1.near", "2 NEAR", wait_until="FINAL")
    assert result.final_execution_status == "FINAL"
    assert int(client.balance("dev1.near")) - int(before) == 2 * 10**24
    looked_up = client.transaction_status(result.transaction_hash)
    assert looked_up.transaction_hash == result.transaction_hash


def test_function_call_and_view(client):
    client.call("counter.near", "reset")
    result = client.call("counter.near", "increment", {"by": 3})
    assert result.json_value() == 3
    assert result.logs == ["counter is 3"]
    assert client.view("counter.near", "get_num") == 3
    with pytest.raises(ContractPanicError, match="on purpose"):
        client.call("counter.near", "fail", {"message": "on purpose"})


def test_account_creation_through_the_root_contract(client):
    key = generate_key()
    args = {"new_account_id": "kit-made.near", "new_public_key": str(key.public_key)}
    options = {"gas": "60 Tgas", "deposit": "3 NEAR", "wait_until": "FINAL"}
    assert client.call("near", "create_account", args, **options).json_value() is True
    assert int(client.balance("kit-made.near")) == 3 * 10**24
    made = client.with_signer(KeyPairSigner("kit-made.near", key))
    assert made.send("dev1.near", "1 NEAR").status == {"SuccessValue": ""}
    with pytest.raises(ContractPanicError, match="AccountAlreadyExists"):
        client.call("near", "create_account", args, **options)


def test_keys_are_added_used_and_deleted(client):
    key = generate_key()
    client.send_transaction(client.signer.account_id, [actions.add_full_access_key(key.public_key)], wait_until="FINAL")
    other = client.with_signer(KeyPairSigner(client.signer.account_id, key))
    other.send("dev1.near", "1 NEAR", wait_until="FINAL")
    assert str(key.public_key) in [info.public_key for info in client.access_keys()]
    client.send_transaction(client.signer.account_id, [actions.delete_key(key.public_key)], wait_until="FINAL")
    with pytest.raises(AccessKeyNotFoundError):
        client.access_key(client.signer.account_id, key.public_key)


def test_a_gas_key_with_two_lanes_sends_in_both(client):
    key = generate_key()
    account_id = client.signer.account_id
    added = actions.add_gas_key(key.public_key, num_nonces=2)
    client.send_transaction(
        account_id, [added, actions.transfer_to_gas_key(key.public_key, "1 NEAR")], wait_until="FINAL"
    )
    gas = client.with_signer(KeyPairSigner(account_id, key))
    for lane in (1, 0, 1):
        result = gas.send_transaction(
            "dev1.near", [actions.transfer("1 yocto")], gas_key_index=lane, wait_until="FINAL"
        )
        assert result.transaction["nonce_index"] == lane
    first, second = client.gas_key_nonces(account_id, key.public_key, block="final")
    assert second == first + 1
    assert client.access_key(account_id, key.public_key).is_gas_key


def test_strict_nonces(client):
    result = client.send_transaction("dev1.near", [actions.transfer("1 yocto")], strict_nonce=True)
    assert result.transaction["nonce_mode"] == "strict"


def test_a_delegate_is_relayed(devnet, client):
    with client_of(devnet, 1) as user:
        client.call("counter.near", "reset")
        signed = user.sign_delegate("counter.near", [actions.function_call("increment", {"by": 7}, gas="20 Tgas")])
        result = client.send_delegate(signed)
        assert result.status == {"SuccessValue": ""}  # what the relayed call returned is in its own receipt
        assert client.view("counter.near", "get_num") == 7
        with pytest.raises(ContractPanicError, match="DelegateActionInvalidNonce"):
            client.send_delegate(signed)  # a replay fails in its receipt, the relayer's gas spent
        forged = signed.model_copy(deep=True)
        assert isinstance(forged.delegate_action, DelegateAction)
        forged.delegate_action.public_key = to_wire_public_key(generate_key().public_key)
        # This client trips over failures that are bare strings, so this one is read off the wire.
        _, raw = devnet.sign(devnet.account(0), "dev1.near", forged)
        failure = devnet.rpc("send_tx", [raw])["status"]["Failure"]
        assert failure == {"ActionError": {"index": 0, "kind": "DelegateActionInvalidSignature"}}


def test_a_contract_is_deployed_and_read_back(devnet):
    with client_of(devnet, 2) as client:
        client.send_transaction(client.signer.account_id, [actions.deploy_contract(CODE["counter"])])
        assert client.contract_code().code == CODE["counter"]
        assert client.call(client.signer.account_id, "increment").json_value() == 1


def test_the_token(client):
    before = client.ft_balance("ft.near", "dev1.near")
    client.ft_transfer("ft.near", "dev1.near", "1.5")
    after = client.ft_balance("ft.near", "dev1.near")
    assert int(after) - int(before) == 15 * 10**23
    assert client.ft_metadata("ft.near").symbol == "DEV"


def test_errors_are_told_apart(devnet, client):
    with pytest.raises(AccountNotFoundError):
        client.account("nobody.near")
    with pytest.raises(InsufficientBalanceError) as poor:
        client.send("dev1.near", "1000000000 NEAR")
    assert poor.value.required > poor.value.available
    stranger = client.with_signer(KeyPairSigner("dev1.near", generate_key()))
    with pytest.raises(AccessKeyNotFoundError):
        stranger.send("dev0.near", "1 NEAR")
    with pytest.raises(RpcError) as unknown:
        client.transaction_status("1" * 32, sender_id="dev0.near", wait_until="NONE")
    assert unknown.value.code == "UNKNOWN_TRANSACTION"
    devnet.fault("drop", count=1)
    with pytest.raises(RpcError) as late:
        client.send("dev1.near", "1 NEAR")
    assert late.value.code == "TIMEOUT_ERROR"


def test_a_stale_nonce_cache_recovers_by_the_nodes_own_words(devnet, client):
    """The client retries with the nonce that InvalidNonce told it: the envelope must be exact."""
    account = devnet.account(0)
    client.send("dev1.near", "1 yocto")
    names = {"account_id": account["account_id"], "public_key": account["public_key"]}
    [foreign] = devnet.admin("/foreign", {**names, "by": 10})["hashes"]
    devnet.until_landed(foreign, account["account_id"])
    assert client.send("dev1.near", "1 yocto").status == {"SuccessValue": ""}


def test_an_expired_base_is_refused(devnet, client):
    devnet.fault("expired", count=1)
    with pytest.raises(RpcError) as expired:
        client.send("dev1.near", "1 NEAR")
    assert expired.value.data["data"] == {"TxExecutionError": {"InvalidTxError": "Expired"}}

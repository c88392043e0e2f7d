"""Generated cases: account ids, keys, actions and delegates that the protocol can express."""

from __future__ import annotations

from hypothesis import strategies as st

from txmanager.chains.near import actions as act
from txmanager.chains.near.names import PublicKey
from txmanager.signing import Ed25519Signer, Secret

u64 = st.integers(0, 2**64 - 1)
u128 = st.integers(0, 2**128 - 1)
account_ids = st.from_regex(r"\A[a-z0-9]{2,20}(\.[a-z0-9]{1,10}){0,2}\Z")
ed25519_keys = st.binary(min_size=32, max_size=32).map(lambda raw: PublicKey(0, raw))
secp_keys = st.binary(min_size=64, max_size=64).map(lambda raw: PublicKey(1, raw))
public_keys = ed25519_keys | secp_keys
signers = st.binary(min_size=32, max_size=32).map(lambda seed: Ed25519Signer(Secret(seed)))
names = st.text(min_size=1, max_size=20)
permissions = st.builds(act.CallPermission, account_ids, st.lists(names, max_size=3).map(tuple), st.none() | u128)


def plain_actions(keys: st.SearchStrategy[PublicKey]) -> dict[str, st.SearchStrategy[act.PlainAction]]:
    return {
        "create_account": st.just(act.CreateAccount()),
        "deploy_contract": st.builds(act.DeployContract, st.binary(max_size=300)),
        "function_call": st.builds(act.FunctionCall, names, st.binary(max_size=300), u64, u128),
        "transfer": st.builds(act.Transfer, u128),
        "stake": st.builds(act.Stake, u128, keys),
        "add_full_key": st.builds(act.AddKey, keys),
        "add_call_key": st.builds(act.AddKey, keys, permissions, nonce=u64),
        "add_gas_key": st.builds(act.AddKey, keys, st.none() | permissions, st.integers(1, 1024), u64, u128),
        "delete_key": st.builds(act.DeleteKey, keys),
        "delete_account": st.builds(act.DeleteAccount, account_ids),
        "to_gas_key": st.builds(act.TransferToGasKey, keys, u128),
        "from_gas_key": st.builds(act.WithdrawFromGasKey, keys, u128),
    }


def one_of(kinds: dict[str, st.SearchStrategy[act.PlainAction]], *but: str) -> st.SearchStrategy[act.PlainAction]:
    return st.one_of(*(strategy for name, strategy in kinds.items() if name not in but))


def delegates(
    actions: st.SearchStrategy[act.PlainAction], keys: st.SearchStrategy[PublicKey]
) -> st.SearchStrategy[act.DelegateAction]:
    return st.builds(
        act.DelegateAction, account_ids, account_ids, st.lists(actions, max_size=4).map(tuple), u64, u64, keys
    )

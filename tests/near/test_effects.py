"""Which effects touch the signing account, and what a deposit limit is held against."""

from __future__ import annotations

from typing import get_args

import pytest

from txmanager.chains.near import NearPolicy
from txmanager.chains.near import actions as act
from txmanager.chains.near.delegates import check_delegate_policy
from txmanager.chains.near.effects import ACTION_NAMES, OWN_ACCOUNT_EFFECTS, deposit_at_risk, own_effects
from txmanager.chains.near.intents import AnyAction
from txmanager.chains.near.names import PublicKey
from txmanager.chains.near.reading import ELSEWHERE, read
from txmanager.chains.near.settings import OwnAccountEffect, RelayedAction
from txmanager.core.errors import PolicyRefused
from txmanager.core.kinds import UNLIMITED

ME, KEY = "relayer.near", PublicKey(0, bytes(32))
ALL: dict[str, act.PlainAction] = {
    "create_account": act.CreateAccount(),
    "deploy_contract": act.DeployContract(b""),
    "function_call": act.FunctionCall("go", b"", 1),
    "transfer": act.Transfer(1),
    "stake": act.Stake(1, KEY),
    "add_key": act.AddKey(KEY),
    "delete_key": act.DeleteKey(KEY),
    "delete_account": act.DeleteAccount("bob.near"),
    "transfer_to_gas_key": act.TransferToGasKey(KEY, 1),
    "withdraw_from_gas_key": act.WithdrawFromGasKey(KEY, 1),
}
ELSEWHERE_HARMLESS = {"create_account", "function_call", "transfer", "transfer_to_gas_key"}


def delegate(sender: str, receiver: str, *actions: act.PlainAction) -> act.SignedDelegate:
    return act.SignedDelegate(act.DelegateAction(sender, receiver, actions, 1, 10**9, KEY), 0, bytes(64))


def test_requests_settings_and_effects_use_the_same_names():
    told = {get_args(model.model_fields["type"].annotation)[0] for model in get_args(get_args(AnyAction)[0])}
    assert told == set(ALL) == ACTION_NAMES
    assert set(get_args(OwnAccountEffect)) == OWN_ACCOUNT_EFFECTS
    assert set(get_args(RelayedAction)) == ACTION_NAMES - {"delete_account"}


@pytest.mark.parametrize("name", sorted(ALL))
def test_on_the_own_account_all_but_transfers_and_creations_count(name):
    expected = set() if name in ("transfer", "create_account") else {name}
    assert own_effects(ME, (ALL[name],), ME) == expected
    # whatever stands around it
    assert own_effects(ME, (act.CreateAccount(), act.Transfer(0), ALL[name]), ME) == expected


@pytest.mark.parametrize("name", sorted(ALL))
def test_what_only_an_owner_can_do_counts_whatever_the_receiver(name):
    assert own_effects("bob.near", (ALL[name],), ME) == (set() if name in ELSEWHERE_HARMLESS else {name})
    assert own_effects("new.relayer.near", (act.CreateAccount(), ALL[name]), ME) == set()


def test_a_delegate_of_the_relayers_own_counts_and_a_users_does_not():
    for name in OWN_ACCOUNT_EFFECTS:
        assert own_effects(ME, (delegate(ME, ME, ALL[name]),), ME) == {name}
        assert own_effects("bob.near", (delegate("bob.near", "bob.near", ALL[name]),), ME) == set()


def test_an_action_that_nobody_knows_counts_on_the_own_account():
    class UseGlobalContract:
        pass

    assert own_effects(ME, (UseGlobalContract(),), ME) == {"UseGlobalContract"}  # type: ignore[arg-type]


def test_a_deleted_account_is_an_unlimited_deposit_anywhere():
    gone = act.DeleteAccount("bob.near")
    assert deposit_at_risk((act.Transfer(2), act.FunctionCall("go", b"", 1, 3))) == 5
    assert deposit_at_risk((act.CreateAccount(), gone)) == UNLIMITED
    assert deposit_at_risk((delegate("bob.near", "bob.near", gone),)) == UNLIMITED
    relayed = NearPolicy(delegate_actions=ACTION_NAMES, delegate_max_deposit=UNLIMITED - 1)
    with pytest.raises(PolicyRefused, match="the whole balance"):
        check_delegate_policy(delegate("bob.near", "bob.near", gone), relayed)


def test_delegates_hold_what_the_policy_lists():
    def passes(policy: NearPolicy) -> set[str]:
        passed = set()
        for name, action in ALL.items():
            try:
                check_delegate_policy(delegate("bob.near", "bob.near", action), policy)
                passed.add(name)
            except PolicyRefused:
                pass
        return passed

    assert passes(NearPolicy()) == {"function_call", "transfer"}
    assert passes(NearPolicy(delegate_methods=frozenset({"go"}))) == {"function_call"}
    assert passes(NearPolicy(delegate_methods=frozenset({"other"}))) == set()
    listed = frozenset({"add_key", "transfer", "function_call"})
    assert passes(NearPolicy(delegate_actions=listed)) == listed
    assert passes(NearPolicy(delegate_actions=listed, delegate_methods=frozenset())) == {"add_key", "transfer"}


def test_a_pool_that_is_configured_elsewhere_still_tells_who_must_operate():
    reading = read("near.add_key", {"public_key": str(KEY)}, ELSEWHERE)
    assert (reading.own_account, reading.refusal) == ({"add_key"}, None)
    deletion = {"receiver_id": "bob.near", "actions": [{"type": "delete_account", "beneficiary_id": "b.near"}]}
    assert read("near.transaction", deletion, ELSEWHERE).own_account == {"delete_account"}
    assert read("near.transaction", deletion, ELSEWHERE).receivers == {"bob.near", "b.near"}, "its heir receives, too"
    assert read("near.transfer", {"receiver_id": "bob.near", "amount": "1"}, ELSEWHERE).own_account == set()

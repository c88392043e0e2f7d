"""What a node refuses before anything is spent, in which order, and with which words."""

from __future__ import annotations

import pytest

from tests.devnet.world import ALICE, BOB, NEAR, TGAS, World, call
from txmanager.devnet import InvalidTx, key_pair
from txmanager.devnet.model import (
    AddKey,
    Delegate,
    DeleteAccount,
    DeployContract,
    Permission,
    Transfer,
    Unsupported,
)

NEW_KEY = key_pair(1, "new").public_key


def refusal(world, tx):
    with pytest.raises(InvalidTx) as caught:
        world.network.send(tx)
    return caught.value.error


def test_the_checks_come_in_the_protocols_order():
    """A transaction with everything wrong is repaired step by step; each step shows the next complaint."""
    world = World()
    world.network.set_fault("congestion", level=0.9)
    wrong = {
        "block_hash": bytes(32),
        "nonce": 1,
        "public_key": NEW_KEY,
        "valid_signature": False,
    }
    actions = [Unsupported("Stake", {})]
    signer = "nobody.near"

    def complaint():
        error = refusal(world, world.tx(signer, BOB, *actions, **wrong))
        return error if isinstance(error, str) else next(iter(error))

    assert complaint() == "Expired"
    wrong["block_hash"] = world.network.final().hash
    assert complaint() == "ShardCongested"
    world.network.faults.clear()
    assert complaint() == "ActionsValidation"
    actions[0] = Transfer(10**40)
    assert complaint() == "InvalidSignature"
    wrong["valid_signature"] = True
    assert complaint() == "SignerDoesNotExist"
    signer = ALICE
    assert complaint() == "InvalidAccessKeyError"
    wrong["public_key"] = world.key(ALICE)
    assert complaint() == "InvalidNonce"
    wrong["nonce"] = None
    assert complaint() == "NotEnoughBalance"
    actions[0] = Transfer(1)
    assert world.network.send(world.tx(signer, BOB, *actions, **wrong))


@pytest.mark.parametrize(
    ("actions", "error"),
    [
        ((Transfer(1),) * 101, "TotalNumberOfActionsExceeded"),
        ((DeleteAccount(BOB), Transfer(1)), "DeleteActionMustBeFinal"),
        ((call("x", gas=0),), "FunctionCallZeroAttachedGas"),
        ((call(""),), "FunctionCallEmptyMethodName"),
        ((call("x" * 257),), "FunctionCallMethodNameLengthExceeded"),
        ((call("x", gas=600 * TGAS),) * 2, "TotalPrepaidGasExceeded"),
        ((DeployContract(bytes(4_194_305)),), "ContractSizeExceeded"),
        ((AddKey(NEW_KEY, None, num_nonces=1025),), "GasKeyInvalidNumNonces"),
        ((AddKey(NEW_KEY, None, num_nonces=0),), "GasKeyInvalidNumNonces"),
        ((AddKey(NEW_KEY, None, num_nonces=1, balance=5),), "AddGasKeyWithNonZeroBalance"),
        ((Delegate(ALICE, BOB, (), 1, 1, NEW_KEY),) * 2, "DelegateActionMustBeOnlyOne"),
        ((Unsupported("Stake", {}),), "UnsupportedProtocolFeature"),
    ],
)
def test_actions_that_are_wrong_in_themselves(actions, error):
    world = World()
    told = refusal(world, world.tx(ALICE, BOB, *actions))["ActionsValidation"]
    assert (told if isinstance(told, str) else next(iter(told))) == error


def test_a_transaction_beyond_the_size_limit():
    world = World()
    error = refusal(world, world.tx(ALICE, BOB, Transfer(1), size=1_572_865))
    assert error == {"TransactionSizeExceeded": {"size": 1_572_865, "limit": 1_572_864}}


def test_lack_of_balance_names_the_balance_and_the_cost_as_strings():
    world = World()
    error = refusal(world, world.tx(ALICE, BOB, Transfer(10**40)))["NotEnoughBalance"]
    assert error["signer_id"] == ALICE
    assert int(error["cost"]) > 10**40
    assert error["balance"] == str(world.balance(ALICE))


@pytest.mark.parametrize(
    ("receiver", "action", "error"),
    [
        ("counter.near", call("increment", deposit=1), "DepositWithFunctionCall"),
        ("counter.near", Transfer(1), "RequiresFullAccess"),
        (
            "ft.near",
            call("increment"),
            {"ReceiverMismatch": {"tx_receiver": "ft.near", "ak_receiver": "counter.near"}},
        ),
        ("counter.near", call("reset"), {"MethodNameMismatch": {"method_name": "reset"}}),
    ],
)
def test_what_a_function_call_key_may_not_sign(receiver, action, error):
    world = World()
    world.do(ALICE, ALICE, AddKey(NEW_KEY, Permission("counter.near", ("increment",), NEAR)))
    tx = world.tx(ALICE, receiver, action, public_key=NEW_KEY)
    assert refusal(world, tx) == {"InvalidAccessKeyError": error}


def test_an_allowance_too_small_for_the_gas():
    world = World()
    world.do(ALICE, ALICE, AddKey(NEW_KEY, Permission("counter.near", (), 7)))
    error = refusal(world, world.tx(ALICE, "counter.near", call("increment"), public_key=NEW_KEY))
    assert error["InvalidAccessKeyError"]["NotEnoughAllowance"]["allowance"] == "7"


def test_a_gas_key_without_funds():
    world = World()
    world.do(ALICE, ALICE, AddKey(NEW_KEY, None, num_nonces=1))
    error = refusal(world, world.tx(ALICE, BOB, Transfer(1), public_key=NEW_KEY, nonce_index=0, version=1))
    assert error["NotEnoughGasKeyBalance"]["balance"] == "0"


def test_storage_must_be_paid_for():
    world = World()
    world.do(ALICE, ALICE, DeployContract(bytes(100_000)))
    error = refusal(world, world.tx(ALICE, BOB, Transfer(world.balance(ALICE) - NEAR // 10)))
    assert error["LackBalanceForState"]["signer_id"] == ALICE

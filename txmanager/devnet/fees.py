"""What things cost: nearcore's fee table for the actions we run, and the protocol's limits.

Fees are in gas. One gas price holds for the life of the network, so a refund is exact.
"""

from __future__ import annotations

from .model import (
    Action,
    AddKey,
    CreateAccount,
    Delegate,
    DeleteAccount,
    DeleteKey,
    DeployContract,
    FunctionCall,
    Transfer,
    TransferToGasKey,
    WithdrawFromGasKey,
)

TGAS = 10**12
NEAR = 10**24

RECEIPT = 108_059_500_000
DATA_RECEIPT = 36_486_732_312
_FLAT = {
    CreateAccount: (3_850_000_000_000, 3_850_000_000_000),
    Transfer: (115_123_062_500, 115_123_062_500),
    DeleteKey: (94_946_625_000, 94_946_625_000),
    DeleteAccount: (147_489_000_000, 147_489_000_000),
    TransferToGasKey: (115_123_062_500, 115_123_062_500),
    WithdrawFromGasKey: (115_123_062_500, 115_123_062_500),
}
DELEGATE = 200_000_000_000
_CALL_SEND, _CALL_EXEC, _CALL_BYTE = 200_000_000_000, 780_000_000_000, 2_235_934
_DEPLOY, _DEPLOY_BYTE = 184_765_750_000, 64_572_944
_ADD_FULL, _ADD_CALL, _ADD_BYTE = 101_765_125_000, 102_217_625_000, 1_925_331

CONTRACT_GAS = 1_500_000_000_000  # what a built-in contract's method burns
REWARD_NUM, REWARD_DEN = 3, 10  # the contract's share of the gas its call burnt

MAX_TX_SIZE = 1_572_864
MAX_ACTIONS = 100
MAX_PREPAID_GAS = 1_000 * TGAS
MAX_METHOD_NAME = 256
MAX_METHOD_NAMES_BYTES = 2_000
MAX_ARGS = 4_194_304
MAX_CODE = 4_194_304
MAX_GAS_KEY_NONCES = 1_024
NONCE_RANGE = 1_000_000

STORAGE_PRICE = 10**19  # yocto per byte
FREE_STORAGE = 770  # an account this small needs no balance
KEY_STORAGE = 82


def send_fee(action: Action) -> int:
    return _fees(action)[0]


def exec_fee(action: Action) -> int:
    return _fees(action)[1]


def _fees(action: Action) -> tuple[int, int]:
    kind = type(action)
    if kind is FunctionCall:
        size = (len(action.args) + len(action.method_name)) * _CALL_BYTE  # type: ignore[union-attr]
        return _CALL_SEND + size, _CALL_EXEC + size
    flat = _FLAT.get(kind)
    if flat is not None:
        return flat
    if isinstance(action, AddKey):
        if action.permission is None:
            return _ADD_FULL, _ADD_FULL
        size = sum(len(name) + 1 for name in action.permission.method_names) * _ADD_BYTE
        return _ADD_CALL + size, _ADD_CALL + size
    if isinstance(action, DeployContract):
        size = len(action.code) * _DEPLOY_BYTE
        return _DEPLOY + size, _DEPLOY + size
    if isinstance(action, Delegate):
        # The inner receipt is sent while the outer one runs, so its sending is prepaid here.
        inner = RECEIPT + sum(send_fee(a) for a in action.actions)
        return DELEGATE, DELEGATE + inner
    return 0, 0


def attached_gas(action: Action) -> int:
    """Gas an action carries beyond its own fees, to be spent or given back."""
    if type(action) is FunctionCall:
        return action.gas
    if isinstance(action, Delegate):
        return receipt_gas(action.actions)
    return 0


def receipt_gas(actions: tuple[Action, ...]) -> int:
    """All a receipt must carry: its execution fees and what is attached."""
    return RECEIPT + sum(exec_fee(a) + attached_gas(a) for a in actions)


def tx_gas(actions: tuple[Action, ...]) -> int:
    """What turning a transaction into its receipt burns."""
    return RECEIPT + sum(send_fee(a) for a in actions)


def deposit_of(actions: tuple[Action, ...]) -> int:
    """Tokens that travel with the actions. A relayer pays the deposits of what it relays."""
    total = 0
    for action in actions:
        if isinstance(action, Transfer | FunctionCall | TransferToGasKey):
            total += action.deposit
        elif isinstance(action, Delegate):
            total += deposit_of(action.actions)
    return total


def key_storage(permission: object) -> int:
    if permission is None:
        return KEY_STORAGE
    names = getattr(permission, "method_names", ())
    return KEY_STORAGE + 26 + len(getattr(permission, "receiver_id", "")) + sum(len(n) + 4 for n in names)

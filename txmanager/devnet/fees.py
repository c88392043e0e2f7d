"""What things cost: the fees of protocol 87 as a real node lists them, and the protocol's limits.

Fees are in gas. Gas is burnt at one price and bought at a higher one (`Config.purchase_price`); what it was dearer
comes back with a refund, as on a real network.
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
    Permission,
    Transfer,
    TransferToGasKey,
    WithdrawFromGasKey,
)

TGAS = 10**12
NEAR = 10**24

RECEIPT = 108_059_500_000
DATA_RECEIPT = 36_486_732_312
REFUND = 223_182_562_500  # what a refund's outcome says; nobody pays for it
_TRANSFER = 115_123_062_500
CREATE_EXEC = 7_200_000_000_000
_FLAT = {
    CreateAccount: (500_000_000_000, CREATE_EXEC),
    Transfer: (_TRANSFER, _TRANSFER),
    DeleteKey: (94_946_625_000, 94_946_625_000),
    DeleteAccount: (147_489_000_000, 147_489_000_000),
}
DELEGATE = 200_000_000_000
ML_DSA_CHECK = 100_000_000_000  # of an outer or a relayed post-quantum signature
_CALL_SEND, _CALL_EXEC, _CALL_BYTE = 200_000_000_000, 780_000_000_000, 2_235_934
_DEPLOY, _DEPLOY_BYTE, _DEPLOY_BYTE_OWN = 184_765_750_000, 64_572_944, 6_812_999
_ADD_FULL, _ADD_CALL, _ADD_BYTE = 101_765_125_000, 102_217_625_000, 1_925_331
_SENT_BYTE = 47_683_715  # bytes for somebody else's account cost more to send
# A gas key's balance and nonces are entries of the state, paid for by the byte of their keys and values.
_GAS_KEY_SENT_BYTE, _STATE_BYTE, _STATE_READ, _STATE_WRITE = 59_357_464, 101_435_400, 56_356_845_750, 64_196_736_000
_KEY_BYTES, _GAS_KEY_INFO_BYTES, _LANE_ENTRY_BYTES, _GAS_KEY_ENTRY_BYTES = 33, 18, 45, 62

CREATION_CHARGE = 7 * 10**21  # yocto, instead of the gas that creating an account executes
CONTRACT_GAS = 1_500_000_000_000  # what a built-in contract's method burns

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


def send_fee(action: Action, *, own: bool) -> int:
    """What sending an action burns; `own` when it goes from an account to itself."""
    match action:
        case FunctionCall():
            return _CALL_SEND + _call_bytes(action) * (_CALL_BYTE if own else _SENT_BYTE)
        case AddKey():
            sent = _ADD_FULL
            if action.permission is not None:
                sent = _ADD_CALL + _name_bytes(action.permission) * (_ADD_BYTE if own else _SENT_BYTE)
            return sent + (_GAS_KEY_INFO_BYTES * _GAS_KEY_SENT_BYTE if action.num_nonces is not None else 0)
        case DeployContract(code):
            return _DEPLOY + len(code) * (_DEPLOY_BYTE_OWN if own else _SENT_BYTE)
        case TransferToGasKey() | WithdrawFromGasKey():
            return _TRANSFER + _KEY_BYTES * _GAS_KEY_SENT_BYTE
        case Delegate():
            return DELEGATE + inner_send(action) + signature_fee(action.public_key)
    return _FLAT[type(action)][0] if type(action) in _FLAT else 0


def signature_fee(public_key: str) -> int:
    return ML_DSA_CHECK if public_key.startswith("ml-dsa-65:") else 0


def exec_fee(action: Action, receiver_id: str) -> int:
    match action:
        case FunctionCall():
            return _CALL_EXEC + _call_bytes(action) * _CALL_BYTE
        case AddKey():
            ran = _ADD_FULL if action.permission is None else _ADD_CALL + _name_bytes(action.permission) * _ADD_BYTE
            lane = _STATE_WRITE + (_LANE_ENTRY_BYTES + len(receiver_id)) * _STATE_BYTE
            return ran + lane * (action.num_nonces or 0)
        case DeployContract(code):
            return _DEPLOY + len(code) * _DEPLOY_BYTE
        case TransferToGasKey() | WithdrawFromGasKey():
            entry = (_GAS_KEY_ENTRY_BYTES + len(receiver_id)) * _STATE_BYTE
            return _TRANSFER + _STATE_READ + _STATE_WRITE + entry
        case Delegate():
            return DELEGATE
    return _FLAT[type(action)][1] if type(action) in _FLAT else 0


def _call_bytes(call: FunctionCall) -> int:
    return len(call.args) + len(call.method_name)


def _name_bytes(permission: Permission) -> int:
    return sum(len(name) + 1 for name in permission.method_names)


def inner_send(delegate: Delegate) -> int:
    """What a relayed transaction's actions cost to send on: prepaid, and burnt once the delegate is found good."""
    own = delegate.sender_id == delegate.receiver_id
    return sum(send_fee(a, own=own) for a in delegate.actions)


def attached_gas(action: Action) -> int:
    """Gas an action carries beyond its own fees, to be spent or given back."""
    if type(action) is FunctionCall:
        return action.gas
    if isinstance(action, Delegate):
        return inner_send(action) + receipt_gas(action.actions, action.receiver_id)
    return 0


def receipt_gas(actions: tuple[Action, ...], receiver_id: str) -> int:
    """All a receipt must carry: its execution fees and what is attached."""
    return RECEIPT + sum(exec_fee(a, receiver_id) + attached_gas(a) for a in actions)


def tx_gas(actions: tuple[Action, ...], sender_id: str, receiver_id: str, public_key: str = "") -> int:
    """What turning a transaction into its receipt burns."""
    return RECEIPT + signature_fee(public_key) + sum(send_fee(a, own=sender_id == receiver_id) for a in actions)


def deposit_of(actions: tuple[Action, ...]) -> int:
    """Tokens that travel with the actions. A relayer pays the deposits of what it relays."""
    total = 0
    for action in actions:
        if isinstance(action, Transfer | FunctionCall | TransferToGasKey):
            total += action.deposit
        elif isinstance(action, Delegate):
            total += deposit_of(action.actions)
    return total


def key_storage(permission: Permission | None) -> int:
    if permission is None:
        return KEY_STORAGE
    allowance = 16 if permission.allowance is not None else 0
    names = sum(len(name) + 4 for name in permission.method_names)
    return KEY_STORAGE + 1 + allowance + 4 + len(permission.receiver_id) + 4 + names

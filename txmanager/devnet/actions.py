"""One handler per action: what it checks, in the protocol's order, and what it changes.

Handlers write straight into state and raise `ActionFailure`; undoing is the runtime's business.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import base58

from . import fees
from .errors import ActionFailure, InvalidTx
from .model import (
    AccessKey,
    Account,
    Action,
    AddKey,
    CreateAccount,
    Delegate,
    DeleteAccount,
    DeleteKey,
    DeployContract,
    Receipt,
    Transfer,
    TransferToGasKey,
    WithdrawFromGasKey,
)
from .state import State
from .validate import check_actions, forbidden, is_account_id, is_implicit

REGISTRAR = "registrar"
MIN_OPEN_TOP_LEVEL = 65  # shorter top-level names belong to the registrar
MAX_BURNT_GAS_KEY = fees.NEAR  # a gas key richer than this must be emptied before it is deleted


class Work:
    """One receipt being run: where it writes, what it sends, what it burns."""

    __slots__ = (
        "actor_id", "answered_by", "children", "created", "gas_burnt", "gas_given",
        "height", "logs", "receipt", "state", "tokens_burnt", "value",
    )  # fmt: skip

    def __init__(self, state: State, receipt: Receipt, height: int) -> None:
        self.state = state
        self.receipt = receipt
        self.height = height
        self.actor_id = receipt.predecessor_id
        self.children: list[Receipt] = []
        self.logs: list[str] = []
        self.gas_burnt = fees.RECEIPT
        self.gas_given = 0
        self.created = False
        self.tokens_burnt = 0
        self.value: bytes | None = None
        self.answered_by: bytes | None = None

    @property
    def first_nonce(self) -> int:
        return (self.height - 1) * fees.NONCE_RANGE

    def account(self) -> Account:
        account: Account | None = self.state.get((self.receipt.receiver_id,))
        if account is None:
            raise ActionFailure({"AccountDoesNotExist": {"account_id": self.receipt.receiver_id}})
        return account

    def set_account(self, account: Account) -> None:
        self.state.put((self.receipt.receiver_id,), account)

    def owned(self) -> Account:
        """The account, for actions only its owner may take."""
        account = self.account()
        receiver_id = self.receipt.receiver_id
        if self.actor_id != receiver_id:
            who = {"account_id": receiver_id, "actor_id": self.actor_id}
            raise ActionFailure({"ActorNoPermission": who})
        return account

    def send(self, predecessor_id: str, receiver_id: str, actions: tuple[Action, ...]) -> Receipt:
        """A child receipt, paid from this one's gas."""
        receipt = self.receipt
        child = Receipt(
            id=hashlib.sha256(receipt.id + len(self.children).to_bytes(4, "little")).digest(),
            tx_hash=receipt.tx_hash,
            predecessor_id=predecessor_id,
            receiver_id=receiver_id,
            signer_id=receipt.signer_id,
            signer_key=receipt.signer_key,
            actions=actions,
            gas=fees.receipt_gas(actions, receiver_id),
            deposit=fees.deposit_of(actions),
            gas_key=receipt.gas_key,
        )
        self.gas_given += child.gas
        self.children.append(child)
        return child

    def fail(self) -> None:
        self.children = []
        self.gas_given = 0
        self.tokens_burnt = 0
        self.created = False
        self.answered_by = None


def _create_account(work: Work, _action: CreateAccount) -> None:
    receiver_id, predecessor_id = work.receipt.receiver_id, work.receipt.predecessor_id
    if work.state.get((receiver_id,)) is not None:
        raise ActionFailure({"AccountAlreadyExists": {"account_id": receiver_id}})
    if is_implicit(receiver_id):
        raise ActionFailure({"OnlyImplicitAccountCreationAllowed": {"account_id": receiver_id}})
    who = {"account_id": receiver_id, "predecessor_id": predecessor_id}
    if "." not in receiver_id:
        if len(receiver_id) < MIN_OPEN_TOP_LEVEL and predecessor_id != REGISTRAR:
            details = {**who, "registrar_account_id": REGISTRAR}
            raise ActionFailure({"CreateAccountOnlyByRegistrar": details})
    elif receiver_id.partition(".")[2] != predecessor_id:
        raise ActionFailure({"CreateAccountNotAllowed": who})
    work.set_account(Account(amount=0))
    work.actor_id = receiver_id
    work.created = True


def _transfer(work: Work, action: Transfer) -> None:
    receiver_id = work.receipt.receiver_id
    if work.state.get((receiver_id,)) is None and is_implicit(receiver_id) and len(work.receipt.actions) == 1:
        public_key = "ed25519:" + base58.b58encode(bytes.fromhex(receiver_id)).decode()
        usage = 100 + fees.KEY_STORAGE
        work.set_account(Account(amount=0, storage_usage=usage, keys=(public_key,)))
        work.state.put((receiver_id, public_key), AccessKey(work.first_nonce))
    account = work.account()
    work.set_account(account.holding(account.amount + action.deposit))


def _deploy(work: Work, action: DeployContract) -> None:
    account = work.owned()
    old = work.state.get((work.receipt.receiver_id, None, "#code"))
    usage = account.storage_usage - len(old or b"") + len(action.code)
    code_hash = hashlib.sha256(action.code).digest()
    work.state.put((work.receipt.receiver_id, None, "#code"), action.code)
    work.set_account(account._replace(code_hash=code_hash, storage_usage=usage))


def _add_key(work: Work, action: AddKey) -> None:
    account = work.owned()
    receiver_id = work.receipt.receiver_id
    where = (receiver_id, action.public_key)
    if work.state.get(where) is not None:
        details = {"account_id": receiver_id, "public_key": action.public_key}
        raise ActionFailure({"AddKeyAlreadyExists": details})
    lanes = action.num_nonces or 0
    balance = None if action.num_nonces is None else 0
    first = work.first_nonce if balance is None else 0
    work.state.put(where, AccessKey(first, action.permission, balance, lanes))
    for index in range(lanes):
        work.state.put((receiver_id, action.public_key, index), work.first_nonce)
    usage = account.storage_usage + fees.key_storage(action.permission) + 8 * lanes
    work.set_account(account._replace(storage_usage=usage, keys=(*account.keys, action.public_key)))


def _delete_key(work: Work, action: DeleteKey) -> None:
    account = work.owned()
    usage = account.storage_usage - _drop_key(work, action.public_key)
    keys = tuple(key for key in account.keys if key != action.public_key)
    work.set_account(account._replace(storage_usage=usage, keys=keys))


def _drop_key(work: Work, public_key: str) -> int:
    """Remove one key and its lanes; answers the storage it took. What a gas key holds is burnt."""
    receiver_id = work.receipt.receiver_id
    key: AccessKey | None = work.state.get((receiver_id, public_key))
    details = {"account_id": receiver_id, "public_key": public_key}
    if key is None:
        raise ActionFailure({"DeleteKeyDoesNotExist": details})
    if key.gas_balance is not None:
        if key.gas_balance > MAX_BURNT_GAS_KEY:
            raise ActionFailure({"GasKeyBalanceTooHigh": {**details, "balance": str(key.gas_balance)}})
        work.tokens_burnt += key.gas_balance
    work.state.put((receiver_id, public_key), None)
    for index in range(key.num_nonces):
        work.state.put((receiver_id, public_key, index), None)
    return fees.key_storage(key.permission) + 8 * key.num_nonces


def _delete_account(work: Work, action: DeleteAccount) -> None:
    account = work.owned()
    receiver_id = work.receipt.receiver_id
    for public_key in account.keys:
        _drop_key(work, public_key)
    for where in [key for key in work.state.head if key[0] == receiver_id]:
        work.state.put(where, None)
    if account.amount and action.beneficiary_id != receiver_id:
        heir = work.send("system", action.beneficiary_id, (Transfer(account.amount),))
        heir.refund = True  # the protocol pays it out like a refund: free, and burnt if nobody is there
        heir.signer_id, heir.gas_key = "system", None
        work.gas_given -= heir.gas
        heir.gas = 0
    else:
        work.tokens_burnt += account.amount


def _gas_key(work: Work, public_key: str) -> AccessKey:
    key: AccessKey | None = work.state.get((work.receipt.receiver_id, public_key))
    if key is None or key.gas_balance is None:
        details = {"account_id": work.receipt.receiver_id, "public_key": public_key}
        raise ActionFailure({"GasKeyDoesNotExist": details})
    return key


def _to_gas_key(work: Work, action: TransferToGasKey) -> None:
    work.account()
    key = _gas_key(work, action.public_key)
    filled = key._replace(gas_balance=(key.gas_balance or 0) + action.deposit)
    work.state.put((work.receipt.receiver_id, action.public_key), filled)


def _from_gas_key(work: Work, action: WithdrawFromGasKey) -> None:
    account = work.owned()
    key = _gas_key(work, action.public_key)
    balance = key.gas_balance or 0
    if balance < action.amount:
        details = {"account_id": work.receipt.receiver_id, "public_key": action.public_key}
        short = {"balance": str(balance), "required": str(action.amount)}
        raise ActionFailure({"InsufficientGasKeyBalance": {**details, **short}})
    work.state.put((work.receipt.receiver_id, action.public_key), key._replace(gas_balance=balance - action.amount))
    work.set_account(account.holding(account.amount + action.amount))


def _delegate(work: Work, action: Delegate) -> None:
    if not action.signature_ok:
        raise ActionFailure("DelegateActionInvalidSignature")
    if work.height > action.max_block_height:
        raise ActionFailure("DelegateActionExpired")
    if action.sender_id != work.receipt.receiver_id:
        details = {"sender_id": action.sender_id, "receiver_id": work.receipt.receiver_id}
        raise ActionFailure({"DelegateActionSenderDoesNotMatchTxReceiver": details})
    work.account()
    where = (action.sender_id, action.public_key)
    key: AccessKey | None = work.state.get(where)
    if key is None:
        missing = {"account_id": action.sender_id, "public_key": action.public_key}
        raise ActionFailure({"DelegateActionAccessKeyError": {"AccessKeyNotFound": missing}})
    index = action.nonce_index
    if key.gas_balance is not None and index is None:
        raise ActionFailure({"DelegateActionAccessKeyError": "DelegateActionRequiresNonGasKey"})
    if index is not None and index >= key.num_nonces:
        bad_index = {"delegate_nonce_index": index, "num_nonces": key.num_nonces}
        raise ActionFailure({"DelegateActionInvalidNonceIndex": bad_index})
    current = key.nonce if index is None else int(work.state.get((*where, index)))
    if action.nonce <= current:
        bad_nonce = {"delegate_nonce": action.nonce, "ak_nonce": current}
        raise ActionFailure({"DelegateActionInvalidNonce": bad_nonce})
    bound = work.height * fees.NONCE_RANGE
    if action.nonce >= bound:
        bad_bound = {"delegate_nonce": action.nonce, "upper_bound": bound}
        raise ActionFailure({"DelegateActionNonceTooLarge": bad_bound})
    if key.permission is not None:
        refusal = forbidden(key.permission, action.receiver_id, action.actions)
        if refusal is not None:
            raise ActionFailure({"DelegateActionAccessKeyError": refusal})
    if index is None:
        work.state.put(where, key._replace(nonce=action.nonce))
    else:
        work.state.put((*where, index), action.nonce)
    # The outer receipt succeeds with what it sends: whether that works is the inner receipt's own outcome.
    work.gas_burnt += fees.inner_send(action)
    work.send(action.sender_id, action.receiver_id, action.actions)


def sendable(receiver_id: str, actions: tuple[Action, ...]) -> bool:
    """Whether a contract may send these actions: the checks a transaction's own actions pass."""
    try:
        check_actions(actions)
    except InvalidTx:
        return False
    return is_account_id(receiver_id)


HANDLERS: dict[type[Any], Callable[[Work, Any], None]] = {
    CreateAccount: _create_account,
    Transfer: _transfer,
    DeployContract: _deploy,
    AddKey: _add_key,
    DeleteKey: _delete_key,
    DeleteAccount: _delete_account,
    TransferToGasKey: _to_gas_key,
    WithdrawFromGasKey: _from_gas_key,
    Delegate: _delegate,
}

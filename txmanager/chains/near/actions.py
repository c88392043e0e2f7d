"""The actions of a transaction, as values, with their borsh forms both ways.

The number in each class is the protocol's discriminant: it is on the wire for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from txmanager.chains.near.borsh import Reader, blob, string, u16, u32, u64, u128
from txmanager.chains.near.names import KEY_TYPES, PUBLIC_KEY_SIZES, SIGNATURE_SIZES, PublicKey
from txmanager.core.values import value

MAX_ACTIONS = 100
"""Of one transaction, and of one delegate."""


@value(frozen=True, slots=True)
class CreateAccount:
    tag: ClassVar[int] = 0

    def encode(self) -> bytes:
        return b"\x00"


@value(frozen=True, slots=True)
class DeployContract:
    tag: ClassVar[int] = 1
    code: bytes

    def encode(self) -> bytes:
        return b"\x01" + blob(self.code)


@value(frozen=True, slots=True)
class FunctionCall:
    tag: ClassVar[int] = 2
    method_name: str
    args: bytes
    gas: int
    deposit: int = 0

    def encode(self) -> bytes:
        return b"\x02" + string(self.method_name) + blob(self.args) + u64(self.gas) + u128(self.deposit)


@value(frozen=True, slots=True)
class Transfer:
    tag: ClassVar[int] = 3
    deposit: int

    def encode(self) -> bytes:
        return b"\x03" + u128(self.deposit)


@value(frozen=True, slots=True)
class Stake:
    tag: ClassVar[int] = 4
    stake: int
    public_key: PublicKey

    def encode(self) -> bytes:
        return b"\x04" + u128(self.stake) + self.public_key.borsh


@value(frozen=True, slots=True)
class CallPermission:
    """What a function-call key may do; no method names means every method."""

    receiver_id: str
    method_names: tuple[str, ...] = ()
    allowance: int | None = None

    def encode(self) -> bytes:
        allowance = b"\x00" if self.allowance is None else b"\x01" + u128(self.allowance)
        names = b"".join(map(string, self.method_names))
        return allowance + string(self.receiver_id) + u32(len(self.method_names)) + names


@value(frozen=True, slots=True)
class AddKey:
    """`permission` None is full access; `num_nonces` makes it a gas key. The nonce field is ignored by the chain."""

    tag: ClassVar[int] = 5
    public_key: PublicKey
    permission: CallPermission | None = None
    num_nonces: int | None = None
    nonce: int = 0
    gas_balance: int = 0

    def encode(self) -> bytes:
        head = b"\x05" + self.public_key.borsh + u64(self.nonce)
        calls = b"" if self.permission is None else self.permission.encode()
        if self.num_nonces is None:
            return head + (b"\x01" if self.permission is None else b"\x00" + calls)
        gas_key = u128(self.gas_balance) + u16(self.num_nonces)
        return head + (b"\x03" if self.permission is None else b"\x02") + gas_key + calls


@value(frozen=True, slots=True)
class DeleteKey:
    tag: ClassVar[int] = 6
    public_key: PublicKey

    def encode(self) -> bytes:
        return b"\x06" + self.public_key.borsh


@value(frozen=True, slots=True)
class DeleteAccount:
    tag: ClassVar[int] = 7
    beneficiary_id: str

    def encode(self) -> bytes:
        return b"\x07" + string(self.beneficiary_id)


@value(frozen=True, slots=True)
class TransferToGasKey:
    tag: ClassVar[int] = 12
    public_key: PublicKey
    deposit: int

    def encode(self) -> bytes:
        return b"\x0c" + self.public_key.borsh + u128(self.deposit)


@value(frozen=True, slots=True)
class WithdrawFromGasKey:
    tag: ClassVar[int] = 13
    public_key: PublicKey
    amount: int

    def encode(self) -> bytes:
        return b"\x0d" + self.public_key.borsh + u128(self.amount)


PlainAction = (
    CreateAccount
    | DeployContract
    | FunctionCall
    | Transfer
    | Stake
    | AddKey
    | DeleteKey
    | DeleteAccount
    | TransferToGasKey
    | WithdrawFromGasKey
)


@value(frozen=True, slots=True)
class DelegateAction:
    """What a user signs and somebody else pays for (NEP-366). `second` is the form of DelegateV2. Its nonce may be one
    of a gas key's many: `nonce_index` says which."""

    sender_id: str
    receiver_id: str
    actions: tuple[PlainAction, ...]
    nonce: int
    max_block_height: int
    public_key: PublicKey
    second: bool = False
    nonce_index: int | None = None

    def encode(self) -> bytes:
        call = string(self.sender_id) + string(self.receiver_id) + encode_actions(self.actions)
        tail = u64(self.max_block_height) + self.public_key.borsh
        if not self.second:
            return call + u64(self.nonce) + tail
        if self.nonce_index is None:
            return b"\x00" + call + b"\x00" + u64(self.nonce) + tail
        return b"\x00" + call + b"\x01" + u64(self.nonce) + u16(self.nonce_index) + tail


@value(frozen=True, slots=True)
class SignedDelegate:
    """`encode` is the action inside a transaction; without its first byte it is what travels as base64."""

    tag: ClassVar[int] = 8
    second_tag: ClassVar[int] = 14
    delegate: DelegateAction
    curve: int
    signature: bytes

    def encode(self) -> bytes:
        return bytes((self.second_tag if self.delegate.second else self.tag,)) + self.encode_bare()

    def encode_bare(self) -> bytes:
        return self.delegate.encode() + bytes((self.curve,)) + self.signature


Action = PlainAction | SignedDelegate


def encode_actions(actions: tuple[Action, ...]) -> bytes:
    return u32(len(actions)) + b"".join([action.encode() for action in actions])


_UNSUPPORTED = {8: "a nested Delegate", 9: "DeployGlobalContract", 10: "UseGlobalContract"}
_UNSUPPORTED |= {11: "DeterministicStateInit", 14: "a nested DelegateV2"}


def decode_signed_delegate(raw: bytes, field: str) -> SignedDelegate:
    """Either form, without the action's own first byte. The second form begins with its version, 0; the first one with
    the length of an account id, which is never 0."""
    reader = Reader(raw, field)
    signed = _second_delegate(reader) if raw[:1] == b"\x00" else _signed_delegate(reader)
    reader.end()
    return signed


def read_actions(reader: Reader) -> tuple[Action, ...]:
    """The actions of a transaction, where a delegate may stand, too."""
    return tuple(_action(reader, tag) for tag in _tags(reader))


def _action(reader: Reader, tag: int) -> Action:
    if tag == SignedDelegate.tag:
        return _signed_delegate(reader)
    return _second_delegate(reader) if tag == SignedDelegate.second_tag else _body(reader, tag)


def _tags(reader: Reader) -> Iterator[int]:
    count = reader.count(1)
    if count > MAX_ACTIONS:  # a megabyte of the shortest ones would take a second to read
        raise reader.wrong(f"at most {MAX_ACTIONS} actions fit into one transaction, not {count}")
    for _ in range(count):
        yield reader.u8()


def _signed_delegate(reader: Reader) -> SignedDelegate:
    sender, receiver = reader.string(), reader.string()
    actions = tuple(_body(reader, tag) for tag in _tags(reader))
    delegate = DelegateAction(sender, receiver, actions, reader.u64(), reader.u64(), _key(reader))
    return _with_signature(reader, delegate)


def _second_delegate(reader: Reader) -> SignedDelegate:
    if (version := reader.u8()) != 0:
        raise reader.wrong(f"version {version} of DelegateV2 is not known")
    sender, receiver = reader.string(), reader.string()
    actions = tuple(_body(reader, tag) for tag in _tags(reader))
    if (form := reader.u8()) > 1:
        raise reader.wrong(f"a nonce has form 0 or 1, not {form}")
    nonce, index = reader.u64(), reader.u16() if form == 1 else None
    delegate = DelegateAction(sender, receiver, actions, nonce, reader.u64(), _key(reader), True, index)
    return _with_signature(reader, delegate)


def _with_signature(reader: Reader, delegate: DelegateAction) -> SignedDelegate:
    curve = reader.u8()
    if curve not in SIGNATURE_SIZES:
        raise reader.wrong(f"signature type {curve} is not supported ({KEY_TYPES})")
    return SignedDelegate(delegate, curve, reader.take(SIGNATURE_SIZES[curve]))


def _key(reader: Reader) -> PublicKey:
    curve = reader.u8()
    if curve not in PUBLIC_KEY_SIZES:
        raise reader.wrong(f"key type {curve} is not supported ({KEY_TYPES})")
    return PublicKey(curve, reader.take(PUBLIC_KEY_SIZES[curve]))


def _permission(reader: Reader) -> CallPermission:
    present = reader.u8()
    if present > 1:
        raise reader.wrong(f"an optional value starts with 0 or 1, not {present}")
    allowance = reader.u128() if present else None
    receiver = reader.string()
    return CallPermission(receiver, tuple(reader.string() for _ in range(reader.count(4))), allowance)


def _add_key(reader: Reader) -> AddKey:
    key, nonce, kind = _key(reader), reader.u64(), reader.u8()
    match kind:
        case 0:
            return AddKey(key, _permission(reader), nonce=nonce)
        case 1:
            return AddKey(key, nonce=nonce)
        case 2 | 3:
            balance, lanes = reader.u128(), reader.u16()
            return AddKey(key, _permission(reader) if kind == 2 else None, lanes, nonce, balance)
    raise reader.wrong(f"access key permission {kind} is not known")


def _body(reader: Reader, tag: int) -> PlainAction:
    match tag:
        case 0:
            return CreateAccount()
        case 1:
            return DeployContract(reader.blob())
        case 2:
            return FunctionCall(reader.string(), reader.blob(), reader.u64(), reader.u128())
        case 3:
            return Transfer(reader.u128())
        case 4:
            return Stake(reader.u128(), _key(reader))
        case 5:
            return _add_key(reader)
        case 6:
            return DeleteKey(_key(reader))
        case 7:
            return DeleteAccount(reader.string())
        case 12:
            return TransferToGasKey(_key(reader), reader.u128())
        case 13:
            return WithdrawFromGasKey(_key(reader), reader.u128())
        case _:
            raise reader.wrong(f"action {tag} ({_UNSUPPORTED.get(tag, 'unknown')}) is not supported")

"""The intents of NEAR: what a caller may ask for, as models with examples. Every wrong field has a message of its own.

Amounts are yoctoNEAR: decimal strings, or integers where the language has big ones. Gas is in gas units.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

import orjson
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.json_schema import WithJsonSchema

from txmanager.chains.near import actions as act
from txmanager.chains.near.borsh import U64_MAX, U128_MAX
from txmanager.chains.near.delegate_forms import read_delegate
from txmanager.chains.near.delegates import delegate_hash
from txmanager.chains.near.limits import TGAS
from txmanager.chains.near.names import PublicKey, check_account
from txmanager.core.errors import InvalidInput
from txmanager.core.kinds import KindPath
from txmanager.core.models import Json

DEFAULT_GAS = 30 * TGAS
_big_numbers = json.JSONEncoder(separators=(",", ":")).encode
_KEY_EXAMPLE = "ed25519:6E8sCci9badyRkXb3JoRpBj5p8C6Tw41ELDZoiihKEtp"


def _compact(value: Json) -> bytes:
    try:
        return b"%b" % orjson.dumps(value)  # a copy of its size: orjson's own answer keeps a buffer of 4 kB
    except TypeError:  # a whole number beyond 64 bits, or half of a character
        return _big_numbers(value).encode()


def _account(value: str) -> str:
    try:
        return check_account("", value)
    except InvalidInput as error:
        raise ValueError(error.problem) from None


def _key(value: str) -> str:
    try:
        return str(PublicKey.parse(value))
    except InvalidInput as error:
        raise ValueError(error.problem) from None


def _whole(limit: int, unit: str) -> Callable[[object], int]:
    def parse(value: object) -> int:
        if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 40:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
            raise ValueError(f"must be a whole number of {unit} from 0 to {limit}, as a decimal string")
        return value

    return parse


def _decoded(value: str) -> str:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not base64") from None
    return value


_DIGITS = {"anyOf": [{"type": "string", "pattern": "^[0-9]{1,40}$"}, {"type": "integer", "minimum": 0}]}
AccountId = Annotated[str, AfterValidator(_account), Field(examples=["alice.near"])]
Key = Annotated[str, AfterValidator(_key), Field(examples=[_KEY_EXAMPLE])]
Yocto = Annotated[int, BeforeValidator(_whole(U128_MAX, "yoctoNEAR")), WithJsonSchema(_DIGITS)]
Gas = Annotated[int, BeforeValidator(_whole(U64_MAX, "gas")), WithJsonSchema(_DIGITS)]
Base64 = Annotated[str, AfterValidator(_decoded)]
Id = Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,128}$")]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Call(Model):
    """A method and its arguments: JSON in `args`, or any bytes in `args_base64`, not both."""

    method_name: Annotated[str, Field(min_length=1, max_length=256, examples=["ft_transfer"])]
    args: Any = Field(default=None, examples=[{"receiver_id": "bob.near", "amount": "1"}])
    args_base64: Base64 | None = None
    gas: Gas = DEFAULT_GAS
    deposit: Yocto = 0

    @model_validator(mode="after")
    def _one_form(self) -> Call:
        if self.args is not None and self.args_base64 is not None:
            raise ValueError("give `args` or `args_base64`, not both")
        return self

    def action(self) -> act.FunctionCall:
        if self.args_base64 is not None:
            args = base64.b64decode(self.args_base64)
        else:
            args = b"{}" if self.args is None else _compact(self.args)
        return act.FunctionCall(self.method_name, args, self.gas, self.deposit)


class CallPermission(Model):
    receiver_id: AccountId
    method_names: list[str] = Field(default_factory=list)
    allowance: Yocto | None = None

    def value(self) -> act.CallPermission:
        return act.CallPermission(self.receiver_id, tuple(self.method_names), self.allowance)


class CreateAccountAction(Model):
    type: Literal["create_account"]

    def action(self) -> act.PlainAction:
        return act.CreateAccount()


class DeployContractAction(Model):
    type: Literal["deploy_contract"]
    code_base64: Base64

    def action(self) -> act.PlainAction:
        return act.DeployContract(base64.b64decode(self.code_base64))


class FunctionCallAction(Call):
    type: Literal["function_call"]


class TransferAction(Model):
    type: Literal["transfer"]
    amount: Yocto

    def action(self) -> act.PlainAction:
        return act.Transfer(self.amount)


class StakeAction(Model):
    type: Literal["stake"]
    stake: Yocto
    public_key: Key

    def action(self) -> act.PlainAction:
        return act.Stake(self.stake, PublicKey.parse(self.public_key))


class NewKey(Model):
    """`permission` "full_access", or the calls it is limited to; `num_nonces` makes it a gas key."""

    public_key: Key
    permission: Literal["full_access"] | CallPermission = "full_access"
    num_nonces: Annotated[int, Field(ge=1, le=1024)] | None = None

    def action(self) -> act.AddKey:
        calls = None if isinstance(self.permission, str) else self.permission.value()
        return act.AddKey(PublicKey.parse(self.public_key), calls, self.num_nonces)


class AddKeyAction(NewKey):
    type: Literal["add_key"]


class DeleteKeyAction(Model):
    type: Literal["delete_key"]
    public_key: Key

    def action(self) -> act.PlainAction:
        return act.DeleteKey(PublicKey.parse(self.public_key))


class DeleteAccountAction(Model):
    type: Literal["delete_account"]
    beneficiary_id: AccountId

    def action(self) -> act.PlainAction:
        return act.DeleteAccount(self.beneficiary_id)


class TransferToGasKeyAction(Model):
    type: Literal["transfer_to_gas_key"]
    public_key: Key
    amount: Yocto

    def action(self) -> act.PlainAction:
        return act.TransferToGasKey(PublicKey.parse(self.public_key), self.amount)


class WithdrawFromGasKeyAction(Model):
    type: Literal["withdraw_from_gas_key"]
    public_key: Key
    amount: Yocto

    def action(self) -> act.PlainAction:
        return act.WithdrawFromGasKey(PublicKey.parse(self.public_key), self.amount)


AnyAction = Annotated[
    CreateAccountAction
    | DeployContractAction
    | FunctionCallAction
    | TransferAction
    | StakeAction
    | AddKeyAction
    | DeleteKeyAction
    | DeleteAccountAction
    | TransferToGasKeyAction
    | WithdrawFromGasKeyAction,
    Field(discriminator="type"),
]


class CreateAccount(Model):
    """A sub-account of the relayer by three actions of its own, or any name through a root contract."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "new_account_id": "alice.relayer.near",
                    "public_key": _KEY_EXAMPLE,
                    "initial_balance": "10000000000000000000000",
                },
                {"new_account_id": "alice.near", "public_key": _KEY_EXAMPLE, "root_contract": "near"},
            ]
        }
    )
    new_account_id: AccountId
    public_key: Key
    initial_balance: Yocto = 0
    root_contract: AccountId | None = Field(default=None, description="`near` on mainnet, `testnet` on testnet.")
    extra_actions: list[AnyAction] = Field(
        default_factory=list, description="Run on the new account in the same transaction: all happen, or none."
    )
    gas: Gas = 100 * TGAS

    @model_validator(mode="after")
    def _no_extras_through_a_root(self) -> CreateAccount:
        if self.root_contract is not None and self.extra_actions:
            raise ValueError("extra_actions need a sub-account of the relayer; a root contract cannot run them")
        return self


class Delegate(Model):
    """A user's signed delegate action, paid for by the relayer."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"signed_delegate": "CgAAAGFsaWNlLm5lYXI..."}]})
    signed_delegate: Base64 | dict[str, Any] = Field(
        description="Base64 of the borsh-encoded SignedDelegateAction, or its JSON as nearcore writes it."
    )


class Recovery(Call):
    """An account recovery: one function call, tried once per (account, message)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "account_id": "alice.near",
                    "message_id": "0d9c2a51",
                    "contract_id": "recovery.near",
                    "method_name": "recover",
                    "args": {"account_id": "alice.near", "public_key": _KEY_EXAMPLE},
                }
            ]
        }
    )
    account_id: AccountId
    message_id: Id
    contract_id: AccountId


class Transaction(Model):
    """Any list of actions on one receiver, all or nothing."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"receiver_id": "bob.near", "actions": [{"type": "transfer", "amount": "1"}]}]}
    )
    receiver_id: AccountId
    actions: Annotated[list[AnyAction], Field(min_length=1, max_length=100)]


class FunctionCall(Call):
    """One call of one contract."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "contract_id": "usdt.near",
                    "method_name": "ft_transfer",
                    "args": {"receiver_id": "bob.near", "amount": "1"},
                    "deposit": "1",
                }
            ]
        }
    )
    contract_id: AccountId


class Transfer(Model):
    model_config = ConfigDict(json_schema_extra={"examples": [{"receiver_id": "bob.near", "amount": "1"}]})
    receiver_id: AccountId
    amount: Yocto


class AddKey(NewKey):
    """A new access key of the relayer's own account."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"public_key": _KEY_EXAMPLE}]})


KINDS: Mapping[str, type[Model]] = {
    "near.create_account": CreateAccount,
    "near.delegate": Delegate,
    "near.recovery": Recovery,
    "near.transaction": Transaction,
    "near.function_call": FunctionCall,
    "near.transfer": Transfer,
    "near.add_key": AddKey,
}
PATHS: Mapping[str, KindPath] = {
    "near.create_account": KindPath("/v1/near/accounts", {"new_public_key": "public_key"}),
    "near.delegate": KindPath("/v1/near/delegate-actions"),
    "near.transaction": KindPath("/v1/near/transactions"),
    "near.recovery": KindPath("/v1/near/recoveries"),
}


def parse_payload(kind: str, payload: Mapping[str, Json]) -> Model:
    """The model of a payload, or `InvalidInput` naming the first wrong field."""
    model = KINDS.get(kind)
    if model is None:
        raise InvalidInput("kind", f"{kind!r} is not one of {', '.join(KINDS)}")
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "payload"
        raise InvalidInput(field, first["msg"].removeprefix("Value error, ")) from None


def derived_key(kind: str, payload: Mapping[str, Json]) -> str | None:
    """The idempotency key that the payload itself names; None where the caller must bring one.

    A delegate is always claimed under its derived key: a caller's own key becomes an alias of it.
    """
    match parse_payload(kind, payload):
        case CreateAccount() as wanted:
            return f"create:{wanted.new_account_id}:{PublicKey.parse(wanted.public_key).handle}"
        case Recovery() as wanted:
            return f"recovery:{wanted.account_id}:{wanted.message_id}"
        case Delegate() as wanted:
            return f"delegate:{delegate_hash(read_delegate(wanted.signed_delegate))}"
    return None

"""The intents of EVM chains, as models with examples. Every wrong field has a message of its own.

Amounts are wei and gas is in units: decimal strings, `0x` strings, or integers where the language has big ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.json_schema import WithJsonSchema

from txmanager.chains.evm.names import check_address
from txmanager.chains.evm.transaction import ACCESS_LIST, DYNAMIC, LEGACY, SET_CODE, Body
from txmanager.core.errors import InvalidInput
from txmanager.core.kinds import KindPath
from txmanager.core.models import Json

U64_MAX, U256_MAX = 2**64 - 1, 2**256 - 1
MAX_DATA = 128 * 1024 - 1024
"""What pools take, with room for the other fields."""
MAX_INIT_CODE = 49_152
_HEX = re.compile(r"0x([0-9a-fA-F]{2})*\Z")
_WORD = re.compile(r"0x[0-9a-fA-F]{64}\Z")
_BOB = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
_CALL = "0xa9059cbb" + _BOB[2:].rjust(64, "0") + "1".rjust(64, "0")


def _whole(limit: int, unit: str) -> BeforeValidator:
    def parse(value: object) -> int:
        if isinstance(value, str) and value.isascii() and len(value) <= 80:
            if value.isdigit():
                value = int(value)
            elif re.fullmatch(r"0x[0-9a-fA-F]{1,64}", value):
                value = int(value, 16)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= limit:
            raise ValueError(f"must be a whole number of {unit} from 0 to {limit}, as a decimal or 0x string")
        return value

    return BeforeValidator(parse)


def _address(value: str) -> str:
    try:
        return check_address("", value)
    except InvalidInput as error:
        raise ValueError(error.problem) from None


def _hex(value: str) -> str:
    if not _HEX.match(value):
        raise ValueError("must be 0x and an even number of hex digits")
    return value.lower()


def _word(value: str) -> str:
    if not _WORD.match(value):
        raise ValueError("must be 0x and 64 hex digits")
    return value.lower()


_DIGITS = {
    "anyOf": [
        {"type": "string", "pattern": "^([0-9]{1,80}|0x[0-9a-fA-F]{1,64})$"},
        {"type": "integer", "minimum": 0},
    ]
}
Address = Annotated[str, AfterValidator(_address), Field(examples=[_BOB])]
Wei = Annotated[int, _whole(U256_MAX, "wei"), WithJsonSchema(_DIGITS)]
Gas = Annotated[int, _whole(U64_MAX, "gas"), WithJsonSchema(_DIGITS)]
Number64 = Annotated[int, _whole(U64_MAX, "units"), WithJsonSchema(_DIGITS)]
Number256 = Annotated[int, _whole(U256_MAX, "units"), WithJsonSchema(_DIGITS)]
Hex = Annotated[str, AfterValidator(_hex), Field(examples=["0x"])]
Word = Annotated[str, AfterValidator(_word)]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class AccessEntry(Model):
    address: Address
    storage_keys: list[Word] = Field(default_factory=list)


class Authorization(Model):
    """An EIP-7702 authorization, signed by the account that delegates."""

    chain_id: Number256
    address: Address
    nonce: Number64
    y_parity: Annotated[int, _whole(1, "parity")]
    r: Number256
    s: Number256


class Transaction(Model):
    """Any transaction: a call, a transfer with data, a contract's creation (no `to`)."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"to": _BOB, "data": _CALL},
                {"to": _BOB, "value": "1000000000000000", "gas": 21000, "type": 2},
                {"data": "0x6001600c60003960016000f300"},
            ]
        }
    )
    to: Address | None = None
    value: Wei = 0
    data: Hex = "0x"
    gas: Gas | None = Field(default=None, description="The gas limit; estimated when it is not given.")
    type: Literal[0, 1, 2, 4] = 2
    access_list: list[AccessEntry] = Field(default_factory=list)
    authorization_list: list[Authorization] = Field(default_factory=list)
    max_fee_per_gas: Wei | None = Field(
        default=None, description="Never pay more per unit of gas for this intent, replacements included."
    )
    simulate: bool = Field(
        default=True,
        description="Run it before a nonce is taken; a revert then fails the intent at no cost. Needs `gas` when off.",
    )

    @model_validator(mode="after")
    def _agrees(self) -> Transaction:
        size = (len(self.data) - 2) // 2
        if size > MAX_DATA:
            raise ValueError(f"data has {size} bytes; nodes take at most {MAX_DATA}")
        if self.to is None and not size:
            raise ValueError("without `to` a contract is created, which needs its code in `data`")
        if self.to is None and size > MAX_INIT_CODE:
            raise ValueError(f"data creates a contract with {size} bytes of code; the limit is {MAX_INIT_CODE}")
        if self.access_list and self.type == LEGACY:
            raise ValueError(f"access_list needs type {ACCESS_LIST}, {DYNAMIC} or {SET_CODE}")
        if bool(self.authorization_list) != (self.type == SET_CODE):
            raise ValueError(f"authorization_list and type {SET_CODE} need each other")
        if self.type == SET_CODE and self.to is None:
            raise ValueError(f"type {SET_CODE} cannot create a contract; give `to`")
        if not self.simulate and self.gas is None:
            raise ValueError("simulate = false needs `gas`: there is nothing to estimate it from")
        if self.max_fee_per_gas == 0:
            raise ValueError("max_fee_per_gas must be at least 1 wei")
        return self

    def body(self) -> Body:
        """`gas` is 0 where it has to be estimated."""
        return Body(
            to=bytes.fromhex(self.to[2:]) if self.to else b"",
            value=self.value,
            data=bytes.fromhex(self.data[2:]),
            gas=self.gas or 0,
            type=self.type,
            access_list=tuple(
                (bytes.fromhex(e.address[2:]), tuple(bytes.fromhex(k[2:]) for k in e.storage_keys))
                for e in self.access_list
            ),
            authorizations=tuple(
                (a.chain_id, bytes.fromhex(a.address[2:]), a.nonce, a.y_parity, a.r, a.s)
                for a in self.authorization_list
            ),
            max_fee_limit=self.max_fee_per_gas,
        )


class Transfer(Model):
    """Ether, or whatever the chain's coin is, to one address."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"to": _BOB, "value": "1000000000000000"}]})
    to: Address
    value: Wei
    max_fee_per_gas: Wei | None = None

    @property
    def simulate(self) -> bool:
        return True

    def body(self) -> Body:
        return Body(bytes.fromhex(self.to[2:]), self.value, b"", 0, max_fee_limit=self.max_fee_per_gas)


KINDS: Mapping[str, type[Transaction] | type[Transfer]] = {
    "evm.transaction": Transaction,
    "evm.transfer": Transfer,
}
PATHS: Mapping[str, KindPath] = {"evm.transaction": KindPath("/v1/evm/transactions")}


def parse_payload(kind: str, payload: Mapping[str, Json]) -> Transaction | Transfer:
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

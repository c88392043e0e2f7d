"""What the configuration says of a NEAR network and of a pool on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator, ValidationInfo

from txmanager.core.errors import InvalidSettings
from txmanager.settings.parts import Money, Names, Part
from txmanager.settings.pools import KeySource, NetworkSettings, PolicySettings, PoolSettings, key_source, shown_key

Finality = Literal["FINAL", "EXECUTED", "EXECUTED_OPTIMISTIC"]
OwnAccountEffect = Literal[
    "add_key",
    "delete_key",
    "delete_account",
    "deploy_contract",
    "function_call",
    "stake",
    "transfer_to_gas_key",
    "withdraw_from_gas_key",
]
RelayedAction = Literal[
    "add_key",
    "create_account",
    "delete_key",
    "deploy_contract",
    "function_call",
    "stake",
    "transfer",
    "transfer_to_gas_key",
    "withdraw_from_gas_key",
]
"""All but `delete_account`, which gives away more than any `delegate_max_deposit`."""


class NearNetworkSettings(NetworkSettings):
    chain: Literal["near"]
    finality: Finality | None = None
    chain_id: str | None = Field(default=None, min_length=1, max_length=64)
    genesis_hash: str | None = Field(default=None, pattern=r"^[1-9A-HJ-NP-Za-km-z]{32,44}$")
    """Which chain it is: a node that says another one is refused before anything is signed."""


class HarmlessCallSettings(Part):
    receiver_id: str
    method_name: str
    args: str = "{}"
    gas: int = Field(default=5 * 10**12, ge=1)


class NearPolicySettings(PolicySettings):
    """A list that is not given allows all, but for `own_account`, which then allows nothing, and `delegate_actions`:
    function calls and transfers."""

    delegate_senders: Names | None = None
    delegate_receivers: Names | None = None
    delegate_methods: Names | None = None
    delegate_actions: Annotated[frozenset[RelayedAction], PlainSerializer(sorted)] | None = None
    delegate_max_deposit: Money | None = None
    delegate_max_gas: Money | None = None
    delegate_max_bytes: int | None = Field(default=None, ge=1)
    delegate_min_blocks_left: int | None = Field(default=None, ge=1)
    own_account: Annotated[frozenset[OwnAccountEffect], PlainSerializer(sorted)] | None = None
    harmless_call: HarmlessCallSettings | None = None

    def contradictions(self, where: str) -> Iterator[InvalidSettings]:
        yield from super().contradictions(where)
        for limit in ("max_deposit", "max_cost"):
            if "delete_account" in (self.own_account or ()) and getattr(self, limit) is not None:
                yield InvalidSettings(
                    f"{where}.own_account",
                    f"delete_account gives the whole balance away, which {limit} never allows; remove one of the two",
                )


GAS_KEY = "gas-key:"


class GasKeySettings(Part):
    """A gas key: one key whose nonce sequences are lanes of their own, with a balance of its own for gas."""

    source: str
    gas_key: Literal[True]
    lanes: int = Field(default=1, ge=1, le=1_024)


def _source(value: object) -> object:
    """`{ source = "vault:keys", gas_key = true, lanes = 64 }` is kept as `gas-key:64:vault:keys`."""
    if isinstance(value, dict) and "gas_key" in value:
        gas_key = GasKeySettings.model_validate(value)
        return f"{GAS_KEY}{gas_key.lanes}:{gas_key.source}"
    return value


def _near_source(value: object, info: ValidationInfo) -> KeySource:
    if not isinstance(value, str) or not value.startswith(GAS_KEY):
        return key_source(value, info)
    lanes, source = lanes_of(value)
    if lanes is not None and not 1 <= lanes <= 1_024:
        raise ValueError("a gas key has 1 to 1024 lanes")
    key_source(source, info)
    return KeySource(value)


def lanes_of(source: str) -> tuple[int | None, str]:
    """How many lanes each key of a source has as a gas key, None for plain keys; and the source itself."""
    if not source.startswith(GAS_KEY):
        return None, source
    count, _, rest = source.removeprefix(GAS_KEY).partition(":")
    return (int(count) if count.isascii() and count.isdigit() and len(count) < 6 else 0), rest


class NearPoolSettings(PoolSettings):
    keys: tuple[
        Annotated[KeySource, PlainValidator(_near_source), BeforeValidator(_source), PlainSerializer(shown_key)], ...
    ] = ()
    policy: NearPolicySettings = NearPolicySettings()

    def contradictions(self, where: str) -> Iterator[InvalidSettings]:
        if not self.account:
            yield InvalidSettings(f"{where}.account", "is required on NEAR: the account that the keys belong to")
        yield from super().contradictions(where)

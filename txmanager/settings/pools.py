"""Networks and pools as far as every chain has them; a chain's own settings are subclasses (`ChainFamily`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, PlainSerializer, PlainValidator, ValidationInfo

from txmanager.core.errors import InvalidSettings
from txmanager.core.states import Status
from txmanager.settings.budgets import Budgets
from txmanager.settings.parts import Money, Name, Names, Part
from txmanager.settings.secrets import SecretUrl, SecretWord, Url

KEY_SOURCES = ("file:", "env:", "vault:", "mnemonic:")


class RpcSettings(Part):
    url: SecretUrl
    direct: bool = False
    max_request_bytes: int = Field(default=2 << 20, ge=1_024)
    """What the endpoint takes in one request; a larger one gets HTTP 413."""


class NetworkSettings(Part):
    chain: str
    rpc: tuple[RpcSettings, ...] = Field(min_length=1)
    agreement: int | None = Field(default=None, ge=1)
    agreement_for_done: bool = False
    explorer: str | None = Field(default=None, pattern=r"^https?://[^\s{}]+\{hash\}[^\s{}]*$")
    """The page of a transaction, for links of the console; `{hash}` stands for its hash."""

    def contradictions(self, where: str) -> Iterator[InvalidSettings]:
        agreement = min(2, len(self.rpc)) if self.agreement is None else self.agreement
        if agreement > len(self.rpc):
            yield InvalidSettings(
                f"{where}.agreement", f"is {agreement}, but rpc has {len(self.rpc)}: add endpoints of other nodes"
            )
        if self.agreement_for_done and agreement < 2:
            yield InvalidSettings(f"{where}.agreement_for_done", "needs an agreement of at least 2 nodes")


class PolicySettings(Part):
    """What a pool pays for. A number that is not given is the adapter's."""

    max_deposit: Money | None = None
    max_cost: Money | None = None
    budget: Budgets = ()
    """What all intents of the pool may cost together."""
    budget_per_key: Budgets = ()
    """What the intents with one `budget_key` may cost together: a caller's user or app."""
    required_prefixes: tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:@-]{1,64}$")], ...] = ()
    """How a `budget_key` must begin; where this is given, every intent needs one."""

    def contradictions(self, where: str) -> Iterator[InvalidSettings]:
        if self.required_prefixes and not self.budget_per_key:
            yield InvalidSettings(f"{where}.required_prefixes", "belongs to budget_per_key; add that or remove it")


class WebhookSettings(Part):
    """Where a pool's events are posted to. The name is what delivery is remembered by."""

    name: Name
    url: SecretUrl
    secret: SecretWord
    statuses: Annotated[frozenset[Status], PlainSerializer(sorted)] = Field(
        default=frozenset({Status.DONE, Status.FAILED, Status.CANCELLED, Status.HELD}), min_length=1
    )
    retry_for_s: float = Field(default=3600.0, ge=0)
    timeout_s: float = Field(default=10.0, gt=0, le=60)
    tenants: Names | None = None
    """Whose events are posted here; without it everybody's."""

    def contradictions(self, where: str) -> Iterator[InvalidSettings]:
        if isinstance(self.url, Url) and self.url.scheme not in ("http", "https"):
            yield InvalidSettings(f"{where}.url", "must begin with https:// or http://")


class KeySource(str):
    """Where keys are, as it is written in the configuration; with the public key, if that is pinned."""

    public_key: str | None

    def __new__(cls, source: str, public_key: str | None = None) -> Self:
        made = super().__new__(cls, source)
        made.public_key = public_key
        return made


def key_source(value: object, info: ValidationInfo) -> KeySource:
    if isinstance(value, KeySource):
        return value
    pinned = None
    if isinstance(value, Mapping):
        if not value.keys() <= {"source", "public_key"} or not all(isinstance(one, str) for one in value.values()):
            raise ValueError('a pinned key looks like { source = "hsm:relayer-1", public_key = "..." }')
        fields: Mapping[str, str] = value
        value, pinned = fields.get("source"), fields.get("public_key")
    if not isinstance(value, str):
        raise ValueError("must be text in quotes")
    signers = (f"{name}:" for name in (info.context or {}).get("signers", ()))
    if not value.startswith((*KEY_SOURCES, *signers)):
        raise ValueError(
            "a key source starts with 'file:', 'env:', 'vault:', 'mnemonic:' or the name of a [signers.NAME], "
            "never the key itself"
        )
    return KeySource(value, pinned)


def shown_key(source: KeySource) -> object:
    return str(source) if source.public_key is None else {"source": str(source), "public_key": source.public_key}


def pinned_key(source: str) -> str | None:
    return source.public_key if isinstance(source, KeySource) else None


class PoolSettings(Part):
    network: str
    account: str | None = None
    """Whose keys they are, on chains where keys have an account."""
    keys: tuple[Annotated[KeySource, PlainValidator(key_source), PlainSerializer(shown_key)], ...] = ()
    window: int = Field(default=16, ge=1, le=10_000)
    max_inflight: int = Field(default=128, ge=1, le=100_000)
    queue_limit: int = Field(default=1_000_000, ge=1)
    max_result_bytes: int = Field(default=8_192, ge=1_024, le=1_048_576)
    reserve: Money | None = None
    policy: PolicySettings = PolicySettings()
    webhooks: tuple[WebhookSettings, ...] = ()

    @property
    def inflight(self) -> int:
        """How many intents of a lane may have attempts and no end."""
        return self.max_inflight

    @property
    def callers_sign(self) -> tuple[str, ...] | Literal["any"]:
        """The addresses whose keys their callers hold; a pool of such addresses signs nothing."""
        return ()

    def contradictions(self, where: str) -> Iterator[InvalidSettings]:
        yield from self.policy.contradictions(f"{where}.policy")
        if self.window > self.inflight:
            yield InvalidSettings(f"{where}.window", f"must not exceed max_inflight, which is {self.max_inflight}")
        names = [webhook.name for webhook in self.webhooks]
        for n, webhook in enumerate(self.webhooks):
            yield from webhook.contradictions(f"{where}.webhooks[{n}]")
            if webhook.name in names[:n]:
                yield InvalidSettings(
                    f"{where}.webhooks[{n}].name", f"{webhook.name!r} is there twice; use another name"
                )


class KeylessPoolSettings(PoolSettings):
    """A pool on a chain that serves addresses whose keys their callers hold."""

    keyless: tuple[str, ...] | Literal["any"] = ()
    reserve_for_s: float = Field(default=60.0, ge=1, le=86_400)
    park_after_s: float = Field(default=3600.0, ge=0)

    @property
    def callers_sign(self) -> tuple[str, ...] | Literal["any"]:
        return self.keyless

    def contradictions(self, where: str) -> Iterator[InvalidSettings]:
        if self.keyless and self.keys:
            yield InvalidSettings(
                f"{where}.keyless", "cannot stand beside keys: a pool signs for its callers, or they sign themselves"
            )
        if self.keyless and self.reserve is not None:
            yield InvalidSettings(f"{where}.reserve", "belongs to pools with keys: its callers pay; remove it")
        yield from super().contradictions(where)

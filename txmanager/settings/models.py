"""Every setting there is, with its default and its limits. What contradicts itself does not load."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, model_validator

from txmanager.core.errors import InvalidInput, InvalidSettings
from txmanager.core.kinds import UNLIMITED
from txmanager.core.models import check_name
from txmanager.core.seal import SealMode
from txmanager.core.states import Status
from txmanager.settings.secrets import Reference, SecretUrl, SecretWord, Url, reveal

DAY_S = 24 * 3600
LEDGER_SCHEMES = ("memory", *(tls + form for tls in ("redis", "rediss") for form in ("", "+sentinel", "+cluster")))
KEY_SOURCES = ("file:", "env:", "vault:", "mnemonic:")
EVM_WINDOW = 16
PATIENCE = ("bump_after_s", "bump_percent", "cancel_after_s", "fill_after_s")
NEAR_FINALITIES = ("FINAL", "EXECUTED", "EXECUTED_OPTIMISTIC")


def _exact(value: object) -> object:
    if isinstance(value, float):
        # 1e24 is not 10**24 as a float: money would silently change.
        raise ValueError("must be whole digits; put numbers beyond 2^53 in quotes")
    return value


def _name(value: str) -> str:
    try:
        return check_name("name", value)
    except InvalidInput as error:
        raise ValueError(error.problem) from None


def _one_form(names: frozenset[str]) -> frozenset[str]:
    """EVM addresses are compared in lower case, whatever their checksum says."""
    return frozenset(name.lower() if name.startswith("0x") else name for name in names)


Money = Annotated[int, BeforeValidator(_exact), Field(ge=0, lt=UNLIMITED)]
Name = Annotated[str, AfterValidator(_name)]
Names = Annotated[frozenset[str], PlainSerializer(sorted)]
Scope = Literal["submit", "read", "operate"]
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


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=False)


class LedgerSettings(Part):
    url: SecretUrl = Url("redis://127.0.0.1:6379/0")
    username: str | None = None
    password: SecretWord | None = None
    prefix: Name = "txm"
    durability: Literal["fsync", "replicas", "none"] = "fsync"
    replicas: int = Field(default=1, ge=1, le=10)
    open: bool = False
    retention_s: int = Field(default=7 * DAY_S, ge=600)
    seal: tuple[SecretWord, ...] | None = Field(default=None, min_length=1)
    seal_mode: SealMode = SealMode.ACCEPT

    def reveal_url(self, environment: Mapping[str, str] | None = None) -> str:
        """The URL to connect to, credentials included."""
        url = Url(reveal("ledger.url", self.url, environment))
        # A reference hid the URL from the checks at load time.
        for contradiction in self.model_copy(update={"url": url}).contradictions():
            raise contradiction
        password = reveal("ledger.password", self.password, environment) if self.password else None
        return url.with_credentials(self.username, password).reveal()

    def reveal_seal(self, environment: Mapping[str, str] | None = None) -> list[str]:
        """The secrets that intents are sealed with: the first seals, all verify."""
        return [reveal(f"ledger.seal[{n}]", secret, environment) for n, secret in enumerate(self.seal or ())]

    def contradictions(self) -> Iterator[InvalidSettings]:
        if self.seal_mode is SealMode.REQUIRE and not self.seal:
            yield InvalidSettings("ledger.seal_mode", "is require, but there is no ledger.seal; add one")
        if isinstance(self.url, Reference):
            return
        if self.url.scheme not in LEDGER_SCHEMES:
            yield InvalidSettings(
                "ledger.url",
                "must begin with redis://, redis+sentinel:// or redis+cluster:// (rediss for TLS), or be memory://",
            )
        if self.url.scheme.endswith(("+sentinel", "+cluster")) and self.durability == "fsync":
            yield InvalidSettings(
                "ledger.durability",
                'must be "replicas" with Sentinel or Cluster, because a failover forgets what one server alone '
                'wrote (or "none", which accepts that loss)',
            )


class RpcSettings(Part):
    url: SecretUrl
    direct: bool = False


class FeeSettings(Part):
    """EVM: what a preset's numbers are overridden by. Wei per unit of gas."""

    max_fee: Money | None = None
    min_tip: Money | None = None
    bump_percent: int | None = Field(default=None, ge=10, le=1000)
    replace_after_s: float | None = Field(default=None, gt=0)
    resend_after_s: float | None = Field(default=None, gt=0)
    doubles_within_s: float | None = Field(default=None, gt=0)


class NetworkSettings(Part):
    chain: Literal["near", "evm"]
    rpc: tuple[RpcSettings, ...] = Field(min_length=1)
    finality: str | int | None = None
    chain_id: int | None = Field(default=None, ge=1)
    preset: Literal["ethereum", "polygon", "arbitrum", "optimism", "base", "hedera", "anvil"] | None = None
    fees: FeeSettings = FeeSettings()
    agreement: int | None = Field(default=None, ge=1)
    agreement_for_done: bool = False

    def contradictions(self, where: str) -> Iterator[InvalidSettings]:
        agreement = min(2, len(self.rpc)) if self.agreement is None else self.agreement
        if agreement > len(self.rpc):
            yield InvalidSettings(
                f"{where}.agreement", f"is {agreement}, but rpc has {len(self.rpc)}: add endpoints of other nodes"
            )
        if self.agreement_for_done and agreement < 2:
            yield InvalidSettings(f"{where}.agreement_for_done", "needs an agreement of at least 2 nodes")
        if self.chain == "near":
            if self.finality is not None and self.finality not in NEAR_FINALITIES:
                yield InvalidSettings(f"{where}.finality", f"must be one of {', '.join(NEAR_FINALITIES)}")
            if self.chain_id is not None:
                yield InvalidSettings(f"{where}.chain_id", "belongs to EVM networks; remove it")
            if self.preset is not None:
                yield InvalidSettings(f"{where}.preset", "belongs to EVM networks; remove it")
            if self.fees != FeeSettings():
                yield InvalidSettings(f"{where}.fees", "belongs to EVM networks; remove it")
            return
        if self.chain_id is None:
            yield InvalidSettings(f"{where}.chain_id", "is required for an EVM network (1 is Ethereum mainnet)")
        depth = self.finality if isinstance(self.finality, int) else None
        if self.finality not in (None, "finalized") and (depth is None or depth < 1):
            yield InvalidSettings(f"{where}.finality", 'must be "finalized" or a number of blocks, at least 1')
        fees = self.fees
        if fees.max_fee is not None and fees.max_fee < max(1, fees.min_tip or 0):
            yield InvalidSettings(f"{where}.fees.max_fee", "must be at least min_tip, and not 0")


class HarmlessCallSettings(Part):
    receiver_id: str
    method_name: str
    args: str = "{}"
    gas: int = Field(default=5 * 10**12, ge=1)


class PolicySettings(Part):
    """What a pool pays for. A number that is not given is the adapter's. A list that is not given allows all, but for
    `own_account`, which then allows nothing, and `delegate_actions`: function calls and transfers."""

    delegate_senders: Names | None = None
    delegate_receivers: Names | None = None
    delegate_methods: Names | None = None
    delegate_actions: Annotated[frozenset[RelayedAction], PlainSerializer(sorted)] | None = None
    delegate_max_deposit: Money | None = None
    delegate_max_gas: Money | None = None
    delegate_max_bytes: int | None = Field(default=None, ge=1)
    delegate_min_blocks_left: int | None = Field(default=None, ge=1)
    max_deposit: Money | None = None
    max_cost: Money | None = None
    own_account: Annotated[frozenset[OwnAccountEffect], PlainSerializer(sorted)] | None = None
    harmless_call: HarmlessCallSettings | None = None
    bump_after_s: float | None = Field(default=None, gt=0)
    bump_percent: int | None = Field(default=None, ge=10, le=1000)
    cancel_after_s: float | None = Field(default=None, gt=0)
    fill_after_s: float | None = Field(default=None, ge=1)

    def patience(self) -> dict[str, float | int]:
        """EVM: what a lane does about what is late, as far as it is given."""
        return {name: getattr(self, name) for name in PATIENCE if name in self.model_fields_set}

    def contradictions(self, where: str, chain: str) -> Iterator[InvalidSettings]:
        if chain == "near":
            for name in self.patience():
                yield InvalidSettings(f"{where}.{name}", "belongs to EVM pools; remove it")
        elif chain == "evm":
            for name in ("own_account", "delegate_actions"):
                if name in self.model_fields_set:
                    yield InvalidSettings(f"{where}.{name}", "belongs to NEAR pools; remove it")
        for limit in ("max_deposit", "max_cost"):
            if "delete_account" in (self.own_account or ()) and getattr(self, limit) is not None:
                yield InvalidSettings(
                    f"{where}.own_account",
                    f"delete_account gives the whole balance away, which {limit} never allows; remove one of the two",
                )


def _key_source(value: str) -> str:
    if not value.startswith(KEY_SOURCES):
        raise ValueError(
            "a key source starts with 'file:', 'env:', 'vault:' (NEAR) or 'mnemonic:' (EVM), never the key itself"
        )
    return value


def _address(value: str) -> str:
    if not re.fullmatch(r"0x[0-9a-fA-F]{40}", value):
        raise ValueError('must be addresses (0x and 40 hex digits), or the word "any"')
    return value.lower()


def _host(value: str) -> str:
    """As it stands in the header Host, without its port."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]", value):
        raise ValueError("must be host names without scheme and port, such as txmanager.internal or [fd00::1]")
    return value.lower()


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


class PoolSettings(Part):
    network: str
    account: str | None = None
    keys: tuple[Annotated[str, AfterValidator(_key_source)], ...] = ()
    keyless: tuple[Annotated[str, AfterValidator(_address)], ...] | Literal["any"] = ()
    reserve_for_s: float = Field(default=60.0, ge=1, le=86_400)
    window: int = Field(default=16, ge=1, le=10_000)
    max_inflight: int = Field(default=128, ge=1, le=100_000)
    queue_limit: int = Field(default=1_000_000, ge=1)
    max_result_bytes: int = Field(default=8_192, ge=1_024, le=1_048_576)
    reserve: Money | None = None
    policy: PolicySettings = PolicySettings()
    webhooks: tuple[WebhookSettings, ...] = ()

    def contradictions(self, where: str, networks: Mapping[str, NetworkSettings]) -> Iterator[InvalidSettings]:
        network = networks.get(self.network)
        if network is None:
            known = ", ".join(sorted(networks)) or "there is none yet"
            yield InvalidSettings(
                f"{where}.network", f"names no [networks.{self.network}]; add it, or use one of: {known}"
            )
        elif network.chain == "near":
            if not self.account:
                yield InvalidSettings(f"{where}.account", "is required on NEAR: the account that the keys belong to")
            if self.keyless:
                yield InvalidSettings(f"{where}.keyless", "belongs to EVM pools; remove it")
        elif network.chain == "evm":
            if self.account is not None:
                yield InvalidSettings(f"{where}.account", "belongs to NEAR; an EVM key is its own address")
            if self.keyless and self.keys:
                yield InvalidSettings(
                    f"{where}.keyless",
                    "cannot stand beside keys: a pool signs for its callers, or they sign themselves",
                )
            if self.keyless and self.reserve is not None:
                yield InvalidSettings(f"{where}.reserve", "belongs to pools with keys: its callers pay; remove it")
            if self.window > EVM_WINDOW:
                yield InvalidSettings(
                    f"{where}.window", f"must be at most {EVM_WINDOW}: nodes hold no more of an account"
                )
        if network is not None:
            yield from self.policy.contradictions(f"{where}.policy", network.chain)
        if self.window > self.max_inflight:
            yield InvalidSettings(f"{where}.window", f"must not exceed max_inflight, which is {self.max_inflight}")
        yield from self._webhook_contradictions(where)

    def _webhook_contradictions(self, where: str) -> Iterator[InvalidSettings]:
        names = [webhook.name for webhook in self.webhooks]
        for n, webhook in enumerate(self.webhooks):
            yield from webhook.contradictions(f"{where}.webhooks[{n}]")
            if webhook.name in names[:n]:
                yield InvalidSettings(
                    f"{where}.webhooks[{n}].name", f"{webhook.name!r} is there twice; use another name"
                )


class WorkerSettings(Part):
    name: Name | None = None
    pools: tuple[str, ...] | None = None
    lease_s: float = Field(default=10.0, ge=1, le=600)
    grace_s: float = Field(default=30.0, ge=0)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=1, le=65535)


class MonitoredNetwork(Part):
    """EVM: from when on a balance is low, and who pays then."""

    low_balance: Money | None = None
    top_up: Money | None = Field(default=None, gt=0)
    top_up_pool: str | None = None
    top_up_every_s: float = Field(default=3600.0, ge=60)


class MonitorSettings(Part):
    period_s: float = Field(default=30.0, gt=0, le=3600)
    reconcile_every_s: float = Field(default=600.0, gt=0)
    stuck_after_s: float = Field(default=300.0, gt=0)
    overdue_after_s: float = Field(default=1800.0, gt=0)
    dropped_after_s: float = Field(default=10.0, gt=0)
    drift: int = Field(default=64, ge=1)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=1, le=65535)
    networks: dict[Name, MonitoredNetwork] = Field(default_factory=dict)

    def contradictions(
        self, networks: Mapping[str, NetworkSettings], pools: Mapping[str, PoolSettings]
    ) -> Iterator[InvalidSettings]:
        if self.overdue_after_s < self.stuck_after_s:
            yield InvalidSettings("monitor.overdue_after_s", f"must be at least stuck_after_s, {self.stuck_after_s:g}")
        for name, wanted in self.networks.items():
            where = f"monitor.networks.{name}"
            if name not in networks or networks[name].chain != "evm":
                yield InvalidSettings(where, f"names no EVM network; add [networks.{name}] or remove it")
            if wanted.top_up is None and wanted.top_up_pool is None:
                continue
            if wanted.top_up is None or wanted.top_up_pool is None or wanted.low_balance is None:
                yield InvalidSettings(where, "a top-up needs all of low_balance, top_up and top_up_pool")
                continue
            pool = pools.get(wanted.top_up_pool)
            if pool is None or pool.network != name:
                yield InvalidSettings(f"{where}.top_up_pool", f"{wanted.top_up_pool!r} is no pool of this network")
            elif pool.policy.max_deposit is not None and pool.policy.max_deposit < wanted.top_up:
                yield InvalidSettings(f"{where}.top_up", f"is more than max_deposit of the pool {wanted.top_up_pool}")


class TokenLimits(Part):
    per_second: float | None = Field(default=None, gt=0)
    burst: int | None = Field(default=None, ge=1)
    max_queued: int | None = Field(default=None, ge=1)
    """Intents that may wait for their end at once."""
    max_queued_bytes: int | None = Field(default=256 << 20, ge=1 << 16)
    """What they may take together: the bytes of each request, and 1,024 for its record."""
    max_reservations: int = Field(default=1_000, ge=1)
    """Numbers of one address (and places in line for it) that it may hold unsent."""
    max_lanes: int = Field(default=1_000, ge=1)
    """Addresses that it may bring into being where a pool is `keyless = "any"`."""
    pools: Names | None = None
    kinds: Names | None = None
    receivers: Annotated[Names, AfterValidator(_one_form)] | None = None
    max_deposit: Money | None = None
    max_cost: Money | None = None


class TokenSettings(Part):
    name: Name
    sha256: Annotated[str, PlainSerializer(lambda text: f"{text[:8]}...")] = Field(
        pattern=r"^[0-9a-f]{64}$", repr=False
    )
    scopes: Annotated[frozenset[Scope], PlainSerializer(sorted)] = Field(min_length=1)
    tenant: Name | Literal["*"] = "default"
    """`*` acts on every tenant, and sees all of them."""
    limits: TokenLimits = TokenLimits()


class ApiSettings(Part):
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=0, le=65535)
    max_body_bytes: int = Field(default=1 << 20, ge=1024)
    max_wait_s: float = Field(default=60.0, ge=0, le=600)
    max_header_bytes: int = Field(default=32 << 10, ge=1024)
    max_connections: int = Field(default=10_000, ge=1)
    max_streams: int = Field(default=5_000, ge=0)
    max_streams_per_token: int = Field(default=1_000, ge=0)
    header_timeout_s: float = Field(default=10.0, gt=0)
    body_timeout_s: float = Field(default=10.0, gt=0)
    write_timeout_s: float = Field(default=10.0, ge=1)
    ledger_timeout_s: float = Field(default=0.7, gt=0)
    allowed_hosts: tuple[Annotated[str, AfterValidator(_host)], ...] = ()
    tokens: tuple[TokenSettings, ...] = ()

    @property
    def public(self) -> bool:
        """Whether others than this machine can connect. A name other than localhost counts as public."""
        try:
            return not ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host != "localhost"

    def contradictions(self, pools: Mapping[str, PoolSettings]) -> Iterator[InvalidSettings]:
        if self.public and not self.tokens:
            yield InvalidSettings(
                "api.host", f"{self.host} is open to others, but there is no [[api.tokens]]; add one, or use 127.0.0.1"
            )
        names = [token.name for token in self.tokens]
        for n, token in enumerate(self.tokens):
            if token.name in names[:n]:
                yield InvalidSettings(f"api.tokens[{n}].name", f"{token.name!r} is there twice; use another name")
            for pool in sorted((token.limits.pools or set()) - set(pools)):
                yield InvalidSettings(f"api.tokens[{n}].limits.pools", f"names no [pools.{pool}]; add it or remove it")


class Settings(Part):
    """The whole configuration. Building one checks that its parts agree."""

    ledger: LedgerSettings = LedgerSettings()
    networks: dict[Name, NetworkSettings] = Field(default_factory=dict)
    pools: dict[Name, PoolSettings] = Field(default_factory=dict)
    worker: WorkerSettings = WorkerSettings()
    monitor: MonitorSettings = MonitorSettings()
    api: ApiSettings = ApiSettings()

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        for contradiction in self.contradictions():
            raise contradiction
        return self

    def contradictions(self) -> Iterator[InvalidSettings]:
        yield from self.ledger.contradictions()
        for name, network in self.networks.items():
            yield from network.contradictions(f"networks.{name}")
        for name, pool in self.pools.items():
            yield from pool.contradictions(f"pools.{name}", self.networks)
        for pool_name in self.worker.pools or ():
            if pool_name not in self.pools:
                yield InvalidSettings("worker.pools", f"names no [pools.{pool_name}]; add it or remove it")
        yield from self.monitor.contradictions(self.networks, self.pools)
        yield from self._keyless_twice()
        yield from self.api.contradictions(self.pools)

    def _keyless_twice(self) -> Iterator[InvalidSettings]:
        """One address on one chain is one lane, and a lane is of one pool."""
        seen: dict[tuple[int | None, str], str] = {}
        for name, pool in self.pools.items():
            network = self.networks.get(pool.network)
            for address in ("any",) if pool.keyless == "any" else pool.keyless:
                first = seen.setdefault((network.chain_id if network else None, address), name)
                if first != name:
                    yield InvalidSettings(f"pools.{name}.keyless", f"{address} is in pool {first} of that chain, too")

    def references(self) -> Iterator[tuple[str, Reference]]:
        """Every secret that is named but not written, by its field."""
        for field, value in (("ledger.url", self.ledger.url), ("ledger.password", self.ledger.password)):
            if isinstance(value, Reference):
                yield field, value
        for n, secret in enumerate(self.ledger.seal or ()):
            if isinstance(secret, Reference):
                yield f"ledger.seal[{n}]", secret
        for name, network in self.networks.items():
            for n, rpc in enumerate(network.rpc):
                if isinstance(rpc.url, Reference):
                    yield f"networks.{name}.rpc[{n}].url", rpc.url
        for name, pool in self.pools.items():
            for n, webhook in enumerate(pool.webhooks):
                for field, value in (("url", webhook.url), ("secret", webhook.secret)):
                    if isinstance(value, Reference):
                        yield f"pools.{name}.webhooks[{n}].{field}", value

    def shown(self) -> dict[str, object]:
        """All settings with their defaults as plain values, every secret hidden."""
        return self.model_dump(mode="json", exclude_none=True)

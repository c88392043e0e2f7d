"""Every setting there is, with its default and its limits. What contradicts itself does not load."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    Field,
    PlainSerializer,
    SerializeAsAny,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from txmanager.core.errors import InvalidSettings
from txmanager.core.seal import SealMode
from txmanager.settings.archive import ArchiveSettings
from txmanager.settings.budgets import Budgets, budget_contradictions
from txmanager.settings.family import AnyFamily, find, installed
from txmanager.settings.gateway import GatewaySettings
from txmanager.settings.monitor import MonitorSettings
from txmanager.settings.parts import Money, Name, Names, Part
from txmanager.settings.pools import KEY_SOURCES, NetworkSettings, PoolSettings
from txmanager.settings.secrets import Reference, SecretUrl, SecretWord, Url, reveal
from txmanager.settings.signers import Pkcs11Settings, ProcessSettings, SignerProgramSettings, SignerSettings
from txmanager.settings.tracing import TracingSettings

DAY_S = 24 * 3600
DURABLE_SCHEMES = ("do+https", "do+http")
LEDGER_SCHEMES = (
    "memory",
    *(tls + form for tls in ("redis", "rediss") for form in ("", "+sentinel", "+cluster")),
    *DURABLE_SCHEMES,
)


def _one_form(names: frozenset[str]) -> frozenset[str]:
    """Hexadecimal addresses are compared in lower case, whatever their checksum says."""
    return frozenset(name.lower() if name.startswith("0x") else name for name in names)


Scope = Literal["submit", "read", "operate"]


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
                "must begin with redis://, redis+sentinel:// or redis+cluster:// (rediss for TLS), with do+https://, "
                "or be memory://",
            )
        if self.url.scheme in DURABLE_SCHEMES and (not self.seal or self.seal_mode is not SealMode.REQUIRE):
            yield InvalidSettings(
                "ledger.seal",
                'is needed with Durable Objects, and ledger.seal_mode = "require": whoever can write to that account '
                "must not be able to spend",
            )
        if self.url.scheme.endswith(("+sentinel", "+cluster")) and self.durability == "fsync":
            yield InvalidSettings(
                "ledger.durability",
                'must be "replicas" with Sentinel or Cluster, because a failover forgets what one server alone '
                'wrote (or "none", which accepts that loss)',
            )


def _host(value: str) -> str:
    """As it stands in the header Host, without its port."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]", value):
        raise ValueError("must be host names without scheme and port, such as txmanager.internal or [fd00::1]")
    return value.lower()


class WorkerSettings(Part):
    name: Name | None = None
    pools: tuple[str, ...] | None = None
    lease_s: float = Field(default=10.0, ge=1, le=600)
    grace_s: float = Field(default=30.0, ge=0)
    metrics_host: str = "127.0.0.1"
    metrics_port: int | None = Field(default=None, ge=1, le=65535)


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
    budget: Budgets = ()
    """What all of its intents may cost together, by network."""


class TokenSettings(Part):
    name: Name
    sha256: Annotated[str, PlainSerializer(lambda text: f"{text[:8]}...")] = Field(
        pattern=r"^[0-9a-f]{64}$", repr=False
    )
    scopes: Annotated[frozenset[Scope], PlainSerializer(sorted)] = Field(min_length=1)
    tenant: Name | Literal["*"] = "default"
    """`*` acts on every tenant, and sees all of them."""
    limits: TokenLimits = TokenLimits()


class DoorSettings(Part):
    """The routes of another relayer."""

    pool: str | None = None
    """Of requests that name none."""
    token: str | None = None
    """Whose rights callers on this machine have that send no token."""


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
    doors: dict[Name, DoorSettings] = Field(default_factory=dict)

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
        for name, door in self.doors.items():
            where = f"api.doors.{name}"
            if door.token is not None and door.token not in names:
                yield InvalidSettings(f"{where}.token", f"names no [[api.tokens]] {door.token!r}; add it or remove it")
            if door.token is not None and self.public:
                yield InvalidSettings(
                    f"{where}.token", f"is for callers on this machine, and {self.host} is open to others; remove it"
                )
            if door.pool is not None and door.pool not in pools:
                yield InvalidSettings(f"{where}.pool", f"names no [pools.{door.pool}]; add it or remove it")


def _installed(chain: str) -> str:
    try:
        find(chain)
    except InvalidSettings as error:
        raise ValueError(error.problem) from None
    return chain


class _UnknownNetwork(NetworkSettings, extra="ignore"):
    chain: Annotated[str, AfterValidator(_installed)]


class _HomelessPool(PoolSettings, extra="ignore"):
    """Of a network that is wrong or missing, which is the problem to name."""


def family_of(chain: object) -> AnyFamily | None:
    try:
        return find(chain) if isinstance(chain, str) else None
    except InvalidSettings:
        return None


def _network(value: object, handler: ValidatorFunctionWrapHandler) -> NetworkSettings:
    """Checked by the settings of its chain."""
    if isinstance(value, NetworkSettings):
        return value
    family = family_of(value.get("chain") if isinstance(value, Mapping) else None)
    model: type[NetworkSettings] = family.network if family else _UnknownNetwork
    return model.model_validate(value)


def _pool(value: object, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> PoolSettings:
    """Checked by the settings of its network's chain."""
    if isinstance(value, PoolSettings):
        return value
    networks: Mapping[str, NetworkSettings] = info.data.get("networks", {})
    network = networks.get(str(value.get("network"))) if isinstance(value, Mapping) else None
    family = family_of(network.chain if network else None)
    model: type[PoolSettings] = family.pool if family else _HomelessPool
    return model.model_validate(value, context={"signers": list(info.data.get("signers", ()))})


class Settings(Part):
    """The whole configuration. Building one checks that its parts agree."""

    ledger: LedgerSettings = LedgerSettings()
    networks: dict[Name, Annotated[SerializeAsAny[NetworkSettings], WrapValidator(_network)]] = Field(
        default_factory=dict
    )
    signers: dict[Name, SignerSettings] = Field(default_factory=dict)
    pools: dict[Name, Annotated[SerializeAsAny[PoolSettings], WrapValidator(_pool)]] = Field(default_factory=dict)
    worker: WorkerSettings = WorkerSettings()
    monitor: MonitorSettings = MonitorSettings()
    api: ApiSettings = ApiSettings()
    gateway: GatewaySettings | None = None
    archive: ArchiveSettings | None = None
    tracing: TracingSettings | None = None
    signer: SignerProgramSettings | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        for contradiction in self.contradictions():
            raise contradiction
        return self

    def contradictions(self) -> Iterator[InvalidSettings]:
        yield from self.ledger.contradictions()
        if self.archive is not None:
            yield from self.archive.contradictions()
        if self.tracing is not None:
            yield from self.tracing.contradictions()
        for name, network in self.networks.items():
            yield from network.contradictions(f"networks.{name}")
        for name, signer in self.signers.items():
            if f"{name}:" in KEY_SOURCES:
                yield InvalidSettings(f"signers.{name}", "is the name of a key source; choose another name")
            if isinstance(signer, ProcessSettings):
                yield from signer.contradictions(f"signers.{name}")
        if self.signer is not None:
            yield from self.signer.contradictions()
        for name, pool in self.pools.items():
            if pool.network not in self.networks:
                known = ", ".join(sorted(self.networks)) or "there is none yet"
                yield InvalidSettings(
                    f"pools.{name}.network", f"names no [networks.{pool.network}]; add it, or use one of: {known}"
                )
            yield from pool.contradictions(f"pools.{name}")
        for pool_name in self.worker.pools or ():
            if pool_name not in self.pools:
                yield InvalidSettings("worker.pools", f"names no [pools.{pool_name}]; add it or remove it")
        yield from self.monitor.contradictions(self.networks, self.pools, self.ledger.retention_s)
        yield from self._keyless_twice()
        yield from self.api.contradictions(self.pools)
        yield from self._budgets()
        yield from self._doors()
        if self.gateway is not None:
            yield from self.gateway.contradictions(self.with_gateway(), self.networks)

    def _budgets(self) -> Iterator[InvalidSettings]:
        units = {name: self.family(name).unit for name in self.networks}
        by_place = {f"api.tokens[{n}].limits.budget": token.limits.budget for n, token in enumerate(self.api.tokens)}
        for name, pool in self.pools.items():
            for field in ("budget", "budget_per_key"):
                where, budgets = f"pools.{name}.policy.{field}", getattr(pool.policy, field)
                by_place[where] = budgets
                for n, one in enumerate(budgets):
                    if one.network != pool.network:
                        yield InvalidSettings(f"{where}[{n}].network", f"must be the pool's own, {pool.network!r}")
        for where, budgets in by_place.items():
            yield from budget_contradictions(where, budgets, self.networks, units, self.ledger.retention_s)

    def _doors(self) -> Iterator[InvalidSettings]:
        offered = {name: family for family in self.families().values() for name in family.doors}
        for name, door in self.api.doors.items():
            where, family = f"api.doors.{name}", offered.get(name)
            if family is None:
                known = ", ".join(sorted(offered)) or "there is none"
                yield InvalidSettings(where, f"is no door of the chains in this configuration; use one of: {known}")
            elif door.pool is not None and self.family(self.pools[door.pool].network) is not family:
                yield InvalidSettings(f"{where}.pool", f"must be a pool on {family.title}")

    def with_gateway(self) -> list[str]:
        """The networks that a JSON-RPC gateway can stand before."""
        return [name for name in self.networks if self.family(name).upstream is not None]

    def family(self, network: str) -> AnyFamily:
        """The chain of a network."""
        return find(self.networks[network].chain)

    def families(self) -> dict[str, AnyFamily]:
        """The chains that the configuration names; where it names no network, all that are installed."""
        named = {network.chain for network in self.networks.values()}
        return {name: find(name) for name in sorted(named or installed())}

    def _keyless_twice(self) -> Iterator[InvalidSettings]:
        """One address on one chain is one lane, and a lane is of one pool."""
        seen: dict[str, str] = {}
        for name, pool in self.pools.items():
            for address in ("any",) if pool.callers_sign == "any" else pool.callers_sign:
                lane = f"{self.family(pool.network).lanes(pool.network, self.networks[pool.network])}:{address}"
                if seen.setdefault(lane, name) != name:
                    yield InvalidSettings(
                        f"pools.{name}.keyless", f"{address} is in pool {seen[lane]} of that chain, too"
                    )

    def references(self) -> Iterator[tuple[str, Reference]]:
        """Every secret that is named but not written, by its field."""
        for field, value in (("ledger.url", self.ledger.url), ("ledger.password", self.ledger.password)):
            if isinstance(value, Reference):
                yield field, value
        for n, secret in enumerate(self.ledger.seal or ()):
            if isinstance(secret, Reference):
                yield f"ledger.seal[{n}]", secret
        if self.archive is not None and isinstance(self.archive.url, Reference):
            yield "archive.url", self.archive.url
        for name, network in self.networks.items():
            for n, rpc in enumerate(network.rpc):
                if isinstance(rpc.url, Reference):
                    yield f"networks.{name}.rpc[{n}].url", rpc.url
        pins = {name: signer.pin for name, signer in self.signers.items() if isinstance(signer, Pkcs11Settings)}
        yield from ((f"signers.{name}.pin", pin) for name, pin in pins.items() if isinstance(pin, Reference))
        for name, pool in self.pools.items():
            for n, webhook in enumerate(pool.webhooks):
                for field, value in (("url", webhook.url), ("secret", webhook.secret)):
                    if isinstance(value, Reference):
                        yield f"pools.{name}.webhooks[{n}].{field}", value

    def shown(self) -> dict[str, object]:
        """All settings with their defaults as plain values, every secret hidden."""
        return self.model_dump(mode="json", exclude_none=True)

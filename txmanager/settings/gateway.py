"""`[gateway]`: the JSON-RPC endpoint for wallets. Without the table there is none."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, PlainSerializer

from txmanager.core.errors import InvalidSettings
from txmanager.settings.parts import Money, Name, Part

SEED_NAMES: Mapping[str, str] = {
    "ENABLE_TX_POOL": "txpool",
    "ENABLE_NONCE_ORDERING": "ordering",
    "USE_ASYNC_TX_PROCESSING": "mode",
    "REDIS_ENABLED": "store",
    "LOCK_MAX_HOLD_MS": "hold_ms",
    "LOCK_QUEUE_POLL_INTERVAL_MS": "poll_ms",
    "LOCAL_LOCK_MAX_ENTRIES": "memory_senders",
}
"""Variables of the relays that this gateway replaces, and the setting that each one is here. TOML wins."""

_METHOD = re.compile(r"[a-zA-Z]+_[a-zA-Z0-9]+\Z")
_NEVER = re.compile(
    r"^(personal|admin|miner|engine|anvil|hardhat|evm|clique|les)_|send|sign|submit|bundle|private|resend"
    r"|filltransaction|import|unlock|_set|subscribe",
    re.IGNORECASE,
)
"""Methods that change something: a gateway never passes them on, whatever the configuration says."""


def _read_method(value: str) -> str:
    if not _METHOD.match(value):
        raise ValueError("must be names of methods such as debug_traceTransaction")
    if _NEVER.search(value):
        raise ValueError(f"{value} sends, signs or changes the node; only reads can be allowed")
    return value


def _origin(value: str) -> str:
    if value != "*" and not re.fullmatch(r"https?://[A-Za-z0-9.\-\[\]:]+", value):
        raise ValueError('must be origins such as https://app.example.com, or "*"')
    return value


def _network(value: str) -> str:
    ipaddress.ip_network(value)
    return value


class GatewayToken(Part):
    name: Name
    sha256: Annotated[str, PlainSerializer(lambda text: f"{text[:8]}...")] = Field(
        pattern=r"^[0-9a-f]{64}$", repr=False
    )


class GatewayRates(Part):
    """Calls per second of one client address, raw transactions per second of one sender; without a value, no limit."""

    client: float | None = Field(default=None, gt=0)
    sender: float | None = Field(default=None, gt=0)


class GatewaySettings(Part):
    host: str = "127.0.0.1"
    port: int = Field(default=8545, ge=0, le=65535)
    public: bool = False
    networks: tuple[str, ...] | None = None
    """Which EVM networks are served; without it all of them."""
    backend: Literal["strict", "pool"] | None = None
    """`strict`: nodes without a mempool. Without it the network's preset says so."""
    txpool: bool = True
    ordering: bool = True
    mode: Literal["sync", "async"] = "sync"
    store: Literal["ledger", "memory"] = "ledger"
    gaps: Literal["hold", "forward"] = "hold"
    next_after: Literal["answer", "count"] = "answer"
    on_store_failure: Literal["refuse", "forward"] = "refuse"
    duplicates: Literal["error", "hash"] = "error"
    hold_ms: int = Field(default=30_000, ge=2_000)
    poll_ms: int = Field(default=50, ge=1, le=1_000)
    memory_senders: int = Field(default=1_000, ge=1)
    capacity: int = Field(default=4_096, ge=1)
    kept_bytes: int = Field(default=64 << 20, ge=1 << 17)
    high_watermark: float = Field(default=0.9, gt=0, le=1)
    per_sender: int = Field(default=1_000, ge=1)
    bump_percent: int = Field(default=0, ge=0, le=1_000)
    executors: int = Field(default=64, ge=1, le=10_000)
    idle_s: float = Field(default=3_600.0, gt=0)
    answer_ms: int = Field(default=8_000, ge=0, le=600_000)
    lag_ms: int = Field(default=6_000, ge=0)
    count_fresh_ms: int = Field(default=5_000, ge=0)
    store_timeout_ms: int = Field(default=2_000, ge=50)
    detail: bool = False
    price_floor: Money = 0
    allow_unprotected: bool = False
    max_body_bytes: int = Field(default=2 << 20, ge=1_024)
    max_answer_bytes: int = Field(default=25 << 20, ge=1 << 16)
    max_connections: int = Field(default=10_000, ge=1)
    allow: tuple[Annotated[str, AfterValidator(_read_method)], ...] = ()
    tokens: tuple[GatewayToken, ...] = ()
    cors: tuple[Annotated[str, AfterValidator(_origin)], ...] = ()
    trusted_proxies: tuple[Annotated[str, AfterValidator(_network)], ...] = ()
    per_second: GatewayRates = GatewayRates()

    def contradictions(self, served: Collection[str], networks: Collection[str]) -> Iterator[InvalidSettings]:
        """`served`: the networks that a gateway can stand before; `networks`: all of them."""
        for name in self.networks or ():
            if name not in served:
                what = "is of a chain that has no JSON-RPC gateway" if name in networks else "is no network"
                yield InvalidSettings("gateway.networks", f"{name} {what}; remove it, or add [networks.{name}]")
        if not served:
            yield InvalidSettings("gateway", "needs a network whose wallets speak JSON-RPC; add one to [networks]")
        if not self.public and not _loopback(self.host):
            yield InvalidSettings(
                "gateway.host", f"{self.host} is open to others; set public = true if that is meant, or use 127.0.0.1"
            )
        if self.hold_ms <= self.lag_ms + 2_000:
            yield InvalidSettings(
                "gateway.hold_ms",
                f"must be more than lag_ms + 2000, which is {self.lag_ms + 2_000}: look-ups take long",
            )
        names = [token.name for token in self.tokens]
        for n, name in enumerate(names):
            if name in names[:n]:
                yield InvalidSettings(f"gateway.tokens[{n}].name", f"{name!r} is there twice; use another name")


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def with_seed_names(
    settings: GatewaySettings, environment: Mapping[str, str]
) -> tuple[GatewaySettings, dict[str, object]]:
    """The settings with what the older relays' variables say, where the file says nothing; and which were used."""
    used: dict[str, object] = {}
    for variable, field in SEED_NAMES.items():
        text = environment.get(variable)
        if text is None or field in settings.model_fields_set:
            continue
        used[field] = _seed_value(variable, field, text.strip().lower())
    if not used:
        return settings, {}
    fields = {name: getattr(settings, name) for name in settings.model_fields_set}
    return GatewaySettings.model_validate({**fields, **used}), used


def _seed_value(variable: str, field: str, text: str) -> object:
    if field in ("hold_ms", "poll_ms", "memory_senders"):
        if not text.isdigit():
            raise InvalidSettings(variable, "must be a whole number")
        return int(text)
    if text not in ("true", "false"):
        raise InvalidSettings(variable, "must be true or false")
    yes = text == "true"
    if field == "mode":
        return "async" if yes else "sync"
    if field == "store":
        return "ledger" if yes else "memory"
    return yes
